#include "runtime/worker/measure_convert.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/device_fingerprint_proto.h"
#include "runtime/launch/recipe_proto.h"
#include "runtime/worker/convert.h"

namespace hone {
namespace {

namespace wire = v1::worker;

wire::WireSizes ToWireSizes(const SizeBindings& sizes) {
  wire::WireSizes message;
  message.mutable_sizes()->insert(sizes.begin(), sizes.end());
  return message;
}

SizeBindings FromWireSizes(const wire::WireSizes& message) {
  return SizeBindings(message.sizes().begin(), message.sizes().end());
}

wire::WireOutput ToWireOutput(const ReferenceCheck::Output& output) {
  wire::WireOutput message;
  message.set_argument(output.argument);
  wire::WireTolerance& tolerance = *message.mutable_tolerance();
  tolerance.set_exact(output.tolerance.exact);
  tolerance.set_atol(output.tolerance.atol);
  tolerance.set_rtol(output.tolerance.rtol);
  tolerance.set_mismatch_share_max(output.tolerance.mismatch_share_max);
  tolerance.set_nan(static_cast<int>(output.tolerance.nan));
  return message;
}

ReferenceCheck::Output FromWireOutput(const wire::WireOutput& message) {
  ReferenceCheck::Output output;
  output.argument = message.argument();
  const wire::WireTolerance& tolerance = message.tolerance();
  output.tolerance.exact = tolerance.exact();
  output.tolerance.atol = tolerance.atol();
  output.tolerance.rtol = tolerance.rtol();
  output.tolerance.mismatch_share_max = tolerance.mismatch_share_max();
  output.tolerance.nan = tolerance.nan() == static_cast<int>(NanPolicy::kNanForbidden)
                             ? NanPolicy::kNanForbidden
                             : NanPolicy::kNanMatchesNan;
  return output;
}

wire::WireBufferInit ToWireInit(const BufferInit& init) {
  wire::WireBufferInit message;
  message.set_argument(init.argument);
  message.set_kind(static_cast<int>(init.kind));
  *message.mutable_low() = ToProto(init.low);
  *message.mutable_high() = ToProto(init.high);
  message.set_skew(init.skew);
  if (init.kind == InitKind::kGenerator) *message.mutable_generator() = ToProto(init.generator);
  return message;
}

absl::StatusOr<BufferInit> FromWireInit(const wire::WireBufferInit& message) {
  if (message.kind() < 0 || message.kind() > static_cast<int>(InitKind::kGenerator)) {
    return absl::InvalidArgumentError(absl::StrCat("inits: unknown kind ", message.kind()));
  }
  BufferInit init;
  init.argument = message.argument();
  init.kind = static_cast<InitKind>(message.kind());
  HONE_ASSIGN_OR_RETURN(init.low, FromProto(message.low()));
  HONE_ASSIGN_OR_RETURN(init.high, FromProto(message.high()));
  init.skew = message.skew();
  if (init.kind == InitKind::kGenerator) {
    HONE_ASSIGN_OR_RETURN(init.generator, FromProto(message.generator()));
  }
  return init;
}

absl::StatusOr<ReferenceCheck> FromWireReference(const wire::WireReference& message) {
  ReferenceCheck check;
  HONE_ASSIGN_OR_RETURN(check.reference, FromProto(message.reference()));
  for (const wire::WireOutput& output : message.outputs()) {
    check.outputs.push_back(FromWireOutput(output));
  }
  return check;
}

template <typename Message>
absl::StatusOr<std::optional<Rejection>> RejectionOf(const Message& message) {
  if (!message.has_rejection()) return std::nullopt;
  HONE_ASSIGN_OR_RETURN(Rejection rejection, FromWire(message.rejection()));
  return std::optional<Rejection>(std::move(rejection));
}

}  // namespace

wire::WireDeviceInfo ToWire(const DeviceInfo& info) {
  wire::WireDeviceInfo message;
  message.set_index(info.index);
  message.set_name(info.name);
  message.set_architecture(info.architecture);
  *message.mutable_fingerprint() = ToProto(info.fingerprint);
  message.set_max_threads_per_block(info.limits.max_threads_per_block);
  message.set_shared_bytes_per_block_max(info.limits.shared_bytes_per_block_max);
  message.set_shared_bytes_per_sm(info.limits.shared_bytes_per_sm);
  message.set_registers_per_block(info.limits.registers_per_block);
  message.set_max_cluster_size(info.limits.max_cluster_size);
  message.set_warp_size(info.limits.warp_size);
  message.set_driver_version(info.driver_version);
  message.set_driver(info.driver);
  return message;
}

DeviceInfo FromWire(const wire::WireDeviceInfo& message) {
  DeviceInfo info;
  info.index = message.index();
  info.name = message.name();
  info.architecture = message.architecture();
  info.fingerprint = FromProto(message.fingerprint());
  info.limits.max_threads_per_block = message.max_threads_per_block();
  info.limits.shared_bytes_per_block_max = message.shared_bytes_per_block_max();
  info.limits.shared_bytes_per_sm = message.shared_bytes_per_sm();
  info.limits.registers_per_block = message.registers_per_block();
  info.limits.max_cluster_size = message.max_cluster_size();
  info.limits.warp_size = message.warp_size();
  info.driver_version = message.driver_version();
  info.driver = message.driver();
  return info;
}

wire::BeginRequest ToWire(const ProfileProblem& problem) {
  wire::BeginRequest message;
  *message.mutable_sizes() = ToWireSizes(problem.sizes);
  for (const BufferInit& init : problem.check.inits) *message.add_inits() = ToWireInit(init);
  message.mutable_scalar_samples()->insert(problem.check.scalar_samples.begin(),
                                           problem.check.scalar_samples.end());
  for (const ReferenceCheck& check : problem.check.references) {
    wire::WireReference& reference = *message.add_references();
    *reference.mutable_reference() = ToProto(check.reference);
    for (const auto& output : check.outputs) *reference.add_outputs() = ToWireOutput(output);
  }
  for (const ChainCheck& check : problem.check.chains) {
    wire::WireChainCheck& chain = *message.add_chains();
    chain.set_output(check.output);
    chain.set_chain(check.chain);
    chain.mutable_inputs()->Assign(check.names.inputs.begin(), check.names.inputs.end());
    chain.mutable_scalars()->Assign(check.names.scalars.begin(), check.names.scalars.end());
  }
  for (const auto& output : problem.check.outputs) *message.add_outputs() = ToWireOutput(output);
  if (problem.check_artifact) *message.mutable_check_artifact() = ToWire(*problem.check_artifact);
  *message.mutable_arguments() = ToProto(problem.arguments);
  message.set_cache(static_cast<int>(problem.policy.cache));
  message.set_launch_timeout_ms(absl::ToInt64Milliseconds(problem.launch_timeout));
  message.set_memory_bytes_max(problem.memory_bytes_max);
  return message;
}

absl::StatusOr<ProfileProblem> FromWire(const wire::BeginRequest& message) {
  ProfileProblem problem;
  problem.sizes = FromWireSizes(message.sizes());
  for (const wire::WireBufferInit& init : message.inits()) {
    HONE_ASSIGN_OR_RETURN(BufferInit converted, FromWireInit(init));
    problem.check.inits.push_back(std::move(converted));
  }
  problem.check.scalar_samples = {message.scalar_samples().begin(), message.scalar_samples().end()};
  for (const wire::WireReference& reference : message.references()) {
    HONE_ASSIGN_OR_RETURN(ReferenceCheck converted, FromWireReference(reference));
    problem.check.references.push_back(std::move(converted));
  }
  for (const wire::WireChainCheck& chain : message.chains()) {
    problem.check.chains.push_back({chain.output(),
                                    chain.chain(),
                                    {{chain.inputs().begin(), chain.inputs().end()},
                                     {chain.scalars().begin(), chain.scalars().end()}}});
  }
  for (const wire::WireOutput& output : message.outputs()) {
    problem.check.outputs.push_back(FromWireOutput(output));
  }
  if (message.has_check_artifact()) {
    HONE_ASSIGN_OR_RETURN(problem.check_artifact, FromWire(message.check_artifact()));
  }
  HONE_ASSIGN_OR_RETURN(problem.arguments, FromProto(message.arguments()));
  problem.policy.cache = static_cast<MeasuringPolicy::Cache>(std::clamp(message.cache(), 0, 2));
  problem.launch_timeout = absl::Milliseconds(message.launch_timeout_ms());
  problem.memory_bytes_max = message.memory_bytes_max();
  return problem;
}

wire::CheckRequest ToWire(const ProfileCandidate& candidate) {
  wire::CheckRequest message;
  message.set_id(candidate.id);
  message.set_config(candidate.config.ToString());
  *message.mutable_artifact() = ToWire(candidate.artifact);
  *message.mutable_recipe() = ToProto(candidate.recipe);
  for (const SizeBindings& sizes : candidate.check_sizes) {
    *message.add_check_sizes() = ToWireSizes(sizes);
  }
  return message;
}

absl::StatusOr<ProfileCandidate> FromWire(const wire::CheckRequest& message) {
  ProfileCandidate candidate;
  candidate.id = message.id();
  HONE_ASSIGN_OR_RETURN(candidate.config, Config::Parse(message.config()));
  HONE_ASSIGN_OR_RETURN(candidate.artifact, FromWire(message.artifact()));
  HONE_ASSIGN_OR_RETURN(candidate.recipe, FromProto(message.recipe()));
  for (const wire::WireSizes& sizes : message.check_sizes()) {
    candidate.check_sizes.push_back(FromWireSizes(sizes));
  }
  return candidate;
}

wire::CheckReply ToWire(const CheckResult& result) {
  wire::CheckReply message;
  if (result.rejection) *message.mutable_rejection() = ToWire(*result.rejection);
  message.set_verified(result.verified);
  for (const std::string& sizes : result.verified_sizes) message.add_verified_sizes(sizes);
  message.set_output_sha256(result.output_sha256);
  message.mutable_small_outputs()->insert(result.small_outputs.begin(), result.small_outputs.end());
  message.set_irreproducible(result.irreproducible);
  return message;
}

absl::StatusOr<CheckResult> FromWire(const wire::CheckReply& message) {
  CheckResult result;
  HONE_ASSIGN_OR_RETURN(result.rejection, RejectionOf(message));
  result.verified = message.verified();
  result.verified_sizes = {message.verified_sizes().begin(), message.verified_sizes().end()};
  result.output_sha256 = message.output_sha256();
  result.small_outputs = {message.small_outputs().begin(), message.small_outputs().end()};
  result.irreproducible = message.irreproducible();
  return result;
}

wire::SampleReply ToWire(const SampleResult& result) {
  wire::SampleReply message;
  if (result.rejection) *message.mutable_rejection() = ToWire(*result.rejection);
  message.mutable_samples_ns()->Add(result.samples_ns.begin(), result.samples_ns.end());
  message.set_clock_mhz(result.clock_mhz);
  message.set_memory_clock_mhz(result.memory_clock_mhz);
  message.set_slowed_down(result.slowed_down);
  message.set_other_processes(result.other_processes);
  return message;
}

absl::StatusOr<SampleResult> FromWire(const wire::SampleReply& message) {
  SampleResult result;
  HONE_ASSIGN_OR_RETURN(result.rejection, RejectionOf(message));
  result.samples_ns = {message.samples_ns().begin(), message.samples_ns().end()};
  result.clock_mhz = message.clock_mhz();
  result.memory_clock_mhz = message.memory_clock_mhz();
  result.slowed_down = message.slowed_down();
  result.other_processes = message.other_processes();
  return result;
}

wire::CeilingsReply ToWire(const DeviceCeilings& ceilings) {
  wire::CeilingsReply message;
  for (const Ceiling& ceiling : ceilings.ceilings) {
    v1::Ceiling& to = *message.add_ceilings();
    to.set_name(ceiling.name);
    to.set_value(ceiling.value);
    to.set_unit(ceiling.unit);
    to.set_how(ceiling.how);
  }
  message.set_clock_mhz(ceilings.clock_mhz);
  return message;
}

absl::StatusOr<DeviceCeilings> FromWire(const wire::CeilingsReply& message) {
  DeviceCeilings ceilings;
  for (const v1::Ceiling& from : message.ceilings()) {
    if (!std::isfinite(from.value()) || from.value() <= 0) {
      return absl::DataLossError(
          absl::StrCat("ceilings: '", from.name(), "' is ", from.value(), " ", from.unit()));
    }
    ceilings.ceilings.push_back(
        {.name = from.name(), .value = from.value(), .unit = from.unit(), .how = from.how()});
  }
  ceilings.clock_mhz = message.clock_mhz();
  return ceilings;
}

}  // namespace hone
