// From a chain to CUDA C++.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "runtime/generate/chain.h"

namespace hone {

// Part of what a measurement of a generated kernel depends on. Bump when ChainSource writes other
// code for the same chain.
inline constexpr int kChainSourceVersion = 1;

// "chain_f", the struct's name and the spelling of ${f}.
std::string ChainTypeName(absl::string_view parameter);
// "chain_f.h", what a template's source includes.
std::string ChainHeaderName(absl::string_view parameter);

// The header: documented at ChainParameter in kernel_template.proto. Deterministic. Only names that
// the template declared, numbers printed from floats and our own text stand in it; nothing of the
// request's text does.
std::string ChainSource(const Chain& chain, absl::string_view parameter);

}  // namespace hone
