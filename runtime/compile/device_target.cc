#include "runtime/compile/device_target.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "runtime/kernel/architecture.h"

namespace hone {
namespace {

// Embedded chips, whose binaries other devices of their major version do not run.
constexpr int kEmbedded[] = {53, 62, 72, 87, 101};
// From here on there are targets for a family.
constexpr int kFirstFamily = 100;

bool IsEmbedded(int version) {
  return std::find(std::begin(kEmbedded), std::end(kEmbedded), version) != std::end(kEmbedded);
}

}  // namespace

std::vector<std::string> TargetsFor(const std::string& device_architecture) {
  std::vector<std::string> targets = {device_architecture};
  const auto parsed = ParseArchitecture(device_architecture);
  if (!parsed.ok() || parsed->cpu || parsed->ptx) return targets;
  if (parsed->suffix == 'a' && parsed->version >= kFirstFamily) {
    targets.push_back(absl::StrCat("sm_", parsed->version, "f"));
  }
  const int oldest = parsed->version / 10 * 10;
  for (int version = parsed->version; version >= oldest; --version) {
    const std::string plain = absl::StrCat("sm_", version);
    if (version != parsed->version && (IsEmbedded(version) || IsEmbedded(parsed->version)))
      continue;
    if (plain != device_architecture) targets.push_back(plain);
  }
  return targets;
}

std::string DeviceTarget(const Compiler& compiler, const std::string& device_architecture,
                         int driver_version) {
  for (const std::string& target : TargetsFor(device_architecture)) {
    if (compiler.Select(target, driver_version).ok()) return target;
  }
  return device_architecture;
}

}  // namespace hone
