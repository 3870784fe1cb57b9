// The best kernel there is for a request: exact winner, bucket winner, nearest tuned problem,
// default.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/cache/kernel_assembler.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/cache/resolved_request.h"
#include "runtime/store/kernel_store.h"

namespace hone {

// What to do about a source whose binaries are not stored.
enum class MissingBinary {
  kCompile,  // compile them
  kSkip,     // take another build's, else go on to the next source (NO_WAIT, FROZEN)
  kGiveUp,   // answer nothing, so that the caller can come back with kCompile from a thread for it
};

// Thread-safe.
class KernelResolver {
 public:
  KernelResolver(CachingCompiler* compiler, KernelStore* store, absl::Duration compile_timeout);

  // Nullopt: nothing can be had under `missing`. `only_tuned` looks at exact and bucket winners
  // only.
  absl::StatusOr<std::optional<KernelAnswer>> Resolve(const ResolvedRequest& request,
                                                      MissingBinary missing,
                                                      CompilePriority priority,
                                                      bool only_tuned) const;

  // The chosen configs of a tuning key under this request's template and numerics, with fallbacks:
  // see ChooseServed. Nullopt if there are none.
  struct Tuned {
    std::vector<Config> configs;
    std::vector<Measurement> measurements;
    uint64_t generation = 0;
    std::optional<WinnerPin> pin;  // set when it is the choice
  };
  absl::StatusOr<std::optional<Tuned>> TunedUnder(const ResolvedRequest& request,
                                                  const std::string& tuning_key) const;

  const KernelAssembler& assembler() const { return assembler_; }

 private:
  struct Source {
    AnswerSource source = AnswerSource::kDefault;
    std::vector<Config> configs;
    std::vector<Measurement> measurements;
    std::string key;
    Values values;
    uint64_t generation = 0;
    std::optional<WinnerPin> pin;
  };
  // What measurements would be made with for the request.
  Provenance Present(const ResolvedRequest& request) const;
  absl::StatusOr<std::optional<Source>> FromProblem(const ResolvedRequest& request,
                                                    const Problem& problem,
                                                    AnswerSource source) const;
  absl::StatusOr<std::optional<Source>> Nearest(const ResolvedRequest& request) const;
  absl::StatusOr<std::optional<KernelAnswer>> Answer(const ResolvedRequest& request, Source source,
                                                     MissingBinary missing,
                                                     CompilePriority priority) const;

  CachingCompiler* const compiler_;
  KernelStore* const store_;
  const KernelAssembler assembler_;
};

}  // namespace hone
