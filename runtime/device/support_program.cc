#include "runtime/device/support_program.h"

namespace hone {

// Embedded when the library is built.
const char* SupportKernelsText();
const char* ElementMathText();
const char* CeilingKernelsText();

Program SupportProgram(const std::string& architecture) {
  Program program;
  program.name = "support_kernels.cu";
  program.source = SupportKernelsText();
  program.headers = {{"element_math.h", ElementMathText()}};
  program.architecture = architecture;
  return program;
}

Program CeilingProgram(const std::string& architecture) {
  Program program;
  program.name = "ceiling_kernels.cu";
  program.source = CeilingKernelsText();
  program.architecture = architecture;
  // A compiler for the CPU has to be told what to keep.
  if (architecture == "cpu") {
    program.name_expressions = {"hone_copy_small_chunks", "hone_copy_large_chunks", "hone_empty",
                                "hone_rate_f32"};
  }
  return program;
}

}  // namespace hone
