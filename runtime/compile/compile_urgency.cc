#include <utility>

#include "runtime/compile/compiler.h"

namespace hone {

void CompileUrgency::Raise(CompilePriority to) {
  CompilePriority now = priority_;
  while (now < to && !priority_.compare_exchange_weak(now, to)) {
  }
  if (now >= to) return;
  MutexLock lock(&mutex_);
  if (raised_) raised_();
}

void CompileUrgency::OnRaise(std::function<void()> raised) {
  MutexLock lock(&mutex_);
  raised_.swap(raised);
}

}  // namespace hone
