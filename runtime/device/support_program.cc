#include "runtime/device/support_program.h"

namespace hone {

// Embedded when the library is built.
const char* SupportKernelsText();
const char* ElementMathText();

Program SupportProgram(const std::string& architecture) {
  Program program;
  program.name = "support_kernels.cu";
  program.source = SupportKernelsText();
  program.headers = {{"element_math.h", ElementMathText()}};
  program.architecture = architecture;
  return program;
}

}  // namespace hone
