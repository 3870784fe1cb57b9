// The service's nouns and the API's messages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/map.h"
#include "hone/v1/kernel_service.pb.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/compile/compiler.h"
#include "runtime/kernel/device_ceilings.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/kernel/measurement.h"
#include "runtime/kernel/program.h"
#include "runtime/kernel/tuned_kernel.h"
#include "runtime/launch/device_fingerprint_proto.h"
#include "runtime/store/kernel_store.h"

namespace hone {

using ProtoValues = google::protobuf::Map<std::string, v1::Value>;

// Text stays text: Problem::Create reads it as what the parameter is. INVALID_ARGUMENT names a
// parameter without a value.
absl::StatusOr<Values> ValuesFromProto(const ProtoValues& params);
// Flags are told from sizes by the template, when there is one.
void ValuesToProto(const Values& values, const KernelTemplate* kernel_template,
                   ProtoValues* params);

// In place of an architecture: the device's.
inline constexpr char kAutoArchitecture[] = "auto";

// INVALID_ARGUMENT names the field: a negative index or driver version, an index beside an
// architecture or a fingerprint, an architecture that is not a plain word, a fingerprint with
// negative facts.
absl::StatusOr<TargetSpec> TargetFromProto(const v1::Target& target);

// `log_id` empty: that of the artifact's own log, if it has one.
v1::ArtifactInfo ToProto(const Artifact& artifact, const std::string& log_id = "");
v1::Rejection ToProto(const Rejection& rejection);
v1::CompilerStatus ToProto(const CompilerInfo& compiler);

v1::Ceiling ToProto(const Ceiling& ceiling);
v1::DeviceCeilings ToProto(const DeviceCeilings& ceilings);

// What one run does at least; nothing is known when both are 0.
struct WorkAmount {
  int64_t bytes = 0;
  int64_t flops = 0;
};
// GB/s and TFLOP/s follow from `work` and the median; GB is 10^9 bytes.
v1::MeasurementInfo ToProto(const Measurement& measurement, const WorkAmount& work);

// The work of one problem; zero where the template's expressions do not evaluate for it.
WorkAmount WorkOf(const KernelTemplate& kernel_template, const Problem& problem);

// Bytes are sent inline when the artifacts have at most `inline_bytes_max` together. A variant's
// work is evaluated for `measured_at`, the problem its measurement was made for.
v1::TunedKernel ToProto(const TunedKernel& kernel, const KernelTemplate* kernel_template,
                        const Values& measured_at, int64_t inline_bytes_max);

// REQUIRES: pin.config.
v1::PinInfo ToProto(const WinnerPin& pin);

v1::GetKernelResponse ToProto(const KernelAnswer& answer, const KernelTemplate& kernel_template,
                              int64_t inline_bytes_max);

}  // namespace hone
