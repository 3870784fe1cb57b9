// The right results of one chain on one set of inputs, at all or at a sample of the output's
// elements.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/case_buffers.h"
#include "runtime/device/chain_interpreter.h"
#include "runtime/device/device.h"
#include "runtime/kernel/instantiate.h"

namespace hone {

// Elements [begin, end) of an output, counted in row-major order of its shape.
struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// All elements up to 2^18. Of more, 64 stretches of at most 4096: the first, the last, those
// around elements 2^31 and 2^32, and others spread over the rest, the same for the same shape. A
// stretch stays in a row (of the last dimension) where rows have 2^20 elements or more.
std::vector<ElementRange> SampledRanges(const std::vector<int64_t>& shape);

// Immutable once made; all of it lies on the host, out of reach of kernels.
class ChainExpectation {
 public:
  // Reads the inputs at `addresses`, by buffer name, and interprets the chain. FAILED_PRECONDITION:
  // at none of the elements does single precision decide the result, so that no kernel could be
  // wrong.
  static absl::StatusOr<ChainExpectation> Compute(Device& device, const ChainCheck& check,
                                                  const std::vector<CaseBuffer>& buffers,
                                                  const std::map<std::string, uint64_t>& addresses,
                                                  const std::map<std::string, double>& scalars);

  const std::string& output() const { return output_.name; }
  // Compares the output at `address`. Counts sampled elements; first_mismatch is an element of the
  // buffer.
  absl::StatusOr<CompareResult> Compare(Device& device, uint64_t address) const;

 private:
  struct Stretch {
    ElementRange range;
    std::vector<RightRange> right;
  };

  CaseBuffer output_;
  std::vector<Stretch> stretches_;
};

}  // namespace hone
