// The order in which a known list of candidates is best compiled.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/kernel/config_space.h"
#include "runtime/kernel/problem.h"
#include "runtime/tune/candidate_builder.h"

namespace hone {

// Orders what follows the first `kept` configs by the size of their code, largest first, equals as
// they came: a slow compile that starts last is waited for by everybody else (longest processing
// time first: Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17, 1969).
//
// The size is estimated as the product of all tunables over the threads of a block, since what a
// thread does for a larger tile is unrolled. A wrong estimate costs time, nothing else.
void OrderForCompiling(const CandidateBuilder& builder, const Problem& problem,
                       const DeviceFacts& facts, size_t kept, std::vector<Config>& configs);

}  // namespace hone
