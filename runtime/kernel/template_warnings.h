// Advice about templates that is no error.
#pragma once

#include <string>
#include <vector>

#include "runtime/kernel/kernel_template.h"

namespace hone {

// For instance: no config accepts every declared input, the default config is invalid for a type,
// there is no reference. Looks at a bounded number of problems and configs; each advice comes once.
std::vector<std::string> TemplateWarnings(const KernelTemplatePtr& kernel_template);

}  // namespace hone
