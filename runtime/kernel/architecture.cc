#include "runtime/kernel/architecture.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace hone {
namespace {

struct FeatureRule {
  Feature feature;
  absl::string_view name;
  int version_min;
  int version_max;
  bool needs_suffix;  // only in architecture-specific (a) or family-specific (f) targets
  absl::string_view where;
};

// WGMMA is Hopper's alone; TCGEN05 exists in the 10x family and not in 12x.
constexpr FeatureRule kFeatureRules[] = {
    {Feature::kTensorCores, "TENSOR_CORES", 70, 9999, false, "sm_70 and later"},
    {Feature::kTma, "TMA", 90, 9999, false, "sm_90 and later"},
    {Feature::kWgmma, "WGMMA", 90, 90, true, "sm_90a"},
    {Feature::kTcgen05, "TCGEN05", 100, 119, true, "sm_100a, sm_103a and their family"},
    {Feature::kClusters, "CLUSTERS", 90, 9999, false, "sm_90 and later"},
    {Feature::kAsyncCopy, "ASYNC_COPY", 80, 9999, false, "sm_80 and later"},
    {Feature::kFp8, "FP8", 89, 9999, false, "sm_89 and later"},
};

}  // namespace

absl::StatusOr<Architecture> ParseArchitecture(absl::string_view text) {
  Architecture result;
  if (text == "cpu") {
    result.cpu = true;
    return result;
  }
  absl::string_view digits = text;
  result.ptx = absl::ConsumePrefix(&digits, "compute_");
  const bool known_prefix = result.ptx || absl::ConsumePrefix(&digits, "sm_");
  if (known_prefix && (absl::EndsWith(digits, "a") || absl::EndsWith(digits, "f"))) {
    result.suffix = digits.back();
    digits.remove_suffix(1);
  }
  const bool plain = digits.size() >= 2 && digits.size() <= 4 && absl::ascii_isdigit(digits[0]);
  if (!known_prefix || !plain || !absl::SimpleAtoi(digits, &result.version)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "architecture \"", text, "\": expected sm_NN, sm_NNa, sm_NNf, compute_NN or cpu"));
  }
  return result;
}

bool ArchitectureMatches(const std::string& pattern, const std::string& architecture) {
  if (pattern == architecture) return true;
  const absl::StatusOr<Architecture> wanted = ParseArchitecture(pattern);
  const absl::StatusOr<Architecture> actual = ParseArchitecture(architecture);
  if (!wanted.ok() || !actual.ok()) return false;
  if (wanted->cpu || actual->cpu) return wanted->cpu && actual->cpu;
  return wanted->version == actual->version &&
         (wanted->suffix == 0 || wanted->suffix == actual->suffix);
}

absl::Status CheckFeature(Feature feature, const Architecture& architecture,
                          absl::string_view text) {
  for (const FeatureRule& rule : kFeatureRules) {
    if (rule.feature != feature) continue;
    const bool has = !architecture.cpu && architecture.version >= rule.version_min &&
                     architecture.version <= rule.version_max &&
                     (!rule.needs_suffix || architecture.suffix != 0);
    if (has) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("needs ", rule.name, ", which ", text,
                                                      " does not have; it exists on ", rule.where));
  }
  return absl::InternalError("feature without a rule");
}

}  // namespace hone
