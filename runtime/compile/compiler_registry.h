// The compilers of this machine, as their workers describe them, and the choice among them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/clocks.h"
#include "runtime/base/mutex.h"
#include "runtime/compile/compiler.h"

namespace hone {

// How a worker for one compiler is started.
struct CompilerSpec {
  std::string id;                      // unique: "nvrtc /usr/local/cuda/lib/libnvrtc.so.13", "host"
  std::string kind;                    // "nvrtc", "host"
  std::vector<std::string> arguments;  // of hone-worker compile
};

struct KnownCompiler {
  CompilerSpec spec;
  CompilerInfo info;
};

// Thread-safe.
class CompilerRegistry {
 public:
  struct Found {
    std::vector<CompilerSpec> specs;
    std::string nothing_found;  // why there is no NVRTC: the directories searched
  };
  // Looks for compilers on disk; called again at every probe.
  using Locate = std::function<Found()>;
  // Asks a worker what its compiler is. Never fails: what goes wrong is CompilerInfo::detail.
  using Describe = std::function<CompilerInfo(const CompilerSpec&)>;

  CompilerRegistry(Locate locate, Describe describe, absl::Duration probe_interval);

  // Looks again for compilers that were missing or did not work; those that work stay as they are.
  void Probe();

  // The newest compiler for the target; errors as Compiler::Compile's. When none works for the kind
  // of target, probes again first, but not more often than the interval.
  absl::StatusOr<KnownCompiler> Select(const std::string& architecture, int driver_version);

  // Takes a compiler out of the choice until a probe finds that it works.
  void MarkUnavailable(const std::string& id, const std::string& detail);

  std::vector<CompilerInfo> Infos() const;

 private:
  absl::StatusOr<KnownCompiler> SelectKnown(const std::string& architecture,
                                            int driver_version) const;
  absl::Status WhyNone(const std::string& kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void AwaitFirstProbe() const;

  const Locate locate_;
  const Describe describe_;
  const absl::Duration probe_interval_;

  Mutex probe_mutex_;  // held during a probe; taken before mutex_
  mutable Mutex mutex_;
  bool probed_ ABSL_GUARDED_BY(mutex_) = false;
  Deadline next_probe_ ABSL_GUARDED_BY(mutex_) = Deadline::In(absl::ZeroDuration());
  std::vector<KnownCompiler> compilers_ ABSL_GUARDED_BY(mutex_);
  std::string nothing_found_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone
