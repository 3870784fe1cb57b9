#include "runtime/device/output_check.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"

namespace hone {
namespace {

std::string At(const std::string& sizes) {
  return sizes.empty() ? "" : absl::StrCat(" at ", sizes);
}

// From CUDA's names; without one the kernel trapped.
RejectionKind FaultKind(absl::string_view message) {
  if (absl::StrContains(message, "LAUNCH_TIMEOUT")) return RejectionKind::kTimeout;
  for (const absl::string_view bad_address :
       {"ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "LAUNCH_FAILED"}) {
    if (absl::StrContains(message, bad_address)) return RejectionKind::kIllegalAccess;
  }
  return RejectionKind::kCrash;
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "nan";
  // Integers in full; %g would print 16777217 as 1.67772e+07.
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return absl::StrCat(static_cast<int64_t>(value));
  }
  return absl::StrCat(value);
}

}  // namespace

int PoisonByte(DataType dtype) { return IsFloatingPoint(dtype) ? 0xff : 0xf5; }

bool WithinTolerance(const CompareResult& result, const Tolerance& tolerance) {
  return static_cast<double>(result.mismatches) <=
         tolerance.mismatch_share_max * static_cast<double>(result.elements);
}

Rejection WrongResult(const OutputMismatch& mismatch) {
  const CompareResult& result = mismatch.result;
  Rejection rejection;
  rejection.kind = RejectionKind::kWrongResult;
  rejection.detail =
      absl::StrCat("wrong result in ", mismatch.output, At(mismatch.sizes), ": ", result.mismatches,
                   " of ", result.elements, " elements, first at ", result.first_mismatch, ": ",
                   mismatch.first_unwritten ? "not written" : NumberText(result.first_value),
                   " instead of ", NumberText(result.first_reference));
  if (std::isfinite(result.max_abs_error)) {
    absl::StrAppend(&rejection.detail, ", max error ", NumberText(result.max_abs_error));
  }
  if (!mismatch.compared_with.empty()) {
    absl::StrAppend(&rejection.detail, "; compared with ", mismatch.compared_with,
                    " because the template has no reference");
  }
  return rejection;
}

Rejection OutOfBounds(const GuardDamage& damage, const std::string& sizes) {
  Rejection rejection;
  rejection.kind = RejectionKind::kIllegalAccess;
  rejection.detail = damage.offset < 0
                         ? absl::StrCat("wrote before ", damage.name, At(sizes), ": ",
                                        -damage.offset, " bytes ahead of its start")
                         : absl::StrCat("wrote beyond ", damage.name, At(sizes), ": byte ",
                                        damage.offset, ", it has ", damage.bytes);
  return rejection;
}

Rejection InputChanged(const std::string& input, const std::string& sizes) {
  Rejection rejection;
  rejection.kind = RejectionKind::kWrongResult;
  rejection.detail = absl::StrCat("changed ", input, At(sizes), ", which it may only read");
  return rejection;
}

Rejection LaunchFailed(const absl::Status& status, const std::string& sizes) {
  const absl::string_view message = status.message();
  Rejection rejection;
  rejection.detail = absl::StrCat(message, At(sizes));
  switch (status.code()) {
    case absl::StatusCode::kAborted:
      rejection.kind = FaultKind(message);
      break;
    case absl::StatusCode::kResourceExhausted:
      rejection.kind = RejectionKind::kResources;
      if (const auto info = ErrorInfoOf(status)) {
        rejection.needed = info->needed;
        rejection.limit = info->available;
      }
      break;
    default:
      rejection.kind = RejectionKind::kLaunch;
  }
  return rejection;
}

}  // namespace hone
