#include "runtime/cuda/support_kernels.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/element_math.h"
#include "runtime/device/host_elements.h"

namespace hone {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerSm = 8;
constexpr size_t kStagingBytes = 64 << 10;

// As support_kernels.cu declares them.
struct Found {
  uint64_t mismatches;
  uint64_t first;
  uint64_t abs_error;
  uint64_t rel_error;
};
struct SearchRange {
  uint64_t address;
  uint64_t bytes;
  uint64_t value;
};
constexpr size_t kRangesMax = kStagingBytes / (sizeof(SearchRange) + sizeof(uint64_t));

}  // namespace

SupportKernels::SupportKernels(const CudaDriver& driver, CudaModule module, CUstream stream,
                               int sm_count)
    : driver_(&driver),
      module_(std::move(module)),
      stream_(stream),
      blocks_max_(std::max(1, sm_count * kBlocksPerSm)) {}

SupportKernels::SupportKernels(SupportKernels&& other) noexcept
    : driver_(other.driver_),
      module_(std::move(other.module_)),
      stream_(other.stream_),
      blocks_max_(other.blocks_max_),
      fill_(other.fill_),
      compare_(other.compare_),
      find_(other.find_),
      checksum_(other.checksum_),
      pause_(other.pause_),
      staging_(std::exchange(other.staging_, 0)),
      host_staging_(std::exchange(other.host_staging_, nullptr)) {}

SupportKernels::~SupportKernels() {
  // Best effort: on a dead context nothing can be freed, and the process is about to end.
  if (staging_ != 0) driver_->MemFree(staging_);
  if (host_staging_ != nullptr) driver_->MemFreeHost(host_staging_);
}

absl::StatusOr<SupportKernels> SupportKernels::Load(const CudaDriver& driver,
                                                    const Artifact& artifact, CUstream stream,
                                                    int sm_count) {
  HONE_ASSIGN_OR_RETURN(CudaModule module, CudaModule::Load(driver, artifact.bytes));
  SupportKernels support(driver, std::move(module), stream, sm_count);
  const std::pair<const char*, CUfunction*> entries[] = {{"hone_fill", &support.fill_},
                                                         {"hone_compare", &support.compare_},
                                                         {"hone_find_byte_not", &support.find_},
                                                         {"hone_checksum", &support.checksum_},
                                                         {"hone_pause", &support.pause_}};
  for (const auto& [symbol, function] : entries) {
    HONE_ASSIGN_OR_RETURN(*function, support.module_.Function(symbol));
  }
  HONE_RETURN_IF_ERROR(support.Allocate());
  return support;
}

absl::Status SupportKernels::Allocate() {
  HONE_CUDA_RETURN_IF_ERROR(*driver_, MemAlloc(&staging_, kStagingBytes));
  HONE_CUDA_RETURN_IF_ERROR(*driver_, MemHostAlloc(&host_staging_, kStagingBytes, 0));
  return absl::OkStatus();
}

absl::Status SupportKernels::Launch(CUfunction function, int64_t threads_of_work, unsigned rows,
                                    void** arguments) {
  const int64_t blocks = (threads_of_work + kThreads - 1) / kThreads;
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, blocks_max_));
  config.gridDimY = rows;
  config.gridDimZ = 1;
  config.blockDimX = function == pause_ ? 1 : kThreads;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream_;
  HONE_CUDA_RETURN_IF_ERROR(*driver_, LaunchKernelEx(&config, function, arguments, nullptr));
  return absl::OkStatus();
}

absl::Status SupportKernels::Upload(size_t bytes) {
  HONE_CUDA_RETURN_IF_ERROR(*driver_, MemcpyHtoDAsync(staging_, host_staging_, bytes, stream_));
  return absl::OkStatus();
}

absl::Status SupportKernels::Download(size_t offset, size_t bytes) {
  HONE_CUDA_RETURN_IF_ERROR(*driver_, MemcpyDtoHAsync(static_cast<char*>(host_staging_) + offset,
                                                      staging_ + offset, bytes, stream_));
  HONE_CUDA_RETURN_IF_ERROR(*driver_, StreamSynchronize(stream_));
  return absl::OkStatus();
}

absl::Status SupportKernels::Fill(uint64_t address, int64_t elements, const FillSpec& spec) {
  if (elements == 0) return absl::OkStatus();
  element::FillParameters parameters = ToParameters(spec, elements);
  void* arguments[] = {&address, &parameters};
  return Launch(fill_, elements, 1, arguments);
}

absl::Status SupportKernels::Pause(int64_t duration_ns) {
  void* arguments[] = {&duration_ns};
  return Launch(pause_, 1, 1, arguments);
}

absl::StatusOr<CompareResult> SupportKernels::Compare(uint64_t values, uint64_t reference,
                                                      int64_t elements, DataType dtype,
                                                      const Tolerance& tolerance) {
  CompareResult result;
  result.elements = elements;
  if (elements == 0) return result;
  Found found{0, ~uint64_t{0}, 0, 0};
  std::memcpy(host_staging_, &found, sizeof(found));
  HONE_RETURN_IF_ERROR(Upload(sizeof(found)));
  element::CompareParameters parameters = ToParameters(dtype, tolerance);
  auto count = static_cast<uint64_t>(elements);
  CUdeviceptr out = staging_;
  void* arguments[] = {&values, &reference, &count, &parameters, &out};
  HONE_RETURN_IF_ERROR(Launch(compare_, elements, 1, arguments));
  HONE_RETURN_IF_ERROR(Download(0, sizeof(found)));
  std::memcpy(&found, host_staging_, sizeof(found));
  result.mismatches = static_cast<int64_t>(found.mismatches);
  result.max_abs_error = element::BitsDouble(found.abs_error);
  result.max_rel_error = element::BitsDouble(found.rel_error);
  if (result.mismatches == 0) return result;
  result.first_mismatch = static_cast<int64_t>(found.first);
  HONE_ASSIGN_OR_RETURN(result.first_value, ReadElement(values, result.first_mismatch, dtype));
  HONE_ASSIGN_OR_RETURN(result.first_reference,
                        ReadElement(reference, result.first_mismatch, dtype));
  return result;
}

absl::StatusOr<double> SupportKernels::ReadElement(uint64_t address, int64_t element,
                                                   DataType dtype) {
  const auto size = static_cast<size_t>(SizeBytes(dtype));
  uint64_t bits = 0;
  HONE_CUDA_RETURN_IF_ERROR(
      *driver_, MemcpyDtoHAsync(host_staging_, address + static_cast<uint64_t>(element) * size,
                                size, stream_));
  HONE_CUDA_RETURN_IF_ERROR(*driver_, StreamSynchronize(stream_));
  std::memcpy(&bits, host_staging_, size);
  return element::Decode(static_cast<int>(dtype), bits);
}

absl::StatusOr<std::vector<int64_t>> SupportKernels::FindByteNotIn(
    const std::vector<ByteRange>& ranges) {
  if (ranges.size() > kRangesMax) {
    return absl::InternalError(
        absl::StrCat(ranges.size(), " ranges in one search, at most ", kRangesMax, " fit"));
  }
  if (ranges.empty()) return std::vector<int64_t>();
  int64_t longest = 0;
  auto* const searched = static_cast<SearchRange*>(host_staging_);
  for (size_t i = 0; i < ranges.size(); ++i) {
    searched[i] = {ranges[i].address, static_cast<uint64_t>(std::max<int64_t>(0, ranges[i].bytes)),
                   static_cast<uint64_t>(ranges[i].value)};
    longest = std::max(longest, ranges[i].bytes);
  }
  const size_t found_offset = ranges.size() * sizeof(SearchRange);
  const size_t found_bytes = ranges.size() * sizeof(uint64_t);
  char* const found = static_cast<char*>(host_staging_) + found_offset;
  std::memset(found, 0xff, found_bytes);
  HONE_RETURN_IF_ERROR(Upload(found_offset + found_bytes));
  CUdeviceptr device_ranges = staging_;
  CUdeviceptr device_found = staging_ + found_offset;
  void* arguments[] = {&device_ranges, &device_found};
  HONE_RETURN_IF_ERROR(Launch(find_, longest, static_cast<unsigned>(ranges.size()), arguments));
  HONE_RETURN_IF_ERROR(Download(found_offset, found_bytes));
  std::vector<int64_t> offsets(ranges.size());
  // No offset reaches 2^63: "not found" becomes -1.
  std::memcpy(offsets.data(), found, found_bytes);
  return offsets;
}

absl::StatusOr<uint64_t> SupportKernels::Checksum(uint64_t address, int64_t bytes) {
  uint64_t sum = 0;
  if (bytes == 0) return sum;
  std::memcpy(host_staging_, &sum, sizeof(sum));
  HONE_RETURN_IF_ERROR(Upload(sizeof(sum)));
  auto count = static_cast<uint64_t>(bytes);
  CUdeviceptr out = staging_;
  void* arguments[] = {&address, &count, &out};
  HONE_RETURN_IF_ERROR(Launch(checksum_, bytes / 8 + 1, 1, arguments));
  HONE_RETURN_IF_ERROR(Download(0, sizeof(sum)));
  std::memcpy(&sum, host_staging_, sizeof(sum));
  return sum;
}

}  // namespace hone
