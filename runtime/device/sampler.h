// What one sample is: how the cache is left before it, and how many launches it holds.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/check_case.h"
#include "runtime/device/device.h"

namespace hone {

// Decides once for a problem, so that all its candidates are timed alike.
//
// A kernel that even at its best ends within some tens of microseconds is timed several launches at
// a time, each on a set of buffers of its own: between two events lies about a microsecond that is
// not the kernel's. Cold, the sets are flushed from the cache before the first launch, and none
// brings in another's. Not thread-safe.
class Sampler {
 public:
  // All must outlive this object. `tuned` is built.
  Sampler(const ProblemContext* context, CheckCase* tuned);

  // `count` samples in ns after an untimed launch. Read-write buffers are pristine before each.
  absl::StatusOr<std::vector<double>> Take(const Runnable& candidate, int count);

 private:
  // The launches of one sample, or, without a sequence, of one sample each in turn.
  struct Plan {
    std::vector<ResolvedLaunch> launches;
    std::unique_ptr<LaunchSequence> sequence;
  };

  int SequenceLength() const;
  int SetsThatFit(int wanted) const;
  bool WritesInPlace() const;
  absl::StatusOr<Plan> MakePlan(const Runnable& candidate);
  absl::StatusOr<std::vector<ResolvedLaunch>> Launches(const Runnable& candidate, int sets);

  const ProblemContext* const context_;
  Device* const device_;
  CheckCase* const tuned_;
  const MeasuringPolicy::Cache cache_;
  int sequence_length_ = 1;  // 1: launches are timed one by one
  int sets_ = 1;
};

}  // namespace hone
