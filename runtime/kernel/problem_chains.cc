#include "runtime/kernel/problem_chains.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/kernel/template_text.h"

namespace hone {
namespace {

const ChainPreset* FindPreset(const Parameter& parameter, const std::string& name) {
  const auto found = std::find_if(parameter.presets.begin(), parameter.presets.end(),
                                  [&](const ChainPreset& preset) { return preset.name == name; });
  return found == parameter.presets.end() ? nullptr : &*found;
}

std::vector<std::string> ArgumentsOf(const Parameter& parameter) {
  std::vector<std::string> names = parameter.chain_names.inputs;
  const std::vector<std::string>& scalars = parameter.chain_names.scalars;
  names.insert(names.end(), scalars.begin(), scalars.end());
  return names;
}

}  // namespace

absl::StatusOr<Chain> ReadChain(const Parameter& parameter, const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(ToString(value), " is not an expression over ",
                                                   absl::StrJoin(ArgumentsOf(parameter), ", ")));
  }
  const ChainPreset* preset = FindPreset(parameter, *text);
  absl::StatusOr<Chain> chain =
      Chain::Parse(preset == nullptr ? *text : preset->expression, parameter.chain_names);
  if (chain.ok() || parameter.presets.empty() || !IsIdentifier(*text)) return chain;
  return absl::InvalidArgumentError(absl::StrCat(
      chain.status().message(), "; presets are ",
      absl::StrJoin(parameter.presets, ", ",
                    [](std::string* out, const ChainPreset& one) { *out += one.name; })));
}

Values WithPresetParams(const std::vector<Parameter>& params, const Values& values) {
  Values result = values;
  for (const Parameter& parameter : params) {
    if (parameter.kind != ParameterKind::kChain) continue;
    const auto given = values.find(parameter.name);
    const auto& value = given == values.end() ? parameter.default_value : given->second;
    const auto* text = value.has_value() ? std::get_if<std::string>(&*value) : nullptr;
    const ChainPreset* preset = text == nullptr ? nullptr : FindPreset(parameter, *text);
    if (preset != nullptr) result.insert(preset->params.begin(), preset->params.end());
  }
  return result;
}

std::vector<std::string> ChainFactNames(const Parameter& parameter) {
  std::vector<std::string> names;
  for (const std::string& name : ArgumentsOf(parameter)) {
    names.push_back(absl::StrCat(parameter.name, ".", name));
  }
  if (parameter.kind == ParameterKind::kChain) {
    names.push_back(absl::StrCat(parameter.name, ".operations"));
  }
  return names;
}

std::map<std::string, int64_t> ChainFacts(const Parameter& parameter, const Value& value) {
  std::map<std::string, int64_t> facts;
  const absl::StatusOr<Chain> chain = ReadChain(parameter, value);
  if (!chain.ok()) return facts;
  for (const std::string& name : ArgumentsOf(parameter)) {
    facts[absl::StrCat(parameter.name, ".", name)] = chain->Uses(name) ? 1 : 0;
  }
  facts[absl::StrCat(parameter.name, ".operations")] = chain->operations();
  return facts;
}

std::set<std::string> AbsentArguments(const KernelTemplate& kernel_template,
                                      const Values& specialised) {
  std::set<std::string> absent;
  std::set<std::string> read;
  for (const Parameter& parameter : kernel_template.spec().params) {
    const auto value = specialised.find(parameter.name);
    if (parameter.kind != ParameterKind::kChain || value == specialised.end()) continue;
    const absl::StatusOr<Chain> chain = ReadChain(parameter, value->second);
    for (const std::string& name : ArgumentsOf(parameter)) {
      (chain.ok() && chain->Uses(name) ? read : absent).insert(name);
    }
  }
  for (const std::string& name : read) absent.erase(name);
  return absent;
}

}  // namespace hone
