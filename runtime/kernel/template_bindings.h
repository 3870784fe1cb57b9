// Bindings that a template's expressions are evaluated with.
#pragma once

#include "runtime/kernel/config_space.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/launch/expression.h"

namespace hone {

// Names that stand for themselves: data types and the template's choices.
ExpressionBindings LiteralBindings(const KernelTemplate& kernel_template);

// Literals and `values` (a problem's, all or the specialised ones).
ExpressionBindings BindingsFor(const KernelTemplate& kernel_template, const Values& values);

void AddTo(ExpressionBindings& bindings, const SizeBindings& sizes);
void AddTo(ExpressionBindings& bindings, const Config& config);

// Every data type there is, in order of its number.
const std::vector<DataType>& AllDataTypes();

}  // namespace hone
