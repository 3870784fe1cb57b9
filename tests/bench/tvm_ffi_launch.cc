// A launch of three tensors and a scalar as an apache-tvm-ffi function, for python_call_bench.py,
// which compiles it where that package is installed. It checks what hone's call checks of types,
// ranks and extents, and launches a function that is loaded already with a grid that is given.
#include <dlfcn.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace {

using tvm::ffi::TensorView;

using LaunchKernel = int (*)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z,
                             unsigned shared_bytes, void* stream, void** parameters, void** extra);

LaunchKernel Driver() {
  static const auto launch =
      reinterpret_cast<LaunchKernel>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel"));
  return launch;
}

void Check(const TensorView& tensor, int rank, const char* name) {
  const DLDataType dtype = tensor.dtype();
  if (dtype.code != kDLBfloat || dtype.bits != 16 || tensor.ndim() != rank ||
      tensor.device().device_type != kDLCUDA || tensor.stride(rank - 1) != 1) {
    TVM_FFI_THROW(ValueError) << name << " is not a dense bfloat16 tensor of rank " << rank
                              << " on a GPU";
  }
}

void Launch(int64_t function, int64_t grid_x, int64_t block_x, TensorView y, TensorView x,
            TensorView weight, double eps) {
  Check(y, 2, "y");
  Check(x, 2, "x");
  Check(weight, 1, "weight");
  if (y.size(0) != x.size(0) || y.size(1) != x.size(1) || weight.size(0) != x.size(1)) {
    TVM_FFI_THROW(ValueError) << "extents differ";
  }
  void* addresses[] = {y.data_ptr(), x.data_ptr(), weight.data_ptr()};
  float eps_f32 = static_cast<float>(eps);
  int64_t rows = x.size(0);
  void* parameters[] = {&addresses[0], &addresses[1], &addresses[2], &eps_f32, &rows};
  void* stream = TVMFFIEnvGetStream(kDLCUDA, x.device().device_id);
  const int result =
      Driver()(reinterpret_cast<void*>(function), static_cast<unsigned>(grid_x), 1, 1,
               static_cast<unsigned>(block_x), 1, 1, 0, stream, parameters, nullptr);
  if (result != 0) TVM_FFI_THROW(RuntimeError) << "cuLaunchKernel: " << result;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(launch, Launch);

}  // namespace
