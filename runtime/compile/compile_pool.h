// The Compiler that a daemon uses: worker processes, one job each at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/files.h"
#include "runtime/base/mutex.h"
#include "runtime/base/unique_fd.h"
#include "runtime/compile/check_program.h"
#include "runtime/compile/compile_queue.h"
#include "runtime/compile/compile_worker.h"
#include "runtime/compile/compiler.h"
#include "runtime/compile/compiler_registry.h"
#include "runtime/compile/header_sets.h"
#include "runtime/compile/worker_shelf.h"

namespace hone {

struct CompilePoolOptions {
  std::string worker_program;  // hone-worker; empty: beside the running program
  std::string
      scratch_directory;  // where the pool makes a private directory; empty: $TMPDIR or /tmp

  // Where to look for NVRTC and, when its own headers are not wanted, CUDA headers; empty: see
  // LocateNvrtc.
  std::vector<std::string> nvrtc_directories;
  std::vector<std::string> cuda_include_directories;
  bool nvrtc = true;
  bool host = true;
  std::string host_compiler;  // path; empty: searched for

  int parallelism = 0;   // 0: DefaultCompileParallelism
  int queue_max = 4096;  // waiting callers of equal or higher priority; beyond: RESOURCE_EXHAUSTED
  int64_t worker_memory_bytes_max = int64_t{4} << 30;
  // Measured: 500 compiles leave a worker's memory where it was; the bound is against the unknown.
  int jobs_per_worker_max = 1000;
  // A worker that has grown past this is replaced after its job.
  int64_t worker_resident_bytes_max = int64_t{1} << 30;
  absl::Duration worker_idle = absl::Seconds(30);
  absl::Duration start_timeout = absl::Seconds(30);
  absl::Duration probe_interval = absl::Seconds(5);
  // Work that nobody waits for gives way to everything else on the machine. Interactive compiles
  // do not: on a busy one they would never end.
  bool idle_priority = true;

  ProgramLimits limits;
  int64_t log_bytes_max = int64_t{256} << 10;
  int64_t artifact_bytes_max = int64_t{128} << 20;
  HeaderSetResolver header_sets;
};

struct CompilePoolStats {
  int running = 0;
  int waiting = 0;
  int idle_workers = 0;
  int64_t started_workers = 0;
  int64_t timeouts = 0;
  int64_t crashes = 0;
  int64_t retries = 0;   // jobs begun again because someone else killed their worker
  int64_t recycled = 0;  // workers replaced for their age or size
};

// Thread-safe. Workers start when there is work, stay `worker_idle` for more, and are replaced
// after a crash, a timeout, or a memory limit. A job whose worker was killed from outside is begun
// once more. No call outlives the destructor, which ends all workers.
class CompilePool : public Compiler {
 public:
  // Does not wait for compilers: a thread looks for them, which starts one worker for each; Select,
  // Compile and Compilers wait for that. Having none is not an error: Select says what is missing.
  // Errors: the worker program or the scratch directory.
  static absl::StatusOr<std::unique_ptr<CompilePool>> Create(CompilePoolOptions options);
  ~CompilePool() override;

  absl::StatusOr<CompileOutcome> Compile(const Program& program,
                                         const CompileOptions& options) override;
  int parallelism() const override { return queue_.slots(); }
  std::vector<CompilerInfo> Compilers() const override { return registry_.Infos(); }
  absl::StatusOr<CompilerInfo> Select(const std::string& architecture,
                                      int driver_version) const override;

  // Looks again for compilers that were missing or broken.
  void Reprobe() { registry_.Probe(); }
  CompilePoolStats stats() const;
  // Ends running compiles and refuses new ones with UNAVAILABLE; returns when all callers are
  // answered.
  void Shutdown();

 private:
  class ActiveWorker;
  class CallScope;

  CompilePool(CompilePoolOptions options, TemporaryDirectory scratch, UniqueFd scratch_lock);

  CompilerRegistry::Found Locate() const;
  CompilerInfo Describe(const CompilerSpec& spec);
  absl::StatusOr<std::unique_ptr<CompileWorker>> StartWorker(const CompilerSpec& spec,
                                                             CompilePriority priority);
  bool GivesWay(CompilePriority priority) const;
  std::string ShelfOf(const CompilerSpec& spec, CompilePriority priority) const;
  // An idle worker or a new one that is known to work.
  absl::StatusOr<std::unique_ptr<CompileWorker>> GetWorker(const KnownCompiler& compiler,
                                                           CompilePriority priority);

  absl::StatusOr<CompileOutcome> RunJob(const KnownCompiler& compiler, const Program& program,
                                        const CompileOptions& options);
  // One try on one worker; nullopt: its worker was killed from outside, try again.
  std::optional<absl::StatusOr<CompileOutcome>> TryJob(const KnownCompiler& compiler,
                                                       const v1::worker::CompileJob& job,
                                                       const CompileOptions& options, bool last);
  std::optional<absl::StatusOr<CompileOutcome>> AfterDeath(CompileWorker& worker,
                                                           const std::string& compiler, bool last);
  void PutBack(const std::string& shelf, std::unique_ptr<CompileWorker> worker,
               const absl::StatusOr<CompileOutcome>& outcome);
  bool shutting_down() const;

  const CompilePoolOptions options_;
  const TemporaryDirectory scratch_;
  const UniqueFd scratch_lock_;  // says to other pools that the directory is in use
  HeaderSets header_sets_;
  CompileQueue queue_;
  WorkerShelf shelf_;
  mutable CompilerRegistry registry_;

  mutable Mutex mutex_;
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<CompileWorker*> active_ ABSL_GUARDED_BY(mutex_);
  int64_t next_worker_ ABSL_GUARDED_BY(mutex_) = 0;
  CompilePoolStats counts_ ABSL_GUARDED_BY(mutex_);
  std::thread first_probe_;
};

}  // namespace hone
