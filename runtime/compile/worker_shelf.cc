#include "runtime/compile/worker_shelf.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "spdlog/spdlog.h"

namespace hone {

WorkerShelf::WorkerShelf(absl::Duration idle, int workers_max)
    : idle_(idle),
      workers_max_(static_cast<size_t>(std::max(workers_max, 1))),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      watcher_([this] { Watch(); }) {}

WorkerShelf::~WorkerShelf() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
  }
  Wake();
  watcher_.join();
}

std::unique_ptr<CompileWorker> WorkerShelf::Take(const std::string& compiler) {
  std::vector<std::unique_ptr<CompileWorker>> dead;  // ended after the lock is given back
  MutexLock lock(&mutex_);
  std::vector<Idle>& workers = idle_workers_[compiler];
  while (!workers.empty()) {
    std::unique_ptr<CompileWorker> worker = std::move(workers.back().worker);
    workers.pop_back();
    if (!worker->Gone()) return worker;
    dead.push_back(std::move(worker));
  }
  return nullptr;
}

void WorkerShelf::Put(const std::string& compiler, std::unique_ptr<CompileWorker> worker) {
  {
    MutexLock lock(&mutex_);
    std::vector<Idle>& workers = idle_workers_[compiler];
    if (!stop_ && workers.size() < workers_max_) {
      workers.push_back({std::move(worker), Deadline::In(idle_)});
    }
  }
  Wake();
}

void WorkerShelf::Clear() {
  std::map<std::string, std::vector<Idle>> all;
  MutexLock lock(&mutex_);
  std::swap(all, idle_workers_);
}

int WorkerShelf::size() const {
  MutexLock lock(&mutex_);
  size_t count = 0;
  for (const auto& [compiler, workers] : idle_workers_) count += workers.size();
  return static_cast<int>(count);
}

void WorkerShelf::Wake() {
  const uint64_t one = 1;
  // A full counter means that a wake is pending already.
  if (::write(wake_.get(), &one, sizeof(one)) < 0) return;
}

void WorkerShelf::WaitForChange() {
  std::vector<struct pollfd> watched = {{wake_.get(), POLLIN, 0}};
  int timeout_ms = -1;
  {
    MutexLock lock(&mutex_);
    for (const auto& [compiler, workers] : idle_workers_) {
      for (const Idle& idle : workers) {
        watched.push_back({idle.worker->socket(), POLLIN | POLLRDHUP, 0});
        const int due_ms = idle.leaves.remaining_poll_ms();
        if (due_ms >= 0 && (timeout_ms < 0 || due_ms < timeout_ms)) timeout_ms = due_ms;
      }
    }
  }
  // A worker may be taken meanwhile, and its descriptor closed or used: then this returns early and
  // looks again.
  ::poll(watched.data(), watched.size(), timeout_ms);
  uint64_t count = 0;
  if (::read(wake_.get(), &count, sizeof(count)) < 0) return;
}

std::vector<std::unique_ptr<CompileWorker>> WorkerShelf::RemoveEnded() {
  std::vector<std::unique_ptr<CompileWorker>> ended;
  MutexLock lock(&mutex_);
  for (auto& [compiler, workers] : idle_workers_) {
    for (auto it = workers.begin(); it != workers.end();) {
      const bool gone = it->worker->Gone();
      if (!gone && !it->leaves.passed()) {
        ++it;
        continue;
      }
      if (gone) spdlog::warn("compile worker ended while idle pid={}", it->worker->pid());
      ended.push_back(std::move(it->worker));
      it = workers.erase(it);
    }
  }
  return ended;
}

void WorkerShelf::Watch() {
  while (true) {
    WaitForChange();
    RemoveEnded();  // the workers end here, without the lock
    MutexLock lock(&mutex_);
    if (stop_) return;
  }
}

}  // namespace hone
