#include "runtime/launch/cuda_launcher.h"

#include <array>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/cuda_launch_kernel.h"

namespace hone {
namespace {

constexpr size_t kJitLogBytes = 8192;

}  // namespace

struct CudaModule::State {
  const CudaDriver* driver = nullptr;
  CUmodule module = nullptr;
  Mutex mutex;
  std::map<std::string, std::unique_ptr<CudaFunction>> functions ABSL_GUARDED_BY(mutex);

  // Fails when the context is already gone, and then there is nothing left to unload.
  ~State() {
    if (module != nullptr) driver->ModuleUnload(module);
  }
};

CudaModule::CudaModule(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaModule::CudaModule(CudaModule&&) noexcept = default;
CudaModule& CudaModule::operator=(CudaModule&&) noexcept = default;
CudaModule::~CudaModule() = default;

CUmodule CudaModule::get() const { return state_->module; }
const CudaDriver& CudaModule::driver() const { return *state_->driver; }

absl::StatusOr<CudaModule> CudaModule::Load(const CudaDriver& driver, absl::string_view image) {
  // PTX is read up to a terminating zero, which a view does not promise.
  const std::string terminated(image);
  std::array<char, kJitLogBytes> log{};
  std::array<CUjit_option, 2> options{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  auto state = std::make_unique<State>();
  state->driver = &driver;
  const CUresult result =
      driver.ModuleLoadDataEx(&state->module, terminated.c_str(),
                              static_cast<unsigned>(options.size()), options.data(), values.data());
  if (result != CUDA_SUCCESS) {
    state->module = nullptr;
    const absl::Status status = driver.ToStatus(result, "cuModuleLoadDataEx");
    const absl::string_view text = absl::StripAsciiWhitespace(log.data());
    if (text.empty()) return status;
    return absl::Status(status.code(), absl::StrCat(status.message(), "\n", text));
  }
  return CudaModule(std::move(state));
}

absl::Status CudaFunction::AllowMore(uint32_t dynamic_shared_bytes, uint32_t cluster_size) {
  const MutexLock lock(&mutex_);
  if (dynamic_shared_bytes > shared_bytes_allowed_.load(std::memory_order_relaxed)) {
    HONE_CUDA_RETURN_IF_ERROR(
        driver_, FuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  static_cast<int>(dynamic_shared_bytes)));
    shared_bytes_allowed_.store(dynamic_shared_bytes, std::memory_order_release);
  }
  if (cluster_size > kPortableClusterSize &&
      !large_clusters_allowed_.load(std::memory_order_relaxed)) {
    HONE_CUDA_RETURN_IF_ERROR(
        driver_,
        FuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    large_clusters_allowed_.store(true, std::memory_order_release);
  }
  return absl::OkStatus();
}

absl::StatusOr<CudaFunction*> CudaModule::Find(const std::string& symbol) {
  const CudaDriver& driver = *state_->driver;
  const MutexLock lock(&state_->mutex);
  const auto found = state_->functions.find(symbol);
  if (found != state_->functions.end()) return found->second.get();
  CUfunction function = nullptr;
  const CUresult result = driver.ModuleGetFunction(&function, state_->module, symbol.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) {
    return absl::NotFoundError(absl::StrCat("the module has no kernel '", symbol, "'"));
  }
  if (result != CUDA_SUCCESS) return driver.ToStatus(result, "cuModuleGetFunction");
  if (driver.FuncLoad != nullptr) {
    HONE_CUDA_RETURN_IF_ERROR(driver, FuncLoad(function));
  }
  auto owned = std::make_unique<CudaFunction>(driver, function);
  return state_->functions.emplace(symbol, std::move(owned)).first->second.get();
}

absl::StatusOr<CUfunction> CudaModule::Function(const std::string& symbol,
                                                uint32_t dynamic_shared_bytes,
                                                uint32_t cluster_size) {
  HONE_ASSIGN_OR_RETURN(CudaFunction* const function, Find(symbol));
  HONE_RETURN_IF_ERROR(function->Allow(dynamic_shared_bytes, cluster_size));
  return function->get();
}

namespace {

absl::StatusOr<CUtensorMapDataType> TensorMapType(DataType type) {
  switch (type) {
    case DataType::kU8:
    case DataType::kI8:
    case DataType::kBool:
    case DataType::kF8E4M3:
    case DataType::kF8E5M2:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case DataType::kU16:
    case DataType::kI16:
      return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case DataType::kU32:
      return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    case DataType::kI32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DataType::kU64:
      return CU_TENSOR_MAP_DATA_TYPE_UINT64;
    case DataType::kI64:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
    case DataType::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DataType::kF32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DataType::kF64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case DataType::kBF16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  }
  return absl::InvalidArgumentError(absl::StrCat("data type ", static_cast<int>(type)));
}

// A tensor map's numbers, wherever they stand.
struct TensorMapView {
  const RecipeTensorMap& recipe;
  uint64_t address;
  absl::Span<const uint64_t> dims;
  absl::Span<const uint64_t> strides_bytes;
  absl::Span<const uint32_t> box;
  absl::Span<const uint32_t> element_strides;
};

std::string Describe(const TensorMapView& map) {
  return absl::StrCat("buffer '", map.recipe.buffer, "' at 0x", absl::Hex(map.address), " ",
                      Name(map.recipe.dtype), " dims [", absl::StrJoin(map.dims, ", "),
                      "] strides_bytes [", absl::StrJoin(map.strides_bytes, ", "), "] box [",
                      absl::StrJoin(map.box, ", "), "] swizzle ", map.recipe.swizzle);
}

absl::Status Encode(const CudaDriver& driver, const TensorMapView& map, CUtensorMap& encoded) {
  if (driver.TensorMapEncodeTiled == nullptr) {
    return absl::FailedPreconditionError(
        "the CUDA driver has no tensor maps (cuTensorMapEncodeTiled)");
  }
  HONE_ASSIGN_OR_RETURN(const CUtensorMapDataType type, TensorMapType(map.recipe.dtype));
  const CUresult result = driver.TensorMapEncodeTiled(
      &encoded, type, static_cast<cuuint32_t>(map.dims.size()),
      reinterpret_cast<void*>(map.address), reinterpret_cast<const cuuint64_t*>(map.dims.data()),
      reinterpret_cast<const cuuint64_t*>(map.strides_bytes.data()), map.box.data(),
      map.element_strides.data(), static_cast<CUtensorMapInterleave>(map.recipe.interleave),
      static_cast<CUtensorMapSwizzle>(map.recipe.swizzle),
      static_cast<CUtensorMapL2promotion>(map.recipe.l2_promotion),
      map.recipe.fill_nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                          : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const absl::Status status = driver.ToStatus(result, "cuTensorMapEncodeTiled");
  return absl::Status(status.code(), absl::StrCat(status.message(), ": ", Describe(map)));
}

// A kernel's parameters as cuLaunchKernelEx takes them: pointers into ResolvedStep or encoded maps.
std::vector<void*> ParameterPointers(const ResolvedStep& step, std::vector<CUtensorMap>& maps) {
  std::vector<void*> pointers;
  pointers.reserve(step.arguments.size());
  for (const PackedArgument& argument : step.arguments) {
    if (argument.tensor_map >= 0) {
      pointers.push_back(&maps[static_cast<size_t>(argument.tensor_map)]);
    } else {
      // The driver only reads parameters; its interface is older than its const.
      pointers.push_back(const_cast<std::byte*>(argument.bytes.data()));
    }
  }
  return pointers;
}

absl::Status Enqueue(const CudaDriver& driver, CudaModule& module, const ResolvedStep& step,
                     std::vector<CUtensorMap>& maps, CUstream stream) {
  if (!step.symbol.empty()) {
    HONE_ASSIGN_OR_RETURN(
        const CUfunction function,
        module.Function(step.symbol, step.dynamic_shared_bytes, BlocksPerCluster(step.cluster)));
    std::vector<void*> parameters = ParameterPointers(step, maps);
    return LaunchKernel(driver, function, step, parameters.data(), stream);
  }
  HONE_CUDA_RETURN_IF_ERROR(
      driver, MemsetD8Async(step.memset_address, static_cast<unsigned char>(step.memset_value),
                            step.memset_bytes, stream));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CUtensorMap> EncodeTensorMap(const CudaDriver& driver,
                                            const ResolvedTensorMap& map) {
  CUtensorMap encoded{};
  HONE_RETURN_IF_ERROR(Encode(driver,
                              {.recipe = *map.recipe,
                               .address = map.address,
                               .dims = map.dims,
                               .strides_bytes = map.strides_bytes,
                               .box = map.box,
                               .element_strides = map.element_strides},
                              encoded));
  return encoded;
}

absl::Status EncodeTensorMap(const CudaDriver& driver, const PlannedTensorMap& map,
                             CUtensorMap& encoded) {
  return Encode(driver,
                {.recipe = *map.recipe,
                 .address = map.address,
                 .dims = {map.dims.data(), map.rank},
                 .strides_bytes = {map.strides_bytes.data(), map.rank - 1},
                 .box = {map.box.data(), map.rank},
                 .element_strides = {map.element_strides.data(), map.rank}},
                encoded);
}

absl::Status LaunchOnStream(const CudaDriver& driver, CudaModule& module,
                            const ResolvedLaunch& launch, CUstream stream) {
  std::vector<CUtensorMap> maps;
  maps.reserve(launch.tensor_maps.size());
  for (const ResolvedTensorMap& map : launch.tensor_maps) {
    HONE_ASSIGN_OR_RETURN(CUtensorMap encoded, EncodeTensorMap(driver, map));
    maps.push_back(encoded);
  }
  for (size_t i = 0; i < launch.steps.size(); ++i) {
    const ResolvedStep& step = launch.steps[i];
    if (absl::Status status = Enqueue(driver, module, step, maps, stream); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("step ", i, " (",
                                                      step.symbol.empty() ? "memset" : step.symbol,
                                                      "): ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace hone
