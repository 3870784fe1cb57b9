#include "runtime/kernel/template_bindings.h"

#include "runtime/kernel/problem_chains.h"

namespace hone {

const std::vector<DataType>& AllDataTypes() {
  static const auto* const types = [] {
    auto* all = new std::vector<DataType>;
    for (int i = static_cast<int>(DataType::kF16); i <= static_cast<int>(DataType::kBool); ++i) {
      all->push_back(static_cast<DataType>(i));
    }
    return all;
  }();
  return *types;
}

ExpressionBindings LiteralBindings(const KernelTemplate& kernel_template) {
  ExpressionBindings bindings;
  for (const DataType type : AllDataTypes()) bindings.emplace(std::string(Name(type)), type);
  for (const Parameter& parameter : kernel_template.spec().params) {
    for (const std::string& choice : parameter.choices) bindings.emplace(choice, choice);
  }
  return bindings;
}

ExpressionBindings BindingsFor(const KernelTemplate& kernel_template, const Values& values) {
  ExpressionBindings bindings = LiteralBindings(kernel_template);
  for (const auto& [name, value] : values) bindings[name] = value;
  for (const Parameter& parameter : kernel_template.spec().params) {
    const auto given = values.find(parameter.name);
    if (parameter.kind != ParameterKind::kChain || given == values.end()) continue;
    for (const auto& [fact, number] : ChainFacts(parameter, given->second)) {
      bindings[fact] = number;
    }
  }
  return bindings;
}

void AddTo(ExpressionBindings& bindings, const SizeBindings& sizes) {
  for (const auto& [name, size] : sizes) bindings[name] = size;
}

void AddTo(ExpressionBindings& bindings, const Config& config) {
  for (const auto& [name, value] : config.values()) bindings[name] = value;
}

}  // namespace hone
