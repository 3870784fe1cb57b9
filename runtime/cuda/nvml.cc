#include "runtime/cuda/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <utility>

namespace hone {
namespace {

// From NVML's stable ABI; its header is not needed for these.
using NvmlDevice = void*;
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlInsufficientSize = 7;
// nvmlProcessInfo_t of version 3 of the calls, nvmlMemory_v2_t, nvmlUtilization_t.
struct NvmlProcess {
  unsigned pid = 0;
  unsigned long long used_bytes = 0;
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
};
struct NvmlMemory {
  unsigned version = sizeof(NvmlMemory) | (2u << 24);
  unsigned long long total = 0;
  unsigned long long reserved = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;  // without what is reserved
};
struct NvmlUtilization {
  unsigned gpu_percent = 0;
  unsigned memory_percent = 0;
};
// More than anybody runs on a device; beyond, they are many anyway.
constexpr unsigned kProcessesMax = 256;
constexpr unsigned kClockSm = 1;      // NVML_CLOCK_SM
constexpr unsigned kClockMemory = 2;  // NVML_CLOCK_MEM
// nvmlClocksThrottleReasons (since NVML 12 nvmlClocksEventReasons), the most telling first.
constexpr std::pair<unsigned long long, const char*> kProtections[] = {
    {0x40, "thermal"},            // HwThermalSlowdown
    {0x20, "thermal"},            // SwThermalSlowdown
    {0x80, "power brake"},        // HwPowerBrakeSlowdown
    {0x08, "hardware slowdown"},  // HwSlowdown
};

template <typename F>
bool Bind(void* library, const char* symbol, F& function) {
  function = reinterpret_cast<F>(dlsym(library, symbol));
  return function != nullptr;
}

}  // namespace

struct Nvml::Functions {
  void* library = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*device_by_pci_bus_id)(const char*, NvmlDevice*) = nullptr;
  int (*clock_info)(NvmlDevice, unsigned, unsigned*) = nullptr;
  // Optional.
  int (*throttle_reasons)(NvmlDevice, unsigned long long*) = nullptr;
  int (*compute_processes)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;
  int (*graphics_processes)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;
  int (*memory_info)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  // The device asked for last: look-ups take longer than the clock itself.
  std::string pci_bus_id;
  NvmlDevice device = nullptr;
};

std::unique_ptr<Nvml> Nvml::Open() {
  auto functions = std::make_unique<Functions>();
  functions->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (functions->library == nullptr) return nullptr;
  Functions& f = *functions;
  const bool bound = Bind(f.library, "nvmlInit_v2", f.init) &&
                     Bind(f.library, "nvmlShutdown", f.shutdown) &&
                     Bind(f.library, "nvmlSystemGetDriverVersion", f.driver_version) &&
                     Bind(f.library, "nvmlDeviceGetHandleByPciBusId_v2", f.device_by_pci_bus_id) &&
                     Bind(f.library, "nvmlDeviceGetClockInfo", f.clock_info);
  if (!Bind(f.library, "nvmlDeviceGetCurrentClocksEventReasons", f.throttle_reasons)) {
    Bind(f.library, "nvmlDeviceGetCurrentClocksThrottleReasons", f.throttle_reasons);
  }
  Bind(f.library, "nvmlDeviceGetComputeRunningProcesses_v3", f.compute_processes);
  Bind(f.library, "nvmlDeviceGetGraphicsRunningProcesses_v3", f.graphics_processes);
  Bind(f.library, "nvmlDeviceGetMemoryInfo_v2", f.memory_info);
  Bind(f.library, "nvmlDeviceGetUtilizationRates", f.utilization);
  if (!bound || f.init() != kNvmlSuccess) {
    dlclose(f.library);
    return nullptr;
  }
  return std::unique_ptr<Nvml>(new Nvml(std::move(functions)));
}

Nvml::Nvml(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}

Nvml::~Nvml() {
  // Best effort: the process is about to end or to open it again.
  functions_->shutdown();
  dlclose(functions_->library);
}

std::string Nvml::DriverVersion() const {
  std::array<char, 96> version{};
  if (functions_->driver_version(version.data(), version.size()) != kNvmlSuccess) return "";
  return version.data();
}

bool Nvml::Select(const std::string& pci_bus_id) const {
  Functions& f = *functions_;
  if (f.device != nullptr && f.pci_bus_id == pci_bus_id) return true;
  f.device = nullptr;
  if (f.device_by_pci_bus_id(pci_bus_id.c_str(), &f.device) != kNvmlSuccess) return false;
  f.pci_bus_id = pci_bus_id;
  return true;
}

int Nvml::ClockMhz(const std::string& pci_bus_id, unsigned clock) const {
  unsigned mhz = 0;
  if (!Select(pci_bus_id) ||
      functions_->clock_info(functions_->device, clock, &mhz) != kNvmlSuccess)
    return 0;
  return static_cast<int>(mhz);
}

int Nvml::SmClockMhz(const std::string& pci_bus_id) const { return ClockMhz(pci_bus_id, kClockSm); }

int Nvml::MemoryClockMhz(const std::string& pci_bus_id) const {
  return ClockMhz(pci_bus_id, kClockMemory);
}

std::string Nvml::SlowedDown(const std::string& pci_bus_id) const {
  unsigned long long reasons = 0;
  if (functions_->throttle_reasons == nullptr || !Select(pci_bus_id) ||
      functions_->throttle_reasons(functions_->device, &reasons) != kNvmlSuccess) {
    return "";
  }
  for (const auto& [bit, name] : kProtections) {
    if ((reasons & bit) != 0) return name;
  }
  return "";
}

DeviceActivity Nvml::Activity(const std::string& pci_bus_id) const {
  DeviceActivity activity;
  if (!Select(pci_bus_id)) return activity;
  const Functions& f = *functions_;
  for (const auto list : {f.compute_processes, f.graphics_processes}) {
    if (list == nullptr) continue;
    std::array<NvmlProcess, kProcessesMax> processes;
    unsigned count = kProcessesMax;
    const int result = list(f.device, &count, processes.data());
    if (result != kNvmlSuccess && result != kNvmlInsufficientSize) continue;
    activity.processes = std::max(activity.processes, 0) + static_cast<int>(count);
  }
  NvmlMemory memory;
  if (f.memory_info != nullptr && f.memory_info(f.device, &memory) == kNvmlSuccess) {
    activity.used_bytes = static_cast<int64_t>(memory.used);
  }
  NvmlUtilization utilization;
  if (f.utilization != nullptr && f.utilization(f.device, &utilization) == kNvmlSuccess) {
    activity.utilization_percent = static_cast<int>(utilization.gpu_percent);
  }
  return activity;
}

}  // namespace hone
