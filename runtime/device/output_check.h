// What a check found, as a rejection that a kernel's author can act on.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "runtime/device/device.h"
#include "runtime/device/guarded_arena.h"
#include "runtime/kernel/measurement.h"

namespace hone {

// What outputs are filled with before a launch: a NaN in every floating-point type; in integers a
// value that generated inputs never have.
int PoisonByte(DataType dtype);

// True if a comparison is good enough under the tolerance's share of mismatches.
bool WithinTolerance(const CompareResult& result, const Tolerance& tolerance);

struct OutputMismatch {
  std::string output;
  CompareResult result;
  bool first_unwritten = false;  // the first wrong element still holds poison
  std::string sizes;             // "n=1023"; may be empty
  std::string compared_with;     // the baseline's config; empty: the reference
};

// "wrong result in dst at n=1023: 12 of 1023 elements, first at 77: 0 instead of 1.5, max
// error 1.5".
Rejection WrongResult(const OutputMismatch& mismatch);
// "wrote beyond dst at n=1023: byte 4092 of 4092".
Rejection OutOfBounds(const GuardDamage& damage, const std::string& sizes);
Rejection InputChanged(const std::string& input, const std::string& sizes);

// An error of Load, of Launch, or of Synchronize after it. ABORTED is a fault of the running
// kernel: illegal_access, or timeout or crash where the device says so. RESOURCE_EXHAUSTED is
// resources, with the bytes. Anything else is launch.
Rejection LaunchFailed(const absl::Status& status, const std::string& sizes);

}  // namespace hone
