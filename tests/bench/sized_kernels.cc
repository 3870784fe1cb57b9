#include "tests/bench/sized_kernels.h"

#include <utility>

#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone {

std::string BenchTemplates() {
  // tests/scenarios/templates -> tests/bench/templates
  return JoinPath(DirectoryName(DirectoryName(ScenarioTemplates())), "bench/templates");
}

absl::StatusOr<SizedKernels> SizedKernels::Start(const std::string& directory,
                                                 std::vector<std::string> arguments) {
  SizedKernels kernels;
  HONE_ASSIGN_OR_RETURN(kernels.daemon_,
                        DaemonProcess::Start(directory, {.arguments = std::move(arguments),
                                                         .kernels = BenchTemplates()}));
  const v1::GetStatusResponse status = kernels.daemon_->WaitForEngine();
  for (const v1::CompilerStatus& compiler : status.compilers()) {
    if (compiler.kind() == "nvrtc" && compiler.available()) kernels.architecture_ = "sm_90a";
  }
  return kernels;
}

std::string SizedKernels::Request(int64_t table_bytes, int64_t key, int64_t inline_bytes_max,
                                  v1::Policy policy) const {
  v1::GetKernelRequest request;
  request.mutable_template_()->set_name("sized");
  (*request.mutable_params())["bytes"].set_integer(table_bytes);
  (*request.mutable_params())["key"].set_integer(key);
  (*request.mutable_params())["n"].set_integer(4096);
  request.mutable_target()->set_architecture(architecture_);
  request.set_policy(policy);
  request.set_max_wait_ms(600'000);
  request.set_inline_bytes_max(inline_bytes_max);
  return request.SerializeAsString();
}

}  // namespace hone
