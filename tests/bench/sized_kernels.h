// A daemon whose catalog makes binaries of any size, and requests for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/scenarios/daemon_process.h"

namespace hone {

class SizedKernels {
 public:
  // In `directory`, on the CPU device. Binaries are for sm_90a where there is an NVRTC, which needs
  // no GPU, else for the CPU.
  static absl::StatusOr<SizedKernels> Start(const std::string& directory,
                                            std::vector<std::string> arguments = {});

  // A GetKernel of a binary with a table of `table_bytes`, another one for every key.
  // `inline_bytes_max` as in the API.
  std::string Request(int64_t table_bytes, int64_t key, int64_t inline_bytes_max = 0,
                      v1::Policy policy = v1::BEST_AVAILABLE) const;

  DaemonProcess& daemon() { return *daemon_; }
  const std::string& architecture() const { return architecture_; }

 private:
  std::unique_ptr<DaemonProcess> daemon_;
  std::string architecture_ = "cpu";
};

// bench/templates beside $HONE_KERNELS's tests.
std::string BenchTemplates();

}  // namespace hone
