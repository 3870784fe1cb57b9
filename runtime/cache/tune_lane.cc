// What one run of a tune does on its lane: measure, then choose.
#include <algorithm>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/base/error_info.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"
#include "runtime/cache/check_tune.h"
#include "runtime/cache/provenance.h"
#include "runtime/cache/tune_scheduler.h"
#include "runtime/cache/tune_seeds.h"
#include "runtime/tune/paced_profiler.h"
#include "runtime/tune/winner.h"

namespace hone {
namespace {

// Stores results beside the lane, which would else wait for a disk after every candidate. What was
// handed over meanwhile goes into one transaction.
class MeasurementWriter {
 public:
  MeasurementWriter(std::string key, KernelStore& store, TuneScheduler::Counters& counters)
      : key_(std::move(key)), store_(store), counters_(counters), thread_([this] { Work(); }) {}
  // Everything is stored, or counted as a failure, when this returns.
  ~MeasurementWriter() {
    {
      MutexLock lock(&mutex_);
      finished_ = true;
    }
    thread_.join();
  }

  void Add(const Measurement& measurement) {
    MutexLock lock(&mutex_);
    waiting_.push_back(measurement);
  }

 private:
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return finished_ || !waiting_.empty();
  }
  void Work() {
    while (true) {
      std::vector<Measurement> batch;
      {
        MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &MeasurementWriter::HasWork));
        batch.swap(waiting_);
      }
      if (batch.empty()) return;
      if (!store_.PutMeasurements(key_, batch).ok()) {
        counters_.store_write_failures += static_cast<int64_t>(batch.size());
      }
    }
  }

  const std::string key_;
  KernelStore& store_;
  TuneScheduler::Counters& counters_;
  Mutex mutex_;
  std::vector<Measurement> waiting_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Keeps results as they are measured and passes them on.
class RecordingObserver : public TuneObserver {
 public:
  using OnRejected = std::function<void(const Measurement&)>;
  RecordingObserver(TuneRunImpl& run, KernelStore& store, TuneScheduler::Counters& counters,
                    std::string device, double best_known_ns, OnRejected on_rejected)
      : run_(run),
        writer_(run.key(), store, counters),
        device_(std::move(device)),
        best_known_ns_(best_known_ns),
        on_rejected_(std::move(on_rejected)) {}

  void OnStarted(int64_t candidates, int64_t reused, const Config& default_config,
                 int64_t work_bytes, int64_t work_flops) override {
    TuneRun::Event event;
    event.kind = TuneRun::Event::Kind::kStarted;
    event.candidates = candidates;
    event.reused = reused;
    event.best_known_ns = best_known_ns_;
    event.default_config = default_config.ToString();
    event.device = device_;
    event.work_bytes = work_bytes;
    event.work_flops = work_flops;
    run_.Publish(std::move(event));
  }

  void OnMeasurement(const Measurement& measurement) override {
    writer_.Add(measurement);
    // Points that a constraint excludes are no event: the template said so.
    if (measurement.rejection && measurement.rejection->kind != RejectionKind::kConstraint) {
      on_rejected_(measurement);
    }
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
  MeasurementWriter writer_;
  const std::string device_;
  const double best_known_ns_;
  const OnRejected on_rejected_;
};

// Of the timings that count now; 0: there is none.
double BestKnownNs(const TuneSpec& spec) {
  double best_ns = 0;
  for (const Measurement& known : spec.known) {
    if (known.rejection || !StaleReason(known, spec.present).empty()) continue;
    if (best_ns == 0 || known.median_ns < best_ns) best_ns = known.median_ns;
  }
  return best_ns;
}

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

// Whether a winner was chosen among timings of another driver or compiler build.
bool DecidedElsewhere(const Winner& winner, const std::vector<Measurement>& known,
                      const Provenance& present) {
  Measurement deciding;
  deciding.driver = winner.driver;
  deciding.compiler_build = winner.compiler_build;
  // Winners of schema 1 do not say; their measurement does.
  for (const Measurement& measurement : known) {
    if (!winner.driver.empty() || !(measurement.config == winner.variants.front().config)) continue;
    deciding = measurement;
    deciding.invalidated.clear();
  }
  return !StaleReason(deciding, present).empty();
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

absl::StatusOr<TuneOutcome> TuneScheduler::Measure(Lane& lane, TuneRunImpl& run,
                                                   const std::function<bool()>& cancelled) {
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
  spec.ranked_share = run.options().ranked_share;
  spec.seed = run.options().seed;
  spec.only = run.options().only;
  spec.compile_timeout = options_.compile_timeout;
  spec.launch_timeout = options_.launch_timeout;
  spec.memory_bytes_max = options_.tune_memory_bytes_max;
  if (!store_->PutTuning(RecordOf(run)).ok()) ++counters_.store_write_failures;
  spec.present = PresentOn(lane.info, *request.kernel_template);
  // Best effort: a damaged row of another key must not cost this tune.
  if (auto seeds = TuneSeeds(request, *store_); seeds.ok()) spec.seeds = *std::move(seeds);
  HONE_RETURN_IF_ERROR(AddKnown(run, spec));
  if (run.options().force && spec.only.empty()) {
    spec.known.clear();
    spec.revalidate = false;
  } else if (run.options().force) {
    std::erase_if(spec.known, [&](const Measurement& known) {
      return std::find(spec.only.begin(), spec.only.end(), known.config) != spec.only.end();
    });
  }
  HONE_RETURN_IF_ERROR(AddDefaultForItsBits(run, spec));
  RecordingObserver observer(
      run, *store_, counters_, lane.info.name, BestKnownNs(spec), [&](const Measurement& rejected) {
        Report(run, {.kind = TuneReport::Kind::kRejected, .rejected = &rejected});
      });
  PacedProfiler paced(*lane.profiler, options_.tune_duty, cancelled);
  return Autotuner(compiler_).Tune(spec, paced, observer, cancelled);
}

Provenance TuneScheduler::PresentOn(const DeviceInfo& device,
                                    const KernelTemplate& kernel_template) const {
  Provenance present =
      ProvenanceOf(*compiler_, device.architecture, device.driver_version, device.driver);
  if (!kernel_template.spec().prebuilt.empty()) present.compiler_build.clear();
  return present;
}

absl::Status TuneScheduler::AddKnown(const TuneRunImpl& run, TuneSpec& spec) {
  HONE_ASSIGN_OR_RETURN(spec.known, store_->GetMeasurements(run.key()));
  for (const Numerics numerics : {Numerics::kWithinTolerance, Numerics::kSameBitsAsDefault}) {
    HONE_ASSIGN_OR_RETURN(const auto winner, store_->GetWinner(run.key(), "", numerics));
    if (!winner || winner->variants.empty()) continue;
    spec.incumbents.push_back(winner->variants.front().config);
    if (numerics != Numerics::kWithinTolerance) continue;
    spec.known_race_finished = true;
    spec.revalidate = DecidedElsewhere(*winner, spec.known, spec.present);
  }
  return absl::OkStatus();
}

absl::Status TuneScheduler::AddDefaultForItsBits(const TuneRunImpl& run, TuneSpec& spec) const {
  if (spec.only.empty() || run.options().numerics != Numerics::kSameBitsAsDefault) {
    return absl::OkStatus();
  }
  HONE_ASSIGN_OR_RETURN(const ConfigSpace space, resolver_->assembler().Space(run.request()));
  HONE_ASSIGN_OR_RETURN(const Config config, space.Default());
  spec.incumbents.push_back(config);
  const auto known = std::find_if(spec.known.begin(), spec.known.end(),
                                  [&](const Measurement& m) { return m.config == config; });
  if (known == spec.known.end()) return absl::OkStatus();
  if (run.options().force) {
    spec.known.erase(known);
    return absl::OkStatus();
  }
  const bool lasting = known->rejection && !Expires(known->rejection->kind);
  if (known->invalidated.empty() && (lasting || known->irreproducible)) {
    return NoBitsOfDefault(config.ToString(), &*known);
  }
  // A rejection of the moment, or from before bits were kept.
  if (known->output_sha256.empty()) spec.known.erase(known);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TuneScheduler::Chosen>> TuneScheduler::ChooseBy(
    Numerics numerics, const Provenance& present, const TuneRunImpl& run,
    const TuneOutcome& outcome) {
  ResolvedRequest request = run.request();
  request.numerics = numerics;
  const KernelAssembler& assembler = resolver_->assembler();
  HONE_ASSIGN_OR_RETURN(const ConfigSpace space, assembler.Space(request));
  const auto choice =
      ChooseWinner(space, outcome.measurements, {.numerics = numerics, .present = present});
  if (!choice) return std::nullopt;
  Chosen chosen;
  chosen.winner = outcome.measurements[choice->winner];
  if (choice->runner_up) chosen.runner_up = outcome.measurements[*choice->runner_up];
  HONE_ASSIGN_OR_RETURN(
      const std::vector<Config> configs,
      assembler.WithFallback(request, chosen.winner.config, outcome.measurements));
  HONE_ASSIGN_OR_RETURN(auto kernel, assembler.Compile(request, configs, outcome.measurements,
                                                       CompilePriority::kTune));
  // A cancelled race decided nothing; its measurements stand and the next tune goes on from them.
  if (!run.cancelled()) {
    Winner winner;
    winner.tuning_key = run.key();
    winner.template_digest = request.kernel_template->digest();
    winner.numerics = numerics;
    for (const KernelVariant& variant : kernel->variants) {
      winner.variants.push_back(
          {.config = variant.config, .artifact_sha256 = variant.artifact->sha256});
    }
    if (chosen.runner_up) winner.runner_up_ratio = TimeRatio(*chosen.runner_up, chosen.winner);
    winner.driver = present.driver;
    winner.compiler_build = present.compiler_build;
    kernel->generation = Store(run, std::move(winner));
  }
  chosen.kernel = std::move(kernel);
  return chosen;
}

uint64_t TuneScheduler::Store(const TuneRunImpl& run, Winner winner) {
  winner.decided_at_unix_ms = absl::ToUnixMillis(absl::Now());
  const auto generation = store_->PutWinner(winner);
  if (generation.ok()) {
    winner.generation = *generation;
  } else {
    ++counters_.store_write_failures;
  }
  hooks_.on_winner(run, winner);
  return winner.generation;
}

absl::Status TuneScheduler::Choose(const Lane& lane, const TuneRunImpl& run,
                                   TuneRun::Event& finished) {
  const Provenance present = PresentOn(lane.info, *run.request().kernel_template);
  HONE_ASSIGN_OR_RETURN(std::optional<Chosen> chosen,
                        ChooseBy(Numerics::kWithinTolerance, present, run, finished.outcome));
  if (!chosen) {
    if (run.cancelled()) return absl::CancelledError("the tune was cancelled before any result");
    return NoSurvivor(run, finished.outcome);
  }
  finished.kernel = std::move(chosen->kernel);
  finished.winner = std::move(chosen->winner);
  finished.runner_up = std::move(chosen->runner_up);
  HONE_ASSIGN_OR_RETURN(std::optional<Chosen> same_bits,
                        ChooseBy(Numerics::kSameBitsAsDefault, present, run, finished.outcome));
  if (same_bits) {
    finished.same_bits = std::make_shared<TuneRun::Event::SameBitsChoice>(
        TuneRun::Event::SameBitsChoice{std::move(same_bits->kernel), std::move(same_bits->winner),
                                       std::move(same_bits->runner_up)});
  }
  // Best effort: the tune's outcome does not depend on it.
  if (const auto pin = store_->GetPin(run.key()); pin.ok() && *pin && (*pin)->config) {
    finished.pin = *pin;
  }
  return absl::OkStatus();
}

}  // namespace hone
