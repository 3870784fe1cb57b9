// The candidates of one tune, in the order in which they are tried.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/mutex.h"
#include "runtime/kernel/config_space.h"
#include "runtime/kernel/measurement.h"
#include "runtime/tune/autotuner.h"
#include "runtime/tune/candidate_builder.h"
#include "runtime/tune/search_strategy.h"

namespace hone {

// In a small space a strategy that needs no results is asked for everything at once. One that
// learns, and any in a large space, is asked for a first candidate, and for the others as compile
// threads run dry. Thread-safe.
class Proposals {
 public:
  // `known`: results that need not be measured again. They teach a strategy that is asked bit by
  // bit, and take their place in its budget. FAILED_PRECONDITION if the space is empty,
  // INVALID_ARGUMENT for spec.ranked_share where nothing is listed; errors of MakeStrategy.
  static absl::StatusOr<std::unique_ptr<Proposals>> Create(const TuneSpec& spec,
                                                           const ConfigSpace& space,
                                                           const std::vector<Measurement>& known,
                                                           const CandidateBuilder& builder);

  // To be tried first; may be known already.
  const std::vector<Config>& first() const { return first_; }
  // How many Next will give at most.
  int64_t later() const { return later_; }
  // Results change what Next gives.
  bool learns() const { return learns_; }
  // With spec.ranked_share: configs that are not among first() for their estimate.
  int64_t left_out() const { return left_out_; }
  // See TuneOutcome.
  double RankingRegret(const std::vector<Measurement>& measurements) const;
  // Known results that stand for an evaluation, besides those among first().
  int64_t reused() const { return reused_; }

  // nullopt: no more.
  std::optional<Config> Next();
  // No more from now on.
  void Close();
  // A result of this tune.
  void Teach(const Measurement& measurement);

 private:
  Proposals() = default;
  absl::Status Rank(const TuneSpec& spec, const ConfigSpace& space,
                    const CandidateBuilder& builder);

  std::vector<Config> first_;
  int64_t later_ = 0;
  bool learns_ = false;
  std::set<Config> ranked_;  // kept by the analytic estimate; empty: none was made
  int64_t left_out_ = 0;
  int64_t reused_ = 0;
  Mutex mutex_;
  std::unique_ptr<SearchStrategy> strategy_ ABSL_GUARDED_BY(mutex_);  // nullptr: nothing follows
  int64_t proposed_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hone
