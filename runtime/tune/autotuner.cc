#include "runtime/tune/autotuner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/tune/candidate_builder.h"
#include "runtime/tune/compile_stage.h"
#include "runtime/tune/known_results.h"
#include "runtime/tune/proposals.h"
#include "runtime/tune/race.h"
#include "runtime/tune/resource_check.h"
#include "runtime/tune/revalidation.h"
#include "runtime/tune/same_work.h"
#include "runtime/tune/winner.h"

namespace hone {
namespace {

// Invalid points are recorded with their constraint only in spaces that a person can read through.
constexpr int64_t kRecordedProductMax = 1024;
// Ranks by time beyond which a candidate far behind is not kept loaded for the race.
constexpr double kHopelessRatio = 1.5;

// One tune from plan to outcome.
class TuneSession {
 public:
  TuneSession(Compiler* compiler, const TuneSpec& spec, Profiler& profiler, TuneObserver& observer,
              const std::function<bool()>& cancelled)
      : compiler_(compiler),
        spec_(spec),
        profiler_(profiler),
        observer_(observer),
        cancelled_(cancelled),
        facts_(spec.device.Facts()),
        deadline_(absl::Now() + spec.time_max) {}

  absl::StatusOr<TuneOutcome> Run() {
    HONE_RETURN_IF_ERROR(spec_.kernel_template->SupportsArchitecture(spec_.device.architecture));
    HONE_ASSIGN_OR_RETURN(ConfigSpace space,
                          ConfigSpace::Create(spec_.kernel_template, spec_.problem,
                                              spec_.device.architecture, facts_));
    space_ = std::make_unique<ConfigSpace>(std::move(space));
    HONE_RETURN_IF_ERROR(Plan());
    if (work_.empty() && racers_.empty()) {
      RecordInvalidPoints();
    } else {
      HONE_RETURN_IF_ERROR(Measure());
    }
    return Finish();
  }

 private:
  struct Entry {
    Measurement measurement;
    int64_t id = -1;     // loaded in the profiler under this id
    bool fresh = false;  // measured or rejected by this tune
  };

  absl::Status Plan() {
    for (const Measurement& known : StandingResults(spec_)) {
      entries_[known.config].measurement = known;
    }
    const auto default_config = space_->Default();
    if (default_config.ok()) default_ = *default_config;
    std::vector<Config> candidates;
    if (spec_.only.empty()) {
      HONE_ASSIGN_OR_RETURN(proposals_, Proposals::Create(spec_, *space_, Known(), Builder()));
      candidates = proposals_->first();
      reused_ = proposals_->reused();
      later_ = proposals_->later();
    } else {
      HONE_ASSIGN_OR_RETURN(candidates, ProposeOnly());
    }
    AddIncumbents(candidates);
    std::set<Config> queued;
    for (const Config& config : candidates) {
      if (!entries_.contains(config) && queued.insert(config).second) work_.push_back(config);
    }
    reused_ += static_cast<int64_t>(candidates.size() - work_.size());
    const int64_t planned = static_cast<int64_t>(work_.size()) + reused_ + later_;
    AddRacersFromStore();
    CompareWithTheDefault();
    if (spec_.revalidate) BeginRevalidation();
    int64_t work_bytes = 0, work_flops = 0;
    HONE_RETURN_IF_ERROR(EvaluateWork(candidates, &work_bytes, &work_flops));
    observer_.OnStarted(planned, reused_, default_.value_or(Config()), work_bytes, work_flops);
    return absl::OkStatus();
  }

  std::vector<Measurement> Known() const {
    std::vector<Measurement> known;
    for (const auto& [config, entry] : entries_) known.push_back(entry.measurement);
    return known;
  }

  absl::StatusOr<std::vector<Config>> ProposeOnly() {
    for (const Config& config : spec_.only) {
      const absl::Status valid = space_->Validate(config);
      if (valid.ok()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("configs: '", config.ToString(), "': ", valid.message()));
    }
    return spec_.only;
  }

  // Whoever won before is measured whatever the caller or the budget chose; unmeasured it would be
  // unseated by a few others. A search that goes on has it among its seeds.
  void AddIncumbents(std::vector<Config>& candidates) {
    if (later_ > 0) return;
    for (const Config& config : spec_.incumbents) {
      const bool chosen =
          std::find(candidates.begin(), candidates.end(), config) != candidates.end();
      if (chosen || entries_.contains(config) || !space_->Validate(config).ok()) continue;
      candidates.push_back(config);
    }
  }

  void RecordInvalidPoints() {
    if (!spec_.only.empty() || space_->product_size() > kRecordedProductMax) return;
    for (int64_t i = 0; i < space_->product_size(); ++i) {
      const Config config = space_->At(i);
      if (entries_.contains(config)) continue;
      const absl::Status valid = space_->Validate(config);
      if (valid.ok()) continue;
      Reject(config, {.kind = RejectionKind::kConstraint, .detail = std::string(valid.message())});
    }
  }

  // New candidates must meet the incumbent in the same rounds; and a race that was cut short is run
  // again among those that could have won it.
  void AddRacersFromStore() {
    const std::vector<Measurement> known = Known();
    const auto choice = ChooseWinner(*space_, known, {.present = spec_.present});
    if (!choice) return;
    // Within noise it need not be the fastest.
    const Measurement& incumbent = known[choice->winner];
    if (spec_.known_race_finished) {
      if (!work_.empty() && !spec_.revalidate) racers_.push_back(incumbent.config);
      return;
    }
    for (const Measurement& other : known) {
      if (!other.rejection && space_->Validate(other.config).ok() &&
          !ClearlyBehind(other, incumbent)) {
        racers_.push_back(other.config);
      }
    }
  }

  // Without a reference the others are compared with the default, even if that is known.
  void CompareWithTheDefault() {
    const bool has_reference = !spec_.kernel_template->spec().checks.empty();
    if (has_reference || !default_ || work_.empty()) return;
    if (std::erase(racers_, *default_) > 0) work_.insert(work_.begin(), *default_);
  }

  // Ahead of everything else: it has no part in the budget.
  void BeginRevalidation() {
    std::vector<Config> incumbents = spec_.incumbents;
    if (default_) incumbents.push_back(*default_);
    revalidation_.emplace(*space_, Known(), incumbents);
    const std::vector<Config> first = revalidation_->First();
    const auto asked = [&](const Config& config) { return revalidation_->Asked(config); };
    std::erase_if(work_, asked);
    std::erase_if(racers_, asked);
    work_.insert(work_.begin(), first.begin(), first.end());
  }

  absl::Status Revalidate(const CandidateBuilder& builder) {
    while (revalidation_ && !Stopping()) {
      work_ = revalidation_->More();
      if (work_.empty()) break;
      HONE_RETURN_IF_ERROR(CheckAll(builder, /*spends_patience=*/false));
    }
    return absl::OkStatus();
  }

  absl::Status EvaluateWork(const std::vector<Config>& candidates, int64_t* bytes, int64_t* flops) {
    if (candidates.empty()) return absl::OkStatus();
    const CandidateBuilder builder = Builder();
    HONE_ASSIGN_OR_RETURN(const LaunchRecipe recipe, builder.Outline(candidates.front()));
    SizeBindings sizes = spec_.problem.dynamic_sizes();
    sizes.insert(facts_.begin(), facts_.end());
    HONE_ASSIGN_OR_RETURN(*bytes, recipe.work_bytes.Evaluate(sizes));
    HONE_ASSIGN_OR_RETURN(*flops, recipe.work_flops.Evaluate(sizes));
    return absl::OkStatus();
  }

  CandidateBuilder Builder() const {
    return CandidateBuilder(compiler_, spec_.kernel_template, spec_.problem,
                            spec_.device.architecture, facts_,
                            {.timeout = spec_.compile_timeout,
                             .priority = CompilePriority::kTune,
                             .driver_version = spec_.device.driver_version});
  }

  absl::Status Measure() {
    CandidateBuilder builder = Builder();
    if (default_) HONE_RETURN_IF_ERROR(builder.AlsoCheckSizeOf(*default_));
    absl::Status status = CheckAll(builder, /*spends_patience=*/true);
    if (proposals_ != nullptr) proposals_->Close();
    later_ = 0;
    // What is known waits for what is missing: a tune that is killed often must come to an end.
    work_ = std::exchange(racers_, {});
    if (status.ok()) status = CheckAll(builder, /*spends_patience=*/false);
    if (status.ok()) status = Revalidate(builder);
    if (status.ok() && !Stopping()) status = Race();
    for (auto& [config, entry] : entries_) {
      if (entry.id >= 0) profiler_.Forget(entry.id);
    }
    profiler_.End();
    if (status.ok()) return status;
    // What was measured stays; only a tune that got nowhere is an error.
    const bool any = std::any_of(entries_.begin(), entries_.end(), [](const auto& item) {
      return item.second.fresh && !item.second.measurement.rejection;
    });
    if (!any) return status;
    stopped_early_ = std::string(status.message());
    return absl::OkStatus();
  }

  absl::StatusOr<ProfileProblem> MakeProblem(const CandidateBuilder& builder) {
    ProfileProblem problem;
    problem.sizes = spec_.problem.dynamic_sizes();
    problem.policy = spec_.policy;
    HONE_RETURN_IF_ERROR(builder.BuildCheck(&problem.check, &problem.check_artifact));
    HONE_ASSIGN_OR_RETURN(problem.arguments, builder.Outline(work_.front()));
    problem.launch_timeout = spec_.launch_timeout;
    problem.memory_bytes_max = spec_.memory_bytes_max;
    return problem;
  }

  // The device is taken up and references are compiled beside the first candidates.
  absl::Status Begin(const CandidateBuilder& builder) {
    absl::StatusOr<ProfileProblem> problem = absl::UnknownError("not made");
    std::thread make_problem([&] { problem = MakeProblem(builder); });
    std::thread warm_up([this] { profiler_.WarmUp(); });
    RecordInvalidPoints();
    make_problem.join();
    warm_up.join();
    HONE_RETURN_IF_ERROR(problem.status());
    unverified_ = !problem->check.verifies();
    return profiler_.Begin(*problem);
  }

  // The default first, so that a person sees it first and the others have it to compare with.
  std::optional<Config> PutDefaultFirst() {
    const auto found = default_ ? std::find(work_.begin(), work_.end(), *default_) : work_.end();
    if (found == work_.end()) return std::nullopt;
    std::rotate(work_.begin(), found, found + 1);
    return default_;
  }

  absl::Status CheckAll(const CandidateBuilder& builder, bool spends_patience) {
    if (work_.empty() || Stopping()) return absl::OkStatus();
    const auto now = static_cast<int64_t>(work_.size()) + later_;
    const int64_t total = done_ + now + static_cast<int64_t>(racers_.size());
    std::optional<Config> first = PutDefaultFirst();
    observer_.OnProgress(0, total, "compiling");
    size_t next = 0;
    const int threads =
        static_cast<int>(std::min<int64_t>(now, std::max(1, compiler_->parallelism())));
    CompileStage stage(
        builder,
        [&]() -> std::optional<Config> {
          if (next < work_.size()) return work_[next++];
          return proposals_ == nullptr ? std::nullopt : proposals_->Next();
        },
        threads, /*learning=*/proposals_ != nullptr && proposals_->learns());
    if (!begun_) HONE_RETURN_IF_ERROR(Begin(builder));
    begun_ = true;
    for (;; ++done_) {
      observer_.OnProgress(done_, total, "measuring");
      if (Stopping()) return absl::OkStatus();
      auto built = stage.Pop(first);
      if (!built) return absl::OkStatus();
      HONE_RETURN_IF_ERROR(built->status());
      first.reset();
      const double best_before_ns = best_ns_;
      HONE_RETURN_IF_ERROR(CheckOne(builder, **built));
      const bool again = revalidation_ && revalidation_->Asked((*built)->config);
      if (again || !spends_patience) continue;
      fruitless_ = best_ns_ < best_before_ns * (1 - kTieMargin) ? 0 : fruitless_ + 1;
      if (spec_.patience > 0 && fruitless_ >= spec_.patience) {
        patience_spent_ = true;
        return absl::OkStatus();
      }
    }
  }

  absl::Status CheckOne(const CandidateBuilder& builder, BuiltCandidate& built) {
    if (!built.cached && !built.rejection) ++compiled_;
    if (built.rejection) {
      Reject(built.config, *std::move(built.rejection));
      return absl::OkStatus();
    }
    const auto launch = ResolveLaunch(
        built.recipe, OutlineArguments(built.recipe, spec_.problem.dynamic_sizes(), facts_));
    if (!launch.ok()) {
      Reject(built.config,
             {.kind = RejectionKind::kLaunch, .detail = std::string(launch.status().message())});
      return absl::OkStatus();
    }
    if (auto rejection = CheckResources(built.artifact, *launch, spec_.device.limits)) {
      Reject(built.config, *std::move(rejection));
      return absl::OkStatus();
    }
    ProfileCandidate candidate{.id = next_id_++,
                               .config = built.config,
                               .artifact = built.artifact,
                               .recipe = built.recipe,
                               .check_sizes = builder.CheckSizes(built.recipe)};
    if (IsTwin(built, candidate.check_sizes)) return absl::OkStatus();
    HONE_ASSIGN_OR_RETURN(CheckResult check, profiler_.Check(candidate));
    if (check.rejection) {
      Reject(built.config, *std::move(check.rejection));
      return absl::OkStatus();
    }
    Measurement measurement = Stamped(built.config);
    measurement.verified = check.verified;
    measurement.verified_sizes = std::move(check.verified_sizes);
    measurement.output_sha256 = std::move(check.output_sha256);
    measurement.small_outputs = std::move(check.small_outputs);
    measurement.irreproducible = check.irreproducible;
    measurement.artifact_sha256 = built.artifact.sha256;
    measurement.compiler_build = built.artifact.builder;
    return Probe(candidate.id, std::move(measurement));
  }

  // True if an earlier candidate is the same work, whose result then holds for this one.
  bool IsTwin(const BuiltCandidate& built, std::vector<SizeBindings> sizes) {
    sizes.push_back(spec_.problem.dynamic_sizes());
    const Twins::Twin* const twin = twins_.Find(built, sizes, facts_);
    if (twin != nullptr) TakeOver(*twin);
    return twin != nullptr;
  }

  void TakeOver(const Twins::Twin& twin) {
    Entry& entry = entries_[twin.config];
    entry.measurement = entries_.at(twin.original).measurement;
    entry.measurement.config = twin.config;
    entry.measurement.artifact_sha256 = twin.artifact_sha256;
    entry.measurement.same_work_as = twin.original.ToString();
    entry.fresh = true;
    Tell(entry.measurement);
  }

  absl::Status Probe(int64_t id, Measurement measurement) {
    // The first sample tells how many more a slow kernel may have.
    HONE_ASSIGN_OR_RETURN(SampleResult first, profiler_.Sample(id, 1));
    if (!first.rejection && !first.samples_ns.empty()) {
      const int more = SamplesFor(first.samples_ns.front(), kProbeSamples) - 1;
      if (more > 0) {
        HONE_ASSIGN_OR_RETURN(SampleResult rest, profiler_.Sample(id, more));
        first.rejection = std::move(rest.rejection);
        first.samples_ns.insert(first.samples_ns.end(), rest.samples_ns.begin(),
                                rest.samples_ns.end());
      }
    }
    if (first.rejection) {
      Reject(measurement.config, *std::move(first.rejection));
      return absl::OkStatus();
    }
    measurement.samples_ns = std::move(first.samples_ns);
    measurement.clock_mhz = first.clock_mhz;
    measurement.memory_clock_mhz = first.memory_clock_mhz;
    measurement.other_processes = first.other_processes;
    Summarise(measurement);
    best_ns_ = std::min(best_ns_, measurement.median_ns);
    Entry& entry = entries_[measurement.config];
    entry.fresh = true;
    entry.measurement = measurement;
    const bool hopeless = measurement.median_ns > kHopelessRatio * best_ns_ &&
                          !(default_ && measurement.config == *default_);
    if (hopeless) {
      profiler_.Forget(id);
    } else {
      entry.id = id;
    }
    ++measured_;
    if (revalidation_) revalidation_->Observe(measurement);
    Tell(entry.measurement);
    return absl::OkStatus();
  }

  absl::Status Race() {
    std::vector<Racer> racers;
    for (auto& [config, entry] : entries_) {
      if (entry.id < 0) continue;
      racers.push_back({.id = entry.id,
                        .measurement = &entry.measurement,
                        .always = default_ && config == *default_});
    }
    observer_.OnProgress(0, kRounds, "timing");
    const auto survivors = RunRace(profiler_, racers, [&](int round) {
      observer_.OnProgress(round + 1, kRounds, "timing");
      return !Stopping();
    });
    absl::Status status = survivors.status();
    if (status.ok() && stopped_early_.empty()) {
      observer_.OnProgress(kRounds, kRounds, "comparing the fastest");
      status = RunFinal(profiler_, Finalists(*survivors));
    }
    for (const Racer& racer : racers) observer_.OnMeasurement(*racer.measurement);
    for (const Twins::Twin& twin : twins_.all()) TakeOver(twin);
    return status;
  }

  absl::StatusOr<TuneOutcome> Finish() {
    TuneOutcome outcome;
    for (auto& [config, entry] : entries_) outcome.measurements.push_back(entry.measurement);
    std::stable_sort(outcome.measurements.begin(), outcome.measurements.end(),
                     [&](const Measurement& a, const Measurement& b) {
                       return space_->IndexOf(a.config) < space_->IndexOf(b.config);
                     });
    outcome.measured = measured_;
    outcome.rejected = rejected_;
    outcome.reused = reused_;
    outcome.identical = static_cast<int64_t>(twins_.all().size());
    if (proposals_ != nullptr) {
      outcome.left_out = proposals_->left_out();
      outcome.ranking_regret = proposals_->RankingRegret(outcome.measurements);
    }
    outcome.revalidated = revalidation_ ? revalidation_->measured() : 0;
    outcome.compiled = compiled_;
    outcome.unverified = unverified_;
    outcome.stopped_early = stopped_early_;
    if (outcome.stopped_early.empty() && patience_spent_) {
      outcome.stopped_early =
          absl::StrCat("no faster candidate in ", spec_.patience, " evaluations");
    }
    return outcome;
  }

  void Tell(const Measurement& measurement) {
    if (proposals_ != nullptr) proposals_->Teach(measurement);
    observer_.OnMeasurement(measurement);
  }

  Measurement Stamped(const Config& config) const {
    Measurement measurement;
    measurement.config = config;
    measurement.measured_at_unix_ms = absl::ToUnixMillis(absl::Now());
    measurement.driver = spec_.device.driver;
    measurement.compiler_build = spec_.present.compiler_build;
    return measurement;
  }

  void Reject(const Config& config, Rejection rejection) {
    Entry& entry = entries_[config];
    entry.measurement = Stamped(config);
    entry.measurement.rejection = std::move(rejection);
    entry.fresh = true;
    entry.id = -1;
    ++rejected_;
    Tell(entry.measurement);
  }

  // True once the tune should end; says why.
  bool Stopping() {
    if (cancelled_()) {
      stopped_early_ = "cancelled";
    } else if (absl::Now() >= deadline_) {
      stopped_early_ = "the budget of seconds is spent";
    }
    return !stopped_early_.empty();
  }

  Compiler* const compiler_;
  const TuneSpec& spec_;
  Profiler& profiler_;
  TuneObserver& observer_;
  const std::function<bool()>& cancelled_;
  const DeviceFacts facts_;
  const absl::Time deadline_;

  std::unique_ptr<ConfigSpace> space_;
  std::optional<Config> default_;
  std::vector<Config> work_;              // to build and measure, in this order,
  std::vector<Config> racers_;            // and these, known already, after all that is missing
  std::unique_ptr<Proposals> proposals_;  // then these; nullptr when the caller named the configs
  int64_t later_ = 0;                     // how many of them at most
  std::map<Config, Entry> entries_;       // known and new
  Twins twins_;
  std::optional<Revalidation> revalidation_;
  bool begun_ = false;
  int64_t done_ = 0;  // candidates checked
  int64_t next_id_ = 1;
  double best_ns_ = std::numeric_limits<double>::infinity();
  int64_t measured_ = 0, rejected_ = 0, reused_ = 0, compiled_ = 0;
  int64_t fruitless_ = 0;  // evaluations since the last faster candidate
  bool patience_spent_ = false;
  bool unverified_ = false;
  std::string stopped_early_;
};

}  // namespace

Autotuner::Autotuner(Compiler* compiler) : compiler_(compiler) {}

absl::StatusOr<TuneOutcome> Autotuner::Tune(const TuneSpec& spec, Profiler& profiler,
                                            TuneObserver& observer,
                                            const std::function<bool()>& cancelled) {
  return TuneSession(compiler_, spec, profiler, observer, cancelled).Run();
}

}  // namespace hone
