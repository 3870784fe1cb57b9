// From a config to something that can be checked and launched.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/compile/compiler.h"
#include "runtime/kernel/config_space.h"
#include "runtime/kernel/instantiate.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/kernel/problem.h"
#include "runtime/launch/resolve_launch.h"

namespace hone {

struct BuiltCandidate {
  Config config;
  std::optional<Rejection> rejection;  // set: nothing below is meaningful
  Artifact artifact;
  LaunchRecipe recipe;
  bool cached = false;  // no compile ran for it
};

// Builds configs of one problem for one architecture. Thread-safe.
class CandidateBuilder {
 public:
  // `compiler` must outlive this object.
  CandidateBuilder(Compiler* compiler, KernelTemplatePtr kernel_template, Problem problem,
                   std::string architecture, DeviceFacts facts, CompileOptions options);

  // A config that does not compile is a rejection; a Status is about the service (see Compiler).
  absl::StatusOr<BuiltCandidate> Build(const Config& config) const;

  // The recipe without an artifact, symbols standing for themselves: for guards and alignment.
  absl::StatusOr<LaunchRecipe> Outline(const Config& config) const;

  // Dynamic sizes at which a candidate is checked besides the tuned one: its own, and the largest
  // of the config given to AlsoCheckSizeOf, so that all outputs can be compared at one small size.
  std::vector<SizeBindings> CheckSizes(const LaunchRecipe& recipe) const;
  // Not to be called while others use this object.
  absl::Status AlsoCheckSizeOf(const Config& config);

  // Compiles reference and generator entries; `artifact` stays empty when the template has none.
  // INVALID_ARGUMENT when they do not compile.
  absl::Status BuildCheck(CheckPlan* plan, std::optional<Artifact>* artifact) const;

 private:
  Compiler* const compiler_;
  const KernelTemplatePtr template_;
  const Problem problem_;
  const std::string architecture_;
  const DeviceFacts facts_;
  const CompileOptions options_;
  std::optional<SizeBindings> common_size_;
};

// Arguments with distinct well-aligned addresses, for evaluating a recipe without memory.
LaunchArguments OutlineArguments(const LaunchRecipe& recipe, const SizeBindings& sizes,
                                 const DeviceFacts& facts);

// True if the recipe accepts every declared input: no guard but those of the declared domains, no
// alignment beyond an element's.
bool AcceptsEveryInput(const KernelTemplate& kernel_template, const LaunchRecipe& recipe);

}  // namespace hone
