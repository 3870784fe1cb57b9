// From the daemon's replies to verified artifacts and kernels, whatever they came over.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/hone/fetched_artifact.h"
#include "client/cpp/hone/kernel.h"

namespace hone {

// Puts the chunks of a GetArtifact stream together.
class ArtifactAssembly {
 public:
  explicit ArtifactAssembly(std::string sha256) : sha256_(std::move(sha256)) {}
  void Add(const v1::ArtifactChunk& chunk);
  // DATA_LOSS if the bytes are not those that were asked for.
  absl::StatusOr<FetchedArtifact> Finish() &&;

 private:
  const std::string sha256_;
  FetchedArtifact fetched_;
};

// A kernel of a reply, of the daemon or of a pack; what was not sent inline is fetched by its
// SHA-256. Everything is verified: DATA_LOSS if an artifact does not match its hash. INTERNAL when
// a recipe cannot be read.
absl::StatusOr<Kernel> AssembleKernel(
    v1::GetKernelResponse response,
    const std::function<absl::StatusOr<std::string>(const std::string& sha256)>& fetch,
    bool cpu_device_enabled, bool from_pack = false);

}  // namespace hone
