// Who answers for a tuning key: one rule for everybody who serves, lists, explains or pins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/kernel/config_space.h"
#include "runtime/kernel/measurement.h"
#include "runtime/store/kernel_store.h"
#include "runtime/tune/winner.h"

namespace hone {

// What was decided under a key; its measurements are what remains where nothing was.
struct KeyDecisions {
  std::optional<WinnerPin> pin;  // also when it was unpinned since
  // Of the last tune that ran to its end, for one template and one way of choosing.
  std::optional<Winner> winner;
};
// `template_digest` empty: the newest winner under any template.
absl::StatusOr<KeyDecisions> ReadDecisions(const std::string& tuning_key,
                                           const std::string& template_digest, Numerics numerics,
                                           KernelStore& store);

enum class ServedBy {
  kPin,
  kWinner,        // as the last tune chose it
  kMeasurements,  // no tune that ended chose one that still stands: the best of what is stored
};
struct ServedConfig {
  Config config;
  ServedBy by = ServedBy::kMeasurements;
  uint64_t generation = 0;  // of the decision; 0: there was none
};

// The pinned config where it suits the space and has the bits; else the decided winner where it
// does and no later measurement rejected it; else the query over the measurements. nullopt: none of
// them gives any. A pin outlives rejections that expire (a timeout, a crash), for it stands
// whatever later tunes find; not one for wrong results.
std::optional<ServedConfig> ChooseServed(const ConfigSpace& space,
                                         const std::vector<Measurement>& measurements,
                                         const KeyDecisions& decisions, const WinnerQuery& query);

// The same for a key whose template is gone or has other code now. Nothing is served under it; this
// is what was, or the fastest that is stored. Whose bits the default had is not known then, so
// kSameBitsAsDefault has its decided winner or nothing.
std::optional<ServedConfig> ChooseWithoutTemplate(const std::vector<Measurement>& measurements,
                                                  const KeyDecisions& decisions, Numerics numerics);

// Whether a chosen config suits a request: a constraint may exclude it for the true size, and the
// caller may want bits that it does not have, or that were measured otherwise since it won.
bool Suits(const Config& config, Numerics numerics, const ConfigSpace& space,
           const std::vector<Measurement>& measurements);

}  // namespace hone
