// Standard headers that NVRTC does not have and device code often includes.
#pragma once

#include <vector>

#include "runtime/kernel/program.h"

namespace hone {

// <cstdint>, <cstddef>, <climits>, <type_traits> and their like. Those whose content is small are
// our own; the rest lead to libcu++ where the toolkit has it, under the names of namespace std.
// They are searched before the toolkit, so that no system header of the same name is taken by
// accident, and after the caller's own headers. Their content enters the digest of the toolkit's
// headers.
const std::vector<SourceFile>& StandardHeaders();

}  // namespace hone
