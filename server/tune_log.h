// Tunes in the log: one line when a run begins, one when it ends, and one for each rejection.
#pragma once

#include "runtime/cache/kernel_cache.h"

namespace hone {

// For KernelCache::Options::on_tune. Thread-safe.
void LogTune(const TuneReport& report);

}  // namespace hone
