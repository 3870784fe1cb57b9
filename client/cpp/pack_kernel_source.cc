#include "client/cpp/pack_kernel_source.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/kernel_assembly.h"
#include "client/cpp/pack_resolver.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// The stored answer as an answer to this request.
void AdaptReply(const PackMatch& match, v1::GetKernelResponse& reply) {
  reply.mutable_kernel()->set_generation(0);
  if (!match.stale_reason.empty()) {
    reply.set_stale_reason(reply.stale()
                               ? absl::StrCat(reply.stale_reason(), "; ", match.stale_reason)
                               : match.stale_reason);
    reply.set_stale(true);
  }
  if (match.exact) return;
  if (reply.answered_by_key().empty()) reply.set_answered_by_key(reply.key());
  if (reply.answered_by_params().empty()) {
    *reply.mutable_answered_by_params() = reply.kernel().params();
  }
  *reply.mutable_kernel()->mutable_params() = match.params;
  reply.set_source(v1::NEAREST);
  reply.set_exact(false);
  // Of the request that the pack was asked for, and unknown for this one.
  reply.clear_key();
  reply.clear_bucket_params();
  reply.clear_pin();
}

class PackFallback : public KernelSource {
 public:
  PackFallback(std::unique_ptr<KernelSource> daemon, std::shared_ptr<const KernelPack> pack,
               bool enable_cpu_device)
      : daemon_(std::move(daemon)),
        pack_(std::move(pack)),
        resolver_(pack_->index()),
        enable_cpu_device_(enable_cpu_device) {}

  absl::StatusOr<Kernel> GetKernel(const GetKernelOptions& options) override {
    absl::StatusOr<Kernel> kernel = daemon_->GetKernel(options);
    if (kernel.ok() || !IsUnreachable(kernel.status())) return kernel;
    absl::StatusOr<Kernel> packed = FromPack(options);
    if (packed.ok()) return packed;
    return MarkUnreachable(absl::Status(
        packed.status().code(),
        absl::StrCat(packed.status().message(), "; and the daemon: ", kernel.status().message())));
  }
  absl::Status Watch(v1::Numerics numerics, const OnWatchEvent& on_event) override {
    return daemon_->Watch(numerics, on_event);
  }
  absl::Status Reach(absl::Duration timeout) override { return daemon_->Reach(timeout); }
  void Close() override { daemon_->Close(); }

 private:
  absl::StatusOr<Kernel> FromPack(const GetKernelOptions& options) const {
    const auto match = resolver_.Resolve(options, enable_cpu_device_);
    if (!match.ok()) {
      return absl::Status(match.status().code(), absl::StrCat("kernel pack ", pack_->path(), " ",
                                                              match.status().message()));
    }
    HONE_ASSIGN_OR_RETURN(v1::GetKernelResponse reply, pack_->Reply(match->kernel));
    for (const v1::KernelVariant& variant : reply.kernel().variants()) {
      // The index may say otherwise, so the binary itself is asked.
      if (variant.artifact().format() != "HOST_ELF" || enable_cpu_device_) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "kernel pack ", pack_->path(), " has host code, which enable_cpu_device would allow"));
    }
    AdaptReply(*match, reply);
    return AssembleKernel(
        std::move(reply), [this](const std::string& sha256) { return pack_->Artifact(sha256); },
        enable_cpu_device_, /*from_pack=*/true);
  }

  const std::unique_ptr<KernelSource> daemon_;
  const std::shared_ptr<const KernelPack> pack_;
  const PackResolver resolver_;
  const bool enable_cpu_device_;
};

}  // namespace

std::unique_ptr<KernelSource> MakePackFallback(std::unique_ptr<KernelSource> daemon,
                                               std::shared_ptr<const KernelPack> pack,
                                               bool enable_cpu_device) {
  return std::make_unique<PackFallback>(std::move(daemon), std::move(pack), enable_cpu_device);
}

}  // namespace hone
