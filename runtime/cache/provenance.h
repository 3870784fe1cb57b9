// What is measured here and now is measured with.
#pragma once

#include <string>

#include "runtime/compile/compiler.h"
#include "runtime/kernel/measurement.h"
#include "runtime/launch/device_fingerprint.h"

namespace hone {

// `architecture`: what is compiled for. Without a compiler at hand its build is unknown.
inline Provenance ProvenanceOf(const Compiler& compiler, const std::string& architecture,
                               int driver_version, const std::string& driver) {
  const auto selected = compiler.Select(architecture, driver_version);
  return {.driver = driver, .compiler_build = selected.ok() ? selected->builder : std::string()};
}

}  // namespace hone
