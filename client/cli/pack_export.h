// From what a daemon has tuned to a kernel pack.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/hone/client.h"
#include "hone/v1/kernel_pack.pb.h"

namespace hone::cli {

struct PackExportOptions {
  std::vector<std::string> templates{};  // empty: all
  // Also kernels whose binary is of another compiler build or whose timing is of another driver.
  bool stale = false;
  int64_t made_at_unix_ms = 0;
  // As KernelPackOptions: for tests, on machines without a GPU.
  bool allow_host_code = false;
};

// Writes what the daemon answers to each of its tunings' own problem, device and numerics, if that
// is the tuning's winner; nothing is compiled or measured. NOT_FOUND when nothing is left, with
// why.
absl::StatusOr<v1::PackExport> ExportPack(const Client& client, const std::string& path,
                                          const PackExportOptions& options);

}  // namespace hone::cli
