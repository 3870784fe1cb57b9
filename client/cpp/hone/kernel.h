// A kernel ready to launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hone/v1/kernel_service.pb.h"
#include "runtime/launch/launch_plan.h"
#include "runtime/launch/launch_recipe.h"
#include "runtime/launch/resolve_launch.h"

// CUDA's stream without its header; nullptr is the legacy default stream.
struct CUstream_st;

namespace hone {

class LaunchRecorder;

// Immutable; copies share everything. Thread-safe. Holds the artifacts' bytes, verified against
// their SHA-256, and outlives the client it came from.
//
// Every launch takes the first variant whose guards hold for that launch's sizes and pointers and
// evaluates its grid anew, so a kernel tuned at one size serves every size the template declares.
//
// Inputs are given by name (LaunchArguments) or, cheaper, by position (PlanInputs, in the order of
// names()). Unknown names and whatever else is wrong are told in words either way.
class Kernel {
 public:
  struct Variant {
    v1::ArtifactInfo artifact;
    std::string bytes;
    std::string config;  // "XBLOCK=256 VEC=4"
    LaunchRecipe recipe;
  };

  // What the daemon said: source, key, generation, staleness, parameters. The artifacts' bytes
  // stand in variants() only.
  const v1::GetKernelResponse& response() const;
  // A pack answered because the daemon could not be reached. Its generation is 0: generations of
  // another store would mean nothing here.
  bool from_pack() const;
  // In the order in which launches try them; never empty. All take the same arguments.
  const std::vector<Variant>& variants() const;

  // Names of the sizes that a launch must give.
  const std::vector<std::string>& dynamic_sizes() const;

  // Names of everything that a launch takes, in the order in which PlanInputs gives it.
  const LaunchNames& names() const;

  // Index of the variant that Launch would take; where guards mention device facts, those of the
  // CUDA context current on this thread unless `arguments` gives them. INVALID_ARGUMENT for a size,
  // buffer or scalar the kernel does not have; FAILED_PRECONDITION when no variant's guards hold,
  // with each one's reason.
  absl::StatusOr<int> ChooseVariant(const LaunchArguments& arguments) const;
  absl::StatusOr<int> ChooseVariant(const PlanInputs& inputs) const;

  // Bytes a scratch argument needs in this launch; NOT_FOUND when the kernel has none of that name.
  // Scratch belongs to the caller: launches that may run at the same time need their own.
  absl::StatusOr<int64_t> ScratchBytes(const std::string& name,
                                       const LaunchArguments& arguments) const;
  // `position`: in names().scratch.
  absl::StatusOr<int64_t> ScratchBytes(size_t position, const PlanInputs& inputs) const;

  // Loads every variant into the CUDA context that is current on this thread. Without it the first
  // Launch in a context does the same. Modules stay loaded while the process lives, so that
  // captured graphs stay valid. FAILED_PRECONDITION: no driver, no current context, a driver older
  // than the binary needs (both versions named), another architecture, a kernel of the CPU device.
  absl::Status Prepare() const;

  // Enqueues the kernel on a stream of the current context and returns. Makes no synchronising
  // call, so that it is legal under stream capture; a kernel that is not loaded yet is refused
  // there with FAILED_PRECONDITION ("call Prepare before capture") and leaves the capture valid.
  // Other errors: ChooseVariant's; INVALID_ARGUMENT for a missing argument; ABORTED when the
  // context is dead.
  absl::Status Launch(const LaunchArguments& arguments, CUstream_st* stream) const;
  // The same with inputs by position, for callers who launch often: a launch that the guards accept
  // makes no allocation and takes no lock once its variant is loaded in the context. REQUIRES: the
  // arrays are as long as names() says.
  absl::Status Launch(const PlanInputs& inputs, CUstream_st* stream) const;

  // Runs the kernel on the CPU reference device and returns when it has ended; addresses are of
  // this process. FAILED_PRECONDITION when the client did not enable the CPU device or the kernel
  // is not for it. A kernel that touches a bad address ends the process.
  absl::Status LaunchOnCpu(const LaunchArguments& arguments) const;
  absl::Status LaunchOnCpu(const PlanInputs& inputs) const;

  // The same kernel, whose launches `recorder` sees.
  Kernel Recorded(std::shared_ptr<const LaunchRecorder> recorder) const;

  struct State;
  explicit Kernel(std::shared_ptr<const State> state);

 private:
  absl::Status LaunchUnseen(const LaunchArguments& arguments, CUstream_st* stream) const;
  absl::Status LaunchUnseen(const PlanInputs& inputs, CUstream_st* stream) const;
  absl::Status LaunchOnCpuUnseen(const LaunchArguments& arguments) const;
  // The first variant whose plan accepts; nullopt when none does, or one has no plan.
  std::optional<int> ChooseByPlan(const PlanInputs& inputs) const;
  // With the facts of the current context's device where expressions mention any and there is one.
  LaunchArguments WithDeviceFacts(LaunchArguments arguments) const;
  absl::StatusOr<int> ChooseByName(const LaunchArguments& arguments) const;
  // True: launched. False: the launch by names has the answer.
  absl::StatusOr<bool> LaunchByPlan(const PlanInputs& inputs, CUstream_st* stream) const;
  absl::Status LaunchByName(const LaunchArguments& arguments, CUstream_st* stream) const;
  bool IsLoaded(uint64_t context, size_t variant) const;

  std::shared_ptr<const State> state_;
  // Beside state_, which every launch reads: nullptr unless HONE_CAPTURE is set.
  std::shared_ptr<const LaunchRecorder> recorder_;
};

}  // namespace hone
