#include "runtime/cache/kernel_cache.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/notification.h"
#include "runtime/base/status_macros.h"
#include "runtime/cache/answer_memory.h"
#include "runtime/cache/deadline_timer.h"
#include "runtime/cache/executor.h"
#include "runtime/cache/explain_keys.h"
#include "runtime/cache/flights.h"
#include "runtime/cache/hits.h"
#include "runtime/cache/kernel_resolver.h"
#include "runtime/cache/miss_log.h"
#include "runtime/cache/pins.h"
#include "runtime/cache/provenance.h"
#include "runtime/cache/resolved_request.h"
#include "runtime/cache/tune_run.h"
#include "runtime/cache/tune_scheduler.h"
#include "runtime/cache/winner_watch.h"

namespace hone {
namespace {

// Threads for look-ups that never compile: they must not queue behind those that do.
constexpr int kLookupThreads = 4;

bool NeverCompiles(Policy policy) { return policy == Policy::kNoWait || policy == Policy::kFrozen; }

// Threads for builds beyond what the compiler runs at once: they read the store, or wait for the
// compile of a tune.
constexpr int kBuildThreadsBeyondCompiles = 2;

int BuildThreads(const KernelCache::Options& options, const Compiler& compiler) {
  // As few as keep the compiler busy, because what a thread has taken no longer takes turns.
  return std::clamp(2 * compiler.parallelism() + kBuildThreadsBeyondCompiles, 1, options.threads);
}

class KernelCacheImpl : public KernelCache {
 public:
  KernelCacheImpl(CachingCompiler* compiler, KernelStore* store, std::vector<DeviceLane> lanes,
                  Options options)
      : compiler_(compiler),
        store_(store),
        options_(options),
        resolver_(compiler, store, options.compile_timeout),
        memory_(options.memory_entries_max, options.memory_bytes_max),
        miss_log_(store, options.misses_written_every),
        hits_(store, &memory_, &miss_log_,
              [this](const ResolvedRequest& request, Policy policy, const KernelAnswer& answer) {
                return Suits(request, policy, answer);
              }),
        watch_(store),
        scheduler_(compiler, store, &resolver_, std::move(lanes), options,
                   {.on_results = [this](const TuneRunImpl& run) { OnResults(run); },
                    .on_winner = [this](const TuneRunImpl& run,
                                        const Winner& winner) { OnWinner(run, winner); }}),
        builds_({.what = "compiles",
                 .threads = BuildThreads(options, *compiler),
                 .patient_threads_max = std::max(1, BuildThreads(options, *compiler) / 4),
                 .queue_max = options.queue_max}),
        lookups_({.what = "requests",
                  .threads = kLookupThreads,
                  .patient_threads_max = kLookupThreads - 1,
                  .queue_max = options.queue_max}) {}

  ~KernelCacheImpl() override { Shutdown(); }

  std::optional<KernelAnswer> Find(const KernelRequest& request) override {
    const auto resolved = Resolve(request);
    if (!resolved.ok()) return std::nullopt;
    return hits_.Find(*resolved, request.policy);
  }
  std::shared_ptr<const Hit> FindHit(const KernelRequest& request) override {
    auto resolved = Resolve(request);
    if (!resolved.ok()) return nullptr;
    return hits_.FindHit(*std::move(resolved), request.policy);
  }
  bool Again(const Hit& hit) override { return hits_.Again(hit); }

  Leave Get(KernelRequest request, Done done) override;

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

  absl::StatusOr<WinnerPin> PinWinner(const std::string& tuning_key, const Config& config,
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

  int64_t Watch(std::string template_name, Numerics numerics, WatchListener listener) override {
    return watch_.Add(std::move(template_name), numerics, std::move(listener));
  }
  void Unwatch(int64_t id) override { watch_.Remove(id); }

  std::vector<DeviceInfo> Devices() const override { return scheduler_.devices(); }
  std::map<std::string, int64_t> Counters() const override;
  void Shutdown() override;

 private:
  absl::StatusOr<ResolvedRequest> Resolve(const KernelRequest& request) const {
    return ResolveRequest(request, scheduler_.devices(), options_.policy);
  }
  absl::StatusOr<KernelAnswer> Compiled(const ResolvedRequest& request, CompilePriority priority);
  // Whether a tune of this daemon would measure the answer's timing again; of a pin it need not.
  bool AwaitsRevalidation(const ResolvedRequest& request, const KernelAnswer& answer) const {
    return answer.stale_timing && !answer.pin && request.local &&
           options_.tune_when != TuneWhen::kNever;
  }
  // Whether an answer in memory may be given to such a request.
  bool Suits(const ResolvedRequest& request, Policy policy, const KernelAnswer& answer) const {
    if (answer.other_build && !NeverCompiles(policy)) return false;
    return policy != Policy::kWaitTuned || !AwaitsRevalidation(request, answer);
  }
  void OnResults(const TuneRunImpl& run);
  void OnWinner(const TuneRunImpl& run, const Winner& winner);
  absl::StatusOr<TuningRecord> RecordOf(const std::string& tuning_key);

  void OfferTune(const ResolvedRequest& request, Policy policy);
  // Queues a flight's work; what cannot be queued is its answer.
  void Queue(Executor& executor, Urgency urgency, uint64_t client, const std::string& flight,
             std::function<void()> work);
  void LookUp(const std::string& flight, const ResolvedRequest& request, Policy policy,
              uint64_t client);
  void Build(const std::string& flight, const ResolvedRequest& request, uint64_t client);
  void BuildForTheNextCall(const ResolvedRequest& request, uint64_t client);
  void WaitForTune(const std::string& flight, const ResolvedRequest& request, uint64_t client,
                   std::optional<KernelAnswer> stale);
  void AnswerFlight(const std::string& flight, const absl::StatusOr<KernelAnswer>& answer);
  void OnDeadline(const std::string& flight, const std::shared_ptr<Waiter>& waiter,
                  const ResolvedRequest& request, const KernelRequest& asked);

  CachingCompiler* const compiler_;
  KernelStore* const store_;
  const Options options_;
  const KernelResolver resolver_;

  std::atomic<int64_t> store_hits_{0}, misses_{0}, refused_full_{0};
  std::atomic<bool> stopped_{false};

  AnswerMemory memory_;
  MissLog miss_log_;
  Hits hits_;
  WinnerWatch watch_;

  Flights flights_;

  Mutex next_mutex_;
  // Identities of what is to be built for the next call.
  std::set<std::string> next_ ABSL_GUARDED_BY(next_mutex_);

  // Last, and in this order, so that threads end before what they hand work to: the timer feeds the
  // look-ups, these the builds, these the lanes.
  TuneScheduler scheduler_;
  Executor builds_;
  Executor lookups_;
  DeadlineTimer timer_;
};

// What answers may be another now, even if no winner follows: the tune was interrupted.
void KernelCacheImpl::OnResults(const TuneRunImpl& run) {
  memory_.ForgetNamed(run.request().kernel_template->name());
}

void KernelCacheImpl::OnWinner(const TuneRunImpl& run, const Winner& winner) {
  memory_.Forget(run.request().kernel_template->digest());
  watch_.AnnounceWinner(winner, run.request().kernel_template->name());
}

absl::StatusOr<TuningRecord> KernelCacheImpl::RecordOf(const std::string& tuning_key) {
  HONE_ASSIGN_OR_RETURN(std::optional<TuningRecord> record, store_->GetTuning(tuning_key));
  if (record) return *std::move(record);
  return absl::NotFoundError(absl::StrCat("key: there is no tuning ", tuning_key,
                                          "; ListTunings shows the keys there are"));
}

absl::StatusOr<WinnerPin> KernelCacheImpl::PinWinner(const std::string& tuning_key,
                                                     const Config& config,
                                                     const std::string& reason) {
  HONE_ASSIGN_OR_RETURN(const TuningRecord record, RecordOf(tuning_key));
  HONE_ASSIGN_OR_RETURN(WinnerPin pin, PinConfig(tuning_key, config, reason, *store_));
  memory_.ForgetNamed(record.template_name);
  watch_.Announce(tuning_key, record.template_name, pin.generation, std::nullopt);
  return pin;
}

absl::StatusOr<WinnerPin> KernelCacheImpl::UnpinWinner(const std::string& tuning_key) {
  HONE_ASSIGN_OR_RETURN(const TuningRecord record, RecordOf(tuning_key));
  HONE_ASSIGN_OR_RETURN(WinnerPin was, UnpinConfig(tuning_key, *store_));
  memory_.ForgetNamed(record.template_name);
  watch_.Announce(tuning_key, record.template_name, was.generation, std::nullopt);
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

KernelCache::Leave KernelCacheImpl::Get(KernelRequest request, Done done) {
  const Leave nothing = [] {};
  if (stopped_) {
    done(absl::UnavailableError("the daemon is shutting down; try again later"));
    return nothing;
  }
  const auto resolved = Resolve(request);
  if (!resolved.ok()) {
    done(resolved.status());
    return nothing;
  }
  if (auto found = hits_.Find(*resolved, request.policy)) {
    done(*std::move(found));
    return nothing;
  }
  const std::string flight =
      absl::StrCat(resolved->Identity(), "\n", static_cast<int>(request.policy));
  auto waiter = std::make_shared<Waiter>(std::move(done));
  waiter->timer_id = timer_.At(
      absl::Now() + request.max_wait,
      [this, flight, waiter, r = *resolved, request] { OnDeadline(flight, waiter, r, request); });
  if (flights_.Join(flight, *resolved, request.policy, waiter)) {
    // Those who want no more than a look go before those who then wait for a compile.
    Queue(lookups_, NeverCompiles(request.policy) ? Urgency::kUrgent : Urgency::kPatient,
          request.client, flight,
          [this, flight, r = *resolved, policy = request.policy, client = request.client] {
            if (flights_.Wanted(flight)) LookUp(flight, r, policy, client);
          });
  }
  return [this, flight, waiter] {
    if (!waiter->Answer(absl::CancelledError("the caller has gone"))) return;
    timer_.Cancel(waiter->timer_id);
    flights_.Leave(flight, waiter);
  };
}

void KernelCacheImpl::Queue(Executor& executor, Urgency urgency, uint64_t client,
                            const std::string& flight, std::function<void()> work) {
  const int64_t stage = flights_.NewStage(flight);
  const auto id = executor.Submit(urgency, client, std::move(work));
  if (id.ok()) {
    flights_.SetUnqueue(flight, stage, [&executor, id = *id] { executor.Remove(id); });
    return;
  }
  if (absl::IsResourceExhausted(id.status())) ++refused_full_;
  AnswerFlight(flight, id.status());
}

void KernelCacheImpl::LookUp(const std::string& flight, const ResolvedRequest& request,
                             Policy policy, uint64_t client) {
  const bool never_compile = NeverCompiles(policy);
  const int64_t epoch = memory_.Epoch();
  auto found =
      resolver_.Resolve(request, never_compile ? MissingBinary::kSkip : MissingBinary::kGiveUp,
                        CompilePriority::kInteractive, policy == Policy::kWaitTuned);
  if (!found.ok()) {
    AnswerFlight(flight, found.status());
    return;
  }
  if (policy == Policy::kWaitTuned && *found && AwaitsRevalidation(request, **found)) {
    WaitForTune(flight, request, client, **std::move(found));
    return;
  }
  if (*found) {
    ++store_hits_;
    memory_.Remember(request.Identity(), **found, epoch);
    if (!IsTuned(**found)) OfferTune(request, policy);
    const bool rebuild = (*found)->other_build && policy == Policy::kNoWait;
    AnswerFlight(flight, **std::move(found));
    if (rebuild) BuildForTheNextCall(request, client);
    return;
  }
  ++misses_;
  OfferTune(request, policy);
  if (policy == Policy::kWaitTuned && options_.tune_when != TuneWhen::kNever) {
    WaitForTune(flight, request, client, std::nullopt);
    return;
  }
  if (!never_compile) {
    Build(flight, request, client);
    return;
  }
  AnswerFlight(flight, MissStatus(request, policy, *store_));
  if (policy == Policy::kNoWait) BuildForTheNextCall(request, client);
}

// FROZEN leads to no work whatever, and WAIT_TUNED asks itself.
void KernelCacheImpl::OfferTune(const ResolvedRequest& request, Policy policy) {
  if (policy == Policy::kBestAvailable || policy == Policy::kNoWait) scheduler_.Offer(request);
}

// Nobody waits, so a full queue just drops it.
void KernelCacheImpl::BuildForTheNextCall(const ResolvedRequest& request, uint64_t client) {
  // However often a cold key is asked for, its build waits once.
  std::string identity = request.Identity();
  {
    MutexLock lock(&next_mutex_);
    if (!next_.insert(identity).second) return;
  }
  const auto done = [this, identity = std::move(identity)] {
    MutexLock lock(&next_mutex_);
    next_.erase(identity);
  };
  const auto queued = builds_.Submit(Urgency::kPatient, client, [this, request, done] {
    (void)Compiled(request, CompilePriority::kWarm);
    done();
  });
  if (!queued.ok()) done();
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

void KernelCacheImpl::Build(const std::string& flight, const ResolvedRequest& request,
                            uint64_t client) {
  Queue(builds_, Urgency::kUrgent, client, flight, [this, flight, request] {
    if (!flights_.Begin(flight)) return;
    AnswerFlight(flight, Compiled(request, CompilePriority::kInteractive));
  });
}

// Tunes the bucket, so that many sizes share one tune; the request itself is then answered from it.
// `stale`: what answers if nothing comes of that.
void KernelCacheImpl::WaitForTune(const std::string& flight, const ResolvedRequest& request,
                                  uint64_t client, std::optional<KernelAnswer> stale) {
  if (!flights_.Begin(flight)) return;
  ResolvedRequest tuned = request;
  if (!stale || stale->source != AnswerSource::kTuned) {
    tuned.problem = request.problem.Bucketed(*request.kernel_template);
  }
  const auto give_up = [this, flight, stale = std::move(stale)](const absl::Status& status) {
    AnswerFlight(flight, stale ? absl::StatusOr<KernelAnswer>(*stale) : status);
  };
  bool joined = false;
  auto run = scheduler_.Start(tuned, TuneOptions(), &joined);
  if (!run.ok()) {
    give_up(run.status());
    return;
  }
  (*run)->Detach();
  (*run)->Subscribe([this, flight, request, client, give_up](const TuneRun::Event& event) {
    if (event.kind != TuneRun::Event::Kind::kFinished) return;
    if (!event.status.ok()) {
      give_up(event.status);
      return;
    }
    Build(flight, request, client);
  });
}

void KernelCacheImpl::AnswerFlight(const std::string& flight,
                                   const absl::StatusOr<KernelAnswer>& answer) {
  const std::optional<Flights::Flight> ended = flights_.Take(flight);
  if (!ended) return;
  if (answer.ok() ? !IsTuned(*answer) : absl::IsNotFound(answer.status())) {
    const auto missed = std::count_if(ended->waiters.begin(), ended->waiters.end(),
                                      [](const auto& waiter) { return !waiter->noted; });
    if (missed > 0) {
      miss_log_.Note(ended->request.Identity(), ended->request, ended->policy, missed);
    }
  }
  for (const auto& waiter : ended->waiters) {
    timer_.Cancel(waiter->timer_id);
    waiter->Answer(answer);
  }
}

void KernelCacheImpl::OnDeadline(const std::string& flight, const std::shared_ptr<Waiter>& waiter,
                                 const ResolvedRequest& request, const KernelRequest& asked) {
  if (waiter->answered()) return;
  // The caller is told to come back: work dropped now would have to queue from the end again, and
  // callers who wait for less time than the queue takes would never be served.
  flights_.LeaveToItself(flight, waiter);
  const auto late = [waited = asked.max_wait] { return NotReadyStatus(waited); };
  // The best so far, from what is stored.
  const auto queued = lookups_.Submit(
      Urgency::kUrgent, asked.client, [this, waiter, request, policy = asked.policy, late] {
        auto best = resolver_.Resolve(request, MissingBinary::kSkip, CompilePriority::kInteractive,
                                      /*only_tuned=*/false);
        const bool found = best.ok() && best->has_value();
        if (!(found && IsTuned(**best)) && !waiter->noted.exchange(true)) {
          miss_log_.Note(request.Identity(), request, policy, 1);
        }
        if (!found) {
          waiter->Answer(late());
          return;
        }
        KernelAnswer answer = **std::move(best);
        answer.tuning = policy == Policy::kWaitTuned;
        waiter->Answer(std::move(answer));
      });
  if (!queued.ok()) waiter->Answer(late());
}

std::map<std::string, int64_t> KernelCacheImpl::Counters() const {
  const TuneScheduler::Counters& tunes = scheduler_.counters();
  return {{"memory_hits", hits_.count()},
          {"store_hits", store_hits_},
          {"misses", misses_},
          {"untuned", miss_log_.noted()},
          {"joined_waiters", flights_.joined() + compiler_->joined()},
          {"dropped_unwanted", flights_.dropped()},
          {"refused_full", refused_full_},
          {"waiting_lookups", lookups_.waiting()},
          {"waiting_builds", builds_.waiting()},
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
  for (const std::string& flight : flights_.Names()) {
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
