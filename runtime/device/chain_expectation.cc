#include "runtime/device/chain_expectation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/element_math.h"
#include "runtime/generate/chain.h"

namespace hone {
namespace {

// About 0.3 us an element for the interpreter: below 0.1 s a case.
constexpr int64_t kWholeElementsMax = 1 << 18;
constexpr int64_t kStretches = 64;
constexpr int64_t kStretchElements = 4096;
// A stretch that goes on in the next row needs a row vector from end to end: not of longer rows.
constexpr int64_t kRowElementsMax = 1 << 20;

int64_t ElementsOf(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  return elements;
}

// Where the elements of a buffer lie that belong to elements of the output: its strides along the
// output's dimensions, 0 along those it is repeated in.
absl::StatusOr<std::vector<int64_t>> StridesAlong(const CaseBuffer& output,
                                                  const CaseBuffer& buffer) {
  const size_t rank = output.shape.size();
  const size_t own = buffer.shape.size();
  std::vector<int64_t> strides(rank, 0);
  bool fits = own <= rank;
  for (size_t i = 0; fits && i < own; ++i) {
    const size_t dimension = rank - own + i;
    if (buffer.shape[i] == output.shape[dimension]) {
      strides[dimension] = buffer.strides[i];
    } else {
      fits = buffer.shape[i] == 1;
    }
  }
  if (fits) return strides;
  return absl::InvalidArgumentError(
      absl::StrCat("input ", buffer.name, " of shape [", absl::StrJoin(buffer.shape, ", "),
                   "] cannot be broadcast to [", absl::StrJoin(output.shape, ", "), "]"));
}

// Offsets of a buffer's elements for a range of the output's.
std::vector<int64_t> OffsetsOf(const std::vector<int64_t>& shape,
                               const std::vector<int64_t>& strides, const ElementRange& range) {
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>(range.end - range.begin));
  int64_t dense = 1;
  bool is_dense = true;
  for (size_t i = shape.size(); i-- > 0; dense *= shape[i]) is_dense &= strides[i] == dense;
  for (int64_t element = range.begin; is_dense && element < range.end; ++element) {
    offsets.push_back(element);
  }
  if (is_dense) return offsets;
  for (int64_t element = range.begin; element < range.end; ++element) {
    int64_t rest = element;
    int64_t offset = 0;
    for (size_t i = shape.size(); i-- > 0;) {
      offset += rest % shape[i] * strides[i];
      rest /= shape[i];
    }
    offsets.push_back(offset);
  }
  return offsets;
}

// The bits of the elements at `offsets`, read in one copy of all between the first and the last.
absl::StatusOr<std::vector<uint64_t>> ReadBits(Device& device, uint64_t address, DataType dtype,
                                               const std::vector<int64_t>& offsets) {
  std::vector<uint64_t> bits(offsets.size());
  if (offsets.empty()) return bits;
  const auto [first, last] = std::minmax_element(offsets.begin(), offsets.end());
  const int64_t size = SizeBytes(dtype);
  std::vector<char> bytes(static_cast<size_t>((*last - *first + 1) * size));
  HONE_RETURN_IF_ERROR(device.CopyToHost(bytes.data(),
                                         address + static_cast<uint64_t>(*first * size),
                                         static_cast<int64_t>(bytes.size())));
  for (size_t i = 0; i < offsets.size(); ++i) {
    std::memcpy(&bits[i], bytes.data() + (offsets[i] - *first) * size, static_cast<size_t>(size));
  }
  return bits;
}

// One input of a chain, or one it does not read.
struct Input {
  const CaseBuffer* buffer = nullptr;
  uint64_t address = 0;
  std::vector<int64_t> strides;
};

absl::StatusOr<Input> FindInput(const std::string& name, const CaseBuffer& output,
                                const std::vector<CaseBuffer>& buffers,
                                const std::map<std::string, uint64_t>& addresses) {
  const auto buffer =
      std::find_if(buffers.begin(), buffers.end(),
                   [&](const CaseBuffer& candidate) { return candidate.name == name; });
  const auto address = addresses.find(name);
  if (buffer == buffers.end() || address == addresses.end()) {
    return absl::InternalError(absl::StrCat("the chain reads ", name, ", which is not there"));
  }
  HONE_ASSIGN_OR_RETURN(std::vector<int64_t> strides, StridesAlong(output, *buffer));
  return Input{&*buffer, address->second, std::move(strides)};
}

absl::StatusOr<std::vector<RightRange>> Interpret(Device& device, ChainInterpreter& interpreter,
                                                  const std::vector<Input>& inputs,
                                                  const CaseBuffer& output,
                                                  const ElementRange& range) {
  const auto count = static_cast<size_t>(range.end - range.begin);
  // By element, then by input.
  std::vector<double> values(count * inputs.size(), 0.0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const CaseBuffer* buffer = inputs[i].buffer;
    if (buffer == nullptr) continue;
    HONE_ASSIGN_OR_RETURN(const std::vector<uint64_t> bits,
                          ReadBits(device, inputs[i].address, buffer->dtype,
                                   OffsetsOf(output.shape, inputs[i].strides, range)));
    for (size_t element = 0; element < count; ++element) {
      values[element * inputs.size() + i] =
          element::Decode(static_cast<int>(buffer->dtype), bits[element]);
    }
  }
  std::vector<RightRange> right(count);
  for (size_t element = 0; element < count; ++element) {
    const double* const operands = values.data() + element * inputs.size();
    right[element] = RightResults(output.dtype, interpreter.Evaluate(operands));
  }
  return right;
}

}  // namespace

std::vector<ElementRange> SampledRanges(const std::vector<int64_t>& shape) {
  const int64_t elements = ElementsOf(shape);
  if (elements <= 0) return {};
  if (elements <= kWholeElementsMax) return {{0, elements}};
  const int64_t row = shape.back();
  std::set<int64_t> begins = {0, elements - kStretchElements};
  for (const int64_t limit : {int64_t{1} << 31, int64_t{1} << 32}) {
    if (limit < elements) begins.insert({limit - kStretchElements / 2, limit});
  }
  for (int64_t i = 0; static_cast<int64_t>(begins.size()) < kStretches - 1; ++i) {
    const uint64_t random =
        element::Random(static_cast<uint64_t>(elements), static_cast<uint64_t>(i));
    begins.insert(static_cast<int64_t>(random % static_cast<uint64_t>(elements)));
  }
  std::vector<ElementRange> ranges;
  for (const int64_t begin : begins) {
    int64_t end = std::min(begin + kStretchElements, elements);
    if (row >= kRowElementsMax) end = std::min(end, (begin / row + 1) * row);
    ranges.push_back({begin, end});
  }
  // The last row's end too, which a stretch that began in the row before it did not reach.
  ranges.push_back({std::max(elements - std::min(row, kStretchElements), int64_t{0}), elements});
  return ranges;
}

absl::StatusOr<ChainExpectation> ChainExpectation::Compute(
    Device& device, const ChainCheck& check, const std::vector<CaseBuffer>& buffers,
    const std::map<std::string, uint64_t>& addresses,
    const std::map<std::string, double>& scalars) {
  HONE_ASSIGN_OR_RETURN(const Chain chain, Chain::Parse(check.chain, check.names));
  const auto output = std::find_if(buffers.begin(), buffers.end(), [&](const CaseBuffer& buffer) {
    return buffer.name == check.output;
  });
  if (output == buffers.end()) {
    return absl::InternalError(absl::StrCat("no buffer ", check.output, " to check"));
  }
  ChainExpectation expectation;
  expectation.output_ = *output;
  std::vector<Input> inputs(check.names.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!chain.ReadsInput(i)) continue;
    HONE_ASSIGN_OR_RETURN(inputs[i], FindInput(check.names.inputs[i], *output, buffers, addresses));
  }
  std::vector<float> values;
  for (const std::string& name : check.names.scalars) {
    const auto sample = scalars.find(name);
    values.push_back(sample == scalars.end() ? 0.0f : static_cast<float>(sample->second));
  }
  ChainInterpreter interpreter(&chain, std::move(values), SizeBytes(output->dtype) <= 2);
  bool decides = false;
  bool empty = true;
  for (const ElementRange& range : SampledRanges(output->shape)) {
    HONE_ASSIGN_OR_RETURN(std::vector<RightRange> right,
                          Interpret(device, interpreter, inputs, *output, range));
    empty = false;
    decides = decides || std::any_of(right.begin(), right.end(),
                                     [](const RightRange& one) { return !one.anything; });
    expectation.stretches_.push_back({range, std::move(right)});
  }
  // One element or two may well be undecided.
  if (decides || empty || output->own_elements < 64) return expectation;
  return absl::FailedPreconditionError(
      absl::StrCat("in single precision, rounding decides every result of ", check.chain,
                   " on the inputs it is checked with: no kernel can be verified"));
}

absl::StatusOr<CompareResult> ChainExpectation::Compare(Device& device, uint64_t address) const {
  CompareResult result;
  const int code = static_cast<int>(output_.dtype);
  for (const Stretch& stretch : stretches_) {
    const std::vector<int64_t> offsets = OffsetsOf(output_.shape, output_.strides, stretch.range);
    HONE_ASSIGN_OR_RETURN(const std::vector<uint64_t> bits,
                          ReadBits(device, address, output_.dtype, offsets));
    for (size_t i = 0; i < bits.size(); ++i) {
      const RightRange& right = stretch.right[i];
      const double actual = element::Decode(code, bits[i]);
      ++result.elements;
      if (right.Contains(actual)) continue;
      const double wanted = right.Example();
      const double error = std::fabs(actual - wanted);
      if (std::isfinite(error)) {
        result.max_abs_error = std::max(result.max_abs_error, error);
        result.max_rel_error =
            std::max(result.max_rel_error, error / std::max(std::fabs(wanted), 1e-300));
      }
      if (result.mismatches++ > 0) continue;
      result.first_mismatch = offsets[i];
      result.first_value = actual;
      result.first_reference = wanted;
    }
  }
  return result;
}

}  // namespace hone
