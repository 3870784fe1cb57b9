#include "client/cpp/hone/client.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/cpp/channel.h"
#include "client/cpp/kernel_assembly.h"
#include "client/cpp/launch_recorder.h"
#include "client/cpp/rpc/endpoint.h"
#include "client/cpp/status_convert.h"
#include "grpcpp/client_context.h"
#include "hone/v1/kernel_service.grpc.pb.h"
#include "runtime/base/default_paths.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// The daemon answers these from memory or its store.
constexpr absl::Duration kLookupTimeout = absl::Seconds(30);
// A look-up, or besides it a compile of the daemon's own kernels and a second of measuring.
constexpr absl::Duration kExplainTimeout = absl::Minutes(3);
// The daemon bounds a compile itself, per architecture; this only cuts off one that is lost.
constexpr absl::Duration kCompileTimeout = absl::Minutes(15);
// On top of max_wait: the daemon answers shortly after it, and the reply has to travel.
constexpr absl::Duration kAnswerMargin = absl::Seconds(10);
// With connect_timeout 0 a call still gives the connection a moment.
constexpr absl::Duration kConnectAtLeast = absl::Milliseconds(200);
constexpr size_t kChunkBytes = 1 << 20;
constexpr int kPageSize = 500;
// The channel takes messages of 64 MiB; this leaves room for the rest of a template.
constexpr int64_t kTemplateFilesBytesMax = int64_t{48} << 20;

void SetDeadline(grpc::ClientContext& context, absl::Duration timeout) {
  if (timeout == absl::InfiniteDuration()) return;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMicroseconds(timeout));
}

}  // namespace

struct Client::State {
  std::string endpoint;
  ClientOptions options;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::KernelService::Stub> stub;
  LaunchCapture* capture = nullptr;  // nullptr: launches are not recorded

  ~State() {
    if (capture != nullptr) capture->Flush();
  }

  // Before every call. Costs nothing while the connection stands.
  absl::Status Ready() const {
    const absl::Status connected =
        WaitUntilConnected(*channel, endpoint, std::max(options.connect_timeout, kConnectAtLeast));
    if (connected.ok() || options.tls_ca_file.empty()) return connected;
    // gRPC does not say which it is.
    return absl::Status(
        connected.code(),
        absl::StrCat(connected.message(),
                     "; or it does not speak TLS there, or its certificate was issued by nobody of "
                     "tls_ca_file '",
                     options.tls_ca_file, "', is for another host or has expired"));
  }

  // What a failed call means; when the connection is gone, why.
  absl::Status Failure(const grpc::Status& status) const {
    absl::Status failure = FromGrpc(status);
    if (!absl::IsUnavailable(failure) || channel->GetState(false) == GRPC_CHANNEL_READY) {
      return failure;
    }
    const absl::Status diagnosis = ProbeEndpoint(endpoint);
    return diagnosis.ok() ? failure : diagnosis;
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::KernelService::Stub::*method)(
                                    grpc::ClientContext*, const Request&, Response*),
                                const Request& request,
                                absl::Duration timeout = kLookupTimeout) const {
    HONE_RETURN_IF_ERROR(Ready());
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    Response response;
    const grpc::Status status = (stub.get()->*method)(&context, request, &response);
    if (!status.ok()) return Failure(status);
    return response;
  }
};

Client::Client(std::shared_ptr<State> state) : state_(std::move(state)) {}

const std::string& Client::endpoint() const { return state_->endpoint; }

std::string Client::CaptureStatus() const {
  return state_->capture == nullptr ? "" : state_->capture->Status();
}

absl::StatusOr<Client> Client::Connect(ClientOptions options) {
  auto state = std::make_shared<State>();
  state->endpoint = options.endpoint.empty() ? DefaultEndpoint() : options.endpoint;
  state->options = std::move(options);
  const std::optional<std::string>& capture_dir = state->options.capture_dir;
  state->capture = LaunchCapture::For(
      CaptureOptions::FromEnvironment(capture_dir ? capture_dir->c_str() : nullptr));
  HONE_ASSIGN_OR_RETURN(state->channel, MakeChannel(state->endpoint, state->options));
  state->stub = v1::KernelService::NewStub(state->channel);
  Client client(std::move(state));
  if (client.state_->options.connect_timeout <= absl::ZeroDuration()) return client;
  HONE_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, client.GetStatus());
  if (status.api_version() > kClientApiVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the daemon at ", client.endpoint(), " (honed ", status.version(), ") speaks API version ",
        status.api_version(), ", this client only ", kClientApiVersion, "; update the client"));
  }
  return client;
}

absl::StatusOr<Kernel> Client::GetKernel(const GetKernelOptions& options) const {
  HONE_ASSIGN_OR_RETURN(v1::GetKernelResponse response, GetKernel(ToProto(options)));
  HONE_ASSIGN_OR_RETURN(Kernel kernel,
                        AssembleKernel(
                            std::move(response),
                            [this](const std::string& sha256) -> absl::StatusOr<std::string> {
                              HONE_ASSIGN_OR_RETURN(FetchedArtifact fetched, GetArtifact(sha256));
                              return std::move(fetched.bytes);
                            },
                            state_->options.enable_cpu_device));
  return Recorded(std::move(kernel), state_->capture, options);
}

absl::StatusOr<v1::GetKernelResponse> Client::GetKernel(const v1::GetKernelRequest& request) const {
  const absl::Duration wait =
      request.max_wait_ms() > 0 ? absl::Milliseconds(request.max_wait_ms()) : absl::Seconds(30);
  return state_->Call(&v1::KernelService::Stub::GetKernel, request, wait + kAnswerMargin);
}

absl::StatusOr<FetchedArtifact> Client::GetArtifact(const std::string& sha256) const {
  HONE_RETURN_IF_ERROR(state_->Ready());
  grpc::ClientContext context;
  SetDeadline(context, absl::Minutes(5));
  v1::GetArtifactRequest request;
  request.set_sha256(sha256);
  const auto reader = state_->stub->GetArtifact(&context, request);
  ArtifactAssembly assembly(sha256);
  v1::ArtifactChunk chunk;
  while (reader->Read(&chunk)) assembly.Add(chunk);
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return state_->Failure(status);
  return std::move(assembly).Finish();
}

absl::StatusOr<v1::TuneFinished> Client::Tune(const v1::TuneRequest& request,
                                              const OnTuneEvent& on_event) const {
  HONE_RETURN_IF_ERROR(state_->Ready());
  grpc::ClientContext context;
  const auto reader = state_->stub->Tune(&context, request);
  std::optional<v1::TuneFinished> finished;
  v1::TuneEvent event;
  bool stopped = false;
  while (reader->Read(&event)) {
    if (event.has_finished()) finished = event.finished();
    if (!stopped && on_event && !on_event(event)) {
      stopped = true;
      context.TryCancel();
    }
  }
  const grpc::Status status = reader->Finish();
  if (finished) return *std::move(finished);
  if (!status.ok()) return state_->Failure(status);
  return absl::InternalError("the daemon ended the tune without a result");
}

absl::StatusOr<v1::CompileResponse> Client::Compile(const v1::CompileRequest& request) const {
  return state_->Call(&v1::KernelService::Stub::Compile, request, kCompileTimeout);
}

absl::StatusOr<v1::GetLogResponse> Client::GetLog(const std::string& log_id) const {
  v1::GetLogRequest request;
  request.set_log_id(log_id);
  return state_->Call(&v1::KernelService::Stub::GetLog, request);
}

absl::StatusOr<v1::ListTemplatesResponse> Client::ListTemplates() const {
  return state_->Call(&v1::KernelService::Stub::ListTemplates, v1::ListTemplatesRequest());
}

absl::StatusOr<v1::DescribeTemplateResponse> Client::DescribeTemplate(
    const std::string& name, const std::string& digest) const {
  v1::DescribeTemplateRequest request;
  request.mutable_template_()->set_name(name);
  request.mutable_template_()->set_digest(digest);
  request.set_files_bytes_max(kTemplateFilesBytesMax);
  return state_->Call(&v1::KernelService::Stub::DescribeTemplate, request);
}

absl::StatusOr<v1::RegisterTemplateResponse> Client::RegisterTemplate(
    const v1::RegisterTemplateRequest& request) const {
  return state_->Call(&v1::KernelService::Stub::RegisterTemplate, request);
}

absl::StatusOr<v1::RegisterHeaderSetResponse> Client::RegisterHeaderSet(
    const std::string& name, const std::vector<v1::SourceFile>& files) const {
  HONE_RETURN_IF_ERROR(state_->Ready());
  grpc::ClientContext context;
  SetDeadline(context, absl::Minutes(5));
  v1::RegisterHeaderSetResponse response;
  const auto writer = state_->stub->RegisterHeaderSet(&context, &response);
  // The daemon bounds one message; a set may be much larger.
  v1::RegisterHeaderSetRequest request;
  request.set_name(name);
  size_t pending = 0;
  for (const v1::SourceFile& file : files) {
    *request.add_files() = file;
    pending += file.content().size();
    if (pending < kChunkBytes) continue;
    if (!writer->Write(request)) break;  // Finish says why
    request.Clear();
    pending = 0;
  }
  if (request.files_size() > 0 || !request.name().empty()) writer->Write(request);
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (!status.ok()) return state_->Failure(status);
  return response;
}

absl::StatusOr<v1::ListHeaderSetsResponse> Client::ListHeaderSets() const {
  return state_->Call(&v1::KernelService::Stub::ListHeaderSets, v1::ListHeaderSetsRequest());
}

absl::StatusOr<std::vector<v1::TuningSummary>> Client::ListTunings(const std::string& template_name,
                                                                   int limit) const {
  std::vector<v1::TuningSummary> tunings;
  v1::ListTuningsRequest request;
  request.set_template_name(template_name);
  while (true) {
    const int left = limit - static_cast<int>(tunings.size());
    request.set_page_size(std::min(left, kPageSize));
    HONE_ASSIGN_OR_RETURN(v1::ListTuningsResponse page,
                          state_->Call(&v1::KernelService::Stub::ListTunings, request));
    for (v1::TuningSummary& tuning : *page.mutable_tunings()) tunings.push_back(std::move(tuning));
    request.set_page_token(page.next_page_token());
    if (page.next_page_token().empty() || static_cast<int>(tunings.size()) >= limit) return tunings;
  }
}

absl::StatusOr<v1::ListMissesResponse> Client::ListMisses(
    const v1::ListMissesRequest& request) const {
  return state_->Call(&v1::KernelService::Stub::ListMisses, request);
}

absl::StatusOr<v1::GetTuningResponse> Client::GetTuning(const std::string& key) const {
  v1::GetTuningRequest request;
  request.set_key(key);
  return state_->Call(&v1::KernelService::Stub::GetTuning, request);
}

absl::StatusOr<v1::ExplainTuningResponse> Client::ExplainTuning(const std::string& key,
                                                                const std::string& config) const {
  v1::ExplainTuningRequest request;
  request.set_key(key);
  request.set_config(config);
  return state_->Call(&v1::KernelService::Stub::ExplainTuning, request, kExplainTimeout);
}

absl::StatusOr<v1::PinResponse> Client::Pin(const std::string& key, const std::string& config,
                                            const std::string& reason) const {
  v1::PinRequest request;
  request.set_key(key);
  request.set_config(config);
  request.set_reason(reason);
  return state_->Call(&v1::KernelService::Stub::Pin, request);
}

absl::StatusOr<v1::UnpinResponse> Client::Unpin(const std::string& key) const {
  v1::UnpinRequest request;
  request.set_key(key);
  return state_->Call(&v1::KernelService::Stub::Unpin, request);
}

absl::StatusOr<v1::InvalidateResponse> Client::Invalidate(
    const v1::InvalidateRequest& request) const {
  return state_->Call(&v1::KernelService::Stub::Invalidate, request);
}

absl::StatusOr<v1::ExplainKeyResponse> Client::ExplainKey(
    const v1::ExplainKeyRequest& request) const {
  return state_->Call(&v1::KernelService::Stub::ExplainKey, request);
}

absl::Status Client::Watch(const std::string& template_name, const OnWatchEvent& on_event,
                           v1::Numerics numerics) const {
  HONE_RETURN_IF_ERROR(state_->Ready());
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_template_name(template_name);
  request.set_numerics(numerics);
  const auto reader = state_->stub->Watch(&context, request);
  v1::WatchEvent event;
  bool stopped = false;
  while (reader->Read(&event)) {
    if (stopped || on_event(event)) continue;
    stopped = true;
    context.TryCancel();
  }
  const grpc::Status status = reader->Finish();
  return stopped ? absl::OkStatus() : state_->Failure(status);
}

absl::StatusOr<v1::GetStatusResponse> Client::GetStatus() const {
  return state_->Call(&v1::KernelService::Stub::GetStatus, v1::GetStatusRequest());
}

}  // namespace hone
