#include "runtime/kernel/program_frame.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/validate_template.h"

namespace hone {

absl::StatusOr<Program> ProgramFrame(const TemplateBinder& binder,
                                     const std::string& architecture) {
  const TemplateSpec& spec = binder.kernel_template().spec();
  Program program;
  program.name = binder.body().source;
  program.architecture = architecture;
  const SourceFile* source = binder.kernel_template().FindFile(binder.body().source);
  if (source == nullptr) return absl::InternalError("template without its source");
  program.source = source->content;
  for (const std::string& name : spec.headers) {
    const SourceFile* header = binder.kernel_template().FindFile(name);
    if (header == nullptr) return absl::InternalError("template without its header");
    program.headers.push_back(*header);
  }
  HONE_ASSIGN_OR_RETURN(const std::vector<SourceFile> generated, binder.ChainHeaders());
  program.headers.insert(program.headers.end(), generated.begin(), generated.end());
  program.header_sets = spec.header_sets;
  program.options = binder.body().options;
  for (size_t i = 0; i < spec.defines.size(); ++i) {
    const auto& [name, value] = spec.defines[i];
    HONE_ASSIGN_OR_RETURN(const std::string spelled,
                          binder.Spell(FieldPath("", "defines", i, ".value"), value));
    program.defines.emplace_back(name, spelled);
  }
  return program;
}

void AddEntry(Program& program, const std::string& name_expression) {
  std::vector<std::string>& names = program.name_expressions;
  if (std::find(names.begin(), names.end(), name_expression) == names.end()) {
    names.push_back(name_expression);
  }
}

absl::StatusOr<std::string> LoweredName(const std::map<std::string, std::string>& lowered_names,
                                        const std::string& name_expression) {
  const auto it = lowered_names.find(name_expression);
  if (it != lowered_names.end()) return it->second;
  return absl::InternalError(
      absl::StrCat("the artifact has no symbol for \"", name_expression, "\""));
}

}  // namespace hone
