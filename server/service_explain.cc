// How good a tuned kernel is.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/instantiate.h"
#include "runtime/launch/resolve_launch.h"
#include "runtime/tune/candidate_builder.h"
#include "runtime/tune/tuning_analysis.h"
#include "runtime/tune/winner.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/handlers.h"

namespace hone {
namespace {

// Samples this far apart are worth a word: half an interquartile range over the median.
constexpr double kWideSpread = 0.05;
// Beyond a ceiling by more than its own noise.
constexpr double kBeyondShare = 1.02;

using ExplainCall = CallPtr<v1::ExplainTuningRequest, v1::ExplainTuningResponse>;

// Explains one stored tuning; made anew for each call.
class Explanation {
 public:
  Explanation(ServiceContext& context, Engine* engine, FoundTuning found)
      : context_(context), found_(std::move(found)) {
    if (found_.problem) work_ = WorkOf(*found_.kernel_template, *found_.problem);
    if (engine == nullptr) return;
    for (const DeviceInfo& device : engine->cache->Devices()) {
      if (device.fingerprint == found_.record.device) device_ = device;
    }
  }

  absl::StatusOr<v1::ExplainTuningResponse> Make(const v1::ExplainTuningRequest& request,
                                                 const absl::Status& ceilings_status) {
    *response_.mutable_summary() = found_.summary;
    response_.set_work_bytes(work_.bytes);
    response_.set_work_flops(work_.flops);
    HONE_RETURN_IF_ERROR(ChooseSubject(request.config()));
    HONE_RETURN_IF_ERROR(AddCeilings(ceilings_status));
    AddRejected();
    if (subject_ != nullptr) {
      *response_.mutable_subject() = Info(*subject_);
      AddRoofline();
      AddOthers();
      AddTunables();
      HONE_RETURN_IF_ERROR(AddSteps());
    }
    AddNotes();
    return std::move(response_);
  }

 private:
  v1::MeasurementInfo Info(const Measurement& measurement) const {
    v1::MeasurementInfo info = ToProto(measurement, work_);
    info.clear_samples_ns();
    return info;
  }

  absl::Status ChooseSubject(const std::string& wanted) {
    Config values;
    if (wanted.empty()) {
      if (!found_.summary.has_winner()) return absl::OkStatus();
      // A template without tunables has one config, without text.
      const std::string& winner = found_.summary.winner().config();
      if (!winner.empty()) {
        HONE_ASSIGN_OR_RETURN(values, Config::Parse(winner));
      }
    } else {
      auto parsed = Config::Parse(wanted);
      if (!parsed.ok()) return InvalidField("config", parsed.status().message());
      values = *std::move(parsed);
    }
    subject_ = FastestWith(found_.measurements, values);
    if (subject_ != nullptr || wanted.empty()) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("config: no timed candidate of this tuning has '",
                                            BoundedUtf8(wanted, 200),
                                            "'; GetTuning lists those there are"));
  }

  absl::Status AddCeilings(const absl::Status& status) {
    const auto stored = context_.store->GetCeilings(found_.record.device.Key());
    if (!stored.ok()) return stored.status();
    if (stored->has_value()) {
      ceilings_ = **stored;
      *response_.mutable_ceilings() = ToProto(ceilings_);
    } else {
      response_.set_ceilings_missing(status.ok() ? "they are not measured yet"
                                                 : std::string(status.message()));
    }
    return absl::OkStatus();
  }

  // What the arithmetic is done in and by.
  Workload WorkloadOf() {
    Workload work{.bytes = work_.bytes, .flops = work_.flops, .matrix_type = "", .wgmma = false};
    if (!found_.problem) return work;
    const TemplateSpec& spec = found_.kernel_template->spec();
    std::string name = spec.matrix_dtype.empty() ? "F32" : spec.matrix_dtype;
    const auto bound = found_.problem->values().find(name);
    if (bound != found_.problem->values().end()) name = ToString(bound->second);
    response_.set_arithmetic(name);
    const auto requires_feature = [&](Feature feature) {
      const std::vector<Feature>& features = spec.requirements.features;
      return std::find(features.begin(), features.end(), feature) != features.end();
    };
    work.wgmma = requires_feature(Feature::kWgmma);
    const bool matrix_units = work.wgmma || requires_feature(Feature::kTensorCores);
    const std::optional<DataType> type = ParseDataType(name);
    if (!type || work.flops == 0) return work;
    if (matrix_units) {
      work.matrix_type = MatrixType(*type);
      if (work.matrix_type.empty()) {
        work.flops = 0;
        Note(absl::StrCat("the rate of matrix units in ", name, " is not measured"));
      }
    } else if (*type == DataType::kF64 || !IsFloatingPoint(*type)) {
      work.flops = 0;
      Note(absl::StrCat("the rate of ", name, " arithmetic is not measured"));
    }
    return work;
  }

  static std::string MatrixType(DataType type) {
    switch (type) {
      case DataType::kF32:
        return "tf32";
      case DataType::kF16:
        return "f16";
      case DataType::kBF16:
        return "bf16";
      case DataType::kF8E4M3:
      case DataType::kF8E5M2:
        return "fp8";
      default:
        return "";
    }
  }

  void AddRoofline() {
    const Workload work = WorkloadOf();
    if (ceilings_.ceilings.empty()) {
      response_.set_bound(Name(Bound::kUnknown));
      response_.set_bound_reason("the device's ceilings are not known");
      return;
    }
    const Roofline roofline = PlaceUnderCeilings(subject_->median_ns, work, ceilings_);
    for (const CeilingShare& share : roofline.shares) {
      v1::CeilingShare* to = response_.add_shares();
      *to->mutable_ceiling() = ToProto(share.ceiling);
      to->set_achieved(share.achieved);
      to->set_share(share.share);
      to->set_least_ns(share.least_ns);
      to->set_of_another_instruction(share.of_another_instruction);
      if (share.ceiling.name == kCopyCeiling && share.share > kBeyondShare) NoteBeyondCopy();
    }
    response_.set_bound(Name(roofline.bound));
    response_.set_bound_reason(roofline.reason);
    response_.set_least_ns(roofline.least_ns);
  }

  void NoteBeyondCopy() {
    const int64_t l2_bytes = found_.record.device.l2_bytes;
    std::string note =
        "more than a copy of large buffers reaches: reads alone go faster than reads and writes "
        "together, and ";
    if (PolicyIngredient().find("cold") == std::string::npos) {
      absl::StrAppend(&note, "this key is measured with data in the cache (", PolicyIngredient(),
                      ")");
    } else {
      absl::StrAppend(&note, "what fits the last-level cache (",
                      absl::StrFormat("%.1f", static_cast<double>(l2_bytes) / 1e6),
                      " MB) is written to memory after the kernel has ended");
    }
    Note(note);
  }

  std::string PolicyIngredient() const {
    for (const auto& [name, value] : found_.record.ingredients) {
      if (name == "policy") return value;
    }
    return "";
  }

  void AddOthers() {
    if (const Measurement* runner_up = RunnerUpTo(found_.measurements, *subject_)) {
      *response_.mutable_runner_up() = Info(*runner_up);
      response_.set_runner_up_ratio(TimeRatio(*runner_up, *subject_));
      response_.set_noise_share(NoiseShare(*runner_up, *subject_));
    }
    if (!found_.problem) return;
    const auto space =
        ConfigSpace::Create(found_.kernel_template, *found_.problem, found_.record.architecture,
                            device_ ? device_->Facts() : DeviceFacts());
    if (!space.ok()) return;
    const auto default_config = space->Default();
    if (!default_config.ok()) return;
    const Measurement* standing = FastestWith(found_.measurements, *default_config);
    if (standing != nullptr) *response_.mutable_default_config() = Info(*standing);
  }

  void AddTunables() {
    for (const TunableEffect& effect : TunableEffects(found_.measurements, *subject_)) {
      v1::TunableEffect* to = response_.add_tunables();
      to->set_name(effect.name);
      to->set_matters(effect.matters);
      to->set_groups(effect.groups);
      for (const ValueEffect& value : effect.values) {
        v1::ValueEffect* one = to->add_values();
        one->set_value(value.value);
        one->set_measured(value.measured);
        one->set_rejected(value.rejected);
        one->set_best_ratio(value.best_ratio);
        one->set_mean_ratio(value.mean_ratio);
      }
    }
  }

  // What the subject launches. Left out where the device's facts or the template are not at hand.
  absl::Status AddSteps() {
    if (!found_.problem || !device_) return absl::OkStatus();
    const CandidateBuilder builder(nullptr, found_.kernel_template, *found_.problem,
                                   found_.record.architecture, device_->Facts(), {});
    const auto outline = builder.Outline(subject_->config);
    if (!outline.ok()) return absl::OkStatus();
    const auto launch = ResolveLaunch(
        *outline, OutlineArguments(*outline, found_.problem->dynamic_sizes(), device_->Facts()));
    if (!launch.ok()) return absl::OkStatus();
    HONE_ASSIGN_OR_RETURN(const auto artifact,
                          context_.store->GetArtifactBySha256(subject_->artifact_sha256));
    for (const ResolvedStep& step : launch->steps) {
      if (!step.symbol.empty()) AddStep(step, artifact.has_value() ? &*artifact : nullptr);
    }
    return absl::OkStatus();
  }

  void AddStep(const ResolvedStep& step, const Artifact* artifact) {
    v1::ExplainedStep* to = response_.add_steps();
    to->set_entry(step.symbol);  // in an outline an entry stands for its own symbol
    int64_t blocks = 1;
    for (size_t i = 0; i < 3; ++i) {
      to->add_grid(static_cast<int32_t>(step.grid[i]));
      to->add_block(static_cast<int32_t>(step.block[i]));
      blocks *= step.grid[i];
    }
    to->set_dynamic_shared_bytes(step.dynamic_shared_bytes);
    const int64_t processors = found_.record.device.sm_count;
    if (blocks < processors && found_.record.device.kind == "cuda") {
      Note(absl::StrCat("it launches ", blocks, blocks == 1 ? " block" : " blocks", " for ",
                        processors, " multiprocessors: the others have nothing to do"));
    }
    if (artifact == nullptr) return;
    const auto symbol = artifact->lowered_names.find(step.symbol);
    const EntryResources* resources = artifact->FindResources(
        symbol == artifact->lowered_names.end() ? step.symbol : symbol->second);
    if (resources == nullptr) return;
    to->set_registers(resources->registers);
    to->set_static_shared_bytes(resources->static_shared_bytes);
    to->set_local_bytes(resources->local_bytes);
    if (resources->local_bytes > 0) {
      Note(absl::StrCat("each thread has ", resources->local_bytes,
                        " bytes of local memory: spilled registers or an indexed array"));
    }
  }

  void AddRejected() {
    for (const Measurement& measurement : found_.measurements) {
      if (!measurement.rejection) continue;
      ++(*response_.mutable_rejected())[Name(measurement.rejection->kind)];
    }
  }

  void AddNotes() {
    const auto timed =
        std::count_if(found_.measurements.begin(), found_.measurements.end(),
                      [](const Measurement& m) { return !m.rejection && !m.samples_ns.empty(); });
    if (timed == 0) {
      Note(found_.measurements.empty() ? "nothing has been measured under this key yet"
                                       : "no candidate survived");
    } else if (timed == 1) {
      Note("only one config was timed, so that nothing is known about what others would give");
    }
    if (!found_.problem) {
      Note("the template is gone or its code has changed since: its work is not known");
    } else if (work_.bytes == 0 && work_.flops == 0) {
      Note("the template states no work");
    }
    if (subject_ == nullptr) return;
    if (!subject_->unstable.empty()) Note(absl::StrCat("unstable: ", subject_->unstable));
    if (subject_->other_processes > 0) {
      Note(absl::StrCat(
          subject_->other_processes,
          subject_->other_processes == 1 ? " other process was" : " other processes were",
          " on the device while it was timed"));
    }
    if (!subject_->verified) Note("unverified: the template has no reference");
    if (subject_->spread > kWideSpread) {
      Note(absl::StrFormat("its samples lie up to %.1f %% apart around the median",
                           100 * subject_->spread));
    }
    if (device_ && !subject_->driver.empty() && subject_->driver != device_->driver) {
      Note(absl::StrCat("stale: timed with driver ", subject_->driver, "; this one is ",
                        device_->driver));
    }
  }

  void Note(std::string note) {
    const auto& notes = response_.notes();
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) {
      response_.add_notes(std::move(note));
    }
  }

  ServiceContext& context_;
  const FoundTuning found_;
  WorkAmount work_;
  std::optional<DeviceInfo> device_;  // of this daemon, equal to the tuning's
  const Measurement* subject_ = nullptr;
  DeviceCeilings ceilings_;
  v1::ExplainTuningResponse response_;
};

void AnswerExplanation(ServiceContext& context, const ExplainCall& call, Engine* engine,
                       const absl::Status& ceilings_status) {
  auto found = FindTuning(context, call->request().key());
  if (!found.ok()) return call->Fail(found.status());
  const auto response =
      Explanation(context, engine, *std::move(found)).Make(call->request(), ceilings_status);
  if (!response.ok()) return call->Fail(response.status());
  call->Reply(*response);
}

// Why the ceilings may not be measured for this caller; OK: they may.
absl::Status MayMeasureCeilings(const Caller& caller) {
  if (caller.role == Role::kTuner) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "measuring them takes the device for a second or two, which a tuner may ask for");
}

void MeasureThenAnswer(ServiceContext& context, const ExplainCall& call, Engine& engine) {
  const auto found = FindTuning(context, call->request().key());
  if (!found.ok()) return call->Fail(found.status());
  const std::string device_key = found->record.device.Key();
  const auto stored = context.store->GetCeilings(device_key);
  const bool known = stored.ok() && stored->has_value();
  const absl::Status may = MayMeasureCeilings(call->caller());
  if (known || !may.ok()) return AnswerExplanation(context, call, &engine, may);
  engine.cache->EnsureCeilings(device_key,
                               [&context, call, engine = &engine](const absl::Status& status) {
                                 RunLookup(context, call, [&context, call, engine, status] {
                                   AnswerExplanation(context, call, engine, status);
                                 });
                               });
}

}  // namespace

void ExplainTuning(ServiceContext& context, ExplainCall call) {
  if (absl::Status status = CheckKey(call->request().key()); !status.ok()) {
    return call->Fail(status);
  }
  WithEngine(context, call,
             [&context, call](Engine& engine) { MeasureThenAnswer(context, call, engine); });
}

}  // namespace hone
