// Content addresses of templates.
#pragma once

#include <string>

#include "runtime/kernel/kernel_template.h"

namespace hone {

// SHA-256 over everything in the spec, fields labelled and lengths written, files by content.
std::string TemplateDigest(const TemplateSpec& spec);

// SHA-256 over what a measurement depends on besides problem and config: name, source, headers,
// options, defines, parameter kinds and the dynamic sizes' domains, arguments, steps, checks,
// prebuilt binaries, and the constraints over dynamic sizes, because they decide at which sizes a
// candidate was checked. Without tunables' values, other constraints, priors, work and texts.
std::string KernelDigest(const TemplateSpec& spec);

}  // namespace hone
