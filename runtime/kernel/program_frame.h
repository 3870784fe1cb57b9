// What every program of a template shares: source, headers, options, defines.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/kernel/program.h"
#include "runtime/kernel/template_binder.h"

namespace hone {

// The program without entries.
absl::StatusOr<Program> ProgramFrame(const TemplateBinder& binder, const std::string& architecture);

// Adds a name expression unless it is there.
void AddEntry(Program& program, const std::string& name_expression);

// The symbol of a name expression; INTERNAL if the compiler gave none.
absl::StatusOr<std::string> LoweredName(const std::map<std::string, std::string>& lowered_names,
                                        const std::string& name_expression);

}  // namespace hone
