// One set of inputs with the outputs that are right for it, and candidates run against them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/device/case_buffers.h"
#include "runtime/device/chain_expectation.h"
#include "runtime/device/device.h"
#include "runtime/device/device_memory.h"
#include "runtime/device/guarded_arena.h"
#include "runtime/device/profiler.h"

namespace hone {

// Told before foreign code may run (`launching`) and when it has ended, so that whoever watches
// from outside knows which limit holds and what to blame.
using PhaseListener = std::function<void(bool launching, const std::string& what)>;

// What all cases of one problem share. Outlives them.
struct ProblemContext {
  Device* device = nullptr;
  DeviceMemory* memory = nullptr;
  ProfileProblem problem;
  LoadedModule* check_module = nullptr;  // references and generators; may be absent
  SizeBindings facts;                    // device.*
  GuardedArena* work = nullptr;          // candidates' own buffers at small sizes
  GuardedArena* scratch = nullptr;
  PhaseListener on_phase;
};

// Code that can be launched. Pointers must outlive the call they are given to.
struct Runnable {
  LoadedModule* module = nullptr;
  const LaunchRecipe* recipe = nullptr;
};

// Where right outputs come from: a reference entry, a chain's interpreter, or the first candidate
// when there are none.
struct ReferenceSource {
  Runnable run;
  std::vector<ReferenceCheck::Output> outputs;  // none of a chain: it keeps its own on the host
  std::string baseline;  // the first candidate's config; empty for a reference entry or chain
  const ChainCheck* chain = nullptr;  // instead of `run`; outlives the cases
};

// Not thread-safe. A Status from these methods is about the lane; ABORTED: the device is dead.
class CheckCase {
 public:
  // kTuned: candidates read the pristine inputs and have buffers of their own for the whole
  // problem; nothing is placed anew. kSmall: a candidate's buffers share an arena with other cases,
  // at the least alignment its recipe accepts.
  enum class Role { kTuned, kSmall };

  static absl::StatusOr<std::unique_ptr<CheckCase>> Create(const ProblemContext* context,
                                                           CaseSpec spec, Role role);

  // Device memory that Build takes, the shared arenas left out.
  int64_t NeededBytes(const std::vector<ReferenceSource>& sources) const;
  // Fills the inputs and runs the sources. Of a source that failed: FAILED_PRECONDITION when it did
  // not run, ABORTED when it killed the device, OUT_OF_RANGE when it wrote outside of its outputs,
  // DATA_LOSS when it left part of them unwritten.
  absl::Status Build(const std::vector<ReferenceSource>& sources);
  bool built() const { return built_; }
  // The next Build starts over: somebody may have written where they should not.
  void Invalidate() { built_ = false; }

  // OutputDigest after one more launch from the same inputs; launch errors are ABORTED, as in Run,
  // or FAILED_PRECONDITION. REQUIRES: Run found nothing wrong with the candidate.
  absl::StatusOr<std::string> RepeatedDigest(const Runnable& candidate);
  // OK if the recipe's guards hold for this case.
  absl::Status Accepts(const LaunchRecipe& recipe);
  // Restores, launches, looks at guard zones, inputs and outputs. ABORTED: the candidate killed the
  // device. REQUIRES: built().
  absl::StatusOr<std::optional<Rejection>> Run(const Runnable& candidate);
  // False: inputs or right outputs are no longer what Build left.
  absl::StatusOr<bool> Intact();

  // For timing: buffers placed, scratch zeroed; then Restore before every launch.
  absl::StatusOr<ResolvedLaunch> Prepare(const Runnable& candidate);
  // As Prepare, for several launches each on a set of buffers of its own: none finds another's data
  // in a cache, and read-write buffers take part once a Restore. The first set is Prepare's; the
  // others are made at the first call and filled like it. RESOURCE_EXHAUSTED: they do not fit.
  absl::StatusOr<std::vector<ResolvedLaunch>> PrepareSets(const Runnable& candidate, int sets);
  // Device memory of one further set.
  int64_t SetBytes() const;
  // Read-write buffers of all sets become pristine again.
  absl::Status Restore();
  // Damage around the candidate's buffers since Prepare.
  absl::StatusOr<std::optional<Rejection>> FindDamage();

  // SHA-256 over the outputs' checksums as the last run left them.
  absl::StatusOr<std::string> OutputDigest();

  const CaseSpec& spec() const { return spec_; }
  std::string label() const { return spec_.Label(); }

 private:
  struct Expected {
    std::string output;
    std::string key;  // in references_
    Tolerance tolerance;
    std::string baseline;
    uint64_t checksum = 0;
  };

  CheckCase(const ProblemContext* context, CaseSpec spec, Role role,
            std::vector<CaseBuffer> buffers);

  GuardedArena& work() { return role_ == Role::kTuned ? own_work_ : *context_->work; }
  const CaseBuffer* Find(const std::string& name) const;
  std::vector<GuardedBuffer> PristineLayout() const;
  std::vector<GuardedBuffer> ReferenceLayout(const std::vector<ReferenceSource>& sources) const;
  std::vector<GuardedBuffer> WorkLayout(const LaunchRecipe* recipe) const;
  std::vector<GuardedBuffer> MoreSetsLayout(int count) const;

  absl::Status FillInputs();
  absl::Status RunGenerator(const BufferInit& init);
  std::map<std::string, uint64_t> PristineAddresses() const;
  absl::Status InterpretChain(const ChainCheck& check);
  absl::Status RunSource(const ReferenceSource& source, size_t index);
  absl::Status CheckWritten(const ReferenceSource& source, size_t index);
  // Addresses by buffer name; `overrides` come first.
  LaunchArguments Arguments(const std::map<std::string, uint64_t>& overrides);
  absl::Status PlaceScratch(const LaunchRecipe& recipe, LaunchArguments& arguments);
  absl::Status PlaceWork(const LaunchRecipe* recipe);
  absl::Status PlaceMoreSets(int count);
  absl::Status RestoreAll();
  absl::Status LaunchAndWait(LoadedModule& module, const ResolvedLaunch& launch,
                             const std::string& what);
  absl::StatusOr<std::optional<Rejection>> Inspect();
  absl::StatusOr<std::optional<Rejection>> CompareOutputs();
  absl::StatusOr<Rejection> Wrong(const CaseBuffer& buffer, const CompareResult& result,
                                  const std::string& compared_with);
  absl::StatusOr<bool> StillPoison(const CaseBuffer& buffer, int64_t element);

  const ProblemContext* context_;
  const CaseSpec spec_;
  const Role role_;
  const std::vector<CaseBuffer> buffers_;
  GuardedArena pristine_;    // inputs, and read-write buffers as they begin
  GuardedArena references_;  // right outputs, by Expected::key
  GuardedArena own_work_;    // kTuned
  GuardedArena more_sets_;   // buffers of the second set and beyond, by SetName
  int more_sets_count_ = 0;
  std::map<std::string, uint64_t> pristine_checksums_;
  std::vector<Expected> expected_;
  std::vector<ChainExpectation> chains_;
  bool built_ = false;
};

}  // namespace hone
