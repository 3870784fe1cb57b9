// KernelTemplate::Create's checks, one function for each part of the schema. Paths in errors are
// the schema's: "variants[0].steps[1].launch.grid_x".
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/kernel/name_scope.h"

namespace hone {

// Bounds of one template. Generous for people, small enough that no template costs the daemon.
struct TemplateLimits {
  static constexpr size_t kParams = 64;
  static constexpr size_t kTunables = 64;
  static constexpr size_t kValues = 4096;  // of one tunable, choice or bucket list
  static constexpr size_t kArguments = 64;
  static constexpr size_t kSteps = 64;
  static constexpr size_t kConstraints = 256;
  static constexpr size_t kChecks = 64;
  static constexpr size_t kVariants = 64;
  static constexpr size_t kPriors = 1024;
  static constexpr size_t kPrebuilt = 4096;
  static constexpr size_t kFiles = 4096;
  static constexpr size_t kOptions = 64;
  static constexpr size_t kRank = 32;  // dimensions of one buffer
  static constexpr size_t kNameBytes = 64;
  static constexpr size_t kLineBytes = 4096;   // entries, options, defines
  static constexpr size_t kTextBytes = 16384;  // descriptions
  static constexpr size_t kSourceBytes = 1 << 20;
  static constexpr size_t kHeaderBytes = 8 << 20;     // all headers together
  static constexpr size_t kPrebuiltBytes = 64 << 20;  // all binaries together
};

// Checks the whole spec and resolves what the schema lets authors leave out: a step without
// arguments takes all of them.
absl::Status ValidateTemplate(TemplateSpec& spec);

// Path of a field in a body: `prefix` is "" or "variants[0].".
std::string FieldPath(absl::string_view prefix, absl::string_view field, size_t index,
                      absl::string_view rest = "");

absl::Status CheckCount(absl::string_view path, size_t count, size_t count_max);
absl::Status CheckArchitectures(absl::string_view path,
                                const std::vector<std::string>& architectures);

absl::Status ValidateParameters(const TemplateSpec& spec);
absl::Status ValidateTunables(const TemplateSpec& spec, const TemplateBody& body,
                              absl::string_view prefix);
absl::Status ValidateArguments(const TemplateSpec& spec, const TemplateBody& body,
                               absl::string_view prefix);
// Steps and constraints.
absl::Status ValidateSteps(const TemplateSpec& spec, TemplateBody& body, absl::string_view prefix);
absl::Status ValidateLaunch(absl::string_view path, const NameScope& scope,
                            const LaunchShape& launch);
absl::Status ValidateEntry(absl::string_view path, const NameScope& scope,
                           const std::string& entry);
// Checks, work and the generators' entries use names common to every variant.
absl::Status ValidateChecks(const TemplateSpec& spec, const TemplateBody& body,
                            absl::string_view prefix);
// Chain parameters, once the bodies are known to be right.
absl::Status ValidateChains(const TemplateSpec& spec);
// A check whose right values a chain gives.
absl::Status ValidateChainCheck(const TemplateSpec& spec, const std::string& path,
                                const TemplateCheck& check, const TemplateBuffer& output);
absl::Status ValidateFiles(const TemplateSpec& spec);
absl::Status ValidatePriors(const TemplateSpec& spec);
absl::Status ValidatePrebuilt(const TemplateSpec& spec);

// The argument's position in the body, or -1.
int FindArgument(const TemplateBody& body, absl::string_view name);
// The buffer of that name; nullptr if it is absent or something else.
const TemplateBuffer* FindBuffer(const TemplateBody& body, absl::string_view name);
// The types a buffer of this `dtype` may have; empty if it is neither a data type nor a dtype
// parameter.
std::vector<DataType> PossibleDtypes(const TemplateSpec& spec, const std::string& dtype);
// The body for an architecture: the first variant that names it, else the base.
const TemplateBody& BodyFor(const TemplateSpec& spec, const std::string& architecture);

}  // namespace hone
