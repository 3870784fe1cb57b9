// Random operator chains, the same for the same seed.
#pragma once

#include <random>
#include <string>

#include "runtime/generate/chain.h"

namespace hone {

// An expression over `names` that Chain::Parse takes, of at most `depth` levels.
std::string RandomChainText(std::mt19937& random, const ChainNames& names, int depth);

}  // namespace hone
