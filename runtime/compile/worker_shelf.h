// Idle compile workers, kept for the next job and ended when none comes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/clocks.h"
#include "runtime/base/mutex.h"
#include "runtime/base/unique_fd.h"
#include "runtime/compile/compile_worker.h"

namespace hone {

// Thread-safe. A thread of its own watches the idle workers, so that one that dies is reaped at
// once and one that is not needed leaves after `idle`.
class WorkerShelf {
 public:
  // At most `workers_max` are kept per compiler.
  WorkerShelf(absl::Duration idle, int workers_max);
  ~WorkerShelf();

  // The most recently used live worker of this compiler, or nullptr.
  std::unique_ptr<CompileWorker> Take(const std::string& compiler);
  void Put(const std::string& compiler, std::unique_ptr<CompileWorker> worker);
  // Ends all.
  void Clear();
  int size() const;

 private:
  struct Idle {
    std::unique_ptr<CompileWorker> worker;
    Deadline leaves;
  };

  void Watch();
  void Wake();
  // Waits until a worker stirs, is due, or Wake.
  void WaitForChange();
  std::vector<std::unique_ptr<CompileWorker>> RemoveEnded();

  const absl::Duration idle_;
  const size_t workers_max_;
  UniqueFd wake_;
  mutable Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::vector<Idle>> idle_workers_ ABSL_GUARDED_BY(mutex_);
  std::thread watcher_;
};

}  // namespace hone
