// One self-contained program that launches a tuned kernel on generated inputs and times it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/hone/kernel.h"
#include "hone/v1/kernel_service.pb.h"
#include "hone/v1/kernel_template.pb.h"

namespace hone::cli {

struct ReproRequest {
  const Kernel* kernel = nullptr;
  size_t variant = 0;  // of the kernel
  const v1::KernelTemplate* kernel_template = nullptr;
  SizeBindings sizes;                     // dynamic sizes of the launch
  std::map<std::string, double> scalars;  // per-launch scalars that are not to have their sample
  const v1::TuningSummary* summary = nullptr;
};

// C++17 that needs cuda.h, libcuda and nothing of hone. Inputs are those of hone's check: the same
// generators and seeds. FAILED_PRECONDITION for a kernel of the CPU reference device or a launch
// that the variant's guards refuse; UNIMPLEMENTED for inputs that a kernel of the template makes.
absl::StatusOr<std::string> ReproProgram(const ReproRequest& request);

}  // namespace hone::cli
