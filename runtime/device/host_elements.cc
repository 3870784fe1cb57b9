#include "runtime/device/host_elements.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/base/status_macros.h"

namespace hone {
namespace {

static_assert(static_cast<int>(DataType::kF16) == element::kTypeF16);
static_assert(static_cast<int>(DataType::kF8E5M2) == element::kTypeF8E5M2);
static_assert(static_cast<int>(DataType::kI8) == element::kTypeI8);
static_assert(static_cast<int>(DataType::kBool) == element::kTypeBool);
static_assert(static_cast<int>(InitKind::kNormal) == element::kInitNormal);
static_assert(static_cast<int>(InitKind::kPermutation) == element::kInitPermutation);
static_assert(static_cast<int>(InitKind::kZeros) == element::kInitZeros);

uint64_t Load(const unsigned char* from, int bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, static_cast<size_t>(bytes));
  return bits;
}

}  // namespace

element::FillParameters ToParameters(const FillSpec& spec, int64_t elements) {
  element::FillParameters parameters;
  parameters.init = static_cast<int>(spec.kind);
  parameters.type = static_cast<int>(spec.dtype);
  parameters.low = spec.low;
  parameters.high = spec.high;
  parameters.skew = spec.skew;
  parameters.seed = spec.seed;
  parameters.count = static_cast<uint64_t>(elements);
  return parameters;
}

element::CompareParameters ToParameters(DataType dtype, const Tolerance& tolerance) {
  element::CompareParameters parameters;
  parameters.type = static_cast<int>(dtype);
  parameters.exact = tolerance.exact ? 1 : 0;
  parameters.nan_forbidden = tolerance.nan == NanPolicy::kNanForbidden ? 1 : 0;
  parameters.atol = tolerance.atol;
  parameters.rtol = tolerance.rtol;
  return parameters;
}

void FillElements(void* to, int64_t elements, const FillSpec& spec) {
  const element::FillParameters parameters = ToParameters(spec, elements);
  const int size = element::ElementBytes(parameters.type);
  auto* out = static_cast<unsigned char*>(to);
  for (int64_t i = 0; i < elements; ++i, out += size) {
    const uint64_t bits = element::ElementBits(parameters, static_cast<uint64_t>(i));
    std::memcpy(out, &bits, static_cast<size_t>(size));
  }
}

CompareResult CompareElements(const void* values, const void* reference, int64_t elements,
                              DataType dtype, const Tolerance& tolerance) {
  const element::CompareParameters parameters = ToParameters(dtype, tolerance);
  const int size = element::ElementBytes(parameters.type);
  CompareResult result;
  result.elements = elements;
  const auto* left = static_cast<const unsigned char*>(values);
  const auto* right = static_cast<const unsigned char*>(reference);
  const size_t bytes = static_cast<size_t>(elements) * static_cast<size_t>(size);
  const bool any_nan_counts = parameters.nan_forbidden != 0;
  if (!any_nan_counts && (bytes == 0 || std::memcmp(left, right, bytes) == 0)) return result;
  for (int64_t i = 0; i < elements; ++i, left += size, right += size) {
    const uint64_t value = Load(left, size);
    const uint64_t wanted = Load(right, size);
    if (value == wanted && !any_nan_counts) continue;
    const element::Difference difference = element::ComparePair(parameters, value, wanted);
    result.max_abs_error = std::max(result.max_abs_error, difference.abs_error);
    result.max_rel_error = std::max(result.max_rel_error, difference.rel_error);
    if (!difference.mismatch) continue;
    if (result.mismatches++ == 0) {
      result.first_mismatch = i;
      result.first_value = element::Decode(parameters.type, value);
      result.first_reference = element::Decode(parameters.type, wanted);
    }
  }
  return result;
}

int64_t FindByteNotInMemory(const void* memory, int value, int64_t bytes) {
  const auto* p = static_cast<const unsigned char*>(memory);
  if (bytes <= 0) return -1;
  const auto wanted = static_cast<unsigned char>(value);
  // A buffer whose first byte is right and which equals itself shifted by one is right throughout.
  if (p[0] == wanted && std::memcmp(p, p + 1, static_cast<size_t>(bytes - 1)) == 0) return -1;
  const auto* found = std::find_if(p, p + bytes, [wanted](unsigned char c) { return c != wanted; });
  return found - p;
}

uint64_t AddChecksum(uint64_t sum, const void* memory, int64_t bytes, uint64_t first_word) {
  const auto* p = static_cast<const unsigned char*>(memory);
  uint64_t word = first_word;
  for (; bytes >= 8; bytes -= 8, p += 8) sum += element::ChecksumShare(Load(p, 8), word++);
  if (bytes > 0) sum += element::ChecksumShare(Load(p, static_cast<int>(bytes)), word);
  return sum;
}

absl::StatusOr<std::vector<int64_t>> Device::FindByteNotIn(const std::vector<ByteRange>& ranges) {
  std::vector<int64_t> found;
  for (const ByteRange& range : ranges) {
    HONE_ASSIGN_OR_RETURN(const int64_t offset,
                          FindByteNot(range.address, range.value, range.bytes));
    found.push_back(offset);
  }
  return found;
}

absl::StatusOr<double> Device::TimeCopyNs(uint64_t, uint64_t, int64_t) {
  return absl::UnimplementedError("this device has no copy of its own to time");
}

absl::StatusOr<std::unique_ptr<LaunchSequence>> Device::MakeSequence(
    LoadedModule&, const std::vector<ResolvedLaunch>&) {
  return absl::UnimplementedError("this device makes no sequences");
}

absl::StatusOr<double> Device::TimeSequenceNs(LaunchSequence&) {
  return absl::UnimplementedError("this device makes no sequences");
}

absl::StatusOr<uint64_t> Device::Checksum(uint64_t address, int64_t bytes) {
  constexpr int64_t kPiece = 1 << 20;
  std::vector<char> piece(static_cast<size_t>(std::min(bytes, kPiece)));
  uint64_t sum = 0;
  for (int64_t done = 0; done < bytes; done += kPiece) {
    const int64_t size = std::min(kPiece, bytes - done);
    HONE_RETURN_IF_ERROR(CopyToHost(piece.data(), address + static_cast<uint64_t>(done), size));
    sum = AddChecksum(sum, piece.data(), size, static_cast<uint64_t>(done) / 8);
  }
  return sum;
}

}  // namespace hone
