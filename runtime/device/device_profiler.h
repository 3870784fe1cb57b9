// The measuring lane over a Device in this process.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/check_case.h"
#include "runtime/device/device.h"
#include "runtime/device/device_memory.h"
#include "runtime/device/guarded_arena.h"
#include "runtime/device/profiler.h"
#include "runtime/device/sampler.h"

namespace hone {

// A kernel that never ends blocks Check and Sample for ever here; WorkerProfiler ends it from
// outside.
//
// Inputs are filled once and references run once per size; both stay on the device until End. Every
// candidate is checked at the tuned size, at its check sizes with buffers at the least alignment
// its recipe accepts, and with each optional buffer absent. What looks like a candidate's fault is
// looked at twice if an earlier one may have damaged the data.
class DeviceProfiler : public Profiler {
 public:
  // `device` must outlive this object.
  explicit DeviceProfiler(Device* device);
  ~DeviceProfiler() override;

  void SetPhaseListener(PhaseListener listener);
  // After a fault the device answers nothing any more: its process must be replaced. Begin, Check
  // and Sample are UNAVAILABLE from then on.
  bool device_lost() const { return lost_; }

  absl::StatusOr<DeviceInfo> Info() override;
  absl::Status Begin(const ProfileProblem& problem) override;
  absl::StatusOr<CheckResult> Check(const ProfileCandidate& candidate) override;
  absl::StatusOr<SampleResult> Sample(int64_t candidate_id, int count) override;
  void Forget(int64_t candidate_id) override;
  void End() override;
  void Release() override;

 private:
  // A checked candidate; its recipe lives as long as launches resolved from it.
  struct Loaded {
    Config config;
    LaunchRecipe recipe;
    std::unique_ptr<LoadedModule> module;
    Runnable runnable() const { return {module.get(), &recipe}; }
  };
  struct CandidateCase {
    CaseSpec spec;
    bool tuned = false;
  };

  absl::Status Usable(const char* what) const;
  absl::Status BeginCases();
  absl::StatusOr<std::shared_ptr<Loaded>> Load(const ProfileCandidate& candidate);
  std::vector<CandidateCase> CasesOf(const ProfileCandidate& candidate) const;
  absl::StatusOr<std::optional<Rejection>> CheckCases(const Loaded& loaded,
                                                      const std::vector<CandidateCase>& cases,
                                                      CheckResult& result);
  // nullptr: this case cannot be built (out of memory, or the baseline does not accept it).
  absl::StatusOr<CheckCase*> CaseFor(const CandidateCase& wanted);
  absl::StatusOr<std::optional<Rejection>> RunCase(CheckCase& check_case, const Loaded& loaded);
  // Whether a rejection may be the fault of data that somebody damaged before; the case is then
  // built anew at its next use.
  absl::StatusOr<bool> Suspect(CheckCase& check_case, const Rejection& rejection);
  void AdoptBaseline(std::shared_ptr<Loaded> loaded);
  void DropBaseline();
  absl::StatusOr<SampleResult> TakeSamples(const Loaded& loaded, int count);

  Device* const device_;
  PhaseListener listener_;
  bool lost_ = false;

  // The problem, in the order in which members must be destroyed last.
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<GuardedArena> work_;
  std::unique_ptr<GuardedArena> scratch_;
  std::unique_ptr<LoadedModule> check_module_;
  std::unique_ptr<ProblemContext> context_;
  std::shared_ptr<Loaded> baseline_;
  std::vector<ReferenceSource> sources_;
  std::unique_ptr<CheckCase> tuned_;
  std::unique_ptr<Sampler> sampler_;
  std::list<std::unique_ptr<CheckCase>> small_;  // most recently used first
  std::map<int64_t, std::shared_ptr<Loaded>> loaded_;
};

}  // namespace hone
