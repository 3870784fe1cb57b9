// The two identities. Each prints every ingredient as `name=value` lines; the key is their SHA-256.
// No paths, host names or environment enter a key, so that caches move between hosts.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/kernel/problem.h"
#include "runtime/kernel/program.h"
#include "runtime/launch/device_fingerprint.h"

namespace hone {

// Bump when an ingredient changes meaning; old rows then no longer match and are left to eviction.
inline constexpr int kKeySchemaVersion = 1;

class Key {
 public:
  // Ingredient names are unique; values may hold anything but are printed escaped.
  explicit Key(std::vector<std::pair<std::string, std::string>> ingredients);
  const std::string& id() const { return id_; }  // 64 hex digits
  const std::vector<std::pair<std::string, std::string>>& ingredients() const {
    return ingredients_;
  }
  // Lines "name=value".
  std::string Canonical() const;
  // Names of ingredients whose values differ, for explaining a miss.
  std::vector<std::string> Difference(const Key& other) const;

 private:
  std::vector<std::pair<std::string, std::string>> ingredients_;
  std::string id_;
};

// Identity of a binary: source, headers (each name and digest, in order), header sets, options,
// defines, name expressions, architecture, and the digest of the toolkit headers it is built with.
Key ArtifactKey(const Program& program, const std::string& toolkit_headers_digest);

// In place of a digest: the key under which the binary built last is also kept, whatever headers
// and compiler it was built with.
inline constexpr char kAnyToolkitHeaders[] = "any";

// Identity of a timing, without the config: kernel digest, problem, device, measuring policy.
Key TuningKey(const KernelTemplate& kernel_template, const Problem& problem,
              const DeviceFingerprint& device, const std::string& measuring_policy);

}  // namespace hone
