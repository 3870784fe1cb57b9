#include "client/cpp/capturing_source.h"

#include <utility>

#include "client/cpp/launch_recorder.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

class CapturingSource : public KernelSource {
 public:
  CapturingSource(std::unique_ptr<KernelSource> source, LaunchCapture* capture)
      : source_(std::move(source)), capture_(capture) {}

  absl::StatusOr<Kernel> GetKernel(const GetKernelOptions& options) override {
    HONE_ASSIGN_OR_RETURN(Kernel kernel, source_->GetKernel(options));
    return Recorded(std::move(kernel), capture_, options);
  }
  absl::Status Watch(v1::Numerics numerics, const OnWatchEvent& on_event) override {
    return source_->Watch(numerics, on_event);
  }
  absl::Status Reach(absl::Duration timeout) override { return source_->Reach(timeout); }
  void Close() override { source_->Close(); }

 private:
  const std::unique_ptr<KernelSource> source_;
  LaunchCapture* const capture_;
};

}  // namespace

std::unique_ptr<KernelSource> RecordLaunches(std::unique_ptr<KernelSource> source,
                                             LaunchCapture* capture) {
  if (capture == nullptr) return source;
  return std::make_unique<CapturingSource>(std::move(source), capture);
}

}  // namespace hone
