// Tunes as they run.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/cache/check_tune.h"
#include "runtime/tune/search_strategy.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/logging.h"

namespace hone {
namespace {

constexpr int kConfigsMax = 10'000;
// Beyond these a limit limits nothing: the largest space that is searched, and a month.
constexpr int kEvaluationsMax = 10'000'000;
constexpr double kSecondsMax = 30 * 24 * 3600;

absl::Status CheckCount(absl::string_view field, int count) {
  if (count >= 0 && count <= kEvaluationsMax) return absl::OkStatus();
  return InvalidField(
      field, absl::StrCat(count, " is not from 1 to ", kEvaluationsMax, ", or 0 for no limit"));
}

absl::StatusOr<TuneOptions> OptionsOf(const v1::TuneRequest& request) {
  TuneOptions options;
  const v1::Budget& budget = request.budget();
  HONE_RETURN_IF_ERROR(CheckCount("budget.evaluations_max", budget.evaluations_max()));
  options.evaluations_max = budget.evaluations_max();
  // Written so that NaN is refused too.
  if (!(budget.seconds_max() >= 0 && budget.seconds_max() <= kSecondsMax)) {
    return InvalidField("budget.seconds_max",
                        absl::StrCat(budget.seconds_max(), " is not from 0 to ", kSecondsMax,
                                     " (30 days), or 0 for no limit"));
  }
  if (budget.seconds_max() > 0) options.time_max = absl::Seconds(budget.seconds_max());
  HONE_RETURN_IF_ERROR(CheckCount("budget.patience", budget.patience()));
  options.patience = budget.patience();
  options.strategy = request.strategy();
  const absl::Span<const absl::string_view> strategies = StrategyNames();
  if (!options.strategy.empty() &&
      std::find(strategies.begin(), strategies.end(), options.strategy) == strategies.end()) {
    return InvalidField("strategy", absl::StrCat("'", BoundedUtf8(options.strategy, 64),
                                                 "' is not known; use ", StrategyList()));
  }
  options.seed = request.seed();
  options.numerics = static_cast<Numerics>(request.numerics());
  options.force = request.force();
  options.ranked_share = request.ranked_share();
  if (!(options.ranked_share >= 0 && options.ranked_share < 1)) {
    return InvalidField("ranked_share", absl::StrCat(request.ranked_share(),
                                                     " is no share; give more than 0 and less "
                                                     "than 1, or 0 for all"));
  }
  if (request.configs_size() > kConfigsMax) {
    return InvalidField("configs",
                        absl::StrCat(request.configs_size(), " are given; at most ", kConfigsMax));
  }
  for (int i = 0; i < request.configs_size(); ++i) {
    auto config = Config::Parse(request.configs(i));
    if (!config.ok()) {
      return InvalidField(absl::StrCat("configs[", i, "]"),
                          BoundedUtf8(config.status().message(), 300));
    }
    options.only.push_back(*std::move(config));
  }
  return options;
}

// Follows one tune for one caller. Owned by the run's listener and by the stream's clean-up.
class TuneFollower : public std::enable_shared_from_this<TuneFollower> {
 public:
  TuneFollower(ServiceContext& context, Caller caller, StreamPtr stream)
      : context_(context), caller_(std::move(caller)), stream_(std::move(stream)) {}

  // On a look-up thread.
  void Start(Engine& engine, const v1::TuneRequest& request);
  // The caller has left or has seen everything.
  void Stop();

 private:
  void OnEvent(const TuneRun::Event& event);
  v1::TuneEvent Started(const TuneRun::Event& event);
  absl::Status Outcome(const TuneRun::Event& event) const;
  v1::TuneEvent Finished(const TuneRun::Event& event);
  void Beat();
  void ScheduleBeat();

  ServiceContext& context_;
  const Caller caller_;
  const StreamPtr stream_;
  KernelTemplatePtr template_;
  // Set before the subscription.
  std::string key_;
  bool joined_ = false;
  Numerics numerics_ = Numerics::kWithinTolerance;
  // Written by the first event, before any other reads it; events come one at a time.
  WorkAmount work_;
  std::string default_config_;

  Mutex mutex_;
  std::shared_ptr<TuneRun> run_ ABSL_GUARDED_BY(mutex_);
  int64_t subscription_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t timer_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  v1::TuneProgress progress_ ABSL_GUARDED_BY(mutex_);
};

void TuneFollower::Start(Engine& engine, const v1::TuneRequest& request) {
  numerics_ = static_cast<Numerics>(request.numerics());
  const auto start = [&]() -> absl::StatusOr<std::shared_ptr<TuneRun>> {
    HONE_ASSIGN_OR_RETURN(const TuneOptions options, OptionsOf(request));
    HONE_ASSIGN_OR_RETURN(const Values values, ValuesFromProto(request.params()));
    HONE_ASSIGN_OR_RETURN(const TargetSpec target, TargetFromProto(request.target()));
    // After these, because it registers a template that was sent along.
    HONE_ASSIGN_OR_RETURN(const CatalogEntryPtr entry,
                          TemplateToTune(context_, engine, caller_, request));
    template_ = entry->kernel_template;
    return engine.cache->Tune(template_, values, target, options, &joined_);
  };
  auto run = start();
  if (!run.ok()) return stream_->End(run.status());
  key_ = (*run)->key();
  LogEvent("tune_requested")
      .Add("template", template_->name())
      .Add("key", key_)
      .Add("joined", joined_ ? "yes" : "no")
      .Add("uid", static_cast<int64_t>(caller_.credentials.uid))
      .Write();
  // The listener keeps this follower; Unsubscribe lets it go.
  const int64_t subscription = (*run)->Subscribe(
      [self = shared_from_this()](const TuneRun::Event& event) { self->OnEvent(event); });
  bool stopped = false;
  {
    MutexLock lock(&mutex_);
    stopped = stopped_;
    if (!stopped) {
      run_ = *run;
      subscription_ = subscription;
    }
  }
  if (stopped) return (*run)->Unsubscribe(subscription);
  ScheduleBeat();
}

void TuneFollower::Stop() {
  std::shared_ptr<TuneRun> run;
  int64_t subscription = 0;
  int64_t timer = 0;
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    run.swap(run_);
    subscription = subscription_;
    timer = timer_;
  }
  if (timer != 0) context_.timer->Cancel(timer);
  if (run != nullptr) run->Unsubscribe(subscription);
}

void TuneFollower::ScheduleBeat() {
  MutexLock lock(&mutex_);
  if (stopped_) return;
  timer_ = context_.timer->At(absl::Now() + context_.limits.heartbeat,
                              [self = shared_from_this()] { self->Beat(); });
}

// Repeats the progress, so that a quiet phase is not mistaken for a dead one.
void TuneFollower::Beat() {
  if (stream_->ended()) return;
  v1::TuneEvent event;
  {
    MutexLock lock(&mutex_);
    *event.mutable_progress() = progress_;
  }
  if (event.progress().phase().empty()) event.mutable_progress()->set_phase("waiting");
  stream_->Push("progress", Serialize(event));
  ScheduleBeat();
}

void TuneFollower::OnEvent(const TuneRun::Event& event) {
  using Kind = TuneRun::Event::Kind;
  switch (event.kind) {
    case Kind::kStarted:
      work_ = {.bytes = event.work_bytes, .flops = event.work_flops};
      default_config_ = event.default_config;
      return stream_->Push("", Serialize(Started(event)));
    case Kind::kMeasurement: {
      v1::TuneEvent proto;
      *proto.mutable_candidate() = ToProto(*event.measurement, work_);
      return stream_->Push("candidate " + proto.candidate().config(), Serialize(proto));
    }
    case Kind::kProgress: {
      v1::TuneEvent proto;
      proto.mutable_progress()->set_done(event.done);
      proto.mutable_progress()->set_total(event.total);
      proto.mutable_progress()->set_phase(event.phase);
      {
        MutexLock lock(&mutex_);
        progress_ = proto.progress();
      }
      return stream_->Push("progress", Serialize(proto));
    }
    case Kind::kFinished:
      if (absl::Status status = Outcome(event); !status.ok()) return stream_->End(status);
      stream_->Push("", Serialize(Finished(event)));
      return stream_->End(absl::OkStatus());
  }
}

v1::TuneEvent TuneFollower::Started(const TuneRun::Event& event) {
  v1::TuneEvent proto;
  v1::TuneStarted& started = *proto.mutable_started();
  started.set_key(key_);
  started.set_candidates(event.candidates);
  started.set_already_measured(event.reused);
  started.set_best_known_ns(event.best_known_ns);
  started.set_device(event.device);
  started.set_default_config(event.default_config);
  started.set_work_bytes(event.work_bytes);
  started.set_work_flops(event.work_flops);
  started.set_joined(joined_);
  return proto;
}

// The tune's own, or why nothing of what it found is what this caller wants.
absl::Status TuneFollower::Outcome(const TuneRun::Event& event) const {
  if (!event.status.ok() || numerics_ == Numerics::kWithinTolerance || event.same_bits != nullptr) {
    return event.status;
  }
  const Measurement* measured = nullptr;
  for (const Measurement& measurement : event.outcome.measurements) {
    if (measurement.config.ToString() == default_config_) measured = &measurement;
  }
  return NoBitsOfDefault(default_config_, measured);
}

v1::TuneEvent TuneFollower::Finished(const TuneRun::Event& event) {
  v1::TuneEvent proto;
  v1::TuneFinished& finished = *proto.mutable_finished();
  const bool same_bits = numerics_ == Numerics::kSameBitsAsDefault;
  const auto& kernel = same_bits ? event.same_bits->kernel : event.kernel;
  const auto winner = same_bits ? std::make_optional(event.same_bits->winner) : event.winner;
  const auto& runner_up = same_bits ? event.same_bits->runner_up : event.runner_up;
  if (kernel != nullptr) {
    *finished.mutable_kernel() =
        ToProto(*kernel, template_.get(), kernel->params, /*inline_bytes_max=*/-1);
  }
  if (winner.has_value()) *finished.mutable_winner() = ToProto(*winner, work_);
  if (runner_up.has_value()) *finished.mutable_runner_up() = ToProto(*runner_up, work_);
  if (event.pin.has_value()) *finished.mutable_pin() = ToProto(*event.pin);
  finished.set_measured(event.outcome.measured);
  finished.set_rejected(event.outcome.rejected);
  finished.set_reused(event.outcome.reused);
  finished.set_identical(event.outcome.identical);
  finished.set_left_out(event.outcome.left_out);
  finished.set_ranking_regret(event.outcome.ranking_regret);
  finished.set_revalidated(event.outcome.revalidated);
  finished.set_compiled(event.outcome.compiled);
  finished.set_seconds(event.seconds);
  finished.set_unverified(event.outcome.unverified);
  finished.set_stopped_early(event.outcome.stopped_early);
  return proto;
}

}  // namespace

StreamCleanup Tune(ServiceContext& context, const Caller& caller, const v1::TuneRequest& request,
                   StreamPtr stream) {
  auto follower = std::make_shared<TuneFollower>(context, caller, stream);
  auto kept = std::make_shared<const v1::TuneRequest>(request);
  const absl::Time deadline = absl::Now() + context.limits.wait_default;
  context.gate->WhenReady(deadline, [&context, follower, kept, stream,
                                     client = caller.connection](absl::StatusOr<Engine*> engine) {
    if (!engine.ok()) return stream->End(engine.status());
    const absl::Status queued =
        context.lookups->Submit(client, [&context, follower, kept, stream, engine = *engine] {
          if (stream->ended()) return;
          follower->Start(*engine, *kept);
        });
    if (!queued.ok()) stream->End(queued);
  });
  return [follower] { follower->Stop(); };
}

}  // namespace hone
