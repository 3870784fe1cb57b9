#include "client/cpp/kernel_assembly.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/kernel_state.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

constexpr size_t kReservedBytesMax = size_t{64} << 20;

absl::Status Verify(const v1::ArtifactInfo& info, const std::string& bytes) {
  if (Sha256Hex(bytes) == info.sha256()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("artifact ", info.sha256(), ": the ", bytes.size(),
                                          " bytes received do not match this hash"));
}

}  // namespace

void ArtifactAssembly::Add(const v1::ArtifactChunk& chunk) {
  if (chunk.has_info()) {
    fetched_.info = chunk.info();
    // A hint only: the daemon's number does not decide how much memory is taken.
    fetched_.bytes.reserve(
        std::min(static_cast<size_t>(chunk.info().size_bytes()), kReservedBytesMax));
  }
  fetched_.bytes += chunk.data();
}

absl::StatusOr<FetchedArtifact> ArtifactAssembly::Finish() && {
  if (fetched_.info.sha256() != sha256_) {
    return absl::DataLossError(
        absl::StrCat("asked for artifact ", sha256_, ", the daemon sent ", fetched_.info.sha256()));
  }
  HONE_RETURN_IF_ERROR(Verify(fetched_.info, fetched_.bytes));
  return std::move(fetched_);
}

absl::StatusOr<Kernel> AssembleKernel(
    v1::GetKernelResponse response,
    const std::function<absl::StatusOr<std::string>(const std::string& sha256)>& fetch,
    bool cpu_device_enabled, bool from_pack) {
  std::map<std::string, std::string> bytes;  // variants may share an artifact
  for (v1::KernelVariant& variant : *response.mutable_kernel()->mutable_variants()) {
    const std::string& sha256 = variant.artifact().sha256();
    if (bytes.count(sha256) > 0) continue;
    if (variant.artifact_bytes().empty()) {
      HONE_ASSIGN_OR_RETURN(bytes[sha256], fetch(sha256));
    } else {
      HONE_RETURN_IF_ERROR(Verify(variant.artifact(), variant.artifact_bytes()));
      bytes[sha256] = std::move(*variant.mutable_artifact_bytes());
    }
  }
  return MakeKernel(std::move(response), bytes, cpu_device_enabled, from_pack);
}

}  // namespace hone
