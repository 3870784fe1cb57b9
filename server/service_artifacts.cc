// Artifacts' bytes.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/logging.h"

namespace hone {
namespace {

bool IsSha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

absl::StatusOr<Artifact> ReadArtifact(ServiceContext& context, const std::string& sha256) {
  KernelStore& store = *context.store;
  auto artifact = store.GetArtifactBySha256(sha256);
  if (artifact.status().code() == absl::StatusCode::kDataLoss) {
    // The damaged bytes are put aside, so that asking for the kernel again rebuilds them.
    const absl::Status quarantined = store.QuarantineArtifact(sha256);
    LogEvent("corrupt_artifact")
        .Add("sha256", sha256)
        .Add("quarantined", quarantined.ok() ? "yes" : quarantined.message())
        .Write(spdlog::level::err);
    return absl::DataLossError(absl::StrCat(
        "the stored bytes of artifact ", sha256,
        " fail their hash and were put aside; ask for the kernel again to have it rebuilt"));
  }
  if (!artifact.ok()) return artifact.status();
  if (!artifact->has_value()) {
    // A kernel answered from memory may be one that the store has evicted since.
    if (const Engine* engine = context.gate->Get()) {
      if (const auto held = engine->cache->FindArtifact(sha256)) return *held;
    }
    return absl::NotFoundError(
        absl::StrCat("sha256: there is no artifact ", sha256, " in this daemon's store",
                     context.store->Room().evictions > 0
                         ? " (any more); ask for the kernel again to have it rebuilt"
                         : ""));
  }
  return **std::move(artifact);
}

void SendArtifact(const Artifact& artifact, int64_t chunk_bytes, EventStream& stream) {
  const auto size = static_cast<int64_t>(artifact.bytes.size());
  int64_t sent = 0;
  do {
    v1::ArtifactChunk chunk;
    if (sent == 0) *chunk.mutable_info() = ToProto(artifact);
    const int64_t length = std::min(chunk_bytes, size - sent);
    chunk.set_data(artifact.bytes.data() + sent, static_cast<size_t>(length));
    stream.Push("", Serialize(chunk));
    sent += length;
  } while (sent < size && !stream.ended());
  stream.End(absl::OkStatus());
}

}  // namespace

StreamCleanup GetArtifact(ServiceContext& context, const Caller& caller,
                          const v1::GetArtifactRequest& request, StreamPtr stream) {
  const std::string& sha256 = request.sha256();
  if (!IsSha256(sha256)) {
    stream->End(InvalidField(
        "sha256", absl::StrCat("'", BoundedUtf8(sha256, 80), "' is not 64 lower-case hex digits")));
    return [] {};
  }
  // Not evicted before it has been sent.
  auto held = context.store->Hold(sha256);
  const absl::Status queued =
      context.lookups->Submit(caller.connection, [&context, sha256, stream] {
        if (stream->ended()) return;
        const auto artifact = ReadArtifact(context, sha256);
        if (!artifact.ok()) return stream->End(artifact.status());
        SendArtifact(*artifact, context.limits.chunk_bytes, *stream);
      });
  if (!queued.ok()) stream->End(queued);
  return [held = std::move(held)] {};
}

}  // namespace hone
