// The two spellings of CUDA C++ that macros cannot give a host compiler.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace hone {

// Line numbers stay as they are. Comments and literals are left alone.
//   extern __shared__ T name[];     becomes a pointer to the launch's dynamic shared memory
//   __shared__ alignas(N) T name;   becomes alignas(N) __shared__ T name;
std::string RewriteForHost(absl::string_view source);

}  // namespace hone
