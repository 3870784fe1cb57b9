#include "client/cpp/serving_cache.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/cuda_modules.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/cuda_driver.h"

namespace hone {
namespace {

// Between attempts to reach a daemon that is not there.
constexpr absl::Duration kRetryFirst = absl::Milliseconds(100);
constexpr absl::Duration kRetryMax = absl::Seconds(1);
// A look-up of what is compiled already, or the time in which a tune is joined.
constexpr absl::Duration kUpdateWait = absl::Seconds(5);
// For one try to reach a daemon.
constexpr absl::Duration kReachWait = absl::Seconds(5);

std::string KeyOf(const GetKernelOptions& request) {
  std::string key = absl::StrCat(request.template_name, "\n", request.template_digest, "\n",
                                 static_cast<int>(request.numerics), "\n",
                                 request.target.SerializeAsString(), "\n");
  for (const auto& [name, value] : request.params) {
    absl::StrAppend(&key, name, "=", ToValue(value).SerializeAsString(), "\n");
  }
  return key;
}

// How near an answer is to the problem's own winner.
int Kind(const Kernel& kernel) {
  switch (kernel.response().source()) {
    case v1::TUNED:
      return 3;
    case v1::BUCKET:
      return 2;
    case v1::NEAREST:
      return 1;
    default:
      return 0;
  }
}

bool IsForCpu(const Kernel& kernel) { return kernel.response().kernel().architecture() == "cpu"; }

// By name and kind, which is what callers pack their arguments by.
bool TakesSameArguments(const Kernel& a, const Kernel& b) {
  const LaunchRecipe& one = a.variants().front().recipe;
  const LaunchRecipe& other = b.variants().front().recipe;
  return one.dynamic_sizes == other.dynamic_sizes &&
         std::equal(one.arguments.begin(), one.arguments.end(), other.arguments.begin(),
                    other.arguments.end(), [](const RecipeArgument& x, const RecipeArgument& y) {
                      return x.name == y.name && x.kind.index() == y.kind.index();
                    });
}

// Makes a context current for this thread while it lives.
class ScopedContext {
 public:
  ScopedContext(const CudaDriver& driver, void* context)
      : driver_(driver),
        pushed_(driver.CtxPushCurrent(static_cast<CUcontext>(context)) == CUDA_SUCCESS) {}
  ~ScopedContext() {
    CUcontext popped = nullptr;
    if (pushed_) driver_.CtxPopCurrent(&popped);
  }
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

  bool pushed() const { return pushed_; }

 private:
  const CudaDriver& driver_;
  const bool pushed_;
};

// Contexts that are gone are passed over: whoever made a new one prepares the kernel there.
void LoadInto(const std::map<uint64_t, void*>& contexts, const Kernel& kernel) {
  const auto driver = CudaDriver::Get();
  if (!driver.ok()) return;
  for (const auto& [id, context] : contexts) {
    const ScopedContext current(**driver, context);
    if (!current.pushed()) continue;
    const auto present = CudaModules::CurrentContext(**driver);
    if (present.ok() && *present == id) kernel.Prepare().IgnoreError();
  }
}

}  // namespace

ServedKernel::ServedKernel(Kernel served)
    : kernel(std::move(served)),
      generation(kernel.response().kernel().generation()),
      outline(KernelOutline::Of(kernel)) {}

ServingCache::ServingCache(std::unique_ptr<KernelSource> source) : source_(std::move(source)) {}

ServingCache::~ServingCache() {
  std::map<v1::Numerics, std::thread> followers;
  std::thread replacer;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    followers.swap(followers_);
    replacer = std::move(replacer_);
  }
  source_->Close();
  for (auto& [numerics, follower] : followers) follower.join();
  if (replacer.joinable()) replacer.join();
}

bool ServingCache::closing() const {
  MutexLock lock(&mutex_);
  return closing_;
}

ServingSlot* ServingCache::Slot(const GetKernelOptions& request) {
  MutexLock lock(&mutex_);
  std::unique_ptr<ServingSlot>& slot = slots_[KeyOf(request)];
  if (slot == nullptr) slot.reset(new ServingSlot(request));
  return slot.get();
}

absl::StatusOr<const ServedKernel*> ServingCache::FetchOnce(ServingSlot* slot) {
  {
    MutexLock lock(&slot->mutex_);
    const auto settled = [slot]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !slot->fetching_; };
    slot->mutex_.Await(absl::Condition(&settled));
    if (const ServedKernel* current = slot->Find()) return current;
    if (!slot->generations_.empty()) {
      const auto& first = slot->generations_.front();
      // Of a pack's kernel that could not be loaded the daemon may have sent a better one since.
      return first->kernel.from_pack() ? slot->generations_.back().get() : first.get();
    }
    slot->fetching_ = true;
  }
  absl::StatusOr<Kernel> kernel = source_->GetKernel(slot->request_);
  const ServedKernel* served = nullptr;
  {
    MutexLock lock(&slot->mutex_);
    slot->fetching_ = false;
    HONE_RETURN_IF_ERROR(kernel.status());
    slot->generations_.push_back(std::make_unique<const ServedKernel>(*std::move(kernel)));
    served = slot->generations_.back().get();
    if (!served->kernel.from_pack() && slot->announced_ <= served->generation) return served;
  }
  if (served->kernel.from_pack()) {
    ReplaceLater(slot);
  } else {
    // Its announcement came before there was anything to compare it with.
    UpdateAndAnnounce(slot);
  }
  return served;
}

absl::StatusOr<const ServedKernel*> ServingCache::Prepare(ServingSlot* slot) {
  HONE_ASSIGN_OR_RETURN(const ServedKernel* const served, FetchOnce(slot));
  if (!IsForCpu(served->kernel)) {
    HONE_RETURN_IF_ERROR(served->kernel.Prepare());
    HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
    HONE_ASSIGN_OR_RETURN(const uint64_t id, CudaModules::CurrentContext(*driver));
    CUcontext context = nullptr;
    HONE_CUDA_RETURN_IF_ERROR(*driver, CtxGetCurrent(&context));
    MutexLock lock(&slot->mutex_);
    slot->contexts_[id] = context;
  }
  const ServedKernel* none = nullptr;
  if (slot->current_.compare_exchange_strong(none, served)) Announce(served->generation);
  StartFollowing(slot->request_.numerics);
  return slot->Find();
}

absl::StatusOr<int> ServingCache::Refresh(uint64_t generation) {
  std::vector<ServingSlot*> slots;
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, slot] : slots_) slots.push_back(slot.get());
  }
  int changed = 0;
  for (ServingSlot* const slot : slots) {
    const ServedKernel* const current = slot->Find();
    if (current == nullptr) continue;
    const ServedKernel* newest = current;
    bool in_use_here = false;
    {
      MutexLock lock(&slot->mutex_);
      for (const auto& candidate : slot->generations_) {
        if (candidate->generation <= generation && candidate->generation > newest->generation) {
          newest = candidate.get();
        }
      }
      const auto driver = CudaDriver::Get();
      const auto id = driver.ok() ? CudaModules::CurrentContext(**driver)
                                  : absl::StatusOr<uint64_t>(driver.status());
      in_use_here = id.ok() && slot->contexts_.count(*id) > 0;
    }
    if (newest == current) continue;
    if (in_use_here) HONE_RETURN_IF_ERROR(newest->kernel.Prepare());
    slot->current_.store(newest, std::memory_order_release);
    ++changed;
  }
  return changed;
}

void ServingCache::OnGeneration(std::function<void(uint64_t)> announce) {
  MutexLock lock(&announce_mutex_);
  announce_ = std::move(announce);
}

void ServingCache::Announce(uint64_t generation, bool again) {
  uint64_t latest = latest_generation_.load(std::memory_order_relaxed);
  while (latest < generation &&
         !latest_generation_.compare_exchange_weak(latest, generation, std::memory_order_release)) {
  }
  if (latest >= generation && !again) return;
  MutexLock lock(&announce_mutex_);
  if (announce_) announce_(std::max(latest, generation));
}

void ServingCache::StartFollowing(v1::Numerics numerics) {
  MutexLock lock(&mutex_);
  if (closing_) return;
  std::thread& follower = followers_[numerics];
  if (!follower.joinable()) follower = std::thread([this, numerics] { Follow(numerics); });
}

void ServingCache::Follow(v1::Numerics numerics) {
  absl::Duration pause = kRetryFirst;
  while (true) {
    const absl::Status status = source_->Watch(numerics, [&](const v1::WatchEvent& event) {
      pause = kRetryFirst;
      return OnEvent(numerics, event);
    });
    MutexLock lock(&mutex_);
    // A closing cache does not wait out its pause.
    if (mutex_.AwaitWithTimeout(absl::Condition(&closing_), pause)) return;
    pause = std::min(2 * pause, kRetryMax);
  }
}

bool ServingCache::OnEvent(v1::Numerics numerics, const v1::WatchEvent& event) {
  std::vector<ServingSlot*> slots;
  {
    MutexLock lock(&mutex_);
    if (closing_) return false;
    for (const auto& [key, slot] : slots_) {
      const GetKernelOptions& request = slot->request_;
      if (request.numerics == numerics && request.template_name == event.template_name()) {
        slots.push_back(slot.get());
      }
    }
  }
  for (ServingSlot* const slot : slots) {
    const ServedKernel* newest = nullptr;
    bool may_be_own = false;
    {
      MutexLock lock(&slot->mutex_);
      slot->announced_ = std::max(slot->announced_, event.generation());
      if (!slot->generations_.empty()) newest = slot->generations_.back().get();
      may_be_own = slot->daemon_key_.empty() || slot->daemon_key_ == event.key();
    }
    if (newest == nullptr) continue;
    // Another key's winner concerns a slot that is answered by it, or by nothing of its own yet.
    const v1::GetKernelResponse& answer = newest->kernel.response();
    const bool own = newest->kernel.from_pack()
                         ? may_be_own
                         : event.key() == answer.key() || event.key() == answer.answered_by_key();
    if (event.generation() > newest->generation && (own || !answer.exact())) {
      UpdateAndAnnounce(slot);
    }
  }
  return true;
}

ServingCache::Updated ServingCache::Update(ServingSlot* slot, v1::Policy policy) {
  GetKernelOptions request = slot->request_;
  // Who wants nothing compiled does not want it queued either.
  request.policy = request.policy == v1::FROZEN ? v1::FROZEN : policy;
  request.max_wait = kUpdateWait;
  absl::StatusOr<Kernel> kernel = source_->GetKernel(request);
  // The next event, or the next connection, tries again.
  if (!kernel.ok()) return {.reached = !IsUnreachable(kernel.status())};
  if (kernel->from_pack()) return {.reached = false};
  const uint64_t generation = kernel->response().kernel().generation();
  const auto is_news = [&](const ServedKernel& newest) {
    const bool worse = newest.kernel.from_pack() && Kind(*kernel) < Kind(newest.kernel);
    // A template replaced under its name may take other arguments: callers would pack them wrongly.
    return generation > newest.generation && !worse && TakesSameArguments(newest.kernel, *kernel);
  };
  std::map<uint64_t, void*> contexts;
  {
    MutexLock lock(&slot->mutex_);
    slot->daemon_key_ = kernel->response().key();
    if (!is_news(*slot->generations_.back())) return {.reached = true};
    contexts = slot->contexts_;
  }
  LoadInto(contexts, *kernel);
  MutexLock lock(&slot->mutex_);
  // Another thread may have fetched it at the same time.
  const ServedKernel& newest = *slot->generations_.back();
  if (!is_news(newest)) return {.reached = true};
  const bool replaces_pack = newest.kernel.from_pack();
  slot->generations_.push_back(std::make_unique<const ServedKernel>(*std::move(kernel)));
  return {.reached = true, .generation = generation, .replaces_pack = replaces_pack};
}

void ServingCache::UpdateAndAnnounce(ServingSlot* slot) {
  const Updated updated = Update(slot, v1::NO_WAIT);
  if (updated.generation > 0) Announce(updated.generation, updated.replaces_pack);
}

void ServingCache::ReplaceLater(ServingSlot* slot) {
  MutexLock lock(&mutex_);
  if (closing_) return;
  pack_answered_.push_back(slot);
  if (!replacer_.joinable()) replacer_ = std::thread([this] { ReplacePackKernels(); });
}

void ServingCache::ReplacePackKernels() {
  absl::Duration pause = kRetryFirst;
  while (true) {
    std::vector<ServingSlot*> slots;
    {
      MutexLock lock(&mutex_);
      const auto wanted = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return closing_ || !pack_answered_.empty();
      };
      mutex_.Await(absl::Condition(&wanted));
      if (closing_) return;
      slots = pack_answered_;
    }
    size_t asked = 0;
    uint64_t newest = 0;
    if (source_->Reach(kReachWait).ok()) {
      for (ServingSlot* const slot : slots) {
        Updated updated = Update(slot, v1::NO_WAIT);
        if (updated.reached && updated.generation == 0 && slot->request_.policy == v1::WAIT_TUNED) {
          // Who asked for a tune gets it now. Its winner comes as an event, if not by then.
          updated = Update(slot, v1::WAIT_TUNED);
        }
        newest = std::max(newest, updated.generation);
        if (!updated.reached || closing()) break;
        ++asked;
      }
    }
    // Once for all of them, so that they can be adopted together.
    if (newest > 0) Announce(newest, /*again=*/true);
    MutexLock lock(&mutex_);
    // Others are added behind.
    pack_answered_.erase(pack_answered_.begin(),
                         pack_answered_.begin() + static_cast<ptrdiff_t>(asked));
    if (asked == slots.size()) {
      pause = kRetryFirst;
      continue;
    }
    if (mutex_.AwaitWithTimeout(absl::Condition(&closing_), pause)) return;
    pause = std::min(2 * pause, kRetryMax);
  }
}

}  // namespace hone
