// The launch stub compiled next to each kernel. Part of cuda_on_cpu.h.
#pragma once

#if defined(__x86_64__) && defined(__AVX2__) && defined(__FMA__) && defined(__BMI2__)
#define HONE_CPU_ISA_LEVEL 3
#else
#define HONE_CPU_ISA_LEVEL 0
#endif

namespace hone_cpu {

template <auto Kernel>
struct Stub;

// Parameters are unpacked once a row; the loop has no other cost than counting, so that threads
// which never wait cost what an iteration costs.
template <typename... P, void (*Kernel)(P...)>
struct Stub<Kernel> {
  static constexpr uint32_t kCount = sizeof...(P);
  static constexpr uint32_t kBytes[sizeof...(P) + 1] = {static_cast<uint32_t>(sizeof(P))..., 0};

  __attribute__((flatten)) static void Threads(uint32_t first, P... p) {
    do {
      threadIdx.x = first;
      Kernel(p...);
    } while (++first < row_end);
  }
  template <size_t... I>
  static void Unpack(void* const* arguments, uint32_t first, std::index_sequence<I...>) {
    (void)arguments;
    Threads(first, *static_cast<const std::remove_reference_t<P>*>(arguments[I])...);
  }
  static void Row(void* const* arguments, uint32_t first) {
    Unpack(arguments, first, std::index_sequence_for<P...>());
  }
};

// Picks the kernel where the C library has a function of the same name: kernels return nothing.
template <typename... P>
constexpr auto OnlyKernel(void (*kernel)(P...)) {
  return kernel;
}

template <auto Kernel>
constexpr HoneCpuEntry MakeEntry() {
  return {&Stub<Kernel>::Row, Stub<Kernel>::kCount, Stub<Kernel>::kBytes};
}

// The launcher's access to the indices.
inline void SetLaunch(const HoneCpuLaunch* launch) {
  gridDim = dim3(launch->grid.x, launch->grid.y, launch->grid.z);
  blockDim = dim3(launch->block.x, launch->block.y, launch->block.z);
  dynamic_shared = launch->dynamic_shared;
  dynamic_shared_bytes = launch->dynamic_shared_bytes;
  runtime = launch->runtime;
}
inline void SetBlock(HoneCpuIndex block) { blockIdx = make_uint3(block.x, block.y, block.z); }
inline void SetThread(HoneCpuIndex thread) { threadIdx = make_uint3(thread.x, thread.y, thread.z); }
inline void SetRowEnd(uint32_t end) { row_end = end; }
inline HoneCpuIndex BlockForLauncher() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
inline HoneCpuIndex ThreadForLauncher() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }

}  // namespace hone_cpu

#define HONE_CPU_EXPORT extern "C" __attribute__((visibility("default")))

// HONE_CPU_ENTRY(symbol, kernel expression): the expression may hold commas.
#define HONE_CPU_ENTRY(symbol, ...)           \
  HONE_CPU_EXPORT const HoneCpuEntry symbol = \
      hone_cpu::MakeEntry<hone_cpu::OnlyKernel(__VA_ARGS__)>();

HONE_CPU_EXPORT const HoneCpuModule hone_cpu_module = {
    HONE_CPU_ABI_VERSION,        HONE_CPU_ISA_LEVEL,           &hone_cpu::SetLaunch,
    &hone_cpu::SetBlock,         &hone_cpu::SetThread,         &hone_cpu::SetRowEnd,
    &hone_cpu::BlockForLauncher, &hone_cpu::ThreadForLauncher,
};
