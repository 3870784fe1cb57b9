#include "runtime/cache/kernel_resolver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/cache/near_keys.h"
#include "runtime/cache/provenance.h"
#include "runtime/cache/served_config.h"

namespace hone {
namespace {

// Timings and binaries from elsewhere qualify an answer (principle 4). `current`: as in
// CachingCompiler::Stored.
void NoteStaleness(const ResolvedRequest& request, const CompilerInfo* compiler, bool current,
                   KernelAnswer& answer) {
  const KernelVariant& first = answer.kernel->variants.front();
  const bool same_builder = compiler == nullptr || compiler->builder.empty() ||
                            first.artifact->builder == compiler->builder;
  answer.other_build = compiler != nullptr && (!same_builder || !current);
  // The build is looked at below, where the binary is known.
  const Provenance present{.driver = request.driver, .compiler_build = ""};
  if (first.measurement && !StaleReason(*first.measurement, present).empty()) {
    answer.stale_reason = StaleReason(*first.measurement, present);
    answer.stale_timing = true;
  } else if (!same_builder) {
    answer.stale_reason =
        absl::StrCat("built by ", first.artifact->builder, ", now ", compiler->builder);
  } else if (!current) {
    answer.stale_reason = absl::StrCat(
        "built by ", first.artifact->builder,
        compiler == nullptr ? "; no compiler is at hand that could say whether it is current"
                            : " with other CUDA headers than those at hand");
  } else if (first.measurement && first.measurement->artifact_sha256 != first.artifact->sha256) {
    answer.stale_reason =
        absl::StrCat("timed with another binary, built by ", first.measurement->compiler_build);
  }
  answer.stale = !answer.stale_reason.empty();
}

bool IsPrebuilt(const KernelTemplate& kernel_template) {
  return !kernel_template.spec().prebuilt.empty();
}

}  // namespace

KernelResolver::KernelResolver(CachingCompiler* compiler, KernelStore* store,
                               absl::Duration compile_timeout)
    : compiler_(compiler), store_(store), assembler_(compiler, compile_timeout) {}

Provenance KernelResolver::Present(const ResolvedRequest& request) const {
  return ProvenanceOf(*compiler_, request.architecture, request.driver_version, request.driver);
}

absl::StatusOr<std::optional<KernelResolver::Tuned>> KernelResolver::TunedUnder(
    const ResolvedRequest& request, const std::string& tuning_key) const {
  Tuned tuned;
  HONE_ASSIGN_OR_RETURN(tuned.measurements, store_->GetMeasurements(tuning_key));
  if (tuned.measurements.empty()) return std::nullopt;
  HONE_ASSIGN_OR_RETURN(const ConfigSpace space, assembler_.Space(request));
  HONE_ASSIGN_OR_RETURN(
      const KeyDecisions decisions,
      ReadDecisions(tuning_key, request.kernel_template->digest(), request.numerics, *store_));
  const auto served = ChooseServed(space, tuned.measurements, decisions,
                                   {.numerics = request.numerics, .present = Present(request)});
  if (!served) return std::nullopt;
  tuned.generation = served->generation;
  if (served->by == ServedBy::kPin) tuned.pin = decisions.pin;
  if (served->by == ServedBy::kWinner) {
    // With the fallbacks that were built beside it.
    for (const WinnerVariant& variant : decisions.winner->variants) {
      if (Suits(variant.config, request.numerics, space, tuned.measurements)) {
        tuned.configs.push_back(variant.config);
      }
    }
    return tuned;
  }
  HONE_ASSIGN_OR_RETURN(tuned.configs,
                        assembler_.WithFallback(request, served->config, tuned.measurements));
  return tuned;
}

absl::StatusOr<std::optional<KernelResolver::Source>> KernelResolver::FromProblem(
    const ResolvedRequest& request, const Problem& problem, AnswerSource source) const {
  const std::optional<Key> key = request.TuningKeyOf(problem);
  if (!key) return std::nullopt;
  HONE_ASSIGN_OR_RETURN(auto tuned, TunedUnder(request, key->id()));
  if (!tuned) return std::nullopt;
  return Source{.source = source,
                .configs = std::move(tuned->configs),
                .measurements = std::move(tuned->measurements),
                .key = key->id(),
                .values = problem.values(),
                .generation = tuned->generation,
                .pin = std::move(tuned->pin)};
}

absl::StatusOr<std::optional<KernelResolver::Source>> KernelResolver::Nearest(
    const ResolvedRequest& request) const {
  if (!request.device) return std::nullopt;
  HONE_ASSIGN_OR_RETURN(
      const std::vector<TuningRecord> records,
      store_->TuningsOf(request.kernel_template->kernel_digest(), request.device->Key()));
  std::vector<std::pair<double, Problem>> neighbours;
  for (const TuningRecord& record : records) {
    const auto problem = Problem::Parse(*request.kernel_template, record.problem);
    if (!problem.ok()) continue;  // a value that this version of the template no longer declares
    const auto distance =
        ProblemDistance(*request.kernel_template, request.problem.values(), problem->values());
    if (distance && *distance > 0) neighbours.emplace_back(*distance, *problem);
  }
  std::stable_sort(neighbours.begin(), neighbours.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [distance, problem] : neighbours) {
    HONE_ASSIGN_OR_RETURN(auto source, FromProblem(request, problem, AnswerSource::kNearest));
    if (source) return source;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<KernelAnswer>> KernelResolver::Answer(const ResolvedRequest& request,
                                                                   Source source,
                                                                   MissingBinary missing,
                                                                   CompilePriority priority) const {
  KernelAnswer answer;
  std::shared_ptr<TunedKernel> kernel;
  bool current = true;
  std::optional<CompilerInfo> info;
  if (!IsPrebuilt(*request.kernel_template)) {
    const auto selected = compiler_->Select(request.architecture, request.driver_version);
    // Without a compiler what is stored still serves.
    if (selected.ok()) info = *selected;
  }
  if (missing != MissingBinary::kCompile) {
    HONE_ASSIGN_OR_RETURN(KernelAssembler::Stored stored,
                          assembler_.FromStore(request, source.configs, source.measurements,
                                               /*any_build=*/missing == MissingBinary::kSkip));
    if (stored.kernel == nullptr) return std::nullopt;
    kernel = std::move(stored.kernel);
    current = stored.current;
  } else {
    HONE_ASSIGN_OR_RETURN(
        kernel, assembler_.Compile(request, source.configs, source.measurements, priority));
  }
  kernel->generation = source.generation;
  answer.kernel = std::move(kernel);
  answer.source = source.source;
  answer.answered_by_key = source.key;
  answer.answered_by_values = source.values;
  answer.pin = std::move(source.pin);
  if (const auto key = request.TuningKeyOf(request.problem)) answer.key = key->id();
  answer.bucket_values = request.problem.Bucketed(*request.kernel_template).values();
  if (!IsTuned(answer)) {
    HONE_ASSIGN_OR_RETURN(answer.nearest_keys, NearKeys(request, *store_));
  }
  NoteStaleness(request, info ? &*info : nullptr, current, answer);
  // A binary of another build is rebuilt where that is allowed.
  if (answer.other_build && missing == MissingBinary::kGiveUp) return std::nullopt;
  return answer;
}

absl::StatusOr<std::optional<KernelAnswer>> KernelResolver::Resolve(const ResolvedRequest& request,
                                                                    MissingBinary missing,
                                                                    CompilePriority priority,
                                                                    bool only_tuned) const {
  const Problem bucketed = request.problem.Bucketed(*request.kernel_template);
  // Sources in order of preference; each is looked up only when those before it gave nothing.
  for (int rank = 0; rank < (only_tuned ? 2 : 4); ++rank) {
    std::optional<Source> source;
    if (rank == 0) {
      HONE_ASSIGN_OR_RETURN(source, FromProblem(request, request.problem, AnswerSource::kTuned));
    } else if (rank == 1) {
      if (bucketed == request.problem) continue;
      HONE_ASSIGN_OR_RETURN(source, FromProblem(request, bucketed, AnswerSource::kBucket));
    } else if (rank == 2) {
      // Equal bits at the neighbour's size say too little about this one.
      if (request.numerics == Numerics::kSameBitsAsDefault) continue;
      HONE_ASSIGN_OR_RETURN(source, Nearest(request));
    } else {
      HONE_ASSIGN_OR_RETURN(const Config config, assembler_.Untuned(request));
      source.emplace();
      HONE_ASSIGN_OR_RETURN(source->configs, assembler_.WithFallback(request, config, {}));
    }
    if (!source) continue;
    HONE_ASSIGN_OR_RETURN(auto answer, Answer(request, *std::move(source), missing, priority));
    if (answer || missing == MissingBinary::kGiveUp) return answer;
  }
  return std::nullopt;
}

}  // namespace hone
