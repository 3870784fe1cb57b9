// Values that a problem binds to a template's parameters.
#pragma once

#include <map>
#include <string>

#include "runtime/launch/expression.h"

namespace hone {

// An integer for sizes and flags (0, 1), a DataType, or a choice's text.
using Value = ExpressionValue;
using Values = std::map<std::string, Value>;

// "67108864", "F32", "relu".
std::string ToString(const Value& value);
// "T=F32 n=67108864", sorted by name.
std::string ToString(const Values& values);

}  // namespace hone
