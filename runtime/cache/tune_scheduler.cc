#include "runtime/cache/tune_scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/base/error_info.h"
#include "runtime/base/status_macros.h"
#include "runtime/cache/check_tune.h"

namespace hone {
namespace {

// Runs that nobody waits for. They cost memory, and the misses that caused them come again.
constexpr size_t kPutOffMax = 1000;

// What makes two runs of one key the same work.
std::string RunIdentity(const std::string& key, const ResolvedRequest& request,
                        const TuneOptions& options) {
  std::string identity = absl::StrCat(
      key, "\n", request.kernel_template->digest(), "\n", options.evaluations_max, "\n",
      absl::FormatDuration(options.time_max), "\n", options.patience, "\n", options.strategy, "\n",
      options.ranked_share, "\n", options.seed, "\n", options.force);
  if (!options.only.empty()) absl::StrAppend(&identity, "\n", static_cast<int>(options.numerics));
  for (const Config& config : options.only) absl::StrAppend(&identity, "\n", config.ToString());
  return identity;
}

std::shared_ptr<TuneRunImpl> TakeFirst(std::deque<std::shared_ptr<TuneRunImpl>>& runs) {
  std::shared_ptr<TuneRunImpl> run = std::move(runs.front());
  runs.pop_front();
  return run;
}

}  // namespace

TuneScheduler::TuneScheduler(CachingCompiler* compiler, KernelStore* store,
                             const KernelResolver* resolver,
                             std::vector<KernelCache::DeviceLane> lanes,
                             KernelCache::Options options, Hooks hooks)
    : compiler_(compiler),
      store_(store),
      resolver_(resolver),
      options_(options),
      hooks_(std::move(hooks)) {
  for (KernelCache::DeviceLane& given : lanes) {
    devices_.push_back(given.info);
    queues_[given.info.fingerprint.Key()];
    auto lane = std::make_unique<Lane>();
    lane->info = std::move(given.info);
    lane->profiler = std::move(given.profiler);
    lane->activity = std::move(given.activity);
    lanes_.push_back(std::move(lane));
  }
  for (auto& lane : lanes_) lane->thread = std::thread([this, l = lane.get()] { Loop(l); });
}

TuneScheduler::~TuneScheduler() { Shutdown(); }

absl::StatusOr<std::shared_ptr<TuneRunImpl>> TuneScheduler::Start(const ResolvedRequest& request,
                                                                  const TuneOptions& given,
                                                                  bool* joined) {
  HONE_RETURN_IF_ERROR(CheckDevice(request));
  TuneOptions options = given;
  if (!options.only.empty()) {
    HONE_ASSIGN_OR_RETURN(const ConfigSpace space, resolver_->assembler().Space(request));
    for (Config& config : options.only) config = space.InOrder(config);
  }
  HONE_RETURN_IF_ERROR(CheckTune(request, resolver_->assembler(), options));
  const std::optional<Key> key = request.TuningKeyOf(request.problem);
  MutexLock lock(&mutex_);
  if (stopped_) return absl::UnavailableError("the daemon is shutting down; try again later");
  if (options_.tune_when == TuneWhen::kNever) {
    return WithErrorInfo(
        absl::FailedPreconditionError(
            "tuning is switched off here (tune-when is never); ask with BEST_AVAILABLE"),
        {.reason = "TUNING_OFF"});
  }
  Queue& queue = queues_.at(request.device->Key());
  std::shared_ptr<TuneRunImpl>& slot = active_[RunIdentity(key->id(), request, options)];
  *joined = slot != nullptr && !slot->cancelled();
  if (*joined) {
    ++counters_.joined;
    slot->Want();
    const auto waiting = std::find(queue.put_off.begin(), queue.put_off.end(), slot);
    if (waiting != queue.put_off.end()) {
      queue.put_off.erase(waiting);
      queue.runs.push_back(slot);
    }
    return slot;
  }
  slot = std::make_shared<TuneRunImpl>(key->id(), request, options);
  queue.runs.push_back(slot);
  return slot;
}

absl::Status TuneScheduler::CheckDevice(const ResolvedRequest& request) const {
  const auto measures = [&](const DeviceInfo& device) {
    return request.device && device.fingerprint == *request.device;
  };
  if (std::any_of(devices_.begin(), devices_.end(), measures)) return absl::OkStatus();
  std::vector<std::string> have;
  for (const DeviceInfo& device : devices_) have.push_back(device.architecture);
  const bool other = std::count(have.begin(), have.end(), request.architecture) > 0;
  return WithErrorInfo(
      absl::FailedPreconditionError(
          absl::StrCat("target: a tune needs the device: this daemon has no ", other ? "such " : "",
                       request.architecture, request.architecture == "cpu" ? " device" : " GPU",
                       " (it has: ", have.empty() ? "none" : absl::StrJoin(have, ", "),
                       other ? ", of another fingerprint)" : ")")),
      {.reason = "NO_DEVICE"});
}

bool TuneScheduler::IsTuning(const std::string& tuning_key) const {
  MutexLock lock(&mutex_);
  return std::any_of(active_.begin(), active_.end(),
                     [&](const auto& item) { return item.second->key() == tuning_key; });
}

void TuneScheduler::Offer(const ResolvedRequest& request) {
  if (options_.tune_when != TuneWhen::kIdle && options_.tune_when != TuneWhen::kAlways) return;
  ResolvedRequest bucketed = request;
  bucketed.problem = request.problem.Bucketed(*request.kernel_template);
  const std::optional<Key> key = bucketed.TuningKeyOf(bucketed.problem);
  MutexLock lock(&mutex_);
  const auto queue = request.device ? queues_.find(request.device->Key()) : queues_.end();
  if (!key || stopped_ || queue == queues_.end() || queue->second.put_off.size() >= kPutOffMax) {
    return;
  }
  std::shared_ptr<TuneRunImpl>& slot = active_[RunIdentity(key->id(), bucketed, TuneOptions())];
  if (slot != nullptr) return;
  slot = std::make_shared<TuneRunImpl>(key->id(), bucketed, TuneOptions());
  slot->PutOff();
  queue->second.put_off.push_back(slot);
}

void TuneScheduler::Loop(Lane* lane) {
  bool released = true;
  while (true) {
    const std::shared_ptr<TuneRunImpl> run = NextRun(*lane, released);
    if (run != nullptr) {
      released = false;
      if (RunOne(*lane, run)) lane->ceilings_due = !lane->ceilings_tried;
      lane->last_was_put_off = run->put_off();
      continue;
    }
    if (MeasureWantedCeilings(*lane)) {
      released = false;
      continue;
    }
    if (!released) {
      RestWithCeilings(*lane);
      lane->profiler->Release();
    }
    released = true;
    MutexLock lock(&mutex_);
    if (stopped_) return;
  }
}

std::shared_ptr<TuneRunImpl> TuneScheduler::NextRun(Lane& lane, bool released) {
  const bool always = options_.tune_when == TuneWhen::kAlways;
  if (!AwaitWork(lane, released)) return nullptr;
  const std::string device_key = lane.info.fingerprint.Key();
  {
    MutexLock lock(&mutex_);
    Queue& queue = queues_[device_key];
    if (!queue.runs.empty()) {
      ++queue.running;
      return TakeFirst(queue.runs);
    }
    if (!queue.wants_ceilings.empty()) return nullptr;
    // Whether anybody else is on the device shows best with nothing of ours there.
    if (queue.put_off.empty() || (!always && !released)) return nullptr;
  }
  if (!MayRunPutOff(lane, /*own_process=*/false)) return nullptr;
  MutexLock lock(&mutex_);
  Queue& queue = queues_[device_key];
  // A caller, or another lane of this kind of device, may have taken it meanwhile.
  if (stopped_ || queue.put_off.empty()) return nullptr;
  ++counters_.background_tunes;
  ++queue.running;
  return TakeFirst(queue.put_off);
}

bool TuneScheduler::AwaitWork(const Lane& lane, bool released) {
  MutexLock lock(&mutex_);
  const Queue& queue = queues_[lane.info.fingerprint.Key()];
  const auto urgent = [&] {
    return stopped_ || !queue.runs.empty() || !queue.wants_ceilings.empty();
  };
  const auto any = [&] { return urgent() || !queue.put_off.empty(); };
  const absl::Condition is_urgent(&urgent), is_any(&any);
  if (!released) {
    mutex_.AwaitWithTimeout(is_any, options_.worker_idle);
  } else if (queue.put_off.empty()) {
    mutex_.Await(is_any);
  } else {
    mutex_.AwaitWithTimeout(is_urgent, lane.next_look - absl::Now());
  }
  return !stopped_;
}

bool TuneScheduler::MayRunPutOff(Lane& lane, bool own_process) {
  if (options_.tune_when == TuneWhen::kAlways) return true;
  lane.next_look = absl::Now() + options_.activity_interval;
  if (!lane.activity) return false;
  const auto activity = lane.activity();
  return activity.ok() && ForeignUse(*activity, own_process).empty();
}

bool TuneScheduler::MakesWay(Lane& lane, const std::shared_ptr<TuneRunImpl>& run) {
  if (!run->put_off()) return false;
  const std::string device_key = lane.info.fingerprint.Key();
  const auto urgent = [&] {
    MutexLock lock(&mutex_);
    return !queues_[device_key].runs.empty();
  };
  const bool look = absl::Now() >= lane.next_look;
  if (!urgent() && (!look || MayRunPutOff(lane, /*own_process=*/true))) return false;
  MutexLock lock(&mutex_);
  // Whoever asked for it before this moment keeps it going; who asks later gets the run that
  // follows.
  if (!run->put_off()) return false;
  const auto again = std::make_shared<TuneRunImpl>(run->key(), run->request(), run->options());
  again->PutOff();
  active_[RunIdentity(run->key(), run->request(), run->options())] = again;
  queues_[device_key].put_off.push_front(again);
  ++counters_.interrupted_tunes;
  return true;
}

void TuneScheduler::RestWithCeilings(Lane& lane) {
  if (!lane.ceilings_due) return;
  {
    MutexLock lock(&mutex_);
    if (stopped_ || !queues_[lane.info.fingerprint.Key()].idle()) return;
  }
  if (lane.last_was_put_off && !MayRunPutOff(lane, /*own_process=*/true)) return;
  // Once: what fails now fails after every tune, and explain tries again and says why.
  lane.ceilings_tried = true;
  lane.ceilings_due = false;
  MeasureCeilings(lane).IgnoreError();
}

bool TuneScheduler::MeasureWantedCeilings(Lane& lane) {
  std::vector<KernelCache::CeilingsDone> wanted;
  {
    MutexLock lock(&mutex_);
    wanted.swap(queues_[lane.info.fingerprint.Key()].wants_ceilings);
  }
  if (wanted.empty()) return false;
  const absl::Status status = MeasureCeilings(lane);
  for (const auto& done : wanted) done(status);
  return true;
}

absl::Status TuneScheduler::MeasureCeilings(Lane& lane) {
  const auto stored = store_->GetCeilings(lane.info.fingerprint.Key());
  if (stored.ok() && *stored && (*stored)->version == DeviceCeilings::kVersion) {
    return absl::OkStatus();
  }
  HONE_ASSIGN_OR_RETURN(const DeviceCeilings ceilings,
                        lane.profiler->MeasureCeilings(options_.tune_memory_bytes_max));
  return store_->PutCeilings(lane.info.fingerprint, ceilings);
}

void TuneScheduler::EnsureCeilings(const std::string& device_key, KernelCache::CeilingsDone done) {
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    const auto queue = queues_.find(device_key);
    if (stopped_) {
      status = absl::UnavailableError("the daemon is shutting down; try again later");
    } else if (queue == queues_.end()) {
      status = absl::FailedPreconditionError("this daemon has no such device");
    } else if (options_.tune_when == TuneWhen::kNever) {
      status = absl::FailedPreconditionError("this daemon never measures (--tune-when never)");
    } else if (!queue->second.idle()) {
      status = absl::UnavailableError("the device is tuning; ask again when it has ended");
    } else {
      queue->second.wants_ceilings.push_back(std::move(done));
      return;
    }
  }
  done(status);
}

bool TuneScheduler::RunOne(Lane& lane, const std::shared_ptr<TuneRunImpl>& run) {
  const absl::Time begin = absl::Now();
  ++counters_.tunes;
  Report(*run, {.kind = TuneReport::Kind::kStarted});
  TuneRun::Event finished;
  finished.kind = TuneRun::Event::Kind::kFinished;
  bool made_way = false;
  auto outcome = Measure(lane, *run, [&] {
    made_way = made_way || MakesWay(lane, run);
    return made_way || run->cancelled();
  });
  const bool got_results = !outcome.ok() || outcome->measured + outcome->rejected > 0;
  if (got_results) hooks_.on_results(*run);
  if (made_way) {
    Report(*run, {.kind = TuneReport::Kind::kStopped,
                  .why = "it made way for a tune that somebody waits for or for another process "
                         "on the device; it goes on later"});
    // What it measured is stored; the run that took its place goes on from there.
    lane.profiler->Release();
    MutexLock lock(&mutex_);
    --queues_[lane.info.fingerprint.Key()].running;
    return false;
  }
  const bool measured = outcome.ok();
  if (measured) {
    finished.outcome = *std::move(outcome);
    counters_.measurements += finished.outcome.measured;
    counters_.rejections += finished.outcome.rejected;
    counters_.compiles += finished.outcome.compiled;
    finished.status = Choose(lane, *run, finished);
  } else {
    finished.status = outcome.status();
  }
  finished.seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  ReportEnd(*run, finished);
  {
    // Before the last event: whoever has seen it finds the device free.
    MutexLock lock(&mutex_);
    --queues_[lane.info.fingerprint.Key()].running;
  }
  Finish(run, std::move(finished));
  return measured;
}

void TuneScheduler::Report(const TuneRunImpl& run, TuneReport report) const {
  if (!options_.on_tune) return;
  report.run = &run;
  report.template_name = run.request().kernel_template->name();
  report.problem = run.request().problem.ToString();
  options_.on_tune(report);
}

void TuneScheduler::ReportEnd(const TuneRunImpl& run, const TuneRun::Event& finished) const {
  TuneReport report{.kind = TuneReport::Kind::kFinished, .outcome = &finished};
  // Whatever it was in the middle of then failed.
  if (run.cancelled() && !finished.status.ok()) {
    report.kind = TuneReport::Kind::kStopped;
    report.why = "cancelled";
  } else if (!finished.status.ok()) {
    report.kind = TuneReport::Kind::kFailed;
    report.why = std::string(finished.status.message());
  } else if (!finished.outcome.stopped_early.empty()) {
    report.kind = TuneReport::Kind::kStopped;
    report.why = finished.outcome.stopped_early;
  }
  Report(run, std::move(report));
}

void TuneScheduler::Finish(const std::shared_ptr<TuneRunImpl>& run, TuneRun::Event event) {
  {
    // Out of the table before the last event: whoever asks after it gets a new run.
    MutexLock lock(&mutex_);
    const auto it = active_.find(RunIdentity(run->key(), run->request(), run->options()));
    if (it != active_.end() && it->second == run) active_.erase(it);
  }
  run->Publish(std::move(event));
}

void TuneScheduler::Shutdown() {
  std::vector<std::shared_ptr<TuneRunImpl>> queued;
  std::vector<KernelCache::CeilingsDone> wants_ceilings;
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    for (auto& [identity, run] : active_) run->Cancel();
    for (auto& [key, queue] : queues_) {
      queued.insert(queued.end(), queue.runs.begin(), queue.runs.end());
      queued.insert(queued.end(), queue.put_off.begin(), queue.put_off.end());
      queue.runs.clear();
      queue.put_off.clear();
      for (auto& done : queue.wants_ceilings) wants_ceilings.push_back(std::move(done));
      queue.wants_ceilings.clear();
    }
  }
  for (const auto& done : wants_ceilings) {
    done(absl::UnavailableError("the daemon is shutting down; try again later"));
  }
  for (const auto& run : queued) {
    TuneRun::Event event;
    event.kind = TuneRun::Event::Kind::kFinished;
    event.status = absl::UnavailableError("the daemon is shutting down; try again later");
    Finish(run, std::move(event));
  }
  for (auto& lane : lanes_) {
    if (lane->thread.joinable()) lane->thread.join();
  }
}

}  // namespace hone
