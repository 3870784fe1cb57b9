// What a kernel is, and launching it.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/c/handles.h"
#include "client/c/hone.h"
#include "client/cpp/kernel_outline.h"
#include "client/cpp/serving_target.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

using BufferArray = std::array<PlanBuffer, kPlanArgumentsMax>;

absl::Status ReadBuffers(const hone_buffer* buffers, size_t count, BufferArray& read) {
  if (count > read.size()) {
    return absl::UnimplementedError(
        absl::StrCat("the kernel has ", count, " buffers; launches take ", read.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    const hone_buffer& given = buffers[i];
    read[i] = {.address = reinterpret_cast<uint64_t>(given.address),
               .shape = given.shape,
               .strides = given.strides,
               .rank = given.shape == nullptr && given.strides == nullptr ? -1 : given.rank};
  }
  return absl::OkStatus();
}

// The inputs of a launch as plans take them, on the caller's stack.
class Inputs {
 public:
  // INVALID_ARGUMENT for an array that is missing. Without scratch, none is given to the kernel.
  absl::Status Read(const LaunchNames& names, const hone_arguments* arguments, bool with_scratch) {
    if (arguments == nullptr) return Missing("arguments");
    const auto lacks = [](const void* list, const std::vector<std::string>& wanted) {
      return list == nullptr && !wanted.empty();
    };
    if (lacks(arguments->sizes, names.sizes)) return Missing("hone_arguments.sizes");
    if (lacks(arguments->buffers, names.buffers)) return Missing("hone_arguments.buffers");
    if (lacks(arguments->scalars, names.scalars)) return Missing("hone_arguments.scalars");
    HONE_RETURN_IF_ERROR(ReadBuffers(arguments->buffers, names.buffers.size(), buffers_));
    HONE_RETURN_IF_ERROR(
        ReadScratch(names, with_scratch ? arguments->scratch : nullptr, with_scratch));
    inputs_ = {.sizes = arguments->sizes,
               .buffers = buffers_.data(),
               .scalars = arguments->scalars,
               .scratch = scratch_.data()};
    return absl::OkStatus();
  }

  const PlanInputs& get() const { return inputs_; }

 private:
  absl::Status ReadScratch(const LaunchNames& names, void* const* scratch, bool needed) {
    if (names.scratch.empty()) return absl::OkStatus();
    if (scratch == nullptr && needed) return Missing("hone_arguments.scratch");
    if (names.scratch.size() > scratch_.size()) {
      return absl::UnimplementedError(absl::StrCat("the kernel has ", names.scratch.size(),
                                                   " scratch arguments; launches take ",
                                                   scratch_.size()));
    }
    for (size_t i = 0; i < names.scratch.size(); ++i) {
      scratch_[i] = scratch == nullptr ? 0 : reinterpret_cast<uint64_t>(scratch[i]);
    }
    return absl::OkStatus();
  }

  PlanInputs inputs_;
  // Not initialised: only as many as the kernel has are read and written.
  BufferArray buffers_;
  std::array<uint64_t, kPlanArgumentsMax> scratch_;
};

const v1::GetKernelResponse& ResponseOf(const hone_kernel* kernel) {
  return FromC(kernel).kernel.response();
}

const char* NameAt(const std::vector<std::string>& names, int32_t index) {
  return index < 0 || static_cast<size_t>(index) >= names.size()
             ? nullptr
             : names[static_cast<size_t>(index)].c_str();
}

int32_t Count(const std::vector<std::string>& names) { return static_cast<int32_t>(names.size()); }

}  // namespace
}  // namespace hone

using hone::FromC;
using hone::Missing;
using hone::ToC;

extern "C" {

const char* hone_dtype_name(hone_dtype dtype) {
  const bool known = dtype >= HONE_F16 && dtype <= HONE_BOOL;
  return known ? hone::Name(static_cast<hone::DataType>(dtype)).data() : "?";
}

int32_t hone_kernel_size_count(const hone_kernel* kernel) {
  return hone::Count(FromC(kernel).kernel.names().sizes);
}
const char* hone_kernel_size_name(const hone_kernel* kernel, int32_t index) {
  return hone::NameAt(FromC(kernel).kernel.names().sizes, index);
}
int32_t hone_kernel_buffer_count(const hone_kernel* kernel) {
  return static_cast<int32_t>(FromC(kernel).outline.buffers.size());
}
hone_buffer_info hone_kernel_buffer(const hone_kernel* kernel, int32_t index) {
  const auto& buffers = FromC(kernel).outline.buffers;
  if (index < 0 || static_cast<size_t>(index) >= buffers.size()) return {};
  const hone::BufferOutline& buffer = buffers[static_cast<size_t>(index)];
  return {.name = buffer.name.c_str(),
          .dtype = static_cast<hone_dtype>(buffer.dtype),
          .access = static_cast<hone_access>(buffer.access),
          .rank = buffer.rank,
          .optional = buffer.optional ? 1 : 0};
}
int32_t hone_kernel_scalar_count(const hone_kernel* kernel) {
  return hone::Count(FromC(kernel).kernel.names().scalars);
}
const char* hone_kernel_scalar_name(const hone_kernel* kernel, int32_t index) {
  return hone::NameAt(FromC(kernel).kernel.names().scalars, index);
}
int32_t hone_kernel_scratch_count(const hone_kernel* kernel) {
  return hone::Count(FromC(kernel).kernel.names().scratch);
}
const char* hone_kernel_scratch_name(const hone_kernel* kernel, int32_t index) {
  return hone::NameAt(FromC(kernel).kernel.names().scratch, index);
}

const char* hone_kernel_source(const hone_kernel* kernel) {
  switch (hone::ResponseOf(kernel).source()) {
    case hone::v1::TUNED:
      return "TUNED";
    case hone::v1::BUCKET:
      return "BUCKET";
    case hone::v1::NEAREST:
      return "NEAREST";
    case hone::v1::DEFAULT:
      return "DEFAULT";
    default:  // of a newer daemon
      return "UNKNOWN";
  }
}
const char* hone_kernel_key(const hone_kernel* kernel) {
  return hone::ResponseOf(kernel).key().c_str();
}
const char* hone_kernel_config(const hone_kernel* kernel) {
  return FromC(kernel).kernel.variants().front().config.c_str();
}
const char* hone_kernel_architecture(const hone_kernel* kernel) {
  return hone::ResponseOf(kernel).kernel().architecture().c_str();
}
uint64_t hone_kernel_generation(const hone_kernel* kernel) { return FromC(kernel).generation; }
int32_t hone_kernel_is_stale(const hone_kernel* kernel) {
  return hone::ResponseOf(kernel).stale() ? 1 : 0;
}
int32_t hone_kernel_is_from_pack(const hone_kernel* kernel) {
  return FromC(kernel).kernel.from_pack() ? 1 : 0;
}

int32_t hone_current_device(void) { return hone::CurrentCudaDevice(); }

int32_t hone_is_capturing(void* stream) {
  return hone::IsCapturingInCurrentContext(static_cast<CUstream_st*>(stream)) ? 1 : 0;
}

hone_error* hone_use_device(int32_t device) { return ToC(hone::UseCudaDevice(device)); }

hone_error* hone_sizes_from_shapes(const hone_kernel* kernel, const hone_buffer* buffers,
                                   int64_t* sizes) {
  if (kernel == nullptr) return ToC(Missing("kernel"));
  const hone::ServedKernel& served = FromC(kernel);
  const size_t count = served.outline.buffers.size();
  if (buffers == nullptr && count > 0) return ToC(Missing("buffers"));
  if (sizes == nullptr && !served.kernel.names().sizes.empty()) return ToC(Missing("sizes"));
  std::array<hone::PlanBuffer, hone::kPlanArgumentsMax> read;
  if (absl::Status status = hone::ReadBuffers(buffers, count, read); !status.ok()) {
    return ToC(status);
  }
  return ToC(hone::SizesFromShapes(served.outline, served.kernel.names(), read.data(), sizes));
}

hone_error* hone_kernel_scratch_bytes(const hone_kernel* kernel, const hone_arguments* arguments,
                                      int32_t index, int64_t* bytes) {
  if (kernel == nullptr) return ToC(Missing("kernel"));
  if (bytes == nullptr) return ToC(Missing("bytes"));
  const hone::Kernel& served = FromC(kernel).kernel;
  const auto count = static_cast<int32_t>(served.names().scratch.size());
  if (index < 0 || index >= count) {
    return ToC(absl::InvalidArgumentError(
        absl::StrCat("scratch ", index, " of a kernel that has ", count)));
  }
  hone::Inputs inputs;
  if (absl::Status status = inputs.Read(served.names(), arguments, /*with_scratch=*/false);
      !status.ok()) {
    return ToC(status);
  }
  const auto needed = served.ScratchBytes(static_cast<size_t>(index), inputs.get());
  if (!needed.ok()) return ToC(needed.status());
  *bytes = *needed;
  return nullptr;
}

hone_error* hone_launch(const hone_kernel* kernel, const hone_arguments* arguments, void* stream) {
  if (kernel == nullptr) return ToC(Missing("kernel"));
  const hone::Kernel& served = FromC(kernel).kernel;
  hone::Inputs inputs;
  absl::Status status = inputs.Read(served.names(), arguments, /*with_scratch=*/true);
  if (status.ok()) status = served.Launch(inputs.get(), static_cast<CUstream_st*>(stream));
  return ToC(status);
}

hone_error* hone_launch_on_cpu(const hone_kernel* kernel, const hone_arguments* arguments) {
  if (kernel == nullptr) return ToC(Missing("kernel"));
  const hone::Kernel& served = FromC(kernel).kernel;
  hone::Inputs inputs;
  absl::Status status = inputs.Read(served.names(), arguments, /*with_scratch=*/true);
  if (status.ok()) status = served.LaunchOnCpu(inputs.get());
  return ToC(status);
}

}  // extern "C"
