#include "runtime/compile/compiler_registry.h"

#include <algorithm>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/error_info.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/architecture.h"
#include "spdlog/spdlog.h"

namespace hone {
namespace {

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// "13.0.88" -> {13, 0, 88}, to compare builds.
std::vector<int> BuildNumbers(const std::string& build) {
  std::vector<int> numbers;
  for (absl::string_view part : absl::StrSplit(build, '.')) {
    int number = 0;
    if (absl::SimpleAtoi(part, &number)) numbers.push_back(number);
  }
  return numbers;
}

bool IsNewer(const CompilerInfo& a, const CompilerInfo& b) {
  if (a.cuda_version != b.cuda_version) return a.cuda_version > b.cuda_version;
  return BuildNumbers(a.build) > BuildNumbers(b.build);
}

// A cubin loads with any driver of its CUDA major or newer; PTX only where the driver knows it.
bool DriverTakes(const CompilerInfo& info, const Architecture& target, int driver_version) {
  if (target.cpu || driver_version == 0) return true;
  if (target.ptx) return info.cuda_version <= driver_version;
  return info.cuda_version / 1000 <= driver_version / 1000;
}

bool Supports(const CompilerInfo& info, const std::string& name) {
  return std::find(info.architectures.begin(), info.architectures.end(), name) !=
         info.architectures.end();
}

absl::Status WithReason(absl::Status status, const char* reason) {
  ErrorInfo info;
  info.reason = reason;
  return WithErrorInfo(std::move(status), info);
}

void LogFound(const CompilerInfo& info) {
  if (!info.available) {
    spdlog::warn("compiler unavailable kind={} path={} detail=\"{}\"", info.kind, info.path,
                 info.detail);
    return;
  }
  spdlog::info("compiler kind={} build={} path={} headers={} sandbox=\"{}\"", info.kind, info.build,
               info.path, info.headers_version, info.sandbox);
  // P03: headers of another version than the compiler's.
  if (!info.detail.empty()) spdlog::warn("compiler kind={} note=\"{}\"", info.kind, info.detail);
}

}  // namespace

CompilerRegistry::CompilerRegistry(Locate locate, Describe describe, absl::Duration probe_interval)
    : locate_(std::move(locate)), describe_(std::move(describe)), probe_interval_(probe_interval) {}

void CompilerRegistry::Probe() {
  MutexLock probing(&probe_mutex_);
  const Found found = locate_();
  std::vector<KnownCompiler> known;
  {
    MutexLock lock(&mutex_);
    known = compilers_;
  }
  std::vector<KnownCompiler> next;
  for (const CompilerSpec& spec : found.specs) {
    const auto same = std::find_if(known.begin(), known.end(), [&](const KnownCompiler& compiler) {
      return compiler.spec.id == spec.id && compiler.info.available;
    });
    next.push_back(same != known.end() ? *same : KnownCompiler{spec, CompilerInfo{}});
  }
  // Side by side: a start costs some hundred milliseconds when the library is not in memory.
  std::vector<std::thread> threads;
  for (KnownCompiler& compiler : next) {
    if (compiler.info.available) continue;
    threads.emplace_back([this, &compiler] { compiler.info = describe_(compiler.spec); });
  }
  const bool asked = !threads.empty();
  for (std::thread& thread : threads) thread.join();
  if (asked) {
    for (const KnownCompiler& compiler : next) LogFound(compiler.info);
  }
  MutexLock lock(&mutex_);
  compilers_ = std::move(next);
  nothing_found_ = found.nothing_found;
  probed_ = true;
  next_probe_ = Deadline::In(probe_interval_);
}

void CompilerRegistry::AwaitFirstProbe() const {
  MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&probed_));
}

absl::StatusOr<KnownCompiler> CompilerRegistry::Select(const std::string& architecture,
                                                       int driver_version) {
  AwaitFirstProbe();
  absl::StatusOr<KnownCompiler> selected = SelectKnown(architecture, driver_version);
  const auto info = ErrorInfoOf(selected.status());
  if (selected.ok() || !info.has_value() || info->reason == "DRIVER_TOO_OLD") return selected;
  {
    MutexLock lock(&mutex_);
    if (!next_probe_.passed()) return selected;
  }
  Probe();
  return SelectKnown(architecture, driver_version);
}

absl::StatusOr<KnownCompiler> CompilerRegistry::SelectKnown(const std::string& architecture,
                                                            int driver_version) const {
  HONE_ASSIGN_OR_RETURN(const Architecture target, ParseArchitecture(architecture));
  const std::string kind = target.cpu ? "host" : "nvrtc";
  const std::string name = target.ptx ? absl::StrCat("sm_", architecture.substr(8)) : architecture;

  MutexLock lock(&mutex_);
  const KnownCompiler* best = nullptr;
  const KnownCompiler* too_new = nullptr;
  bool any = false;
  std::vector<std::string> supported;
  for (const KnownCompiler& compiler : compilers_) {
    if (compiler.spec.kind != kind || !compiler.info.available) continue;
    any = true;
    if (!Supports(compiler.info, name)) {
      supported.push_back(absl::StrCat(compiler.info.builder, " has ",
                                       absl::StrJoin(compiler.info.architectures, ", ")));
    } else if (!DriverTakes(compiler.info, target, driver_version)) {
      // The oldest of them asks least of the driver.
      if (too_new == nullptr || IsNewer(too_new->info, compiler.info)) too_new = &compiler;
    } else if (best == nullptr || IsNewer(compiler.info, best->info)) {
      best = &compiler;
    }
  }
  if (best != nullptr) return *best;
  if (!any) return WhyNone(kind);
  if (too_new != nullptr) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            "no NVRTC here makes ", target.ptx ? "PTX" : "binaries", " for driver version ",
            VersionText(driver_version), " and ", architecture, ": ", too_new->info.builder, " at ",
            too_new->info.path, " needs a driver for CUDA ",
            target.ptx ? VersionText(too_new->info.cuda_version)
                       : VersionText(too_new->info.cuda_version / 1000 * 1000),
            "; install an older NVRTC beside it or a newer driver")),
        "DRIVER_TOO_OLD");
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "architecture '", architecture, "' is not supported: ", absl::StrJoin(supported, "; ")));
}

absl::Status CompilerRegistry::WhyNone(const std::string& kind) const {
  std::vector<std::string> reasons;
  for (const KnownCompiler& compiler : compilers_) {
    if (compiler.spec.kind == kind) reasons.push_back(compiler.info.detail);
  }
  if (reasons.empty() && kind == "nvrtc") reasons.push_back(nothing_found_);
  if (reasons.empty()) reasons.emplace_back("the host compiler is switched off");
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          kind == "host" ? "no host compiler for architecture cpu: " : "no NVRTC that works: ",
          absl::StrJoin(reasons, "; "))),
      kind == "host" ? "HOST_COMPILER_MISSING" : "NVRTC_MISSING");
}

void CompilerRegistry::MarkUnavailable(const std::string& id, const std::string& detail) {
  MutexLock lock(&mutex_);
  for (KnownCompiler& compiler : compilers_) {
    if (compiler.spec.id != id || !compiler.info.available) continue;
    compiler.info.available = false;
    compiler.info.detail = detail;
    LogFound(compiler.info);
  }
}

std::vector<CompilerInfo> CompilerRegistry::Infos() const {
  AwaitFirstProbe();
  MutexLock lock(&mutex_);
  std::vector<CompilerInfo> infos;
  for (const KnownCompiler& compiler : compilers_) infos.push_back(compiler.info);
  const bool has_nvrtc = std::any_of(infos.begin(), infos.end(),
                                     [](const CompilerInfo& info) { return info.kind == "nvrtc"; });
  if (!has_nvrtc && !nothing_found_.empty()) {
    CompilerInfo missing;
    missing.kind = "nvrtc";
    missing.detail = nothing_found_;
    infos.push_back(std::move(missing));
  }
  return infos;
}

}  // namespace hone
