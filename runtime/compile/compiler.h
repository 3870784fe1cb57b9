// The seam to compilers. Implementations run in worker processes behind CompilePool; tests use
// FakeCompiler.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/mutex.h"
#include "runtime/kernel/measurement.h"
#include "runtime/kernel/program.h"

namespace hone {

// A compile that ran to an end: an artifact, or the reason why there is none. Reasons are
// kCompile (the source is at fault), kTimeout and kCrash (memory limit and signals included).
struct CompileOutcome {
  std::optional<Artifact> artifact;
  std::optional<Rejection> rejection;
  // The compiler's whole output up to the log limit, warnings of a success too. Paths of the
  // scratch tree are scrubbed to the names the caller gave.
  std::string log;
  int64_t log_truncated_bytes = 0;
  int error_count = 0;
  bool error_limit_reached = false;
  // First error line and a short excerpt of the caller's own source around it.
  std::string excerpt;

  // Set by the caching layer: whether the answer came from the store, and why it could not be
  // stored.
  bool cached = false;
  std::string not_cached_reason;
  std::string log_id;
};

struct CompilerInfo {
  std::string kind;   // "nvrtc", "host"
  std::string build;  // "13.0.88"
  std::string path;
  int cuda_version = 0;  // 13000
  bool available = false;
  std::string detail;  // why not: library, directories searched
  std::vector<std::string> architectures;
  std::string headers_path;
  std::string headers_version;
  std::string headers_digest;  // enters artifact keys
  // What artifacts made by it carry as Artifact::builder ("nvrtc 13.0.88"). An artifact of another
  // builder under the same key is rebuilt when this compiler is at hand.
  std::string builder;
  // What confines the worker: "landlock abi 7", or "none" where the kernel offers nothing. With
  // "none" a source can read the host's files, so only templates of the catalog may be compiled.
  std::string sandbox;
};

// Higher goes first.
enum class CompilePriority { kInteractive = 2, kTune = 1, kWarm = 0 };

// How urgent a compile is that several callers share: as urgent as the most urgent of them, who may
// come while it waits. Thread-safe.
class CompileUrgency {
 public:
  explicit CompileUrgency(CompilePriority priority) : priority_(priority) {}

  CompilePriority priority() const { return priority_; }
  // Never lowers it.
  void Raise(CompilePriority to);
  // `raised` is called after each Raise that changed something, until it is replaced or taken away
  // with nullptr; no call of it runs after that.
  void OnRaise(std::function<void()> raised);

 private:
  std::atomic<CompilePriority> priority_;
  Mutex mutex_;
  std::function<void()> raised_ ABSL_GUARDED_BY(mutex_);
};

struct CompileOptions {
  // For the compile itself; waiting for a free worker is not counted.
  absl::Duration timeout = absl::Seconds(60);
  CompilePriority priority = CompilePriority::kTune;
  // When set it counts, and `priority` does not.
  std::shared_ptr<CompileUrgency> urgency = nullptr;
  // The driver that will load the binary as cuDriverGetVersion counts; 0: any.
  int driver_version = 0;
};

// Thread-safe.
class Compiler {
 public:
  virtual ~Compiler() = default;

  // Blocks until the program is compiled or its limit passed. A Status is about the service, not
  // the source: INVALID_ARGUMENT for an option or architecture that is not allowed (naming it and
  // the supported list), FAILED_PRECONDITION when no compiler for the target is available (naming
  // the library and the paths searched) or none old enough for the driver (both versions named),
  // RESOURCE_EXHAUSTED for source beyond the size limits, UNAVAILABLE while shutting down.
  virtual absl::StatusOr<CompileOutcome> Compile(const Program& program,
                                                 const CompileOptions& options) = 0;

  // How many compiles run at once.
  virtual int parallelism() const = 0;

  // The compilers behind this one, for GetStatus.
  virtual std::vector<CompilerInfo> Compilers() const = 0;

  // The compiler that Compile would use; the errors are Compile's.
  virtual absl::StatusOr<CompilerInfo> Select(const std::string& architecture,
                                              int driver_version) const = 0;
};

}  // namespace hone
