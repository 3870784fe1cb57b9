// What measurements say beyond who won: which ceiling holds a kernel, and what each tunable did.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/kernel/device_ceilings.h"
#include "runtime/kernel/measurement.h"

namespace hone {

// What a kernel has to do, as its template states it.
struct Workload {
  int64_t bytes = 0;  // read and written; 0: not stated
  int64_t flops = 0;
  // Input type of the matrix units that do the flops ("bf16"); empty: fused multiply-adds in F32.
  std::string matrix_type;
  // The template requires wgmma. Its matrix units are otherwise taken to be used through mma.sync.
  bool wgmma = false;
};

// One ceiling that applies to a kernel.
struct CeilingShare {
  Ceiling ceiling;
  double achieved = 0;  // in the ceiling's unit; of the launch, the kernel's time
  double share = 0;     // the ceiling's time over the kernel's
  double least_ns = 0;  // what this ceiling alone takes
  // Of an instruction that the kernel does not use: what the device could do.
  bool of_another_instruction = false;
};

enum class Bound { kUnknown, kNone, kMemory, kArithmetic, kLaunch };
// "memory", "arithmetic", "launch", "none", "unknown".
std::string Name(Bound bound);

// From this share of a ceiling on it is what holds a kernel. The rule is the one of Nsight
// Compute's "Speed Of Light" section: with memory and arithmetic both below 60 % of their peaks,
// latencies are the likely limit. Its peaks are the hardware's counters, ours are what the device
// reached and what the work needs; a kernel that moves more than it needs is thus far from its
// ceiling although the memory may be busy. The ceilings themselves are those of Williams, Waterman
// and Patterson, "Roofline: an insightful visual performance model for multicore architectures",
// CACM 2009.
inline constexpr double kBoundShare = 0.6;
// With half of the time spent on what an empty kernel takes too, nothing inside can win much.
inline constexpr double kLaunchBoundShare = 0.5;

struct Roofline {
  std::vector<CeilingShare> shares;  // copy, arithmetic, launch
  Bound bound = Bound::kUnknown;
  std::string reason;   // the rule with this kernel's numbers
  double least_ns = 0;  // by the ceilings no kernel does this work faster; 0: unknown
};

// `ns`: the kernel's time, above 0.
Roofline PlaceUnderCeilings(double ns, const Workload& work, const DeviceCeilings& ceilings);

struct ValueEffect {
  int64_t value = 0;
  int measured = 0;
  int rejected = 0;  // for other reasons than a constraint
  // Time over the reference's: of the fastest with this value, and the geometric mean; 0: none.
  double best_ratio = 0;
  double mean_ratio = 0;
};

struct TunableEffect {
  std::string name;
  std::vector<ValueEffect> values;  // ascending
  // Slowest over fastest among candidates that differ in this tunable alone, the geometric mean
  // over all such groups: unlike the means of the values it compares like with like where
  // constraints leave holes. 1: does not matter; 0: never varied alone.
  double matters = 0;
  int groups = 0;
};

// What matters most first. `reference` is one of the timed measurements.
std::vector<TunableEffect> TunableEffects(const std::vector<Measurement>& measurements,
                                          const Measurement& reference);

// The fastest timed measurement that has all of `values`, a config or part of one; nullptr if there
// is none.
const Measurement* FastestWith(const std::vector<Measurement>& measurements, const Config& values);

// The closest to `subject` among the other timed ones that are as well verified; nullptr if there
// is none.
const Measurement* RunnerUpTo(const std::vector<Measurement>& measurements,
                              const Measurement& subject);

}  // namespace hone
