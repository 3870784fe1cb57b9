// The measuring lane's own kernels as a program for any CUDA compiler.
#pragma once

#include <string>

#include "runtime/kernel/program.h"

namespace hone {

// Symbols are not mangled: hone_fill, hone_compare, hone_find_byte_not, hone_checksum, hone_pause.
Program SupportProgram(const std::string& architecture);

// The kernels of MeasureCeilings, for CUDA architectures and "cpu".
Program CeilingProgram(const std::string& architecture);

}  // namespace hone
