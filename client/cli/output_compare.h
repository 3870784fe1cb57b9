// A kernel's output against its reference's, under the template's tolerance.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "hone/v1/kernel_template.pb.h"
#include "runtime/launch/buffer_extent.h"
#include "runtime/launch/data_type.h"

namespace hone::cli {

struct OutputTolerance {
  bool exact = false;
  double atol = 0;
  double rtol = 0;
  double mismatch_share_max = 0;
  bool nan_forbidden = false;

  // The check's, with by_dtype applied.
  static OutputTolerance Of(const v1::Check& check, DataType dtype);
  std::string ToString() const;
};

struct OutputComparison {
  int64_t elements = 0;
  int64_t mismatches = 0;
  double max_abs_error = 0;
  std::string first_mismatch;  // "[3, 17]: 1.5 instead of 2"
  bool right = false;
};

// Both hold one buffer from its first to its last element. Only elements of the shape are compared,
// not what lies between rows.
OutputComparison CompareOutputs(absl::string_view values, absl::string_view reference,
                                const BufferExtent& extent, DataType dtype,
                                const OutputTolerance& tolerance);

}  // namespace hone::cli
