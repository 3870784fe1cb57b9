// From template, problem and config to the program to compile and the recipe to launch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/kernel/config_space.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/kernel/problem.h"
#include "runtime/kernel/program.h"
#include "runtime/launch/launch_recipe.h"

namespace hone {

// The program of one config: its steps' entries as name expressions, without steps that never run.
// Of a PREBUILT template: the candidate's bytes and symbols and nothing to compile.
// FAILED_PRECONDITION if there is no binary for the config.
absl::StatusOr<Program> InstantiateProgram(const KernelTemplate& kernel_template,
                                           const Problem& problem, const Config& config,
                                           const std::string& architecture);

// The recipe of one config. `lowered_names` maps its name expressions to the artifact's symbols; of
// a PREBUILT template the candidate's symbols are used instead. Device facts that are given are
// folded in, others stay as variables. Guards hold the declared domains of the dynamic sizes and
// the constraints that mention them. FAILED_PRECONDITION if a constraint cannot hold.
absl::StatusOr<LaunchRecipe> InstantiateRecipe(
    const KernelTemplate& kernel_template, const Problem& problem, const Config& config,
    const std::string& architecture, const DeviceFacts& facts,
    const std::map<std::string, std::string>& lowered_names);

// The declared domains of the dynamic sizes as guards: "n % 8 == 0". Every recipe has them; they
// refuse no declared input. A minimum of 1 needs none: a size of 0 launches nothing.
std::vector<Expression> DomainGuards(const KernelTemplate& kernel_template);

// How to fill one buffer before a check; expressions bound, sizes free.
struct BufferInit {
  std::string argument;
  InitKind kind = InitKind::kNormal;
  Expression low;
  Expression high;
  double skew = 0;
  LaunchRecipe generator;  // for kGenerator: one step
};

// One reference run and the outputs compared after it.
struct ReferenceCheck {
  LaunchRecipe reference;  // one step, its symbol in the reference artifact
  struct Output {
    std::string argument;
    Tolerance tolerance;
  };
  std::vector<Output> outputs;
};

// An output whose right values the chain's interpreter gives.
struct ChainCheck {
  std::string output;
  std::string chain;  // canonical text
  ChainNames names;   // of arguments
};

// Everything about checking that does not depend on a config.
struct CheckPlan {
  Program program;  // reference and generator entries; no name expressions: nothing to compile
  std::vector<BufferInit> inits;
  std::map<std::string, double> scalar_samples;  // per-launch scalars
  // Both empty: unverified.
  std::vector<ReferenceCheck> references;
  std::vector<ChainCheck> chains;
  // Outputs (write and read-write buffers) with the tolerance used when candidates are compared
  // with the default because there is no reference.
  std::vector<ReferenceCheck::Output> outputs;

  bool verifies() const { return !references.empty() || !chains.empty(); }
};

// The program alone, to be compiled before InstantiateCheckPlan. References and generators take all
// arguments in declaration order; where an argument depends on a tunable they see its default.
absl::StatusOr<Program> InstantiateCheckProgram(const KernelTemplate& kernel_template,
                                                const Problem& problem,
                                                const std::string& architecture);
absl::StatusOr<CheckPlan> InstantiateCheckPlan(
    const KernelTemplate& kernel_template, const Problem& problem, const std::string& architecture,
    const DeviceFacts& facts, const std::map<std::string, std::string>& lowered_names);

// Dynamic sizes at which a candidate is checked besides the tuned one: for every dynamic size in
// turn the domain minimum, one block's coverage minus one, plus one, and an odd multiple of it,
// kept only where the declared domain and the recipe's guards allow. The other sizes are small
// meanwhile. "One block" is found from the grid: the largest size at which the first kernel still
// launches as many blocks as at the minimum; where the grid does not grow, a block's threads and
// all blocks' threads stand for it. `facts`: device facts that the recipe leaves open.
std::vector<SizeBindings> SmallCheckSizes(const KernelTemplate& kernel_template,
                                          const Problem& problem, const LaunchRecipe& recipe,
                                          const DeviceFacts& facts = {});

}  // namespace hone
