// Inputs for one launch, as a template says they look.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "hone/v1/kernel_template.pb.h"
#include "runtime/launch/data_type.h"

namespace hone::cli {

struct InputSpec {
  DataType dtype = DataType::kF32;
  v1::Buffer::Init init = v1::Buffer::INIT_UNSPECIFIED;
  int64_t low = 0;  // meanings by init, see Buffer.init_low
  int64_t high = 0;
  double skew = 0;
  uint64_t seed = 0;
};

// The bytes of `elements` elements. Random data repeats with a period that is a prime number of
// about a million, so that large inputs are made quickly. UNIMPLEMENTED for CAPTURE and GENERATOR;
// INVALID_ARGUMENT when a value does not fit the type.
absl::StatusOr<std::string> GenerateInput(const InputSpec& spec, int64_t elements);

}  // namespace hone::cli
