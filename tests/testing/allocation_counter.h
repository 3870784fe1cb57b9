// Counts what a program allocates with new: linking this replaces the global operator new.
#pragma once

#include <cstdint>

namespace hone {

// Calls of operator new by this thread so far.
int64_t AllocationsOfThisThread();

}  // namespace hone
