#include "server/convert.h"

#include <set>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/problem.h"
#include "runtime/launch/recipe_proto.h"
#include "server/errors.h"
#include "server/service_context.h"

namespace hone {
namespace {

bool IsArchitectureWord(const std::string& text) {
  if (text.size() > 32) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') return false;
  }
  return true;
}

bool IsNamed(const std::string& architecture) {
  return !architecture.empty() && architecture != kAutoArchitecture;
}

v1::Value ToProto(const Value& value, bool flag) {
  v1::Value proto;
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    if (flag) {
      proto.set_flag(*integer != 0);
    } else {
      proto.set_integer(*integer);
    }
  } else {
    proto.set_text(ToString(value));
  }
  return proto;
}

WorkAmount WorkOf(const LaunchRecipe& recipe, const Values& values) {
  WorkAmount work;
  work.bytes = recipe.work_bytes.Evaluate(values).value_or(0);
  work.flops = recipe.work_flops.Evaluate(values).value_or(0);
  return work;
}

int64_t BytesOf(const TunedKernel& kernel) {
  int64_t bytes = 0;
  std::set<std::string> seen;
  for (const KernelVariant& variant : kernel.variants) {
    if (variant.artifact != nullptr && seen.insert(variant.artifact->sha256).second) {
      bytes += static_cast<int64_t>(variant.artifact->bytes.size());
    }
  }
  return bytes;
}

}  // namespace

absl::StatusOr<Values> ValuesFromProto(const ProtoValues& params) {
  Values values;
  for (const auto& [name, value] : params) {
    switch (value.kind_case()) {
      case v1::Value::kInteger:
        values.emplace(name, value.integer());
        break;
      case v1::Value::kText:
        values.emplace(name, value.text());
        break;
      case v1::Value::kFlag:
        values.emplace(name, int64_t{value.flag() ? 1 : 0});
        break;
      case v1::Value::KIND_NOT_SET:
        return InvalidField(absl::StrCat("params[", name, "]"),
                            "has no value; give an integer, a text or a flag");
    }
  }
  return values;
}

void ValuesToProto(const Values& values, const KernelTemplate* kernel_template,
                   ProtoValues* params) {
  for (const auto& [name, value] : values) {
    const Parameter* parameter =
        kernel_template == nullptr ? nullptr : kernel_template->FindParameter(name);
    const bool flag = parameter != nullptr && parameter->kind == ParameterKind::kFlag;
    (*params)[name] = ToProto(value, flag);
  }
}

absl::StatusOr<TargetSpec> TargetFromProto(const v1::Target& target) {
  if (target.device_index() < 0) {
    return InvalidField("target.device_index",
                        absl::StrCat(target.device_index(), " is negative; the first device is 0"));
  }
  if (target.driver_version() < 0) {
    return InvalidField("target.driver_version",
                        absl::StrCat(target.driver_version(),
                                     " is negative; give it as cuDriverGetVersion does, for "
                                     "instance 13000, or 0"));
  }
  if (!IsArchitectureWord(target.architecture())) {
    return InvalidField(
        "target.architecture",
        absl::StrCat("'", BoundedUtf8(target.architecture(), 64),
                     "' is not an architecture; sm_90a, compute_90, cpu or auto are"));
  }
  if (target.device_index() != 0 && (target.has_device() || IsNamed(target.architecture()))) {
    return InvalidField(
        "target.device_index",
        absl::StrCat(target.device_index(), " is given together with target.",
                     target.has_device() ? "device" : "architecture",
                     "; give one of them: a device's index, or what to compile for"));
  }
  TargetSpec spec;
  if (IsNamed(target.architecture())) spec.architecture = target.architecture();
  spec.driver_version = target.driver_version();
  spec.device_index = target.device_index();
  if (target.has_device()) {
    const v1::DeviceFingerprint& device = target.device();
    if (device.sm_count() < 0 || device.clock_khz() < 0 || device.memory_clock_khz() < 0 ||
        device.memory_bus_bits() < 0 || device.l2_bytes() < 0 || device.memory_bytes() < 0) {
      return InvalidField("target.device", "holds a negative number; all its facts are counts");
    }
    spec.device = FromProto(device);
  }
  return spec;
}

v1::ArtifactInfo ToProto(const Artifact& artifact, const std::string& log_id) {
  v1::ArtifactInfo proto;
  proto.set_sha256(artifact.sha256);
  proto.set_size_bytes(static_cast<int64_t>(artifact.bytes.size()));
  proto.set_format(Name(artifact.format));
  proto.set_architecture(artifact.architecture);
  proto.set_builder(artifact.builder);
  proto.set_min_driver(artifact.min_driver);
  for (const auto& [expression, symbol] : artifact.lowered_names) {
    (*proto.mutable_lowered_names())[expression] = symbol;
  }
  for (const EntryResources& entry : artifact.resources) {
    v1::EntryResources* resources = proto.add_resources();
    resources->set_symbol(entry.symbol);
    resources->set_registers(entry.registers);
    resources->set_static_shared_bytes(static_cast<int32_t>(entry.static_shared_bytes));
    resources->set_local_bytes(static_cast<int32_t>(entry.local_bytes));
    resources->set_max_threads_per_block(entry.max_threads_per_block);
  }
  proto.set_built_at_unix_ms(artifact.built_at_unix_ms);
  // A log's id is the hash of what the store keeps.
  proto.set_log_id(log_id.empty() && !artifact.log.empty() ? Sha256Hex(artifact.log) : log_id);
  return proto;
}

v1::Rejection ToProto(const Rejection& rejection) {
  v1::Rejection proto;
  proto.set_kind(Name(rejection.kind));
  proto.set_detail(rejection.detail);
  proto.set_needed(rejection.needed);
  proto.set_limit(rejection.limit);
  proto.set_log_id(rejection.log_id);
  return proto;
}

v1::CompilerStatus ToProto(const CompilerInfo& compiler) {
  v1::CompilerStatus proto;
  proto.set_kind(compiler.kind);
  proto.set_build(compiler.build);
  proto.set_path(compiler.path);
  proto.set_available(compiler.available);
  proto.set_detail(compiler.detail);
  for (const std::string& architecture : compiler.architectures) {
    proto.add_architectures(architecture);
  }
  proto.set_headers_path(compiler.headers_path);
  proto.set_headers_version(compiler.headers_version);
  return proto;
}

v1::Ceiling ToProto(const Ceiling& ceiling) {
  v1::Ceiling proto;
  proto.set_name(ceiling.name);
  proto.set_value(ceiling.value);
  proto.set_unit(ceiling.unit);
  proto.set_how(ceiling.how);
  return proto;
}

v1::DeviceCeilings ToProto(const DeviceCeilings& ceilings) {
  v1::DeviceCeilings proto;
  for (const Ceiling& ceiling : ceilings.ceilings) *proto.add_ceilings() = ToProto(ceiling);
  proto.set_measured_at_unix_ms(ceilings.measured_at_unix_ms);
  proto.set_driver(ceilings.driver);
  proto.set_clock_mhz(ceilings.clock_mhz);
  return proto;
}

v1::MeasurementInfo ToProto(const Measurement& measurement, const WorkAmount& work) {
  v1::MeasurementInfo proto;
  proto.set_config(measurement.config.ToString());
  if (measurement.rejection.has_value()) {
    *proto.mutable_rejection() = ToProto(*measurement.rejection);
  } else {
    proto.set_median_ns(measurement.median_ns);
    proto.set_spread(measurement.spread);
    for (const double sample : measurement.samples_ns) proto.add_samples_ns(sample);
    if (measurement.median_ns > 0) {
      // Bytes per nanosecond are GB/s; flops per nanosecond are GFLOP/s.
      proto.set_gb_per_s(static_cast<double>(work.bytes) / measurement.median_ns);
      proto.set_tflop_per_s(static_cast<double>(work.flops) / measurement.median_ns / 1e3);
    }
  }
  proto.set_measured_at_unix_ms(measurement.measured_at_unix_ms);
  for (const std::string& sizes : measurement.verified_sizes) proto.add_verified_sizes(sizes);
  proto.set_verified(measurement.verified);
  proto.set_driver(measurement.driver);
  proto.set_compiler_build(measurement.compiler_build);
  proto.set_clock_mhz(measurement.clock_mhz);
  proto.set_memory_clock_mhz(measurement.memory_clock_mhz);
  proto.set_paired_ratio(measurement.paired_ratio);
  proto.set_unstable(measurement.unstable);
  proto.set_other_processes(measurement.other_processes);
  proto.set_same_work_as(measurement.same_work_as);
  proto.set_artifact_sha256(measurement.artifact_sha256);
  proto.set_output_sha256(measurement.output_sha256);
  proto.set_irreproducible(measurement.irreproducible);
  return proto;
}

WorkAmount WorkOf(const KernelTemplate& kernel_template, const Problem& problem) {
  WorkAmount work;
  work.bytes = kernel_template.spec().work_bytes.Evaluate(problem.values()).value_or(0);
  work.flops = kernel_template.spec().work_flops.Evaluate(problem.values()).value_or(0);
  return work;
}

v1::TunedKernel ToProto(const TunedKernel& kernel, const KernelTemplate* kernel_template,
                        const Values& measured_at, int64_t inline_bytes_max) {
  v1::TunedKernel proto;
  proto.set_template_name(kernel.template_name);
  proto.set_template_digest(kernel.template_digest);
  ValuesToProto(kernel.params, kernel_template, proto.mutable_params());
  proto.set_architecture(kernel.architecture);
  proto.set_generation(kernel.generation);
  const bool send_bytes = BytesOf(kernel) <= inline_bytes_max;
  std::set<std::string> sent;
  for (const KernelVariant& variant : kernel.variants) {
    v1::KernelVariant* to = proto.add_variants();
    to->set_config(variant.config.ToString());
    *to->mutable_recipe() = ToProto(variant.recipe);
    if (variant.artifact != nullptr) {
      *to->mutable_artifact() = ToProto(*variant.artifact);
      // Variants may share a binary; its bytes are sent with the first.
      if (send_bytes && sent.insert(variant.artifact->sha256).second) {
        to->set_artifact_bytes(variant.artifact->bytes);
      }
    }
    if (variant.measurement.has_value()) {
      *to->mutable_measurement() =
          ToProto(*variant.measurement, WorkOf(variant.recipe, measured_at));
    }
  }
  return proto;
}

v1::PinInfo ToProto(const WinnerPin& pin) {
  v1::PinInfo proto;
  proto.set_config(pin.config->ToString());
  proto.set_reason(pin.reason);
  proto.set_pinned_at_unix_ms(pin.pinned_at_unix_ms);
  proto.set_generation(pin.generation);
  return proto;
}

v1::GetKernelResponse ToProto(const KernelAnswer& answer, const KernelTemplate& kernel_template,
                              int64_t inline_bytes_max) {
  v1::GetKernelResponse proto;
  const Values& measured_at =
      answer.answered_by_values.empty() ? answer.kernel->params : answer.answered_by_values;
  *proto.mutable_kernel() =
      ToProto(*answer.kernel, &kernel_template, measured_at, inline_bytes_max);
  proto.set_source(static_cast<v1::Source>(answer.source));
  proto.set_key(answer.key);
  proto.set_answered_by_key(answer.answered_by_key);
  ValuesToProto(answer.answered_by_values, &kernel_template, proto.mutable_answered_by_params());
  proto.set_stale(answer.stale);
  proto.set_stale_reason(answer.stale_reason);
  proto.set_tuning(answer.tuning);
  if (answer.pin.has_value()) *proto.mutable_pin() = ToProto(*answer.pin);
  ValuesToProto(answer.bucket_values, &kernel_template, proto.mutable_bucket_params());
  proto.set_exact(answer.source == AnswerSource::kTuned);
  proto.set_api_version(kApiVersion);
  for (const NearKey& near : answer.nearest_keys) {
    v1::NearKey* to = proto.add_nearest_keys();
    to->set_key(near.key);
    to->set_problem(near.problem);
    to->set_architecture(near.architecture);
    for (const std::string& ingredient : near.differs_in) to->add_differs_in(ingredient);
  }
  return proto;
}

}  // namespace hone
