// The exclusive measuring lane of one device, as the tuner sees it.
//
// DeviceProfiler implements it over a Device in the same process (measuring workers, unit tests);
// WorkerProfiler implements it over a worker process, which it starts, replaces and kills.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/kernel/device_ceilings.h"
#include "runtime/kernel/instantiate.h"
#include "runtime/kernel/measurement.h"
#include "runtime/kernel/program.h"
#include "runtime/launch/device_fingerprint.h"

namespace hone {

// How samples are taken. Its text is an ingredient of the tuning key.
struct MeasuringPolicy {
  // Bump when the meaning of a sample changes.
  static constexpr int kVersion = 2;
  // What a kernel finds in the last-level cache: nothing (flushed before every sample), its own
  // data from the sample before, or data of other buffers that took turns with its own.
  enum class Cache { kCold = 0, kWarm = 1, kRotating = 2 };
  Cache cache = Cache::kCold;

  // "cold", "warm" or "rotating"; nullopt for anything else.
  static std::optional<Cache> ParseCache(absl::string_view name);
  std::string cache_name() const;
  // "v2 cold".
  std::string ToString() const;
};

// Everything about one tune that does not depend on the config.
struct ProfileProblem {
  SizeBindings sizes;  // the tuned dynamic sizes
  CheckPlan check;
  std::optional<Artifact> check_artifact;  // absent when there are no references or generators
  // The argument list, from any config's recipe: dtypes, shapes and access are the same for all.
  LaunchRecipe arguments;
  MeasuringPolicy policy;
  absl::Duration launch_timeout = absl::Seconds(10);
  int64_t memory_bytes_max = 0;  // 0: what the device has
};

struct ProfileCandidate {
  int64_t id = 0;  // chosen by the caller; unique within a problem
  Config config;
  Artifact artifact;
  LaunchRecipe recipe;
  std::vector<SizeBindings> check_sizes;  // besides the tuned one
};

struct CheckResult {
  std::optional<Rejection> rejection;
  bool verified = false;
  std::vector<std::string> verified_sizes;
  std::string output_sha256;  // as in Measurement, these three
  std::map<std::string, std::string> small_outputs;
  bool irreproducible = false;
};

struct SampleResult {
  std::optional<Rejection> rejection;
  std::vector<double> samples_ns;
  int clock_mhz = 0;         // 0: unknown
  int memory_clock_mhz = 0;  // 0: unknown
  // Why the device ran slower than it can ("thermal"), if it says so.
  std::string slowed_down;
  int other_processes = -1;  // on the device; -1: unknown
};

// Not thread-safe; one caller at a time. A candidate's failure is a Rejection; a Status means that
// the lane itself failed: RESOURCE_EXHAUSTED (needed and available bytes), UNAVAILABLE (no worker
// could be started), FAILED_PRECONDITION (no such device, EXCLUSIVE_PROCESS), INTERNAL (the
// reference failed).
class Profiler {
 public:
  virtual ~Profiler() = default;

  virtual absl::StatusOr<DeviceInfo> Info() = 0;

  // Takes up the device, as the next call would do anyway: time that a caller can use for other
  // things. What fails here fails again there.
  virtual void WarmUp() {}
  // Allocates and fills inputs and runs the references. Ends the problem before it, if any.
  virtual absl::Status Begin(const ProfileProblem& problem) = 0;
  // Loads the candidate and checks its outputs at the tuned size and at `check_sizes`; keeps it
  // loaded for Sample unless it was rejected. The first candidate checked in a problem without a
  // reference becomes the one the others are compared with.
  virtual absl::StatusOr<CheckResult> Check(const ProfileCandidate& candidate) = 0;
  // `count` samples of a checked candidate after one untimed run. Read-write buffers are restored
  // before each, outside the timing.
  virtual absl::StatusOr<SampleResult> Sample(int64_t candidate_id, int count) = 0;
  // Unloads one candidate.
  virtual void Forget(int64_t candidate_id) = 0;
  // Frees all device memory of the problem.
  virtual void End() = 0;
  // What the device reaches, measured now: a second or two, with at most this much device memory;
  // 0: what there is. Ends the problem under way. UNIMPLEMENTED (the default) where nobody
  // measures.
  virtual absl::StatusOr<DeviceCeilings> MeasureCeilings(int64_t /*memory_bytes_max*/) {
    return absl::UnimplementedError("this lane measures no ceilings");
  }
  // Gives up everything held on the device, the context and worker process included; the next call
  // takes it up again.
  virtual void Release() = 0;
};

}  // namespace hone
