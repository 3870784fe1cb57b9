#include "runtime/kernel/kernel_template.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/architecture.h"
#include "runtime/kernel/template_digest.h"
#include "runtime/kernel/validate_template.h"

namespace hone {
namespace {

bool UsesTensorMaps(const TemplateBody& body) {
  for (const TemplateArgument& argument : body.arguments) {
    if (std::holds_alternative<TemplateTensorMap>(argument.kind)) return true;
  }
  return false;
}

absl::Status CheckMinimum(const Requirements& requirements, const Architecture& architecture,
                          const std::string& text) {
  if (requirements.min_architecture.empty()) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const Architecture minimum,
                        ParseArchitecture(requirements.min_architecture));
  if (!architecture.cpu && architecture.version >= minimum.version) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("needs ", requirements.min_architecture, " or later, not ", text));
}

}  // namespace

LaunchShape OneThread() {
  const Expression one = Expression::Constant(1);
  LaunchShape shape;
  shape.grid = {one, one, one};
  shape.block = {one, one, one};
  shape.cluster = {one, one, one};
  return shape;
}

KernelTemplate::KernelTemplate(TemplateSpec spec)
    : spec_(std::move(spec)), digest_(TemplateDigest(spec_)), kernel_digest_(KernelDigest(spec_)) {}

absl::StatusOr<KernelTemplatePtr> KernelTemplate::Create(TemplateSpec spec) {
  HONE_RETURN_IF_ERROR(ValidateTemplate(spec));
  return KernelTemplatePtr(new KernelTemplate(std::move(spec)));
}

const TemplateBody& KernelTemplate::BodyFor(const std::string& architecture) const {
  return hone::BodyFor(spec_, architecture);
}

const Parameter* KernelTemplate::FindParameter(const std::string& name) const {
  for (const Parameter& parameter : spec_.params) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

const SourceFile* KernelTemplate::FindFile(const std::string& name) const {
  for (const SourceFile& file : spec_.files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

absl::Status KernelTemplate::SupportsArchitecture(const std::string& architecture) const {
  HONE_ASSIGN_OR_RETURN(const Architecture target, ParseArchitecture(architecture));
  absl::Status status = CheckMinimum(spec_.requirements, target, architecture);
  for (const Feature feature : spec_.requirements.features) {
    if (status.ok()) status = CheckFeature(feature, target, architecture);
  }
  if (status.ok() && UsesTensorMaps(BodyFor(architecture))) {
    status = CheckFeature(Feature::kTma, target, architecture);
  }
  bool has_binary = spec_.prebuilt.empty();
  for (const PrebuiltCandidate& candidate : spec_.prebuilt) {
    has_binary =
        has_binary || (!target.ptx && ArchitectureMatches(candidate.architecture, architecture));
  }
  if (status.ok() && !has_binary) {
    status =
        absl::FailedPreconditionError(absl::StrCat("has no prebuilt binary for ", architecture));
  }
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("template ", name(), " ", status.message()));
}

}  // namespace hone
