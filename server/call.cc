#include "server/call.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "runtime/base/error_info.h"
#include "server/errors.h"

namespace hone {
namespace {

// What gRPC's own retries go by, where a client's service config has them: when to come back, and
// never where that would not help.
void AddRetryPushback(const absl::Status& status, grpc::CallbackServerContext& context) {
  if (!absl::IsResourceExhausted(status)) return;
  const auto info = ErrorInfoOf(status);
  const int64_t after_ms = info.has_value() ? info->retry_after_ms : 0;
  context.AddTrailingMetadata("grpc-retry-pushback-ms", absl::StrCat(after_ms > 0 ? after_ms : -1));
}

}  // namespace

grpc::ByteBuffer Serialize(const google::protobuf::Message& message) {
  grpc::ByteBuffer bytes;
  bool own = false;
  // Fails only for messages beyond 2 GiB, which no reply reaches.
  grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::Message>(message, &bytes, &own);
  return bytes;
}

std::string FlatBytes(const grpc::ByteBuffer& bytes) {
  std::string flat;
  std::vector<grpc::Slice> slices;
  if (!bytes.Dump(&slices).ok()) return flat;
  for (const grpc::Slice& slice : slices) {
    flat.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return flat;
}

std::string CallBase::RequestBytes() const { return FlatBytes(*request_); }

bool CallBase::Claim() {
  std::function<void()> leave;  // ends outside of the lock
  MutexLock lock(&mutex_);
  leave.swap(leave_);
  return !std::exchange(answered_, true);
}

void CallBase::OnCancelled(std::function<void()> leave) {
  {
    MutexLock lock(&mutex_);
    if (!answered_) {
      leave_ = std::move(leave);
      return;
    }
  }
  if (cancelled_) leave();
}

void CallBase::ReplyBytes(grpc::ByteBuffer reply) {
  if (!Claim()) return;
  response_->Swap(&reply);
  reactor_->Finish(grpc::Status::OK);
}

void CallBase::Fail(const absl::Status& status) {
  if (!Claim()) return;
  AddRetryPushback(status, *context_);
  reactor_->Finish(ToGrpc(status));
}

void CallBase::Cancel() {
  cancelled_ = true;
  std::function<void()> leave;
  {
    MutexLock lock(&mutex_);
    leave.swap(leave_);
    if (std::exchange(answered_, true)) return;
  }
  reactor_->Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the caller has gone"));
  if (leave) leave();
}

UnaryReactor::UnaryReactor(std::shared_ptr<CallBase> call, std::function<void()> on_done)
    : call_(std::move(call)), on_done_(std::move(on_done)) {
  call_->reactor_ = this;
}

}  // namespace hone
