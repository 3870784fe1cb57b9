// The service's methods, one function each; service.cc ties them to gRPC. None blocks: what takes
// time runs on the context's queues and answers its call later.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hone/v1/kernel_service.pb.h"
#include "server/call.h"
#include "server/event_stream.h"
#include "server/service_context.h"

namespace hone {

// ---- Unary (service_kernels.cc, service_compile.cc, service_templates.cc, ...).
void GetKernel(ServiceContext& context, CallPtr<v1::GetKernelRequest, v1::GetKernelResponse> call);
// A GetKernel that was answered from memory before, byte for byte; false if it was not, or would be
// answered otherwise now.
bool GetKnownKernel(ServiceContext& context, CallBase& call);
void Compile(ServiceContext& context, CallPtr<v1::CompileRequest, v1::CompileResponse> call);
void GetLog(ServiceContext& context, CallPtr<v1::GetLogRequest, v1::GetLogResponse> call);
void ListTemplates(ServiceContext& context,
                   CallPtr<v1::ListTemplatesRequest, v1::ListTemplatesResponse> call);
void DescribeTemplate(ServiceContext& context,
                      CallPtr<v1::DescribeTemplateRequest, v1::DescribeTemplateResponse> call);
void RegisterTemplate(ServiceContext& context,
                      CallPtr<v1::RegisterTemplateRequest, v1::RegisterTemplateResponse> call);
void ListHeaderSets(ServiceContext& context,
                    CallPtr<v1::ListHeaderSetsRequest, v1::ListHeaderSetsResponse> call);
void ListTunings(ServiceContext& context,
                 CallPtr<v1::ListTuningsRequest, v1::ListTuningsResponse> call);
void GetTuning(ServiceContext& context, CallPtr<v1::GetTuningRequest, v1::GetTuningResponse> call);
void ExplainTuning(ServiceContext& context,
                   CallPtr<v1::ExplainTuningRequest, v1::ExplainTuningResponse> call);
void Pin(ServiceContext& context, CallPtr<v1::PinRequest, v1::PinResponse> call);
void Unpin(ServiceContext& context, CallPtr<v1::UnpinRequest, v1::UnpinResponse> call);
void Invalidate(ServiceContext& context,
                CallPtr<v1::InvalidateRequest, v1::InvalidateResponse> call);
void ListMisses(ServiceContext& context,
                CallPtr<v1::ListMissesRequest, v1::ListMissesResponse> call);
void GetStatus(ServiceContext& context, CallPtr<v1::GetStatusRequest, v1::GetStatusResponse> call);
void ExplainKey(ServiceContext& context,
                CallPtr<v1::ExplainKeyRequest, v1::ExplainKeyResponse> call);

// ---- Streams from the server. Each returns what must be undone when the stream is over; it runs
// on a gRPC thread, exactly once, possibly while the handler's own work is still queued.
using StreamPtr = std::shared_ptr<EventStream>;
using StreamCleanup = std::function<void()>;
StreamCleanup Tune(ServiceContext& context, const Caller& caller, const v1::TuneRequest& request,
                   StreamPtr stream);
StreamCleanup Watch(ServiceContext& context, const Caller& caller, const v1::WatchRequest& request,
                    StreamPtr stream);
StreamCleanup GetArtifact(ServiceContext& context, const Caller& caller,
                          const v1::GetArtifactRequest& request, StreamPtr stream);

// ---- A stream from the client: collects a header set, then stores it.
class HeaderSetUpload {
 public:
  explicit HeaderSetUpload(const ServiceLimits& limits) : limits_(limits) {}
  // INVALID_ARGUMENT or RESOURCE_EXHAUSTED ends the upload.
  absl::Status Add(v1::RegisterHeaderSetRequest message);
  // Blocks on the store.
  absl::StatusOr<v1::RegisterHeaderSetResponse> Store(KernelStore& store);

 private:
  const ServiceLimits limits_;
  std::string name_;
  bool first_ = true;
  std::vector<SourceFile> files_;
  int64_t bytes_ = 0;
};

// ---- Shared by several groups.
// A template as a request names it. NOT_FOUND says what there is.
absl::StatusOr<CatalogEntryPtr> FindTemplate(ServiceContext& context, const v1::TemplateRef& ref);

// NOT_FOUND, with names like it, unless `name` is empty, a template's, or stored with a tuning or a
// miss. Blocks on the store.
absl::Status CheckTemplateName(ServiceContext& context, const std::string& name);

// One stored tuning and what it stands for.
struct FoundTuning {
  TuningRecord record;
  std::vector<Measurement> measurements;
  // The present template of its name and the problem; absent when the template is gone or its code
  // has changed.
  KernelTemplatePtr kernel_template;
  std::optional<Problem> problem;
  // What answers where there is no pin; absent when nothing can.
  std::optional<Config> unpinned;
  v1::TuningSummary summary;
};
// NOT_FOUND, or INVALID_ARGUMENT for a beginning that several keys have. Blocks on the store.
absl::StatusOr<FoundTuning> FindTuning(ServiceContext& context, const std::string& key_prefix);

// The template of a tune: named, or sent along, which registers it. Blocks on the store.
absl::StatusOr<CatalogEntryPtr> TemplateToTune(ServiceContext& context, const Engine& engine,
                                               const Caller& caller,
                                               const v1::TuneRequest& request);

// INVALID_ARGUMENT unless `key` can be a tuning key or the first digits of one.
absl::Status CheckKey(const std::string& key);
// The stored key that begins with `prefix`. NOT_FOUND, or INVALID_ARGUMENT when several do. Blocks
// on the store.
absl::StatusOr<std::string> FindKey(const std::string& prefix, KernelStore& store);

// Catalog directories that could not be loaded.
void AddCatalogWarnings(ServiceContext& context, v1::GetStatusResponse& response);

// FAILED_PRECONDITION when nothing confines the compiler, and the source is not the catalog's.
absl::Status CheckSourceTrusted(const Engine& engine, bool from_catalog);

}  // namespace hone
