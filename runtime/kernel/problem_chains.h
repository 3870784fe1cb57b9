// Chain parameters: what a problem's text for one means.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/generate/chain.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/kernel/value.h"

namespace hone {

// The chain of an expression or a preset's name. INVALID_ARGUMENT without a path; says the presets
// there are when the text might have been meant for one. REQUIRES: parameter.kind is kChain.
absl::StatusOr<Chain> ReadChain(const Parameter& parameter, const Value& value);

// `values` and what the presets among them give to other parameters. Values that are there stay.
Values WithPresetParams(const std::vector<Parameter>& params, const Values& values);

// Names that expressions know about a chain: "f.a" for each input and scalar, "f.operations".
std::vector<std::string> ChainFactNames(const Parameter& parameter);
// And their values; empty if `value` is no chain.
std::map<std::string, int64_t> ChainFacts(const Parameter& parameter, const Value& value);

// Arguments that chains may read and those of this problem do not.
std::set<std::string> AbsentArguments(const KernelTemplate& kernel_template,
                                      const Values& specialised);

}  // namespace hone
