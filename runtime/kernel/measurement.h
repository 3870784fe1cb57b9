// One candidate's result on one device and problem: samples, or why it was rejected.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/kernel/config_space.h"

namespace hone {

// Stored; never renumber.
enum class RejectionKind {
  kConstraint = 1,
  kCompile = 2,
  kResources = 3,
  kLaunch = 4,
  kIllegalAccess = 5,
  kTimeout = 6,
  kWrongResult = 7,
  kUnstable = 8,
  kCrash = 9,
};
// "illegal_access".
std::string Name(RejectionKind kind);

struct Rejection {
  RejectionKind kind = RejectionKind::kCompile;
  std::string detail = {};
  int64_t needed = 0;  // when the kind has a limit, e.g. bytes of shared memory
  int64_t limit = 0;
  std::string log_id = {};
};
// timeout, crash and unstable say something about a moment; they are tried again after an hour.
bool Expires(RejectionKind kind);

struct Measurement {
  Config config;
  std::optional<Rejection> rejection;  // set: there are no samples

  std::vector<double> samples_ns;
  double median_ns = 0;
  double spread = 0;                        // half the interquartile range over the median
  std::vector<std::string> verified_sizes;  // "n=67108864"
  bool verified = false;                    // false: no reference
  // Of the outputs at the tuned size on the fixed check inputs; empty if there were none or they
  // are irreproducible.
  std::string output_sha256;
  // By small check size ("n=1023"), the first 16 digits of the same.
  std::map<std::string, std::string> small_outputs;
  bool irreproducible = false;  // two launches on the same inputs gave different bits
  std::string artifact_sha256;

  int64_t measured_at_unix_ms = 0;
  std::string driver;          // provenance
  std::string compiler_build;  // provenance
  int clock_mhz = 0;           // of the multiprocessors, at the last sample; 0: unknown
  int memory_clock_mhz = 0;    // likewise
  // Besides ours on the device, the most that were seen while it was sampled; -1: unknown.
  int other_processes = -1;
  // Median over the rounds of the final of this time over the fastest finalist's; 0: was not in it.
  double paired_ratio = 0;
  // Something disturbed its samples and did not go away: what. Empty: nothing did.
  std::string unstable;
  // The config that was measured in this one's place, because its code and launches are the same;
  // empty: this one was.
  std::string same_work_as;
  // Somebody declared it no longer trusted: when and why. Empty: nobody did.
  std::string invalidated;
};

// Results of one and the same work, so that no difference between them means anything.
bool AreSameWork(const Measurement& a, const Measurement& b);

// What qualifies a timing without being part of its identity. Empty fields are unknown and differ
// from nothing.
struct Provenance {
  std::string driver;          // "580.159.04"
  std::string compiler_build;  // "nvrtc 13.0.88"
};

// Why `measurement` does not stand for what would be measured under `present`; empty if it does.
std::string StaleReason(const Measurement& measurement, const Provenance& present);

// Which candidates may win. Stored; never renumber.
enum class Numerics { kWithinTolerance = 0, kSameBitsAsDefault = 1 };

// True if both gave the same outputs, bit for bit, at the tuned size and at every small size at
// which both were checked. False where that is not known.
bool SameBits(const Measurement& a, const Measurement& b);

// Fills median_ns and spread from samples_ns. Percentiles interpolate linearly between order
// statistics (Hyndman and Fan's type 7).
void Summarise(Measurement& measurement);

}  // namespace hone
