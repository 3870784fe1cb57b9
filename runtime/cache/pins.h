// Configs that somebody chose for a key, whatever the measurements say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/kernel/config_space.h"
#include "runtime/store/kernel_store.h"

namespace hone {

// See KernelCache::PinWinner and UnpinWinner.
absl::StatusOr<WinnerPin> PinConfig(const std::string& tuning_key, const Config& config,
                                    const std::string& reason, KernelStore& store);
absl::StatusOr<WinnerPin> UnpinConfig(const std::string& tuning_key, KernelStore& store);

// The generation of what is served under a key: the pin's while it is pinned, since new winners
// change nothing then; else, and where bits may matter more than the pin, the newer of the winner's
// and of the last pinning or unpinning.
uint64_t ServedGeneration(const std::optional<WinnerPin>& pin, uint64_t winner_generation,
                          Numerics numerics);

}  // namespace hone
