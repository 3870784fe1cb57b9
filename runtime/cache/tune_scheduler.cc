#include "runtime/cache/tune_scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/base/error_info.h"
#include "runtime/base/status_macros.h"
#include "runtime/tune/winner.h"

namespace hone {
namespace {

// What makes two runs of one key the same work.
std::string RunIdentity(const std::string& key, const ResolvedRequest& request,
                        const TuneOptions& options) {
  std::string identity =
      absl::StrCat(key, "\n", request.kernel_template->digest(), "\n", options.evaluations_max,
                   "\n", absl::FormatDuration(options.time_max), "\n", options.patience, "\n",
                   options.strategy, "\n", options.seed, "\n", options.force);
  for (const Config& config : options.only) absl::StrAppend(&identity, "\n", config.ToString());
  return identity;
}

// Keeps results as they are measured and passes them on.
class RecordingObserver : public TuneObserver {
 public:
  RecordingObserver(TuneRunImpl& run, KernelStore& store, TuneScheduler::Counters& counters,
                    std::string device)
      : run_(run), store_(store), counters_(counters), device_(std::move(device)) {}

  void OnStarted(int64_t candidates, int64_t reused, const Config& default_config,
                 int64_t work_bytes, int64_t work_flops) override {
    TuneRun::Event event;
    event.kind = TuneRun::Event::Kind::kStarted;
    event.candidates = candidates;
    event.reused = reused;
    event.default_config = default_config.ToString();
    event.device = device_;
    event.work_bytes = work_bytes;
    event.work_flops = work_flops;
    run_.Publish(std::move(event));
  }

  void OnMeasurement(const Measurement& measurement) override {
    if (!store_.PutMeasurement(run_.key(), measurement).ok()) ++counters_.store_write_failures;
    TuneRun::Event event;
    event.kind = TuneRun::Event::Kind::kMeasurement;
    event.measurement = measurement;
    run_.Publish(std::move(event));
  }

  void OnProgress(int64_t done, int64_t total, const std::string& phase) override {
    TuneRun::Event event;
    event.kind = TuneRun::Event::Kind::kProgress;
    event.done = done;
    event.total = total;
    event.phase = phase;
    run_.Publish(std::move(event));
  }

 private:
  TuneRunImpl& run_;
  KernelStore& store_;
  TuneScheduler::Counters& counters_;
  const std::string device_;
};

absl::Status NoSurvivor(const TuneRunImpl& run, const TuneOutcome& outcome) {
  std::map<std::string, int> kinds;
  std::string example;
  for (const Measurement& measurement : outcome.measurements) {
    if (!measurement.rejection) continue;
    ++kinds[Name(measurement.rejection->kind)];
    if (example.empty() && measurement.rejection->kind != RejectionKind::kConstraint) {
      example = absl::StrCat("; for example ", measurement.config.ToString(), ": ",
                             measurement.rejection->detail);
    }
  }
  ErrorInfo info;
  info.reason = "NO_CANDIDATE_SURVIVED";
  return WithErrorInfo(absl::FailedPreconditionError(absl::StrCat(
                           "no candidate of template '", run.request().kernel_template->name(),
                           "' survived for ", run.request().problem.ToString(), ": ",
                           absl::StrJoin(kinds, ", ", absl::PairFormatter(" ")), example)),
                       info);
}

TuningRecord RecordOf(const TuneRunImpl& run) {
  const ResolvedRequest& request = run.request();
  const Key key = *request.TuningKeyOf(request.problem);
  TuningRecord record;
  record.key = key.id();
  record.ingredients = key.ingredients();
  record.template_name = request.kernel_template->name();
  record.kernel_digest = request.kernel_template->kernel_digest();
  record.problem = request.problem.ToString();
  record.architecture = request.architecture;
  record.device = *request.device;
  record.created_at_unix_ms = absl::ToUnixMillis(absl::Now());
  return record;
}

}  // namespace

TuneScheduler::TuneScheduler(CachingCompiler* compiler, KernelStore* store,
                             const KernelResolver* resolver,
                             std::vector<KernelCache::DeviceLane> lanes,
                             KernelCache::Options options, WinnerHook hook)
    : compiler_(compiler),
      store_(store),
      resolver_(resolver),
      options_(options),
      hook_(std::move(hook)) {
  for (KernelCache::DeviceLane& given : lanes) {
    devices_.push_back(given.info);
    queues_[given.info.fingerprint.Key()];
    auto lane = std::make_unique<Lane>();
    lane->info = std::move(given.info);
    lane->profiler = std::move(given.profiler);
    lanes_.push_back(std::move(lane));
  }
  for (auto& lane : lanes_) lane->thread = std::thread([this, l = lane.get()] { Loop(l); });
}

TuneScheduler::~TuneScheduler() { Shutdown(); }

absl::StatusOr<std::shared_ptr<TuneRunImpl>> TuneScheduler::Start(const ResolvedRequest& request,
                                                                  const TuneOptions& options,
                                                                  bool* joined) {
  const std::optional<Key> key = request.TuningKeyOf(request.problem);
  MutexLock lock(&mutex_);
  if (stopped_) return absl::UnavailableError("the daemon is shutting down; try again later");
  const auto queue = request.device ? queues_.find(request.device->Key()) : queues_.end();
  if (!key || queue == queues_.end()) {
    ErrorInfo info;
    info.reason = "NO_DEVICE";
    std::vector<std::string> have;
    for (const DeviceInfo& device : devices_) have.push_back(device.architecture);
    return WithErrorInfo(absl::FailedPreconditionError(absl::StrCat(
                             "a tune needs the device: this daemon has no ", request.architecture,
                             request.architecture == "cpu" ? " device" : " GPU",
                             " (it has: ", have.empty() ? "none" : absl::StrJoin(have, ", "), ")")),
                         info);
  }
  std::shared_ptr<TuneRunImpl>& slot = active_[RunIdentity(key->id(), request, options)];
  *joined = slot != nullptr && !slot->cancelled();
  if (*joined) {
    ++counters_.joined;
    return slot;
  }
  slot = std::make_shared<TuneRunImpl>(key->id(), request, options);
  queue->second.runs.push_back(slot);
  return slot;
}

bool TuneScheduler::IsTuning(const std::string& tuning_key) const {
  MutexLock lock(&mutex_);
  return std::any_of(active_.begin(), active_.end(),
                     [&](const auto& item) { return item.second->key() == tuning_key; });
}

void TuneScheduler::Loop(Lane* lane) {
  const std::string device_key = lane->info.fingerprint.Key();
  bool released = true;
  while (true) {
    std::shared_ptr<TuneRunImpl> run;
    {
      MutexLock lock(&mutex_);
      const std::deque<std::shared_ptr<TuneRunImpl>>& runs = queues_[device_key].runs;
      const auto wanted = [&]() { return stopped_ || !runs.empty(); };
      const absl::Condition condition(&wanted);
      if (released) {
        mutex_.Await(condition);
      } else {
        mutex_.AwaitWithTimeout(condition, options_.worker_idle);
      }
      if (stopped_) break;
      if (!queues_[device_key].runs.empty()) {
        run = queues_[device_key].runs.front();
        queues_[device_key].runs.pop_front();
      }
    }
    if (run == nullptr) {
      lane->profiler->Release();
      released = true;
      continue;
    }
    released = false;
    RunOne(*lane, run);
  }
  lane->profiler->Release();
}

void TuneScheduler::RunOne(Lane& lane, const std::shared_ptr<TuneRunImpl>& run) {
  const absl::Time begin = absl::Now();
  ++counters_.tunes;
  TuneRun::Event finished;
  finished.kind = TuneRun::Event::Kind::kFinished;
  auto outcome = Measure(lane, *run);
  if (outcome.ok()) {
    finished.outcome = *std::move(outcome);
    counters_.measurements += finished.outcome.measured;
    counters_.rejections += finished.outcome.rejected;
    counters_.compiles += finished.outcome.compiled;
    finished.status = Choose(*run, finished);
  } else {
    finished.status = outcome.status();
  }
  finished.seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  Finish(run, std::move(finished));
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

absl::StatusOr<TuneOutcome> TuneScheduler::Measure(Lane& lane, TuneRunImpl& run) {
  const ResolvedRequest& request = run.request();
  TuneSpec spec;
  spec.kernel_template = request.kernel_template;
  spec.problem = request.problem;
  spec.device = lane.info;
  spec.policy = options_.policy;
  spec.evaluations_max = run.options().evaluations_max;
  spec.time_max = run.options().time_max;
  spec.patience = run.options().patience;
  spec.strategy = run.options().strategy;
  spec.seed = run.options().seed;
  spec.only = run.options().only;
  spec.compile_timeout = options_.compile_timeout;
  spec.launch_timeout = options_.launch_timeout;
  if (!store_->PutTuning(RecordOf(run)).ok()) ++counters_.store_write_failures;
  if (!run.options().force) {
    HONE_ASSIGN_OR_RETURN(spec.known, store_->GetMeasurements(run.key()));
    HONE_ASSIGN_OR_RETURN(const auto winner, store_->GetWinner(run.key(), ""));
    spec.known_race_finished = winner.has_value();
  }
  RecordingObserver observer(run, *store_, counters_, lane.info.name);
  return Autotuner(compiler_).Tune(spec, *lane.profiler, observer,
                                   [&run] { return run.cancelled(); });
}

absl::Status TuneScheduler::Choose(const TuneRunImpl& run, TuneRun::Event& finished) {
  const ResolvedRequest& request = run.request();
  const TuneOutcome& outcome = finished.outcome;
  const KernelAssembler& assembler = resolver_->assembler();
  HONE_ASSIGN_OR_RETURN(const ConfigSpace space, assembler.Space(request));
  const auto choice = ChooseWinner(space, outcome.measurements);
  if (!choice) {
    if (run.cancelled()) return absl::CancelledError("the tune was cancelled before any result");
    return NoSurvivor(run, outcome);
  }
  finished.winner = outcome.measurements[choice->winner];
  if (choice->runner_up) finished.runner_up = outcome.measurements[*choice->runner_up];
  HONE_ASSIGN_OR_RETURN(
      const std::vector<Config> configs,
      assembler.WithFallback(request, finished.winner->config, outcome.measurements));
  HONE_ASSIGN_OR_RETURN(auto kernel, assembler.Compile(request, configs, outcome.measurements,
                                                       CompilePriority::kTune));
  // A cancelled race decided nothing; its measurements stand and the next tune goes on from them.
  if (!run.cancelled()) {
    Winner winner;
    winner.tuning_key = run.key();
    winner.template_digest = request.kernel_template->digest();
    for (const KernelVariant& variant : kernel->variants) {
      winner.variants.push_back(
          {.config = variant.config, .artifact_sha256 = variant.artifact->sha256});
    }
    if (finished.runner_up) {
      winner.runner_up_ratio = TimeRatio(*finished.runner_up, *finished.winner);
    }
    winner.decided_at_unix_ms = absl::ToUnixMillis(absl::Now());
    const auto generation = store_->PutWinner(winner);
    if (generation.ok()) {
      winner.generation = kernel->generation = *generation;
    } else {
      ++counters_.store_write_failures;
    }
    hook_(run, winner);
  }
  finished.kernel = std::move(kernel);
  return absl::OkStatus();
}

void TuneScheduler::Shutdown() {
  std::vector<std::shared_ptr<TuneRunImpl>> queued;
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    for (auto& [identity, run] : active_) run->Cancel();
    for (auto& [key, queue] : queues_) {
      queued.insert(queued.end(), queue.runs.begin(), queue.runs.end());
      queue.runs.clear();
    }
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
