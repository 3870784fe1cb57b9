#include "runtime/launch/cuda_launcher.h"

#include <array>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// Static shared memory counts against this too, but what fits in it needs no opt-in.
constexpr uint32_t kSharedBytesWithoutOptIn = 48 * 1024;
// Larger clusters are not portable and must be allowed function by function.
constexpr uint32_t kPortableClusterSize = 8;
constexpr size_t kJitLogBytes = 8192;

struct LoadedFunction {
  CUfunction function = nullptr;
  uint32_t shared_bytes_allowed = kSharedBytesWithoutOptIn;
  bool large_clusters = false;
};

}  // namespace

struct CudaModule::State {
  const CudaDriver* driver = nullptr;
  CUmodule module = nullptr;
  Mutex mutex;
  std::map<std::string, LoadedFunction> functions ABSL_GUARDED_BY(mutex);

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

absl::StatusOr<CUfunction> CudaModule::Function(const std::string& symbol,
                                                uint32_t dynamic_shared_bytes,
                                                uint32_t cluster_size) {
  const CudaDriver& driver = *state_->driver;
  const MutexLock lock(&state_->mutex);
  LoadedFunction& loaded = state_->functions[symbol];
  if (loaded.function == nullptr) {
    const CUresult result =
        driver.ModuleGetFunction(&loaded.function, state_->module, symbol.c_str());
    if (result != CUDA_SUCCESS) {
      state_->functions.erase(symbol);
      if (result == CUDA_ERROR_NOT_FOUND) {
        return absl::NotFoundError(absl::StrCat("the module has no kernel '", symbol, "'"));
      }
      return driver.ToStatus(result, "cuModuleGetFunction");
    }
    if (driver.FuncLoad != nullptr) {
      HONE_CUDA_RETURN_IF_ERROR(driver, FuncLoad(loaded.function));
    }
  }
  if (dynamic_shared_bytes > loaded.shared_bytes_allowed) {
    HONE_CUDA_RETURN_IF_ERROR(
        driver, FuncSetAttribute(loaded.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                 static_cast<int>(dynamic_shared_bytes)));
    loaded.shared_bytes_allowed = dynamic_shared_bytes;
  }
  if (cluster_size > kPortableClusterSize && !loaded.large_clusters) {
    HONE_CUDA_RETURN_IF_ERROR(
        driver,
        FuncSetAttribute(loaded.function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    loaded.large_clusters = true;
  }
  return loaded.function;
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

std::string Describe(const ResolvedTensorMap& map) {
  return absl::StrCat("buffer '", map.recipe->buffer, "' at 0x", absl::Hex(map.address), " ",
                      Name(map.recipe->dtype), " dims [", absl::StrJoin(map.dims, ", "),
                      "] strides_bytes [", absl::StrJoin(map.strides_bytes, ", "), "] box [",
                      absl::StrJoin(map.box, ", "), "] swizzle ", map.recipe->swizzle);
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

absl::Status LaunchKernel(const CudaDriver& driver, CudaModule& module, const ResolvedStep& step,
                          std::vector<CUtensorMap>& maps, CUstream stream) {
  const uint32_t cluster_size = step.cluster[0] * step.cluster[1] * step.cluster[2];
  HONE_ASSIGN_OR_RETURN(const CUfunction function,
                        module.Function(step.symbol, step.dynamic_shared_bytes, cluster_size));
  std::array<CUlaunchAttribute, 2> attributes{};
  unsigned count = 0;
  if (cluster_size > 1) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[count].value.clusterDim = {step.cluster[0], step.cluster[1], step.cluster[2]};
    ++count;
  }
  if (step.programmatic_dependent_launch) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count].value.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  CUlaunchConfig config{};
  config.gridDimX = step.grid[0];
  config.gridDimY = step.grid[1];
  config.gridDimZ = step.grid[2];
  config.blockDimX = step.block[0];
  config.blockDimY = step.block[1];
  config.blockDimZ = step.block[2];
  config.sharedMemBytes = step.dynamic_shared_bytes;
  config.hStream = stream;
  config.attrs = attributes.data();
  config.numAttrs = count;
  std::vector<void*> parameters = ParameterPointers(step, maps);
  HONE_CUDA_RETURN_IF_ERROR(driver, LaunchKernelEx(&config, function, parameters.data(), nullptr));
  return absl::OkStatus();
}

absl::Status Enqueue(const CudaDriver& driver, CudaModule& module, const ResolvedStep& step,
                     std::vector<CUtensorMap>& maps, CUstream stream) {
  if (!step.symbol.empty()) return LaunchKernel(driver, module, step, maps, stream);
  HONE_CUDA_RETURN_IF_ERROR(
      driver, MemsetD8Async(step.memset_address, static_cast<unsigned char>(step.memset_value),
                            step.memset_bytes, stream));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CUtensorMap> EncodeTensorMap(const CudaDriver& driver,
                                            const ResolvedTensorMap& map) {
  if (driver.TensorMapEncodeTiled == nullptr) {
    return absl::FailedPreconditionError(
        "the CUDA driver has no tensor maps (cuTensorMapEncodeTiled)");
  }
  HONE_ASSIGN_OR_RETURN(const CUtensorMapDataType type, TensorMapType(map.recipe->dtype));
  CUtensorMap encoded{};
  const CUresult result = driver.TensorMapEncodeTiled(
      &encoded, type, static_cast<cuuint32_t>(map.dims.size()),
      reinterpret_cast<void*>(map.address), reinterpret_cast<const cuuint64_t*>(map.dims.data()),
      reinterpret_cast<const cuuint64_t*>(map.strides_bytes.data()), map.box.data(),
      map.element_strides.data(), static_cast<CUtensorMapInterleave>(map.recipe->interleave),
      static_cast<CUtensorMapSwizzle>(map.recipe->swizzle),
      static_cast<CUtensorMapL2promotion>(map.recipe->l2_promotion),
      map.recipe->fill_nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                           : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return encoded;
  const absl::Status status = driver.ToStatus(result, "cuTensorMapEncodeTiled");
  return absl::Status(status.code(), absl::StrCat(status.message(), ": ", Describe(map)));
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
