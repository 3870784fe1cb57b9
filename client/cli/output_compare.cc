#include "client/cli/output_compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/launch/scalar_encoding.h"

namespace hone::cli {
namespace {

uint64_t BitsAt(absl::string_view bytes, int64_t element, DataType dtype) {
  const auto size = static_cast<size_t>(SizeBytes(dtype));
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + static_cast<size_t>(element) * size, size);
  return bits;
}

bool Matches(double value, double reference, const OutputTolerance& tolerance) {
  if (std::isnan(value) || std::isnan(reference)) {
    return !tolerance.nan_forbidden && std::isnan(value) && std::isnan(reference);
  }
  // An infinite reference would make the tolerance infinite, so that anything matched.
  if (value == reference) return true;
  if (std::isinf(value) || std::isinf(reference)) return false;
  return std::fabs(value - reference) <= tolerance.atol + tolerance.rtol * std::fabs(reference);
}

// Advances `index` to the next element, the last dimension fastest; false after the last.
bool Next(std::vector<int64_t>& index, const std::vector<int64_t>& shape) {
  for (size_t i = shape.size(); i-- > 0;) {
    if (++index[i] < shape[i]) return true;
    index[i] = 0;
  }
  return false;
}

}  // namespace

OutputTolerance OutputTolerance::Of(const v1::Check& check, DataType dtype) {
  OutputTolerance tolerance{.exact = check.exact(),
                            .atol = check.atol(),
                            .rtol = check.rtol(),
                            .mismatch_share_max = check.mismatch_share_max(),
                            .nan_forbidden = check.nan() == v1::Check::NAN_FORBIDDEN};
  for (const v1::DtypeTolerance& special : check.by_dtype()) {
    if (static_cast<DataType>(special.dtype()) != dtype) continue;
    tolerance.atol = special.atol();
    tolerance.rtol = special.rtol();
    break;
  }
  return tolerance;
}

std::string OutputTolerance::ToString() const {
  if (exact) return "exactly";
  return absl::StrCat("within atol ", atol, ", rtol ", rtol);
}

OutputComparison CompareOutputs(absl::string_view values, absl::string_view reference,
                                const BufferExtent& extent, DataType dtype,
                                const OutputTolerance& tolerance) {
  OutputComparison result;
  if (std::count(extent.shape.begin(), extent.shape.end(), 0) > 0) {
    result.right = true;
    return result;
  }
  std::vector<int64_t> index(extent.shape.size(), 0);
  do {
    int64_t element = 0;
    for (size_t i = 0; i < index.size(); ++i) element += index[i] * extent.strides[i];
    const uint64_t bits = BitsAt(values, element, dtype);
    const uint64_t reference_bits = BitsAt(reference, element, dtype);
    ++result.elements;
    const double value = DecodeScalar(dtype, bits);
    const bool nan_refused = tolerance.nan_forbidden && std::isnan(value);
    if (bits == reference_bits && !nan_refused) continue;
    const double wanted = DecodeScalar(dtype, reference_bits);
    const double error = std::fabs(value - wanted);
    if (error > result.max_abs_error) result.max_abs_error = error;
    if (!tolerance.exact && Matches(value, wanted, tolerance)) continue;
    if (result.mismatches++ == 0) {
      result.first_mismatch =
          absl::StrCat("[", absl::StrJoin(index, ", "), "]: ", value, " instead of ", wanted);
    }
  } while (Next(index, extent.shape));
  result.right = static_cast<double>(result.mismatches) <=
                 tolerance.mismatch_share_max * static_cast<double>(result.elements);
  return result;
}

}  // namespace hone::cli
