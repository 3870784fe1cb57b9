#include "server/call.h"

#include "grpcpp/impl/codegen/proto_utils.h"
#include "server/errors.h"

namespace hone {

grpc::ByteBuffer Serialize(const google::protobuf::Message& message) {
  grpc::ByteBuffer bytes;
  bool own = false;
  // Fails only for messages beyond 2 GiB, which no reply reaches.
  grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::Message>(message, &bytes, &own);
  return bytes;
}

bool CallBase::Claim() {
  MutexLock lock(&mutex_);
  return !std::exchange(answered_, true);
}

void CallBase::ReplyBytes(grpc::ByteBuffer reply) {
  if (!Claim()) return;
  response_->Swap(&reply);
  reactor_->Finish(grpc::Status::OK);
}

void CallBase::Fail(const absl::Status& status) {
  if (Claim()) reactor_->Finish(ToGrpc(status));
}

void CallBase::Cancel() {
  cancelled_ = true;
  if (Claim()) reactor_->Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the caller has gone"));
}

UnaryReactor::UnaryReactor(std::shared_ptr<CallBase> call, std::function<void()> on_done)
    : call_(std::move(call)), on_done_(std::move(on_done)) {
  call_->reactor_ = this;
}

}  // namespace hone
