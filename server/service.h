// hone.v1.KernelService on gRPC's callback API.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "hone/v1/kernel_service.grpc.pb.h"
#include "server/handlers.h"
#include "server/service_context.h"

namespace hone {

// Bytes come and go as they are: requests are parsed here, so that a broken one is explained by
// field.
using RawPinService =
    v1::KernelService::WithRawCallbackMethod_Pin<v1::KernelService::WithRawCallbackMethod_Unpin<
        v1::KernelService::WithRawCallbackMethod_Invalidate<v1::KernelService::Service>>>;
using RawExplainService = v1::KernelService::WithRawCallbackMethod_ExplainTuning<RawPinService>;
using RawHeaderSetService = v1::KernelService::WithRawCallbackMethod_RegisterHeaderSet<
    v1::KernelService::WithRawCallbackMethod_ListHeaderSets<
        v1::KernelService::WithRawCallbackMethod_ListMisses<RawExplainService>>>;
using RawKernelService = v1::KernelService::WithRawCallbackMethod_GetKernel<
    v1::KernelService::WithRawCallbackMethod_GetArtifact<
        v1::KernelService::WithRawCallbackMethod_Compile<
            v1::KernelService::WithRawCallbackMethod_Tune<
                v1::KernelService::WithRawCallbackMethod_ListTemplates<
                    v1::KernelService::WithRawCallbackMethod_DescribeTemplate<
                        v1::KernelService::WithRawCallbackMethod_RegisterTemplate<
                            v1::KernelService::WithRawCallbackMethod_ListTunings<
                                v1::KernelService::WithRawCallbackMethod_GetTuning<
                                    v1::KernelService::WithRawCallbackMethod_Watch<
                                        v1::KernelService::WithRawCallbackMethod_GetStatus<
                                            v1::KernelService::WithRawCallbackMethod_ExplainKey<
                                                v1::KernelService::WithRawCallbackMethod_GetLog<
                                                    RawHeaderSetService>>>>>>>>>>>>>;

// Admits each call (draining, limits, role), parses its request and hands it to its handler. No
// method blocks. Every method's failures: UNAVAILABLE while draining, UNAUTHENTICATED for a
// connection that nobody admitted, PERMISSION_DENIED without the role, RESOURCE_EXHAUSTED beyond a
// limit, and what ParseRequest finds.
class KernelServiceImpl : public RawKernelService {
 public:
  // `context` must outlive the gRPC server.
  explicit KernelServiceImpl(ServiceContext& context) : context_(context) {}

  // New calls are refused from now on and streams without an end of their own are ended. Returns
  // when no call is under way, or at `deadline`.
  void Drain(absl::Time deadline);

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Unary = grpc::ServerUnaryReactor;
  using Stream = grpc::ServerWriteReactor<grpc::ByteBuffer>;

  Unary* GetKernel(Context* call, const Bytes* request, Bytes* response) override;
  Unary* Compile(Context* call, const Bytes* request, Bytes* response) override;
  Unary* ListTemplates(Context* call, const Bytes* request, Bytes* response) override;
  Unary* DescribeTemplate(Context* call, const Bytes* request, Bytes* response) override;
  Unary* RegisterTemplate(Context* call, const Bytes* request, Bytes* response) override;
  Unary* ListHeaderSets(Context* call, const Bytes* request, Bytes* response) override;
  Unary* ListTunings(Context* call, const Bytes* request, Bytes* response) override;
  Unary* GetTuning(Context* call, const Bytes* request, Bytes* response) override;
  Unary* ExplainTuning(Context* call, const Bytes* request, Bytes* response) override;
  Unary* Pin(Context* call, const Bytes* request, Bytes* response) override;
  Unary* Unpin(Context* call, const Bytes* request, Bytes* response) override;
  Unary* Invalidate(Context* call, const Bytes* request, Bytes* response) override;
  Unary* ListMisses(Context* call, const Bytes* request, Bytes* response) override;
  Unary* GetStatus(Context* call, const Bytes* request, Bytes* response) override;
  Unary* ExplainKey(Context* call, const Bytes* request, Bytes* response) override;
  Unary* GetLog(Context* call, const Bytes* request, Bytes* response) override;
  Stream* GetArtifact(Context* call, const Bytes* request) override;
  Stream* Tune(Context* call, const Bytes* request) override;
  Stream* Watch(Context* call, const Bytes* request) override;
  grpc::ServerReadReactor<Bytes>* RegisterHeaderSet(Context* call, Bytes* response) override;

 private:
  struct Method {
    const char* name;
    Role role;
    bool endless = false;  // a stream that only its client ends
    // Answers from memory a call that needs no more than its bytes to be known; false: it does.
    bool (*at_once)(ServiceContext&, CallBase&) = nullptr;
    // The handler looks at CallBase::crowded itself.
    bool answers_crowded = false;
  };

  absl::Status Admit(const Context& call, const Method& method, Caller& caller) const;

  template <class Request, class Response>
  Unary* StartUnary(Context* call, const Bytes* request, Bytes* response, const Method& method,
                    void (*handler)(ServiceContext&, CallPtr<Request, Response>));
  template <class Request>
  Stream* StartStream(Context* call, const Bytes* request, const Method& method,
                      const std::string& slow_reader_hint,
                      StreamCleanup (*handler)(ServiceContext&, const Caller&, const Request&,
                                               StreamPtr));

  ServiceContext& context_;
};

}  // namespace hone
