// An explanation of a tuned kernel as people read it.
#pragma once

#include <string>

#include "hone/v1/kernel_service.pb.h"

namespace hone::cli {

// Lines, each ended.
std::string ExplainText(const v1::ExplainTuningResponse& reply);

// A table of a device's ceilings, without a heading; empty when there are none.
std::string CeilingsTable(const v1::DeviceCeilings& ceilings);

}  // namespace hone::cli
