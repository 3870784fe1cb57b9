#include "server/service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"
#include "server/errors.h"
#include "server/header_set_reactor.h"
#include "server/request_check.h"

namespace hone {
namespace {

// A client that is told so may try again at once, a little later, or elsewhere.
constexpr int64_t kRetryAfterMs = 200;

absl::Status ShuttingDown() {
  return absl::UnavailableError("the daemon is shutting down; try again shortly");
}

// One connection may have as many as are still free.
absl::Status CheckShare(absl::string_view what, const CallsUnderWay::Present& present,
                        int64_t limit) {
  if (present.of_client < limit - present.all) return absl::OkStatus();
  return WithErrorInfo(
      absl::ResourceExhaustedError(absl::StrCat(
          "the daemon carries ", present.all, " ", what, ", ", present.of_client,
          " of them of this connection; its limit is ", limit,
          ", and one connection may have no more than are still free; try again shortly")),
      {.reason = "TOO_MANY_CALLS",
       .needed = present.all + 1,
       .available = limit,
       .retry_after_ms = kRetryAfterMs});
}

}  // namespace

void OpenStreams::Add(const std::shared_ptr<EventStream>& stream, uint64_t client, bool endless) {
  MutexLock lock(&mutex_);
  streams_[stream.get()] = {stream, client, endless};
}

void OpenStreams::Remove(const EventStream* stream) {
  MutexLock lock(&mutex_);
  streams_.erase(stream);
}

void OpenStreams::EndEndless(const absl::Status& status) {
  std::vector<std::shared_ptr<EventStream>> open;
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, entry] : streams_) {
      auto stream = entry.endless ? entry.stream.lock() : nullptr;
      if (stream != nullptr) open.push_back(std::move(stream));
    }
  }
  for (const auto& stream : open) stream->End(status);
}

int64_t OpenStreams::count() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(streams_.size());
}

CallsUnderWay::Present OpenStreams::Count(uint64_t client) const {
  MutexLock lock(&mutex_);
  CallsUnderWay::Present present;
  for (const auto& [key, entry] : streams_) {
    ++present.all;
    if (entry.client == client) ++present.of_client;
  }
  return present;
}

void KernelServiceImpl::Drain(absl::Time deadline) {
  context_.draining = true;
  context_.streams.EndEndless(ShuttingDown());
  context_.calls.AwaitNone(deadline);
}

absl::Status KernelServiceImpl::Admit(const Context& call, const Method& method,
                                      Caller& caller) const {
  if (context_.draining) {
    return ShuttingDown();
  }
  const auto known = context_.connections->Find(call.peer());
  if (!known.has_value()) {
    return absl::UnauthenticatedError(
        absl::StrCat("connection ", call.peer(), " was not admitted by the daemon's listener"));
  }
  caller = *known;
  return RequireRole(caller, method.role, method.name, context_.roles);
}

template <class Request, class Response>
grpc::ServerUnaryReactor* KernelServiceImpl::StartUnary(
    Context* call, const Bytes* request, Bytes* response, const Method& method,
    void (*handler)(ServiceContext&, CallPtr<Request, Response>)) {
  Caller caller;
  absl::Status status = Admit(*call, method, caller);
  const uint64_t client = caller.connection;
  auto started =
      std::make_shared<hone::Call<Request, Response>>(std::move(caller), call, request, response);
  const CallsUnderWay::Present present = context_.calls.Enter(client);
  auto* reactor = new UnaryReactor(started, [this, client] { context_.calls.Leave(client); });
  if (status.ok() && method.at_once != nullptr && method.at_once(context_, *started)) {
    return reactor;
  }
  if (status.ok()) {
    started->set_crowded(CheckShare("calls", present, context_.limits.calls_max));
    if (!method.answers_crowded) status = started->crowded();
  }
  if (status.ok()) status = ParseRequest(*request, started->mutable_request());
  if (status.ok()) {
    handler(context_, std::move(started));
  } else {
    started->Fail(status);
  }
  return reactor;
}

template <class Request>
grpc::ServerWriteReactor<grpc::ByteBuffer>* KernelServiceImpl::StartStream(
    Context* call, const Bytes* request, const Method& method, const std::string& slow_reader_hint,
    StreamCleanup (*handler)(ServiceContext&, const Caller&, const Request&, StreamPtr)) {
  Caller caller;
  absl::Status status = Admit(*call, method, caller);
  auto stream = std::make_shared<EventStream>(slow_reader_hint);
  const uint64_t client = caller.connection;
  if (status.ok()) {
    status = CheckShare("streams", context_.streams.Count(client), context_.limits.streams_max);
  }
  context_.calls.Enter(client);
  Request parsed;
  if (status.ok()) status = ParseRequest(*request, &parsed);
  StreamCleanup cleanup = [] {};
  if (status.ok()) {
    context_.streams.Add(stream, client, method.endless);
    // Draining may have begun since Admit looked.
    if (method.endless && context_.draining) stream->End(ShuttingDown());
    cleanup = handler(context_, caller, parsed, stream);
  } else {
    stream->End(status);
  }
  return new EventStreamReactor(stream,
                                [this, client, key = stream.get(), cleanup = std::move(cleanup)] {
                                  context_.streams.Remove(key);
                                  cleanup();
                                  context_.calls.Leave(client);
                                });
}

grpc::ServerUnaryReactor* KernelServiceImpl::GetKernel(Context* call, const Bytes* request,
                                                       Bytes* response) {
  return StartUnary(call, request, response,
                    {.name = "GetKernel",
                     .role = Role::kReader,
                     .at_once = &GetKnownKernel,
                     .answers_crowded = true},
                    &hone::GetKernel);
}

grpc::ServerUnaryReactor* KernelServiceImpl::Compile(Context* call, const Bytes* request,
                                                     Bytes* response) {
  return StartUnary(call, request, response, {"Compile", Role::kTuner}, &hone::Compile);
}

grpc::ServerUnaryReactor* KernelServiceImpl::ListTemplates(Context* call, const Bytes* request,
                                                           Bytes* response) {
  return StartUnary(call, request, response, {"ListTemplates", Role::kReader},
                    &hone::ListTemplates);
}

grpc::ServerUnaryReactor* KernelServiceImpl::DescribeTemplate(Context* call, const Bytes* request,
                                                              Bytes* response) {
  return StartUnary(call, request, response, {"DescribeTemplate", Role::kReader},
                    &hone::DescribeTemplate);
}

grpc::ServerUnaryReactor* KernelServiceImpl::RegisterTemplate(Context* call, const Bytes* request,
                                                              Bytes* response) {
  return StartUnary(call, request, response, {"RegisterTemplate", Role::kTuner},
                    &hone::RegisterTemplate);
}

grpc::ServerUnaryReactor* KernelServiceImpl::ListHeaderSets(Context* call, const Bytes* request,
                                                            Bytes* response) {
  return StartUnary(call, request, response, {"ListHeaderSets", Role::kReader},
                    &hone::ListHeaderSets);
}

grpc::ServerUnaryReactor* KernelServiceImpl::ListTunings(Context* call, const Bytes* request,
                                                         Bytes* response) {
  return StartUnary(call, request, response, {"ListTunings", Role::kReader}, &hone::ListTunings);
}

grpc::ServerUnaryReactor* KernelServiceImpl::GetTuning(Context* call, const Bytes* request,
                                                       Bytes* response) {
  return StartUnary(call, request, response, {"GetTuning", Role::kReader}, &hone::GetTuning);
}

grpc::ServerUnaryReactor* KernelServiceImpl::ExplainTuning(Context* call, const Bytes* request,
                                                           Bytes* response) {
  return StartUnary(call, request, response, {"ExplainTuning", Role::kReader},
                    &hone::ExplainTuning);
}

grpc::ServerUnaryReactor* KernelServiceImpl::Pin(Context* call, const Bytes* request,
                                                 Bytes* response) {
  return StartUnary(call, request, response, {"Pin", Role::kTuner}, &hone::Pin);
}

grpc::ServerUnaryReactor* KernelServiceImpl::Unpin(Context* call, const Bytes* request,
                                                   Bytes* response) {
  return StartUnary(call, request, response, {"Unpin", Role::kTuner}, &hone::Unpin);
}

grpc::ServerUnaryReactor* KernelServiceImpl::Invalidate(Context* call, const Bytes* request,
                                                        Bytes* response) {
  return StartUnary(call, request, response, {"Invalidate", Role::kTuner}, &hone::Invalidate);
}

grpc::ServerUnaryReactor* KernelServiceImpl::ListMisses(Context* call, const Bytes* request,
                                                        Bytes* response) {
  return StartUnary(call, request, response, {"ListMisses", Role::kReader}, &hone::ListMisses);
}

grpc::ServerUnaryReactor* KernelServiceImpl::GetStatus(Context* call, const Bytes* request,
                                                       Bytes* response) {
  return StartUnary(call, request, response, {"GetStatus", Role::kReader}, &hone::GetStatus);
}

grpc::ServerUnaryReactor* KernelServiceImpl::ExplainKey(Context* call, const Bytes* request,
                                                        Bytes* response) {
  return StartUnary(call, request, response, {"ExplainKey", Role::kReader}, &hone::ExplainKey);
}

grpc::ServerUnaryReactor* KernelServiceImpl::GetLog(Context* call, const Bytes* request,
                                                    Bytes* response) {
  return StartUnary(call, request, response, {"GetLog", Role::kReader}, &hone::GetLog);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* KernelServiceImpl::GetArtifact(Context* call,
                                                                           const Bytes* request) {
  return StartStream(call, request, {"GetArtifact", Role::kReader}, "Ask for the artifact again",
                     &hone::GetArtifact);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* KernelServiceImpl::Tune(Context* call,
                                                                    const Bytes* request) {
  return StartStream(call, request, {"Tune", Role::kTuner},
                     "What was measured is kept; GetTuning shows it", &hone::Tune);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* KernelServiceImpl::Watch(Context* call,
                                                                     const Bytes* request) {
  return StartStream(call, request, {"Watch", Role::kReader, /*endless=*/true},
                     "Watch again: the present generations come first", &hone::Watch);
}

grpc::ServerReadReactor<grpc::ByteBuffer>* KernelServiceImpl::RegisterHeaderSet(Context* call,
                                                                                Bytes* response) {
  Caller caller;
  const absl::Status status = Admit(*call, {"RegisterHeaderSet", Role::kTuner}, caller);
  return new HeaderSetReactor(context_, caller, status, response);
}

}  // namespace hone
