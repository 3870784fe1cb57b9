#include "runtime/tune/compile_stage.h"

#include <algorithm>
#include <utility>

namespace hone {
namespace {

// Built candidates waiting for the lane; beyond, compiling pauses.
constexpr size_t kReadyMax = 256;
// The same where proposals depend on results: enough to keep the lane busy, and no more.
constexpr size_t kReadyMaxLearning = 2;

}  // namespace

CompileStage::CompileStage(const CandidateBuilder& builder,
                           std::function<std::optional<Config>()> next, int threads, bool learning)
    : builder_(builder), learning_(learning), next_(std::move(next)) {
  running_ = threads;
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

CompileStage::~CompileStage() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

std::optional<absl::StatusOr<BuiltCandidate>> CompileStage::Pop(
    const std::optional<Config>& first) {
  MutexLock lock(&mutex_);
  wanted_ = first;
  mutex_.Await(absl::Condition(this, &CompileStage::CanPop));
  if (ready_.empty()) return std::nullopt;
  auto it = ready_.begin();
  if (wanted_) {
    const auto found = std::find_if(ready_.begin(), ready_.end(), [&](const auto& item) {
      return !item.ok() || item->config == *wanted_;
    });
    if (found != ready_.end()) it = found;
  }
  auto item = std::move(*it);
  ready_.erase(it);
  return item;
}

bool CompileStage::CanPop() const {
  if (running_ == 0) return true;
  if (!wanted_) return !ready_.empty();
  return std::any_of(ready_.begin(), ready_.end(),
                     [&](const auto& item) { return !item.ok() || item->config == *wanted_; });
}

// While a certain candidate is awaited, the bound must not keep it from arriving. A learning tune
// handed it out first, so that it is on its way.
bool CompileStage::MayPush() const {
  if (learning_) return stopped_ || ready_.size() < kReadyMaxLearning;
  return stopped_ || wanted_ || ready_.size() < kReadyMax;
}

void CompileStage::Work() {
  while (true) {
    std::optional<Config> config;
    {
      MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &CompileStage::MayPush));
      if (!stopped_) config = next_();
      if (!config) {
        --running_;
        return;
      }
    }
    auto built = builder_.Build(*config);
    MutexLock lock(&mutex_);
    const bool ok = built.ok();
    ready_.push_back(std::move(built));
    if (!ok) stopped_ = true;  // the service itself failed: the same would hit every other config
  }
}

}  // namespace hone
