// What a device reaches when it does nothing else: the roofs that kernels are held against.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone {

// Names, in the order in which they are kept. Matrix rates are "mma_sync_" or "wgmma_" with "tf32",
// "f16", "bf16" or "fp8"; see Ceiling in the public API for what each means.
inline constexpr char kCopyCeiling[] = "copy";      // GB/s, bytes read plus bytes written
inline constexpr char kF32Ceiling[] = "f32";        // TFLOP/s
inline constexpr char kLaunchCeiling[] = "launch";  // ns

struct Ceiling {
  std::string name;
  double value = 0;  // above 0
  std::string unit;  // "GB/s", "TFLOP/s", "ns"
  std::string how;   // which of several ways was the fastest
};

// Measured once for a device and kept with it; not part of any key.
struct DeviceCeilings {
  // Bump when the way of measuring changes: those of another version are measured again.
  static constexpr int kVersion = 1;

  std::vector<Ceiling> ceilings;
  int version = kVersion;
  int64_t measured_at_unix_ms = 0;
  std::string driver;
  int clock_mhz = 0;  // after the last measurement; 0: unknown

  // nullptr if the device has no such ceiling.
  const Ceiling* Find(absl::string_view name) const {
    const auto found = std::find_if(ceilings.begin(), ceilings.end(),
                                    [&](const Ceiling& ceiling) { return ceiling.name == name; });
    return found == ceilings.end() ? nullptr : &*found;
  }
};

}  // namespace hone
