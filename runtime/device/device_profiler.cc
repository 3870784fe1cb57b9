#include "runtime/device/device_profiler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/output_check.h"

namespace hone {
namespace {

// Right outputs of small cases kept on the device; the sizes of one candidate need a few MB.
constexpr int64_t kSmallCaseBytesMax = 32 << 20;
// Set aside at Begin for small cases and scratch.
constexpr int64_t kSmallBytesReserve = 8 << 20;
// Of a digest at a small size; the checksums under it have 64 bits.
constexpr size_t kSmallDigestDigits = 16;

std::vector<std::string> OptionalBuffers(const LaunchRecipe& recipe) {
  std::vector<std::string> names;
  for (const RecipeArgument& argument : recipe.arguments) {
    const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind);
    if (buffer != nullptr && buffer->optional) names.push_back(argument.name);
  }
  return names;
}

// A source's failure says that the template is wrong, not that this lane lacks something.
absl::Status TemplateFault(const absl::Status& status) {
  if (status.ok() || absl::IsResourceExhausted(status)) return status;
  return absl::InternalError(status.message());
}

// The first candidate failed while it stood in for the missing reference.
Rejection BaselineRejection(const absl::Status& status) {
  Rejection rejection = LaunchFailed(status, "");
  if (absl::IsOutOfRange(status)) rejection.kind = RejectionKind::kIllegalAccess;
  if (absl::IsDataLoss(status)) rejection.kind = RejectionKind::kWrongResult;
  return rejection;
}

}  // namespace

DeviceProfiler::DeviceProfiler(Device* device)
    : device_(device), listener_([](bool, const std::string&) {}) {}

DeviceProfiler::~DeviceProfiler() { End(); }

void DeviceProfiler::SetPhaseListener(PhaseListener listener) { listener_ = std::move(listener); }

absl::StatusOr<DeviceInfo> DeviceProfiler::Info() { return device_->info(); }

absl::Status DeviceProfiler::Usable(const char* what) const {
  if (lost_) {
    return absl::UnavailableError(absl::StrCat(
        what, ": the device died with a kernel's fault and its process must be replaced"));
  }
  if (context_ == nullptr) return absl::InternalError(absl::StrCat(what, " before Begin"));
  return absl::OkStatus();
}

// ---- The problem --------------------------------------------------------------------------------

absl::Status DeviceProfiler::Begin(const ProfileProblem& problem) {
  End();
  memory_ = std::make_unique<DeviceMemory>(device_, problem.memory_bytes_max);
  work_ = std::make_unique<GuardedArena>(memory_.get());
  scratch_ = std::make_unique<GuardedArena>(memory_.get());
  context_ = std::make_unique<ProblemContext>();
  context_->device = device_;
  context_->memory = memory_.get();
  context_->problem = problem;
  context_->facts = device_->info().Facts();
  context_->work = work_.get();
  context_->scratch = scratch_.get();
  context_->on_phase = listener_;
  absl::Status status = Usable("Begin");
  if (status.ok()) status = BeginCases();
  lost_ = lost_ || absl::IsAborted(status);
  if (!status.ok()) End();
  return absl::IsUnavailable(status) ? status : TemplateFault(status);
}

absl::Status DeviceProfiler::BeginCases() {
  const ProfileProblem& problem = context_->problem;
  if (problem.check_artifact) {
    auto module = device_->Load(*problem.check_artifact);
    if (!module.ok()) {
      return absl::InternalError(
          absl::StrCat("the references cannot be loaded: ", module.status().message()));
    }
    check_module_ = *std::move(module);
    context_->check_module = check_module_.get();
  }
  const bool references = problem.check.verifies();
  if (!problem.check.references.empty() && check_module_ == nullptr) {
    return absl::InternalError("the problem has references but no artifact with them");
  }
  for (const ReferenceCheck& check : problem.check.references) {
    sources_.push_back({{check_module_.get(), &check.reference}, check.outputs, ""});
  }
  for (const ChainCheck& check : problem.check.chains) {
    sources_.push_back({.run = {}, .outputs = {}, .baseline = "", .chain = &check});
  }
  HONE_ASSIGN_OR_RETURN(
      tuned_, CheckCase::Create(context_.get(), {problem.sizes, {}}, CheckCase::Role::kTuned));
  const std::vector<ReferenceSource> baseline = {{{}, problem.check.outputs, "the default"}};
  const bool flushes = problem.policy.cache == MeasuringPolicy::Cache::kCold;
  const int64_t flush_bytes = flushes ? device_->flush_bytes() : 0;
  HONE_RETURN_IF_ERROR(memory_->CanAllocate(
      tuned_->NeededBytes(references ? sources_ : baseline) + flush_bytes + kSmallBytesReserve,
      absl::StrCat("tuning at ", tuned_->label())));
  memory_->Reserve(flush_bytes);
  return references ? tuned_->Build(sources_) : absl::OkStatus();
}

void DeviceProfiler::End() {
  loaded_.clear();
  small_.clear();
  sampler_.reset();
  tuned_.reset();
  sources_.clear();
  baseline_.reset();
  context_.reset();
  check_module_.reset();
  scratch_.reset();
  work_.reset();
  memory_.reset();
  device_->ReleaseFlush();
}

void DeviceProfiler::Release() { End(); }

void DeviceProfiler::Forget(int64_t candidate_id) { loaded_.erase(candidate_id); }

// ---- Checks -------------------------------------------------------------------------------------

absl::StatusOr<std::shared_ptr<DeviceProfiler::Loaded>> DeviceProfiler::Load(
    const ProfileCandidate& candidate) {
  auto loaded = std::make_shared<Loaded>();
  loaded->config = candidate.config;
  loaded->recipe = candidate.recipe;
  HONE_ASSIGN_OR_RETURN(loaded->module, device_->Load(candidate.artifact));
  return loaded;
}

std::vector<DeviceProfiler::CandidateCase> DeviceProfiler::CasesOf(
    const ProfileCandidate& candidate) const {
  std::vector<CandidateCase> cases = {{tuned_->spec(), true}};
  for (const SizeBindings& sizes : candidate.check_sizes) {
    if (sizes != tuned_->spec().sizes) cases.push_back({{sizes, {}}, false});
  }
  const CaseSpec last = cases.back().spec;
  const std::vector<std::string> optional = OptionalBuffers(candidate.recipe);
  for (const std::string& name : optional) cases.push_back({{last.sizes, {name}}, false});
  if (optional.size() > 1) {
    cases.push_back({{last.sizes, {optional.begin(), optional.end()}}, false});
  }
  return cases;
}

absl::StatusOr<CheckResult> DeviceProfiler::Check(const ProfileCandidate& candidate) {
  HONE_RETURN_IF_ERROR(Usable("Check"));
  loaded_.erase(candidate.id);
  CheckResult result;
  auto loaded = Load(candidate);
  if (!loaded.ok()) {
    lost_ = absl::IsAborted(loaded.status());
    result.rejection = LaunchFailed(loaded.status(), "");
    return result;
  }
  const bool is_baseline = sources_.empty();
  if (is_baseline) AdoptBaseline(*loaded);
  auto rejection = CheckCases(**loaded, CasesOf(candidate), result);
  if (absl::IsAborted(rejection.status())) {
    lost_ = true;
    rejection = LaunchFailed(rejection.status(), "");
  }
  HONE_RETURN_IF_ERROR(rejection.status());
  result.rejection = *std::move(rejection);
  if (result.rejection) {
    result.verified_sizes.clear();
    result.output_sha256.clear();
    result.small_outputs.clear();
    result.irreproducible = false;
    if (is_baseline) DropBaseline();
    return result;
  }
  result.verified = context_->problem.check.verifies();
  loaded_[candidate.id] = *std::move(loaded);
  return result;
}

absl::StatusOr<std::optional<Rejection>> DeviceProfiler::CheckCases(
    const Loaded& loaded, const std::vector<CandidateCase>& cases, CheckResult& result) {
  for (const CandidateCase& wanted : cases) {
    const absl::StatusOr<CheckCase*> found = CaseFor(wanted);
    if (!found.ok()) {
      lost_ = lost_ || absl::IsAborted(found.status());
      if (&loaded == baseline_.get()) return BaselineRejection(found.status());
      return TemplateFault(found.status());
    }
    CheckCase* const check_case = *found;
    if (check_case == nullptr) continue;
    const absl::Status accepts = check_case->Accepts(loaded.recipe);
    if (absl::IsFailedPrecondition(accepts)) {
      if (!wanted.tuned) continue;
      return Rejection{.kind = RejectionKind::kConstraint,
                       .detail = std::string(accepts.message())};
    }
    HONE_RETURN_IF_ERROR(accepts);
    HONE_ASSIGN_OR_RETURN(auto rejection, RunCase(*check_case, loaded));
    if (rejection) return rejection;
    result.verified_sizes.push_back(check_case->label());
    HONE_ASSIGN_OR_RETURN(std::string digest, check_case->OutputDigest());
    if (!wanted.tuned) {
      result.small_outputs[check_case->label()] = digest.substr(0, kSmallDigestDigits);
      continue;
    }
    // Atomics in floating point give other bits with every order of arrival. The tuned size shows
    // it best: there most threads arrive.
    const absl::StatusOr<std::string> again = check_case->RepeatedDigest(loaded.runnable());
    if (absl::IsFailedPrecondition(again.status())) {
      return LaunchFailed(again.status(), check_case->label());
    }
    HONE_RETURN_IF_ERROR(again.status());
    result.irreproducible = *again != digest;
    if (!result.irreproducible) result.output_sha256 = std::move(digest);
  }
  if (result.irreproducible) result.small_outputs.clear();
  return std::nullopt;
}

absl::StatusOr<CheckCase*> DeviceProfiler::CaseFor(const CandidateCase& wanted) {
  if (wanted.tuned) {
    if (!tuned_->built()) HONE_RETURN_IF_ERROR(tuned_->Build(sources_));
    return tuned_.get();
  }
  const auto found = std::find_if(small_.begin(), small_.end(), [&](const auto& known) {
    return known->spec().sizes == wanted.spec.sizes && known->spec().absent == wanted.spec.absent;
  });
  if (found != small_.end()) {
    small_.splice(small_.begin(), small_, found);
  } else {
    HONE_ASSIGN_OR_RETURN(auto created,
                          CheckCase::Create(context_.get(), wanted.spec, CheckCase::Role::kSmall));
    small_.push_front(std::move(created));
    int64_t bytes = 0;
    for (auto it = small_.begin(); it != small_.end();) {
      bytes += (*it)->NeededBytes(sources_);
      it = bytes > kSmallCaseBytesMax && it != small_.begin() ? small_.erase(it) : std::next(it);
    }
  }
  CheckCase* const check_case = small_.front().get();
  if (check_case->built()) return check_case;
  if (baseline_ != nullptr && !check_case->Accepts(baseline_->recipe).ok()) return nullptr;
  const absl::Status status = check_case->Build(sources_);
  if (absl::IsResourceExhausted(status)) {
    small_.pop_front();
    // The tuned size fits beside nothing else: it is checked, and verified_sizes tells that this is
    // all.
    return nullptr;
  }
  HONE_RETURN_IF_ERROR(status);
  return check_case;
}

absl::StatusOr<std::optional<Rejection>> DeviceProfiler::RunCase(CheckCase& check_case,
                                                                 const Loaded& loaded) {
  std::optional<Rejection> rejection;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!check_case.built()) HONE_RETURN_IF_ERROR(check_case.Build(sources_));
    HONE_ASSIGN_OR_RETURN(rejection, check_case.Run(loaded.runnable()));
    if (!rejection) return std::nullopt;
    HONE_ASSIGN_OR_RETURN(const bool suspect, Suspect(check_case, *rejection));
    if (!suspect) break;
  }
  return rejection;
}

absl::StatusOr<bool> DeviceProfiler::Suspect(CheckCase& check_case, const Rejection& rejection) {
  if (rejection.kind == RejectionKind::kWrongResult) {
    HONE_ASSIGN_OR_RETURN(const bool intact, check_case.Intact());
    if (intact) return false;
  } else if (rejection.kind != RejectionKind::kIllegalAccess) {
    return false;
  }
  check_case.Invalidate();
  return true;
}

void DeviceProfiler::AdoptBaseline(std::shared_ptr<Loaded> loaded) {
  baseline_ = std::move(loaded);
  sources_.push_back(
      {baseline_->runnable(), context_->problem.check.outputs, baseline_->config.ToString()});
}

void DeviceProfiler::DropBaseline() {
  baseline_.reset();
  sources_.clear();
  small_.clear();
  tuned_->Invalidate();
}

// ---- Time ---------------------------------------------------------------------------------------

absl::StatusOr<SampleResult> DeviceProfiler::Sample(int64_t candidate_id, int count) {
  HONE_RETURN_IF_ERROR(Usable("Sample"));
  const auto found = loaded_.find(candidate_id);
  if (found == loaded_.end()) {
    return absl::InternalError(absl::StrCat("Sample of candidate ", candidate_id,
                                            ", which was not checked or was rejected"));
  }
  const std::shared_ptr<Loaded> loaded = found->second;
  auto result = TakeSamples(*loaded, count);
  if (result.ok() && result->rejection) {
    // The damage may be older than these samples; what is found around fresh buffers counts.
    tuned_->Invalidate();
    result = TakeSamples(*loaded, count);
  }
  const absl::StatusCode code = result.status().code();
  if (code == absl::StatusCode::kAborted || code == absl::StatusCode::kFailedPrecondition) {
    lost_ = absl::IsAborted(result.status());
    SampleResult rejected;
    rejected.rejection = LaunchFailed(result.status(), tuned_->label());
    result = std::move(rejected);
  }
  if (result.ok() && result->rejection) {
    result->samples_ns.clear();
    loaded_.erase(candidate_id);
    if (!lost_) tuned_->Invalidate();
  }
  return result;
}

absl::StatusOr<SampleResult> DeviceProfiler::TakeSamples(const Loaded& loaded, int count) {
  if (!tuned_->built()) HONE_RETURN_IF_ERROR(tuned_->Build(sources_));
  if (sampler_ == nullptr) sampler_ = std::make_unique<Sampler>(context_.get(), tuned_.get());
  SampleResult result;
  HONE_ASSIGN_OR_RETURN(result.samples_ns, sampler_->Take(loaded.runnable(), count));
  const DeviceCondition condition = device_->Condition();
  result.clock_mhz = condition.clock_mhz;
  result.memory_clock_mhz = condition.memory_clock_mhz;
  result.slowed_down = condition.slowed_down;
  result.other_processes = condition.other_processes;
  HONE_ASSIGN_OR_RETURN(result.rejection, tuned_->FindDamage());
  return result;
}

}  // namespace hone
