// The server's side of a stream: a bounded queue in front of gRPC's one writer.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "runtime/base/mutex.h"

namespace hone {

// Thread-safe and never blocking. A client that reads too slowly gets the newest state of things:
// an event replaces a waiting one of the same subject; if even that is too much, the stream ends
// with RESOURCE_EXHAUSTED, and whatever produced the events goes on.
class EventStream {
 public:
  // Subjects that may wait: more than a large tune has candidates.
  static constexpr size_t kWaitingMax = 8192;

  // `hint` completes the error of a client that is too slow: what to do instead.
  explicit EventStream(std::string hint) : hint_(std::move(hint)) {}

  // `subject` empty: the event replaces nothing. No effect once the stream has ended.
  void Push(std::string subject, grpc::ByteBuffer event);
  // Ends the stream after what is waiting. The first end counts.
  void End(const absl::Status& status);
  // Nothing pushed now would be seen.
  bool ended() const;

 private:
  friend class EventStreamReactor;
  struct Waiting {
    std::string subject;
    grpc::ByteBuffer event;
  };

  void Bind(grpc::ServerWriteReactor<grpc::ByteBuffer>* reactor);
  void Written(bool ok);
  void Cancel();
  void Pump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string hint_;
  mutable Mutex mutex_;
  // Alive until it is given its Finish.
  grpc::ServerWriteReactor<grpc::ByteBuffer>* reactor_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer current_ ABSL_GUARDED_BY(mutex_);  // gRPC reads it while `writing_`
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);
};

// Ties a stream to gRPC; deletes itself when gRPC is done with it. `on_done` runs then, on a gRPC
// thread.
class EventStreamReactor : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  EventStreamReactor(std::shared_ptr<EventStream> stream, std::function<void()> on_done)
      : stream_(std::move(stream)), on_done_(std::move(on_done)) {
    stream_->Bind(this);
  }

 private:
  void OnWriteDone(bool ok) override { stream_->Written(ok); }
  void OnCancel() override { stream_->Cancel(); }
  void OnDone() override {
    on_done_();
    delete this;
  }

  const std::shared_ptr<EventStream> stream_;
  const std::function<void()> on_done_;
};

}  // namespace hone
