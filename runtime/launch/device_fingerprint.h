// What makes timings comparable between devices.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/launch/expression.h"

namespace hone {

// Facts that expressions may use as device.NAME; known before any measurement.
using DeviceFacts = SizeBindings;  // "device.sm_count" -> 132

// Reported maxima, never measured values, marketing name or UUID (DESIGN: TuningKey).
struct DeviceFingerprint {
  std::string kind;          // "cuda", "cpu"
  std::string architecture;  // "sm_90a"; of a CPU "x86-64-v3"
  int sm_count = 0;          // visible in the context; logical cores for a CPU
  int64_t clock_khz = 0;
  int64_t memory_clock_khz = 0;
  int memory_bus_bits = 0;
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;
  std::string slice;  // a partition's identity, for instance a MIG profile

  // Reported clock times width, two transfers a clock; 0 where it is not reported.
  double PeakMemoryGbPerS() const;
  // A bound no dense kernel passes: the reported clock times 8192 operations a clock on each
  // multiprocessor, which is what sm_90's tensor cores do in 8-bit types (half of it in 16-bit
  // ones). 0 where the clock is not reported.
  double PeakFlopPerNs() const;
  // `name=value` lines in fixed order.
  std::string Canonical() const;
  // SHA-256 of Canonical().
  std::string Key() const;
  friend bool operator==(const DeviceFingerprint& a, const DeviceFingerprint& b) {
    return a.Canonical() == b.Canonical();
  }
};

// Limits that decide whether a candidate can launch, and facts for expressions.
struct DeviceLimits {
  int max_threads_per_block = 1024;
  int64_t shared_bytes_per_block_max = 48 * 1024;  // opt-in maximum
  int64_t shared_bytes_per_sm = 0;
  int registers_per_block = 65536;
  int max_cluster_size = 1;
  int warp_size = 32;
};

// A device as the daemon lists it.
struct DeviceInfo {
  int index = 0;
  std::string name;          // for people only
  std::string architecture;  // what compilers are asked for: "sm_90a", "cpu"
  DeviceFingerprint fingerprint;
  DeviceLimits limits;
  int driver_version = 0;  // cuDriverGetVersion; 0 for a CPU
  std::string driver;      // "580.159.04"; provenance

  // device.sm_count, device.shared_bytes_per_block_max, device.max_threads_per_block,
  // device.l2_bytes, device.warp_size.
  DeviceFacts Facts() const;
};

// True for the names that Facts() gives: those that expressions may use.
bool IsDeviceFact(absl::string_view name);

}  // namespace hone
