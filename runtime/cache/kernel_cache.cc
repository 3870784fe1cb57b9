#include "runtime/cache/kernel_cache.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/error_info.h"
#include "runtime/base/mutex.h"
#include "runtime/base/notification.h"
#include "runtime/base/status_macros.h"
#include "runtime/cache/answer_memory.h"
#include "runtime/cache/deadline_timer.h"
#include "runtime/cache/executor.h"
#include "runtime/cache/explain_keys.h"
#include "runtime/cache/kernel_resolver.h"
#include "runtime/cache/miss_log.h"
#include "runtime/cache/pins.h"
#include "runtime/cache/provenance.h"
#include "runtime/cache/resolved_request.h"
#include "runtime/cache/tune_run.h"
#include "runtime/cache/tune_scheduler.h"

namespace hone {
namespace {

// Threads for look-ups that never compile: they must not queue behind those that do.
constexpr int kLookupThreads = 4;

bool NeverCompiles(Policy policy) { return policy == Policy::kNoWait || policy == Policy::kFrozen; }

// One caller's callback, called once whoever comes first: the answer or the deadline.
class Waiter {
 public:
  explicit Waiter(KernelCache::Done done) : done_(std::move(done)) {}
  bool Answer(absl::StatusOr<KernelAnswer> answer) {
    if (answered_.exchange(true)) return false;
    done_(std::move(answer));
    return true;
  }
  bool answered() const { return answered_; }

  int64_t timer_id = 0;            // of the deadline; set before the waiter is shared
  std::atomic<bool> noted{false};  // in the log of misses

 private:
  std::atomic<bool> answered_{false};
  const KernelCache::Done done_;
};

class KernelCacheImpl : public KernelCache {
 public:
  KernelCacheImpl(CachingCompiler* compiler, KernelStore* store, std::vector<DeviceLane> lanes,
                  Options options)
      : compiler_(compiler),
        store_(store),
        options_(options),
        resolver_(compiler, store, options.compile_timeout),
        memory_(options.memory_entries_max),
        miss_log_(store, options.misses_written_every),
        scheduler_(compiler, store, &resolver_, std::move(lanes), options,
                   [this](const TuneRunImpl& run, const Winner& winner) { OnWinner(run, winner); }),
        builds_(options.threads, options.queue_max),
        lookups_(kLookupThreads, options.queue_max) {}

  ~KernelCacheImpl() override { Shutdown(); }

  std::optional<KernelAnswer> Find(const KernelRequest& request) override {
    const auto resolved = Resolve(request);
    if (!resolved.ok()) return std::nullopt;
    return FindResolved(*resolved, request.policy);
  }

  void Get(KernelRequest request, Done done) override;

  absl::StatusOr<std::shared_ptr<TuneRun>> Tune(KernelTemplatePtr kernel_template,
                                                const Values& values, const TargetSpec& target,
                                                const TuneOptions& options, bool* joined) override {
    HONE_ASSIGN_OR_RETURN(
        const ResolvedRequest resolved,
        Resolve(
            {.kernel_template = std::move(kernel_template), .values = values, .target = target}));
    HONE_ASSIGN_OR_RETURN(auto run, scheduler_.Start(resolved, options, joined));
    return std::shared_ptr<TuneRun>(std::move(run));
  }

  void EnsureCeilings(const std::string& device_key, CeilingsDone done) override {
    scheduler_.EnsureCeilings(device_key, std::move(done));
  }

  absl::StatusOr<KeyExplanation> Explain(const KernelRequest& request) override {
    HONE_ASSIGN_OR_RETURN(const ResolvedRequest resolved, Resolve(request));
    return ExplainKeys(resolved, resolver_.assembler(), *compiler_, *store_);
  }

  absl::StatusOr<WinnerPin> PinWinner(const std::string& tuning_key,
                                      const std::optional<Config>& config,
                                      const std::string& reason) override;
  absl::StatusOr<WinnerPin> UnpinWinner(const std::string& tuning_key) override;
  absl::StatusOr<InvalidationCount> Invalidate(const InvalidationFilter& filter,
                                               const std::string& why, bool dry_run) override;
  Provenance PresentProvenance(const TuningRecord& record) const override;

  absl::StatusOr<std::vector<Miss>> ListMisses(const MissFilter& filter) override {
    HONE_RETURN_IF_ERROR(miss_log_.Write());
    return store_->ListMisses(filter);
  }
  std::shared_ptr<const Artifact> FindArtifact(const std::string& sha256) const override {
    return memory_.FindArtifact(sha256);
  }

  int64_t Watch(std::string template_name, Numerics numerics, WatchListener listener) override;
  void Unwatch(int64_t id) override {
    MutexLock lock(&watch_mutex_);
    watchers_.erase(id);
  }

  std::vector<DeviceInfo> Devices() const override { return scheduler_.devices(); }
  std::map<std::string, int64_t> Counters() const override;
  void Shutdown() override;

 private:
  // Callers of one identity and policy, answered together.
  struct Flight {
    std::vector<std::shared_ptr<Waiter>> waiters;
    ResolvedRequest request;
    Policy policy = Policy::kBestAvailable;
  };
  struct Watcher {
    std::string template_name;
    Numerics numerics;
    WatchListener listener;
  };

  absl::StatusOr<ResolvedRequest> Resolve(const KernelRequest& request) const {
    return ResolveRequest(request, scheduler_.devices(), options_.policy);
  }
  std::optional<KernelAnswer> FindResolved(const ResolvedRequest& request, Policy policy);
  absl::StatusOr<KernelAnswer> Compiled(const ResolvedRequest& request, CompilePriority priority);
  void OnWinner(const TuneRunImpl& run, const Winner& winner);
  // `numerics` nullopt: to all watchers of the template.
  void Announce(const std::string& key, const std::string& template_name, uint64_t generation,
                std::optional<Numerics> numerics);
  absl::StatusOr<TuningRecord> RecordOf(const std::string& tuning_key);

  void OfferTune(const ResolvedRequest& request, Policy policy);
  void LookUp(const std::string& flight, const ResolvedRequest& request, Policy policy);
  void Build(const std::string& flight, const ResolvedRequest& request);
  void BuildForTheNextCall(const ResolvedRequest& request);
  absl::Status QueueFull(const std::string& what, absl::Duration retry) const;
  void WaitForTune(const std::string& flight, const ResolvedRequest& request);
  void AnswerFlight(const std::string& flight, const absl::StatusOr<KernelAnswer>& answer);
  void OnDeadline(const std::shared_ptr<Waiter>& waiter, const ResolvedRequest& request,
                  Policy policy, absl::Duration waited);

  CachingCompiler* const compiler_;
  KernelStore* const store_;
  const Options options_;
  const KernelResolver resolver_;

  std::atomic<int64_t> memory_hits_{0}, store_hits_{0}, misses_{0}, joined_waiters_{0};
  std::atomic<bool> stopped_{false};

  AnswerMemory memory_;
  MissLog miss_log_;

  Mutex flights_mutex_;
  std::map<std::string, Flight> flights_ ABSL_GUARDED_BY(flights_mutex_);

  Mutex watch_mutex_;
  std::map<int64_t, Watcher> watchers_ ABSL_GUARDED_BY(watch_mutex_);
  int64_t next_watch_id_ ABSL_GUARDED_BY(watch_mutex_) = 1;

  // Last, and in this order, so that threads end before what they hand work to: the timer feeds the
  // look-ups, these the builds, these the lanes.
  TuneScheduler scheduler_;
  Executor builds_;
  Executor lookups_;
  DeadlineTimer timer_;
};

std::optional<KernelAnswer> KernelCacheImpl::FindResolved(const ResolvedRequest& request,
                                                          Policy policy) {
  const std::string identity = request.Identity();
  auto found = memory_.Find(identity, policy == Policy::kWaitTuned);
  if (!found) return std::nullopt;
  if (found->other_build && !NeverCompiles(policy)) return std::nullopt;
  ++memory_hits_;
  // Both are counted in memory and written later.
  for (const KernelVariant& variant : found->kernel->variants) {
    store_->NoteUse(variant.artifact->sha256);
  }
  if (!IsTuned(*found)) miss_log_.Note(identity, request, policy, 1);
  return found;
}

void KernelCacheImpl::OnWinner(const TuneRunImpl& run, const Winner& winner) {
  memory_.Forget(run.request().kernel_template->digest());
  if (winner.numerics == Numerics::kWithinTolerance) {
    // A pinned key is answered as before.
    const auto pin = store_->GetPin(winner.tuning_key);
    if (pin.ok() && *pin && (*pin)->config) return;
  }
  Announce(winner.tuning_key, run.request().kernel_template->name(), winner.generation,
           winner.numerics);
}

void KernelCacheImpl::Announce(const std::string& key, const std::string& template_name,
                               uint64_t generation, std::optional<Numerics> numerics) {
  MutexLock lock(&watch_mutex_);
  for (const auto& [id, watcher] : watchers_) {
    if (numerics && watcher.numerics != *numerics) continue;
    if (watcher.template_name.empty() || watcher.template_name == template_name) {
      watcher.listener(key, template_name, generation);
    }
  }
}

absl::StatusOr<TuningRecord> KernelCacheImpl::RecordOf(const std::string& tuning_key) {
  HONE_ASSIGN_OR_RETURN(std::optional<TuningRecord> record, store_->GetTuning(tuning_key));
  if (record) return *std::move(record);
  return absl::NotFoundError(absl::StrCat("key: there is no tuning ", tuning_key,
                                          "; ListTunings shows the keys there are"));
}

absl::StatusOr<WinnerPin> KernelCacheImpl::PinWinner(const std::string& tuning_key,
                                                     const std::optional<Config>& config,
                                                     const std::string& reason) {
  HONE_ASSIGN_OR_RETURN(const TuningRecord record, RecordOf(tuning_key));
  HONE_ASSIGN_OR_RETURN(WinnerPin pin, PinConfig(tuning_key, config, reason, *store_));
  memory_.ForgetNamed(record.template_name);
  Announce(tuning_key, record.template_name, pin.generation, std::nullopt);
  return pin;
}

absl::StatusOr<WinnerPin> KernelCacheImpl::UnpinWinner(const std::string& tuning_key) {
  HONE_ASSIGN_OR_RETURN(const TuningRecord record, RecordOf(tuning_key));
  HONE_ASSIGN_OR_RETURN(WinnerPin was, UnpinConfig(tuning_key, *store_));
  memory_.ForgetNamed(record.template_name);
  Announce(tuning_key, record.template_name, was.generation, std::nullopt);
  return was;
}

absl::StatusOr<InvalidationCount> KernelCacheImpl::Invalidate(const InvalidationFilter& filter,
                                                              const std::string& why,
                                                              bool dry_run) {
  const auto count = store_->InvalidateMeasurements(filter, why, dry_run);
  // Answers in memory say whether they are stale.
  if (count.ok() && !dry_run) memory_.ForgetNamed(filter.template_name);
  return count;
}

Provenance KernelCacheImpl::PresentProvenance(const TuningRecord& record) const {
  for (const DeviceInfo& device : scheduler_.devices()) {
    if (!(device.fingerprint == record.device)) continue;
    return ProvenanceOf(*compiler_, record.architecture, device.driver_version, device.driver);
  }
  return {};
}

void KernelCacheImpl::Get(KernelRequest request, Done done) {
  if (stopped_) {
    done(absl::UnavailableError("the daemon is shutting down; try again later"));
    return;
  }
  const auto resolved = Resolve(request);
  if (!resolved.ok()) {
    done(resolved.status());
    return;
  }
  if (auto found = FindResolved(*resolved, request.policy)) {
    done(*std::move(found));
    return;
  }
  auto waiter = std::make_shared<Waiter>(std::move(done));
  waiter->timer_id = timer_.At(absl::Now() + request.max_wait,
                               [this, waiter, r = *resolved, policy = request.policy,
                                wait = request.max_wait] { OnDeadline(waiter, r, policy, wait); });
  const std::string flight =
      absl::StrCat(resolved->Identity(), "\n", static_cast<int>(request.policy));
  bool leader = false;
  {
    MutexLock lock(&flights_mutex_);
    Flight& slot = flights_[flight];
    leader = slot.waiters.empty();
    slot.waiters.push_back(waiter);
    if (leader) {
      slot.request = *resolved;
      slot.policy = request.policy;
    }
  }
  if (!leader) ++joined_waiters_;
  if (!leader) return;
  if (!lookups_.Submit(
          [this, flight, r = *resolved, policy = request.policy] { LookUp(flight, r, policy); })) {
    AnswerFlight(flight, QueueFull("requests", absl::Milliseconds(100)));
  }
}

void KernelCacheImpl::LookUp(const std::string& flight, const ResolvedRequest& request,
                             Policy policy) {
  const bool never_compile = NeverCompiles(policy);
  const int64_t epoch = memory_.Epoch();
  auto found =
      resolver_.Resolve(request, never_compile ? MissingBinary::kSkip : MissingBinary::kGiveUp,
                        CompilePriority::kInteractive, policy == Policy::kWaitTuned);
  if (!found.ok()) {
    AnswerFlight(flight, found.status());
    return;
  }
  if (*found) {
    ++store_hits_;
    memory_.Remember(request.Identity(), **found, epoch);
    if (!IsTuned(**found)) OfferTune(request, policy);
    const bool rebuild = (*found)->other_build && policy == Policy::kNoWait;
    AnswerFlight(flight, **std::move(found));
    if (rebuild) BuildForTheNextCall(request);
    return;
  }
  ++misses_;
  OfferTune(request, policy);
  if (policy == Policy::kWaitTuned && options_.tune_when != TuneWhen::kNever) {
    WaitForTune(flight, request);
    return;
  }
  if (!never_compile) {
    Build(flight, request);
    return;
  }
  AnswerFlight(flight, MissStatus(request, policy, *store_));
  if (policy == Policy::kNoWait) BuildForTheNextCall(request);
}

// FROZEN leads to no work whatever, and WAIT_TUNED asks itself.
void KernelCacheImpl::OfferTune(const ResolvedRequest& request, Policy policy) {
  if (policy == Policy::kBestAvailable || policy == Policy::kNoWait) scheduler_.Offer(request);
}

// Nobody waits, so a full queue just drops it.
void KernelCacheImpl::BuildForTheNextCall(const ResolvedRequest& request) {
  builds_.Submit([this, request] { (void)Compiled(request, CompilePriority::kWarm); });
}

absl::StatusOr<KernelAnswer> KernelCacheImpl::Compiled(const ResolvedRequest& request,
                                                       CompilePriority priority) {
  const int64_t epoch = memory_.Epoch();
  HONE_ASSIGN_OR_RETURN(auto answer, resolver_.Resolve(request, MissingBinary::kCompile, priority,
                                                       /*only_tuned=*/false));
  if (!answer) return absl::InternalError("a compiling look-up ended without an answer");
  memory_.Remember(request.Identity(), *answer, epoch);
  return *std::move(answer);
}

void KernelCacheImpl::Build(const std::string& flight, const ResolvedRequest& request) {
  const bool queued = builds_.Submit([this, flight, request] {
    AnswerFlight(flight, Compiled(request, CompilePriority::kInteractive));
  });
  if (!queued) AnswerFlight(flight, QueueFull("compiles", absl::Seconds(1)));
}

absl::Status KernelCacheImpl::QueueFull(const std::string& what, absl::Duration retry) const {
  if (stopped_) return absl::UnavailableError("the daemon is shutting down; try again later");
  ErrorInfo info;
  info.reason = "QUEUE_FULL";
  info.available = options_.queue_max;
  info.retry_after_ms = absl::ToInt64Milliseconds(retry);
  return WithErrorInfo(absl::ResourceExhaustedError(
                           absl::StrCat("the queue of ", options_.queue_max, " waiting ", what,
                                        " is full; retry in ", absl::FormatDuration(retry))),
                       info);
}

// Tunes the bucket, so that many sizes share one tune; the request itself is then answered from it.
void KernelCacheImpl::WaitForTune(const std::string& flight, const ResolvedRequest& request) {
  ResolvedRequest bucketed = request;
  bucketed.problem = request.problem.Bucketed(*request.kernel_template);
  bool joined = false;
  auto run = scheduler_.Start(bucketed, TuneOptions(), &joined);
  if (!run.ok()) {
    AnswerFlight(flight, run.status());
    return;
  }
  (*run)->Detach();
  (*run)->Subscribe([this, flight, request](const TuneRun::Event& event) {
    if (event.kind != TuneRun::Event::Kind::kFinished) return;
    if (!event.status.ok()) {
      AnswerFlight(flight, event.status);
      return;
    }
    Build(flight, request);
  });
}

void KernelCacheImpl::AnswerFlight(const std::string& flight,
                                   const absl::StatusOr<KernelAnswer>& answer) {
  Flight ended;
  {
    MutexLock lock(&flights_mutex_);
    const auto it = flights_.find(flight);
    if (it == flights_.end()) return;
    ended = std::move(it->second);
    flights_.erase(it);
  }
  if (answer.ok() ? !IsTuned(*answer) : absl::IsNotFound(answer.status())) {
    const auto missed = std::count_if(ended.waiters.begin(), ended.waiters.end(),
                                      [](const auto& waiter) { return !waiter->noted; });
    if (missed > 0) {
      miss_log_.Note(ended.request.Identity(), ended.request, ended.policy, missed);
    }
  }
  for (const auto& waiter : ended.waiters) {
    timer_.Cancel(waiter->timer_id);
    waiter->Answer(answer);
  }
}

void KernelCacheImpl::OnDeadline(const std::shared_ptr<Waiter>& waiter,
                                 const ResolvedRequest& request, Policy policy,
                                 absl::Duration waited) {
  if (waiter->answered()) return;
  const auto late = [waited] {
    ErrorInfo info;
    info.reason = "NOT_READY";
    info.retry_after_ms = 1000;
    return WithErrorInfo(
        absl::DeadlineExceededError(absl::StrCat("nothing was ready within max_wait_ms (",
                                                 absl::ToInt64Milliseconds(waited),
                                                 "); the work goes on, retry later")),
        info);
  };
  // The best so far, from what is stored.
  const bool queued = lookups_.Submit([this, waiter, request, policy, late] {
    auto best = resolver_.Resolve(request, MissingBinary::kSkip, CompilePriority::kInteractive,
                                  /*only_tuned=*/false);
    if (!best.ok() || !*best) {
      waiter->Answer(late());
      return;
    }
    KernelAnswer answer = **std::move(best);
    answer.tuning = policy == Policy::kWaitTuned;
    if (!IsTuned(answer) && !waiter->noted.exchange(true)) {
      miss_log_.Note(request.Identity(), request, policy, 1);
    }
    waiter->Answer(std::move(answer));
  });
  if (!queued) waiter->Answer(late());
}

int64_t KernelCacheImpl::Watch(std::string template_name, Numerics numerics,
                               WatchListener listener) {
  // Present generations first; a winner decided meanwhile is announced twice rather than lost.
  int64_t id = 0;
  {
    MutexLock lock(&watch_mutex_);
    id = next_watch_id_++;
    watchers_[id] = {template_name, numerics, listener};
  }
  std::string token;
  do {
    const auto page = store_->ListTunings(template_name, 1000, token);
    if (!page.ok()) break;
    for (const TuningRecord& record : page->records) {
      const auto pin = store_->GetPin(record.key);
      const auto winner = store_->GetWinner(record.key, "", numerics);
      if (!pin.ok() || !winner.ok() || !*winner) continue;
      listener(record.key, record.template_name,
               ServedGeneration(*pin, (*winner)->generation, numerics));
    }
    token = page->next_page_token;
  } while (!token.empty());
  return id;
}

std::map<std::string, int64_t> KernelCacheImpl::Counters() const {
  const TuneScheduler::Counters& tunes = scheduler_.counters();
  return {{"memory_hits", memory_hits_},
          {"store_hits", store_hits_},
          {"misses", misses_},
          {"untuned", miss_log_.noted()},
          {"joined_waiters", joined_waiters_ + compiler_->joined()},
          {"compiles", compiler_->compiles()},
          {"artifact_store_hits", compiler_->store_hits()},
          {"corruptions", compiler_->corruptions()},
          {"tunes", tunes.tunes},
          {"background_tunes", tunes.background_tunes},
          {"interrupted_tunes", tunes.interrupted_tunes},
          {"joined_tunes", tunes.joined},
          {"measurements", tunes.measurements},
          {"rejections", tunes.rejections},
          {"store_write_failures", tunes.store_write_failures}};
}

void KernelCacheImpl::Shutdown() {
  stopped_ = true;
  scheduler_.Shutdown();
  std::vector<std::string> flights;
  {
    MutexLock lock(&flights_mutex_);
    for (const auto& [key, flight] : flights_) flights.push_back(key);
  }
  for (const std::string& flight : flights) {
    AnswerFlight(flight, absl::UnavailableError("the daemon is shutting down; try again later"));
  }
}

}  // namespace

std::optional<TuneWhen> ParseTuneWhen(absl::string_view name) {
  if (name == "on_request") return TuneWhen::kOnRequest;
  if (name == "idle") return TuneWhen::kIdle;
  if (name == "always") return TuneWhen::kAlways;
  if (name == "never") return TuneWhen::kNever;
  return std::nullopt;
}

std::unique_ptr<KernelCache> KernelCache::Create(CachingCompiler* compiler, KernelStore* store,
                                                 std::vector<DeviceLane> lanes, Options options) {
  return std::make_unique<KernelCacheImpl>(compiler, store, std::move(lanes), options);
}

absl::StatusOr<KernelAnswer> KernelCache::GetBlocking(KernelRequest request) {
  Notification answered;
  absl::StatusOr<KernelAnswer> result = absl::UnknownError("unanswered");
  Get(std::move(request), [&](absl::StatusOr<KernelAnswer> answer) {
    result = std::move(answer);
    answered.Notify();
  });
  answered.WaitForNotification();
  return result;
}

}  // namespace hone
