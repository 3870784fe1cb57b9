#include "runtime/cache/kernel_assembler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/instantiate.h"
#include "runtime/tune/candidate_builder.h"

namespace hone {
namespace {

// Valid configs looked at for a fallback when none was measured.
constexpr int kFallbackSearchMax = 10'000;

std::shared_ptr<TunedKernel> Frame(const ResolvedRequest& request) {
  auto kernel = std::make_shared<TunedKernel>();
  kernel->template_name = request.kernel_template->name();
  kernel->template_digest = request.kernel_template->digest();
  kernel->params = request.problem.values();
  kernel->architecture = request.architecture;
  return kernel;
}

absl::Status CompileFailed(const ResolvedRequest& request, const Config& config,
                           const CompileOutcome& outcome) {
  const bool source = outcome.rejection->kind == RejectionKind::kCompile;
  const std::string text =
      absl::StrCat("template '", request.kernel_template->name(), "' with ", config.ToString(),
                   " for ", request.architecture, ": ", outcome.rejection->detail);
  ErrorInfo info;
  info.reason = source ? "COMPILE_FAILED" : "COMPILE_LIMIT";
  info.excerpt = outcome.excerpt;
  info.log_id = outcome.log_id;
  info.error_count = outcome.error_count;
  info.error_limit_reached = outcome.error_limit_reached;
  switch (outcome.rejection->kind) {
    case RejectionKind::kTimeout:
      return WithErrorInfo(absl::DeadlineExceededError(text), info);
    case RejectionKind::kCrash:
      return WithErrorInfo(absl::ResourceExhaustedError(text), info);
    default:
      return WithErrorInfo(absl::InvalidArgumentError(text), info);
  }
}

CandidateBuilder OutlineBuilder(const ResolvedRequest& request) {
  return CandidateBuilder(nullptr, request.kernel_template, request.problem, request.architecture,
                          request.facts, {});
}

}  // namespace

absl::StatusOr<ConfigSpace> KernelAssembler::Space(const ResolvedRequest& request) const {
  return ConfigSpace::Create(request.kernel_template, request.problem, request.architecture,
                             request.facts);
}

absl::StatusOr<KernelVariant> KernelAssembler::Variant(
    const ResolvedRequest& request, const Config& config, Artifact artifact,
    const std::vector<Measurement>& measurements) const {
  KernelVariant variant;
  variant.config = config;
  HONE_ASSIGN_OR_RETURN(variant.recipe, InstantiateRecipe(*request.kernel_template, request.problem,
                                                          config, request.architecture,
                                                          request.facts, artifact.lowered_names));
  variant.artifact = std::make_shared<const Artifact>(std::move(artifact));
  for (const Measurement& measurement : measurements) {
    if (measurement.config == config && !measurement.rejection) variant.measurement = measurement;
  }
  return variant;
}

absl::StatusOr<std::shared_ptr<TunedKernel>> KernelAssembler::Compile(
    const ResolvedRequest& request, const std::vector<Config>& configs,
    const std::vector<Measurement>& measurements, CompilePriority priority) const {
  auto kernel = Frame(request);
  for (const Config& config : configs) {
    HONE_ASSIGN_OR_RETURN(const Program program,
                          InstantiateProgram(*request.kernel_template, request.problem, config,
                                             request.architecture));
    HONE_ASSIGN_OR_RETURN(CompileOutcome outcome,
                          compiler_->Compile(program, {.timeout = compile_timeout_,
                                                       .priority = priority,
                                                       .driver_version = request.driver_version}));
    if (outcome.rejection) return CompileFailed(request, config, outcome);
    HONE_ASSIGN_OR_RETURN(KernelVariant variant,
                          Variant(request, config, *std::move(outcome.artifact), measurements));
    kernel->variants.push_back(std::move(variant));
  }
  return kernel;
}

absl::StatusOr<KernelAssembler::Stored> KernelAssembler::FromStore(
    const ResolvedRequest& request, const std::vector<Config>& configs,
    const std::vector<Measurement>& measurements, bool any_build) const {
  Stored stored{.kernel = Frame(request), .current = true};
  for (const Config& config : configs) {
    HONE_ASSIGN_OR_RETURN(const Program program,
                          InstantiateProgram(*request.kernel_template, request.problem, config,
                                             request.architecture));
    HONE_ASSIGN_OR_RETURN(auto found,
                          compiler_->Lookup(program, request.driver_version, any_build));
    if (!found) return Stored{.kernel = nullptr, .current = true};
    stored.current = stored.current && found->current;
    HONE_ASSIGN_OR_RETURN(KernelVariant variant,
                          Variant(request, config, std::move(found->artifact), measurements));
    stored.kernel->variants.push_back(std::move(variant));
  }
  return stored;
}

absl::StatusOr<std::vector<Config>> KernelAssembler::WithFallback(
    const ResolvedRequest& request, const Config& first,
    const std::vector<Measurement>& measurements) const {
  const CandidateBuilder builder = OutlineBuilder(request);
  HONE_ASSIGN_OR_RETURN(const ConfigSpace space, Space(request));
  const auto accepts = [&](const Config& config) {
    const auto outline = builder.Outline(config);
    return outline.ok() && AcceptsEveryInput(*request.kernel_template, *outline);
  };
  if (accepts(first)) return std::vector<Config>{first};

  const bool same_bits = request.numerics == Numerics::kSameBitsAsDefault;
  const auto default_config = space.Default();
  const auto standard =
      std::find_if(measurements.begin(), measurements.end(), [&](const Measurement& measurement) {
        return default_config.ok() && measurement.config == *default_config;
      });
  const auto eligible = [&](const Measurement& measurement) {
    return !same_bits || (standard != measurements.end() && SameBits(*standard, measurement));
  };
  const Measurement* fallback = nullptr;
  for (const Measurement& measurement : measurements) {
    if (measurement.rejection || measurement.samples_ns.empty() || !eligible(measurement) ||
        !space.Validate(measurement.config).ok() || !accepts(measurement.config)) {
      continue;
    }
    if (fallback == nullptr || measurement.median_ns < fallback->median_ns) {
      fallback = &measurement;
    }
  }
  if (fallback != nullptr) return std::vector<Config>{first, fallback->config};

  std::vector<Config> configs{first};
  if (default_config.ok() && accepts(*default_config)) {
    configs.push_back(*default_config);
    return configs;
  }
  if (same_bits) return configs;
  int looked_at = 0;
  space.ForEachValid([&](const Config& config) {
    if (!accepts(config)) return ++looked_at < kFallbackSearchMax;
    configs.push_back(config);
    return false;
  });
  return configs;
}

absl::StatusOr<Config> KernelAssembler::Untuned(const ResolvedRequest& request) const {
  HONE_ASSIGN_OR_RETURN(const ConfigSpace space, Space(request));
  const bool same_bits = request.numerics == Numerics::kSameBitsAsDefault;
  if (std::vector<Config> priors = space.Priors(); !same_bits && !priors.empty()) {
    return priors.front();
  }
  if (auto config = space.Default(); config.ok()) return config;
  std::optional<Config> found;
  space.ForEachValid([&](const Config& config) {
    found = config;
    return false;
  });
  if (found) return *found;
  return absl::FailedPreconditionError(
      absl::StrCat("no config of template '", request.kernel_template->name(),
                   "' satisfies its constraints for ", request.problem.ToString()));
}

}  // namespace hone
