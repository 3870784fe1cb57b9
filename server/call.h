// One unary call: its parsed request, its caller, and the one answer it gets.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "runtime/base/mutex.h"
#include "server/caller.h"

namespace hone {

// Serialised form of a message.
grpc::ByteBuffer Serialize(const google::protobuf::Message& message);
// In one piece.
std::string FlatBytes(const grpc::ByteBuffer& bytes);

// Handlers answer from any thread, at any time. The first answer is sent; an answer to a call whose
// client has gone is dropped. Thread-safe.
class CallBase {
 public:
  // What gRPC gives to a raw method; all of it stays valid until the call is done.
  CallBase(Caller caller, grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
           grpc::ByteBuffer* response)
      : caller_(std::move(caller)), context_(context), request_(request), response_(response) {}
  virtual ~CallBase() = default;

  const Caller& caller() const { return caller_; }
  // Work that only this call wants may be left out.
  bool cancelled() const { return cancelled_; }
  // Runs `leave` once when the client goes before it is answered, at once if it has gone already.
  // Given at most once.
  void OnCancelled(std::function<void()> leave) ABSL_LOCKS_EXCLUDED(mutex_);

  // Not OK: the daemon has too many calls for this one to take up any time. Its method decides.
  const absl::Status& crowded() const { return crowded_; }
  void set_crowded(absl::Status crowded) { crowded_ = std::move(crowded); }

  // The request as it came. REQUIRES: not answered yet.
  std::string RequestBytes() const;

  void ReplyBytes(grpc::ByteBuffer reply);
  void Fail(const absl::Status& status);

 private:
  friend class UnaryReactor;
  void Cancel();
  bool Claim() ABSL_LOCKS_EXCLUDED(mutex_);

  const Caller caller_;
  grpc::CallbackServerContext* const context_;
  const grpc::ByteBuffer* const request_;
  grpc::ByteBuffer* const response_;
  absl::Status crowded_;
  std::atomic<bool> cancelled_{false};
  grpc::ServerUnaryReactor* reactor_ = nullptr;  // alive until the answer is given
  Mutex mutex_;
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
  // Goes with the answer: it may hold what holds this call.
  std::function<void()> leave_ ABSL_GUARDED_BY(mutex_);
};

template <class Request, class Response>
class Call : public CallBase {
 public:
  using CallBase::CallBase;
  const Request& request() const { return request_; }
  Request* mutable_request() { return &request_; }
  void Reply(const Response& response) { ReplyBytes(Serialize(response)); }

 private:
  Request request_;
};

template <class Request, class Response>
using CallPtr = std::shared_ptr<Call<Request, Response>>;

// Ties a call to gRPC; deletes itself when gRPC is done with it. `on_done` runs then.
class UnaryReactor : public grpc::ServerUnaryReactor {
 public:
  UnaryReactor(std::shared_ptr<CallBase> call, std::function<void()> on_done);

 private:
  void OnCancel() override { call_->Cancel(); }
  void OnDone() override {
    on_done_();
    delete this;
  }

  const std::shared_ptr<CallBase> call_;
  const std::function<void()> on_done_;
};

}  // namespace hone
