#pragma once

#include <sys/types.h>

#include "absl/time/time.h"

namespace hone {

// How long the main threads of the living processes of a group have been ready to run without being
// given a processor, summed. Zero where the kernel does not tell (built without
// CONFIG_SCHED_INFO). Reads all of /proc: some milliseconds on a large machine.
absl::Duration ProcessorWait(pid_t process_group);

}  // namespace hone
