// From configs to a launchable kernel.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/cache/caching_compiler.h"
#include "runtime/cache/resolved_request.h"
#include "runtime/kernel/tuned_kernel.h"

namespace hone {

// Stateless but for the compiler; thread-safe.
class KernelAssembler {
 public:
  explicit KernelAssembler(CachingCompiler* compiler, absl::Duration compile_timeout)
      : compiler_(compiler), compile_timeout_(compile_timeout) {}

  // One variant per config, in order. `measurements` are those of the tuning key that answers; a
  // config without one stays unmeasured. In Compile a config that does not compile is
  // INVALID_ARGUMENT, reason COMPILE_FAILED.
  absl::StatusOr<std::shared_ptr<TunedKernel>> Compile(const ResolvedRequest& request,
                                                       const std::vector<Config>& configs,
                                                       const std::vector<Measurement>& measurements,
                                                       CompilePriority priority) const;
  struct Stored {
    std::shared_ptr<TunedKernel> kernel;  // nullptr: a binary is missing
    bool current = true;                  // as in CachingCompiler::Stored, of all binaries
  };
  // Never compiles. `any_build` as in CachingCompiler::Lookup.
  absl::StatusOr<Stored> FromStore(const ResolvedRequest& request,
                                   const std::vector<Config>& configs,
                                   const std::vector<Measurement>& measurements,
                                   bool any_build) const;

  // `first` and, unless it accepts every declared input itself, the best config that does: the
  // fastest measured one, else the first in declaration order, the default preferred. Only `first`
  // if the space has none. Under kSameBitsAsDefault only measured ones with the default's bits, and
  // the default itself, are looked at.
  absl::StatusOr<std::vector<Config>> WithFallback(
      const ResolvedRequest& request, const Config& first,
      const std::vector<Measurement>& measurements) const;

  // What a request without any tuned result starts from: the first prior that is valid, else the
  // default, else the first valid config in declaration order. Under kSameBitsAsDefault no prior.
  absl::StatusOr<Config> Untuned(const ResolvedRequest& request) const;

  absl::StatusOr<ConfigSpace> Space(const ResolvedRequest& request) const;

 private:
  absl::StatusOr<KernelVariant> Variant(const ResolvedRequest& request, const Config& config,
                                        Artifact artifact,
                                        const std::vector<Measurement>& measurements) const;

  CachingCompiler* const compiler_;
  const absl::Duration compile_timeout_;
};

}  // namespace hone
