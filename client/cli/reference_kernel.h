// A template's reference, compiled by the daemon's Compile and launched like a kernel of its own.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/hone/client.h"
#include "client/cpp/hone/kernel.h"
#include "hone/v1/kernel_template.pb.h"

namespace hone::cli {

struct ReferenceKernel {
  std::string entry;  // "copy_1d_reference<float>"
  Kernel kernel;
};

// The reference of check `index` for the problem that `served` was asked for. It takes the served
// kernel's arguments and has no guards. Shares nothing with the served binary but the source file.
absl::StatusOr<ReferenceKernel> CompileReference(const Client& client,
                                                 const v1::KernelTemplate& kernel_template,
                                                 int index, const Kernel& served,
                                                 bool cpu_device_enabled);

// `${NAME}` replaced by a parameter's C++ spelling. INVALID_ARGUMENT for a name without value.
absl::StatusOr<std::string> Substitute(const std::string& text,
                                       const google::protobuf::Map<std::string, v1::Value>& params);

// A compile of the template's source for these entries, whose placeholders are filled already.
// `params` fill those of its definitions.
absl::StatusOr<v1::CompileRequest> TemplateCompile(
    const v1::KernelTemplate& kernel_template,
    const google::protobuf::Map<std::string, v1::Value>& params,
    const std::vector<std::string>& entries, const std::string& architecture);

// "sm_90" covers sm_90 and sm_90a.
bool CoversArchitecture(const std::string& pattern, const std::string& architecture);

// Parameters as expressions see them.
ExpressionBindings BindingsOf(const google::protobuf::Map<std::string, v1::Value>& params);

}  // namespace hone::cli
