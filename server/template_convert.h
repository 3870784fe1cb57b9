// Template messages to what the runtime works on.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "hone/v1/kernel_template.pb.h"
#include "runtime/kernel/kernel_template.h"

namespace hone {

// The digest of a registered header set, given its digest or name. NOT_FOUND if there is none.
using HeaderSetResolver = std::function<absl::StatusOr<std::string>(const std::string&)>;

// Parses every expression and fills in what the schema lets authors leave out. INVALID_ARGUMENT
// names the field's path ("steps[0].launch.grid_x"), an expression's column and what was expected;
// the path is also FieldOf() of the status. What is not yet executable (CAPTURE inits) is
// refused by name. The message is the schema's, with all files in `files`; the result is not yet
// checked for meaning: KernelTemplate::Create does that.
absl::StatusOr<TemplateSpec> ToTemplateSpec(const v1::KernelTemplate& message,
                                            const HeaderSetResolver& header_sets);

}  // namespace hone
