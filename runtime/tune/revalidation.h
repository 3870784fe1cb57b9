// Which timings of another driver or compiler build are measured again, and when that is enough.
//
// What was slow under one driver is hardly ever the fastest under the next, so the order of the
// many is believed, and only those at its front are asked again: the winner, the default config,
// and the next few. As long as one of the last few is the new fastest, the front lies further back
// than they reach, and the next few follow.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "runtime/kernel/config_space.h"
#include "runtime/kernel/measurement.h"

namespace hone {

// Of the others, beside winner and default; and again each time that they bring a new fastest.
inline constexpr size_t kRevalidatedAtOnce = 5;

// Not thread-safe. Of one tune.
class Revalidation {
 public:
  // `known`: all stored measurements. Those of the present driver and build are from a
  // re-validation that was interrupted, and take part like the others. `incumbents`: configs that
  // won so far, the present winner first, and the default; those without a timing are passed over.
  Revalidation(const ConfigSpace& space, const std::vector<Measurement>& known,
               const std::vector<Config>& incumbents);

  // Those to measure again first: the incumbents, then the fastest others. Called once, first.
  std::vector<Config> First();
  // A time that this tune measured, of whatever config.
  void Observe(const Measurement& measurement);
  // Who is next, after all that were handed out have been measured or rejected; empty: that was
  // enough.
  std::vector<Config> More();

  // Whether it was handed out.
  bool Asked(const Config& config) const { return asked_.contains(config); }
  // Of those handed out, how many were observed.
  int64_t measured() const { return measured_; }

 private:
  std::vector<Config> HandOut(std::vector<Config> configs);
  std::vector<Config> NextOthers();

  std::vector<Config> incumbents_;  // with a time
  std::vector<Config> others_;      // with a time, fastest first
  size_t next_ = 0;                 // in others_
  std::set<Config> last_;           // of the others, handed out last
  std::set<Config> asked_;
  const std::optional<Config> incumbent_;  // who won last
  std::optional<double> incumbent_ns_;
  std::optional<Config> fastest_;
  double fastest_ns_ = 0;
  int64_t measured_ = 0;
};

}  // namespace hone
