// The little hone asks of NVML, bound with dlopen. Everything is optional: without the library, or
// where it hides a figure (inside some containers, for MIG slices), answers are empty.
#pragma once

#include <memory>
#include <string>

#include "runtime/device/device_activity.h"

namespace hone {

// Not thread-safe.
class Nvml {
 public:
  // nullptr when libnvidia-ml.so.1 is not there or does not start.
  static std::unique_ptr<Nvml> Open();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // "580.159.04"; empty when unknown.
  std::string DriverVersion() const;
  // The multiprocessors' present clock; `pci_bus_id` as cuDeviceGetPCIBusId gives it. 0 when
  // unknown.
  int SmClockMhz(const std::string& pci_bus_id) const;
  int MemoryClockMhz(const std::string& pci_bus_id) const;
  // "thermal", "power brake", "hardware slowdown"; empty when nothing but the workload, a power
  // limit or a setting holds the clocks down, or when unknown.
  std::string SlowedDown(const std::string& pci_bus_id) const;
  // Who uses the device now.
  DeviceActivity Activity(const std::string& pci_bus_id) const;

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);
  // False when there is no such device.
  bool Select(const std::string& pci_bus_id) const;
  int ClockMhz(const std::string& pci_bus_id, unsigned clock) const;
  std::unique_ptr<Functions> functions_;
};

}  // namespace hone
