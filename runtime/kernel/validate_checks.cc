// Checks, priors, prebuilt binaries and files.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/architecture.h"
#include "runtime/kernel/config_space.h"
#include "runtime/kernel/field_error.h"
#include "runtime/kernel/prebuilt.h"
#include "runtime/kernel/template_text.h"
#include "runtime/kernel/validate_template.h"

namespace hone {
namespace {

absl::Status CheckTolerance(const std::string& path, const Tolerance& tolerance) {
  const auto good = [](double x) { return std::isfinite(x) && x >= 0; };
  if (!good(tolerance.atol)) return FieldError(path + ".atol", "expected a finite number >= 0");
  if (!good(tolerance.rtol)) return FieldError(path + ".rtol", "expected a finite number >= 0");
  if (!good(tolerance.mismatch_share_max) || tolerance.mismatch_share_max > 1) {
    return FieldError(path + ".mismatch_share_max", "expected a share from 0 to 1");
  }
  if (tolerance.exact && (tolerance.atol != 0 || tolerance.rtol != 0)) {
    return FieldError(path + ".exact", "given together with atol or rtol");
  }
  return absl::OkStatus();
}

absl::Status CheckOne(const TemplateSpec& spec, const TemplateBody& body, const std::string& path,
                      const TemplateCheck& check, const NameScope& scope) {
  const TemplateBuffer* output = FindBuffer(body, check.output);
  if (output == nullptr || output->access == Access::kRead) {
    return FieldError(path + ".output",
                      absl::StrCat("\"", check.output, "\" is not a WRITE or READ_WRITE buffer"));
  }
  if (!check.chain.empty()) return ValidateChainCheck(spec, path, check, *output);
  if (!check.reference.empty()) {
    HONE_RETURN_IF_ERROR(ValidateEntry(path + ".reference", scope, check.reference));
    HONE_RETURN_IF_ERROR(ValidateLaunch(path + ".launch", scope, check.launch.shape));
  }
  HONE_RETURN_IF_ERROR(CheckTolerance(path, check.tolerance));
  const std::vector<DataType> types = PossibleDtypes(spec, output->dtype);
  for (const auto& [type, tolerance] : check.by_dtype) {
    HONE_RETURN_IF_ERROR(CheckTolerance(path + ".by_dtype", tolerance));
    if (std::find(types.begin(), types.end(), type) != types.end()) continue;
    return FieldError(path + ".by_dtype", absl::StrCat(check.output, " is never ", Name(type)));
  }
  const Tolerance& tolerance = check.tolerance;
  if (!tolerance.exact && tolerance.atol == 0 && tolerance.rtol == 0 && check.by_dtype.empty()) {
    return FieldError(path,
                      "says nothing about how close: give exact: true, atol, rtol or by_dtype");
  }
  return absl::OkStatus();
}

const Tunable* FindTunable(const TemplateBody& body, const std::string& name) {
  for (const Tunable& tunable : body.tunables) {
    if (tunable.name == name) return &tunable;
  }
  return nullptr;
}

bool MayBe(const Tunable& tunable, int64_t value) {
  const auto has = [value](const std::vector<int64_t>& values) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  return has(tunable.values) ||
         std::any_of(tunable.per_architecture.begin(), tunable.per_architecture.end(),
                     [&](const ArchitectureValues& special) { return has(special.values); });
}

// A value that some body's tunable of that name can have.
absl::Status CheckPriorValue(const TemplateSpec& spec, const std::string& path,
                             const std::string& name, int64_t value) {
  std::vector<const TemplateBody*> bodies = {&spec.base};
  for (const ArchitectureBody& variant : spec.variants) bodies.push_back(&variant.body);
  bool known = false;
  for (const TemplateBody* body : bodies) {
    const Tunable* tunable = FindTunable(*body, name);
    known = known || tunable != nullptr;
    if (tunable != nullptr && MayBe(*tunable, value)) return absl::OkStatus();
  }
  if (!known) return FieldError(path, absl::StrCat("\"", name, "\" is not a tunable"));
  return FieldError(path, absl::StrCat(name, ": ", value, " is not among the tunable's values"));
}

// The candidate gives every tunable of its architecture, each in range.
absl::Status CheckPrebuiltConfig(const TemplateSpec& spec, const std::string& path,
                                 const PrebuiltCandidate& candidate) {
  const std::vector<Tunable> tunables =
      TunablesFor(BodyFor(spec, candidate.architecture), candidate.architecture);
  for (const Tunable& tunable : tunables) {
    const auto it = candidate.config.find(tunable.name);
    if (it == candidate.config.end()) {
      return FieldError(path, absl::StrCat("gives no value for ", tunable.name));
    }
    if (std::find(tunable.values.begin(), tunable.values.end(), it->second) !=
        tunable.values.end()) {
      continue;
    }
    return FieldError(
        path, absl::StrCat(tunable.name, ": ", it->second, " is not among the tunable's values"));
  }
  for (const auto& [name, value] : candidate.config) {
    const bool known = std::any_of(tunables.begin(), tunables.end(),
                                   [&](const Tunable& t) { return t.name == name; });
    if (!known) return FieldError(path, absl::StrCat("\"", name, "\" is not a tunable"));
  }
  return absl::OkStatus();
}

absl::Status CheckCandidate(const TemplateSpec& spec, const std::string& path,
                            const PrebuiltCandidate& candidate) {
  HONE_RETURN_IF_ERROR(CheckFileName(path + ".file", candidate.file));
  const absl::StatusOr<Architecture> parsed = ParseArchitecture(candidate.architecture);
  if (!parsed.ok()) return AtField(path + ".architecture", parsed.status());
  if (parsed->ptx) {
    return FieldError(path + ".architecture", "expected sm_NN: a prebuilt binary is not PTX");
  }
  HONE_RETURN_IF_ERROR(CheckPrebuiltConfig(spec, path + ".config", candidate));
  size_t kernels = 0;
  for (const TemplateStep& step : BodyFor(spec, candidate.architecture).steps) {
    kernels += step.entry.empty() ? 0 : 1;
  }
  if (candidate.symbols.size() != kernels) {
    return FieldError(path + ".symbols",
                      absl::StrCat(candidate.symbols.size(), " symbols for ", kernels,
                                   " kernel steps; each step needs its own"));
  }
  for (size_t i = 0; i < candidate.symbols.size(); ++i) {
    const std::string here = FieldPath(path + ".", "symbols", i);
    HONE_RETURN_IF_ERROR(CheckText(here, candidate.symbols[i], TemplateLimits::kLineBytes));
    if (candidate.symbols[i].empty()) return FieldError(here, "is empty");
  }
  for (const SourceFile& file : spec.files) {
    if (file.name != candidate.file) continue;
    const absl::Status status = CheckPrebuiltBytes(file.content, candidate.architecture);
    if (!status.ok()) return AtField(path + ".file", status);
  }
  return absl::OkStatus();
}

// What each file is used as.
struct FileUses {
  std::set<std::string> source;
  std::set<std::string> headers;
  std::set<std::string> prebuilt;
};

absl::Status CollectSource(const TemplateBody& body, absl::string_view prefix, bool needed,
                           FileUses& uses) {
  const std::string path = absl::StrCat(prefix, "source");
  if (body.source.empty()) {
    if (!needed) return absl::OkStatus();
    return FieldError(path, "is empty: name the CUDA C++ file that holds the entries");
  }
  uses.source.insert(body.source);
  return CheckFileName(path, body.source);
}

// Compiled entries: those of steps unless binaries stand in for them, references and generators.
bool NeedsSource(const TemplateSpec& spec, const TemplateBody& body) {
  if (spec.prebuilt.empty()) return true;
  for (const TemplateCheck& check : spec.checks) {
    if (!check.reference.empty()) return true;
  }
  for (const TemplateArgument& argument : body.arguments) {
    const auto* buffer = std::get_if<TemplateBuffer>(&argument.kind);
    if (buffer != nullptr && !buffer->generator_entry.empty()) return true;
  }
  return false;
}

absl::StatusOr<FileUses> CollectUses(const TemplateSpec& spec) {
  FileUses uses;
  HONE_RETURN_IF_ERROR(CollectSource(spec.base, "", NeedsSource(spec, spec.base), uses));
  for (size_t i = 0; i < spec.variants.size(); ++i) {
    const TemplateBody& body = spec.variants[i].body;
    HONE_RETURN_IF_ERROR(
        CollectSource(body, FieldPath("", "variants", i, "."), NeedsSource(spec, body), uses));
  }
  for (size_t i = 0; i < spec.headers.size(); ++i) {
    const std::string path = FieldPath("", "headers", i);
    HONE_RETURN_IF_ERROR(CheckFileName(path, spec.headers[i]));
    if (!uses.headers.insert(spec.headers[i]).second) {
      return FieldError(path, absl::StrCat("\"", spec.headers[i], "\" is listed twice"));
    }
  }
  for (const PrebuiltCandidate& candidate : spec.prebuilt) uses.prebuilt.insert(candidate.file);
  return uses;
}

absl::Status CheckFile(const std::string& path, const SourceFile& file, const FileUses& uses) {
  HONE_RETURN_IF_ERROR(CheckFileName(path + ".name", file.name));
  const bool compiled = uses.source.count(file.name) > 0 || uses.headers.count(file.name) > 0;
  if (!compiled && uses.prebuilt.count(file.name) == 0) {
    return FieldError(path + ".name", absl::StrCat("\"", file.name, "\" is not named by source, ",
                                                   "headers or prebuilt"));
  }
  if (compiled && !IsValidUtf8(file.content)) {
    return FieldError(path + ".content", absl::StrCat(file.name, " is not valid UTF-8"));
  }
  if (uses.source.count(file.name) > 0 && file.content.size() > TemplateLimits::kSourceBytes) {
    return FieldError(path + ".content",
                      absl::StrCat(file.name, " has ", file.content.size(), " bytes; at most ",
                                   TemplateLimits::kSourceBytes));
  }
  return absl::OkStatus();
}

absl::Status CheckPresent(const TemplateSpec& spec, const std::set<std::string>& names,
                          absl::string_view field) {
  for (const std::string& name : names) {
    const bool present = std::any_of(spec.files.begin(), spec.files.end(),
                                     [&](const SourceFile& file) { return file.name == name; });
    if (!present) return FieldError(field, absl::StrCat("file \"", name, "\" is missing"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateChecks(const TemplateSpec& spec, const TemplateBody& body,
                            absl::string_view prefix) {
  HONE_RETURN_IF_ERROR(CheckCount("check", spec.checks.size(), TemplateLimits::kChecks));
  const NameScope scope = NameScope::ForProblem(spec, body);
  std::set<std::string> outputs;
  for (size_t i = 0; i < spec.checks.size(); ++i) {
    // The checks are the template's own, but what they name is the body's.
    const std::string path = FieldPath("", "check", i);
    absl::Status status = CheckOne(spec, body, path, spec.checks[i], scope);
    if (status.ok() && !outputs.insert(spec.checks[i].output).second) {
      status = FieldError(path + ".output",
                          absl::StrCat("\"", spec.checks[i].output, "\" is checked twice"));
    }
    const auto has_none = [](const TemplateCheck& check) {
      return check.reference.empty() && check.chain.empty();
    };
    if (status.ok() && has_none(spec.checks[i]) != has_none(spec.checks[0])) {
      status = FieldError(path + ".reference", "some checks have a reference and some have none");
    }
    if (status.ok()) continue;
    if (prefix.empty()) return status;
    const std::string field = FieldOf(status).value_or(path);
    return FieldError(field, absl::StrCat("with ", prefix, " ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status ValidatePriors(const TemplateSpec& spec) {
  HONE_RETURN_IF_ERROR(CheckCount("priors", spec.priors.size(), TemplateLimits::kPriors));
  const NameScope scope = NameScope::ForProblem(spec, spec.base);
  for (size_t i = 0; i < spec.priors.size(); ++i) {
    const Prior& prior = spec.priors[i];
    const std::string path = FieldPath("", "priors", i);
    HONE_RETURN_IF_ERROR(CheckArchitectures(path + ".architectures", prior.architectures));
    if (prior.when.has_value()) {
      HONE_RETURN_IF_ERROR(scope.CheckInteger(path + ".when", *prior.when));
    }
    if (prior.config.empty()) return FieldError(path + ".config", "is empty");
    for (const auto& [name, value] : prior.config) {
      HONE_RETURN_IF_ERROR(CheckPriorValue(spec, path + ".config", name, value));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidatePrebuilt(const TemplateSpec& spec) {
  HONE_RETURN_IF_ERROR(CheckCount("prebuilt", spec.prebuilt.size(), TemplateLimits::kPrebuilt));
  std::set<std::pair<std::string, std::map<std::string, int64_t>>> seen;
  for (size_t i = 0; i < spec.prebuilt.size(); ++i) {
    const PrebuiltCandidate& candidate = spec.prebuilt[i];
    const std::string path = FieldPath("", "prebuilt", i);
    HONE_RETURN_IF_ERROR(CheckCandidate(spec, path, candidate));
    if (!seen.emplace(candidate.architecture, candidate.config).second) {
      return FieldError(path + ".config", absl::StrCat("another binary for ",
                                                       candidate.architecture, " has this config"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateFiles(const TemplateSpec& spec) {
  HONE_ASSIGN_OR_RETURN(const FileUses uses, CollectUses(spec));
  HONE_RETURN_IF_ERROR(CheckCount("files", spec.files.size(), TemplateLimits::kFiles));
  std::set<std::string> seen;
  size_t header_bytes = 0;
  size_t prebuilt_bytes = 0;
  for (size_t i = 0; i < spec.files.size(); ++i) {
    const SourceFile& file = spec.files[i];
    const std::string path = FieldPath("", "files", i);
    HONE_RETURN_IF_ERROR(CheckFile(path, file, uses));
    if (!seen.insert(file.name).second) {
      return FieldError(path + ".name", absl::StrCat("\"", file.name, "\" is given twice"));
    }
    header_bytes += uses.headers.count(file.name) > 0 ? file.content.size() : 0;
    prebuilt_bytes += uses.prebuilt.count(file.name) > 0 ? file.content.size() : 0;
  }
  if (header_bytes > TemplateLimits::kHeaderBytes) {
    return FieldError("headers", absl::StrCat(header_bytes, " bytes together; at most ",
                                              TemplateLimits::kHeaderBytes));
  }
  if (prebuilt_bytes > TemplateLimits::kPrebuiltBytes) {
    return FieldError("prebuilt", absl::StrCat(prebuilt_bytes, " bytes together; at most ",
                                               TemplateLimits::kPrebuiltBytes));
  }
  for (size_t i = 0; i < spec.header_sets.size(); ++i) {
    const std::string& digest = spec.header_sets[i];
    const bool hex =
        digest.size() == 64 && digest.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!hex) {
      return FieldError(FieldPath("", "header_sets", i),
                        absl::StrCat("\"", digest, "\" is not a digest of 64 hex digits"));
    }
  }
  HONE_RETURN_IF_ERROR(CheckPresent(spec, uses.source, "source"));
  HONE_RETURN_IF_ERROR(CheckPresent(spec, uses.headers, "headers"));
  return CheckPresent(spec, uses.prebuilt, "prebuilt");
}

}  // namespace hone
