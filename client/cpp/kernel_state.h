// What a Kernel holds, and how the client makes one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/hone/kernel.h"
#include "client/cpp/kernel_contexts.h"
#include "runtime/launch/launch_plan.h"

namespace hone {

// Neither copied nor moved: plans refer to the variants' recipes.
struct Kernel::State {
  v1::GetKernelResponse response;
  std::vector<Kernel::Variant> variants;
  bool cpu_device_enabled = false;
  bool from_pack = false;
  bool uses_device_facts = false;  // some expression mentions device.*
  LaunchNames names;
  VariantPlans plans;                                // empty if uses_device_facts
  mutable std::optional<KernelContexts> contexts{};  // thread-safe
};

bool IsForCpu(const Kernel::Variant& variant);

// Makes a kernel of a reply whose artifact bytes stand in `bytes` by SHA-256 and are verified.
// INTERNAL when a recipe cannot be read: daemon and client do not fit together.
absl::StatusOr<Kernel> MakeKernel(v1::GetKernelResponse response,
                                  const std::map<std::string, std::string>& bytes,
                                  bool cpu_device_enabled, bool from_pack = false);

}  // namespace hone
