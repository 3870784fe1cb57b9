// The catalog's kernels with problems and configs that stand for the rest of their spaces.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/compile/compiler.h"
#include "runtime/device/device.h"
#include "runtime/device/profiler.h"
#include "runtime/kernel/config_space.h"
#include "runtime/kernel/instantiate.h"
#include "server/catalog.h"

namespace hone {

// The catalog in $HONE_KERNELS, read once.
Catalog& TheCatalog();
// Fails the test and returns nullptr if there is no such template.
KernelTemplatePtr FindTemplate(const Catalog& catalog, const std::string& name);

// Binds "T=F32 n=1000" by the kinds of the template's parameters.
Problem ProblemOf(const KernelTemplate& kernel_template, const std::string& params);

struct KernelSample {
  std::string kernel;
  std::string params;              // of the problem as tuned
  std::vector<std::string> sizes;  // dynamic sizes to check besides hone's own, "n=7"
};
// Every kernel of the catalog, each of its data types at least once, sizes small and odd.
const std::vector<KernelSample>& KernelSamples();
// Of kernels that run on `architecture`.
std::vector<KernelSample> KernelSamplesFor(const std::string& architecture);
// "copy_1d_T_F32_n_1000", for parameterised tests.
std::string NameOf(const KernelSample& sample);

// The default, the first priors, and configs from across the space; at most `count`.
std::vector<Config> SampleConfigs(const ConfigSpace& space, size_t count);

// One program with the entries of all configs and of the checks, so that a sample costs one
// compile.
Program MergedProgram(const KernelTemplate& kernel_template, const Problem& problem,
                      const std::vector<Config>& configs, const std::string& architecture);

// Compiles a sample's configs for the CPU and measures them there.
class CpuBench {
 public:
  // Fails the test if the compiler is missing; a source that does not compile is in outcome().
  CpuBench(Compiler* compiler, Device* device, KernelTemplatePtr kernel_template, Problem problem,
           std::vector<Config> configs);

  const CompileOutcome& outcome() const { return outcome_; }
  ProfileProblem ProblemToProfile() const;
  // Checked at hone's own small sizes and at those of `more` that its guards allow.
  ProfileCandidate CandidateOf(const Config& config, const std::vector<SizeBindings>& more) const;

 private:
  const KernelTemplatePtr template_;
  const Problem problem_;
  const std::vector<Config> configs_;
  const DeviceFacts facts_;
  CompileOutcome outcome_;
};

}  // namespace hone
