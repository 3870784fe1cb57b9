#include "server/template_convert.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/field_error.h"
#include "server/template_fields.h"

namespace hone {
namespace {

absl::StatusOr<Tunable> ConvertTunable(const v1::Tunable& message) {
  Tunable tunable;
  tunable.name = message.name();
  tunable.description = message.description();
  tunable.values.assign(message.values().begin(), message.values().end());
  tunable.default_value = message.default_();
  for (const v1::ArchitectureValues& special : message.per_architecture()) {
    tunable.per_architecture.push_back(
        {{special.architectures().begin(), special.architectures().end()},
         {special.values().begin(), special.values().end()},
         special.default_()});
  }
  return tunable;
}

absl::Status ConvertMemset(const std::string& path, const v1::Step& message, TemplateStep& step) {
  if (message.has_launch()) return FieldError(path + ".launch", "a memset has no launch");
  if (message.arguments_size() > 0) {
    return FieldError(path + ".arguments", "a memset names its argument in memset.argument");
  }
  step.memset_argument = message.memset().argument();
  step.memset_value = message.memset().value();
  if (!message.memset().bytes().empty()) {
    HONE_ASSIGN_OR_RETURN(step.memset_bytes,
                          ParseField(path + ".memset.bytes", message.memset().bytes()));
  }
  return absl::OkStatus();
}

absl::StatusOr<TemplateStep> ConvertStep(const std::string& path, const v1::Step& message) {
  TemplateStep step;
  if (message.entry().empty() == !message.has_memset()) {
    return FieldError(path, "expected either entry or memset");
  }
  if (!message.when().empty()) {
    HONE_ASSIGN_OR_RETURN(step.when, ParseField(path + ".when", message.when()));
  }
  step.programmatic_dependent_launch = message.programmatic_dependent_launch();
  if (message.has_memset()) {
    HONE_RETURN_IF_ERROR(ConvertMemset(path, message, step));
    return step;
  }
  step.entry = message.entry();
  HONE_ASSIGN_OR_RETURN(step.launch, ConvertLaunch(path + ".launch", message.launch()));
  step.arguments.assign(message.arguments().begin(), message.arguments().end());
  return step;
}

// KernelTemplate and ArchitectureVariant have these fields in common: what the message gives
// replaces what is there.
template <typename Message>
absl::Status ConvertBody(absl::string_view prefix, const Message& message, TemplateBody& body) {
  const auto path = [&](absl::string_view field, int index) {
    return absl::StrCat(prefix, field, "[", index, "]");
  };
  if (!message.source().empty()) body.source = message.source();
  if (message.options_size() > 0) {
    body.options.assign(message.options().begin(), message.options().end());
  }
  if (message.tunables_size() > 0) body.tunables.clear();
  for (const v1::Tunable& tunable : message.tunables()) {
    HONE_ASSIGN_OR_RETURN(Tunable converted, ConvertTunable(tunable));
    body.tunables.push_back(std::move(converted));
  }
  if (message.constraints_size() > 0) body.constraints.clear();
  for (int i = 0; i < message.constraints_size(); ++i) {
    HONE_ASSIGN_OR_RETURN(Expression constraint,
                          ParseField(path("constraints", i), message.constraints(i)));
    body.constraints.push_back(std::move(constraint));
  }
  if (message.arguments_size() > 0) body.arguments.clear();
  for (int i = 0; i < message.arguments_size(); ++i) {
    HONE_ASSIGN_OR_RETURN(TemplateArgument argument,
                          ConvertArgument(path("arguments", i), message.arguments(i)));
    body.arguments.push_back(std::move(argument));
  }
  if (message.steps_size() > 0) body.steps.clear();
  for (int i = 0; i < message.steps_size(); ++i) {
    HONE_ASSIGN_OR_RETURN(TemplateStep step, ConvertStep(path("steps", i), message.steps(i)));
    body.steps.push_back(std::move(step));
  }
  return absl::OkStatus();
}

absl::Status ConvertVariants(const v1::KernelTemplate& message, TemplateSpec& spec) {
  for (int i = 0; i < message.variants_size(); ++i) {
    const v1::ArchitectureVariant& variant = message.variants(i);
    ArchitectureBody body;
    body.architectures.assign(variant.architectures().begin(), variant.architectures().end());
    body.body = spec.base;
    HONE_RETURN_IF_ERROR(ConvertBody(absl::StrCat("variants[", i, "]."), variant, body.body));
    spec.variants.push_back(std::move(body));
  }
  return absl::OkStatus();
}

absl::Status ConvertChecks(const v1::KernelTemplate& message, TemplateSpec& spec) {
  for (int i = 0; i < message.check_size(); ++i) {
    const TemplateCheck* before = spec.checks.empty() ? nullptr : &spec.checks.back();
    HONE_ASSIGN_OR_RETURN(TemplateCheck check,
                          ConvertCheck(absl::StrCat("check[", i, "]"), message.check(i), before));
    spec.checks.push_back(std::move(check));
  }
  return absl::OkStatus();
}

absl::Status ConvertWork(const v1::KernelTemplate& message, TemplateSpec& spec) {
  if (!message.work().bytes().empty()) {
    HONE_ASSIGN_OR_RETURN(spec.work_bytes, ParseField("work.bytes", message.work().bytes()));
  }
  if (!message.work().flops().empty()) {
    HONE_ASSIGN_OR_RETURN(spec.work_flops, ParseField("work.flops", message.work().flops()));
  }
  if (!message.work().traffic_bytes().empty()) {
    HONE_ASSIGN_OR_RETURN(spec.work_traffic_bytes,
                          ParseField("work.traffic_bytes", message.work().traffic_bytes()));
  }
  spec.matrix_dtype = message.work().matrix_dtype();
  return absl::OkStatus();
}

absl::Status ConvertRequires(const v1::Requires& message, Requirements& requirements) {
  requirements.min_architecture = message.min_architecture();
  for (int i = 0; i < message.features_size(); ++i) {
    HONE_ASSIGN_OR_RETURN(
        const Feature feature,
        ConvertFeature(absl::StrCat("requirements.features[", i, "]"), message.features(i)));
    requirements.features.push_back(feature);
  }
  return absl::OkStatus();
}

absl::Status ConvertPriors(const v1::KernelTemplate& message, TemplateSpec& spec) {
  for (int i = 0; i < message.priors_size(); ++i) {
    const v1::Prior& given = message.priors(i);
    Prior prior;
    prior.architectures.assign(given.architectures().begin(), given.architectures().end());
    if (!given.when().empty()) {
      HONE_ASSIGN_OR_RETURN(prior.when,
                            ParseField(absl::StrCat("priors[", i, "].when"), given.when()));
    }
    prior.config.insert(given.config().begin(), given.config().end());
    spec.priors.push_back(std::move(prior));
  }
  return absl::OkStatus();
}

absl::Status ConvertHeaderSets(const v1::KernelTemplate& message,
                               const HeaderSetResolver& header_sets, TemplateSpec& spec) {
  for (int i = 0; i < message.header_sets_size(); ++i) {
    absl::StatusOr<std::string> digest = header_sets(message.header_sets(i));
    if (!digest.ok()) {
      return AtField(absl::StrCat("header_sets[", i, "]"), digest.status());
    }
    spec.header_sets.push_back(*std::move(digest));
  }
  return absl::OkStatus();
}

void ConvertFiles(const v1::KernelTemplate& message, TemplateSpec& spec) {
  for (const v1::Prebuilt& prebuilt : message.prebuilt()) {
    PrebuiltCandidate candidate;
    candidate.file = prebuilt.file();
    candidate.architecture = prebuilt.architecture();
    candidate.config.insert(prebuilt.config().begin(), prebuilt.config().end());
    candidate.symbols.assign(prebuilt.symbols().begin(), prebuilt.symbols().end());
    spec.prebuilt.push_back(std::move(candidate));
  }
  for (const v1::SourceFile& file : message.files()) {
    spec.files.push_back({file.name(), file.content()});
  }
}

}  // namespace

absl::StatusOr<TemplateSpec> ToTemplateSpec(const v1::KernelTemplate& message,
                                            const HeaderSetResolver& header_sets) {
  HONE_RETURN_IF_ERROR(RefuseUnknownFields("", message));
  TemplateSpec spec;
  spec.name = message.name();
  spec.version = message.version();
  spec.description = message.description();
  spec.headers.assign(message.headers().begin(), message.headers().end());
  for (const v1::Define& define : message.defines()) {
    spec.defines.emplace_back(define.name(), define.value());
  }
  for (int i = 0; i < message.params_size(); ++i) {
    HONE_ASSIGN_OR_RETURN(Parameter parameter,
                          ConvertParameter(absl::StrCat("params[", i, "]"), message.params(i)));
    spec.params.push_back(std::move(parameter));
  }
  HONE_RETURN_IF_ERROR(ConvertBody("", message, spec.base));
  HONE_RETURN_IF_ERROR(ConvertVariants(message, spec));
  HONE_RETURN_IF_ERROR(ConvertChecks(message, spec));
  HONE_RETURN_IF_ERROR(ConvertWork(message, spec));
  HONE_RETURN_IF_ERROR(ConvertRequires(message.requirements(), spec.requirements));
  HONE_RETURN_IF_ERROR(ConvertPriors(message, spec));
  HONE_RETURN_IF_ERROR(ConvertHeaderSets(message, header_sets, spec));
  ConvertFiles(message, spec);
  return spec;
}

}  // namespace hone
