// Receives a header set in several messages and stores it.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "runtime/base/mutex.h"
#include "server/handlers.h"
#include "server/service_context.h"

namespace hone {

// Deletes itself when gRPC is done with it.
class HeaderSetReactor : public grpc::ServerReadReactor<grpc::ByteBuffer> {
 public:
  // `admitted` not OK: the upload is refused with it.
  HeaderSetReactor(ServiceContext& context, const Caller& caller, const absl::Status& admitted,
                   grpc::ByteBuffer* response);

 private:
  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Store();
  // The first end counts; after it this object may be gone.
  void End(const absl::Status& status);

  ServiceContext& context_;
  const uint64_t client_;
  grpc::ByteBuffer* const response_;
  grpc::ByteBuffer message_;
  // Shared with the thread that stores it, which may outlast the call.
  const std::shared_ptr<HeaderSetUpload> upload_;
  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool storing_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hone
