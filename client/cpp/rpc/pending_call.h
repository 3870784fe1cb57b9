// One attempt at a call: what is sent, what has come, and where the caller waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/rpc/message_reader.h"
#include "client/cpp/rpc/reply_status.h"
#include "runtime/base/mutex.h"

namespace hone {

class Http2Connection;

// Who ended an attempt, which decides whether it may be made again.
enum class EndedBy {
  kDaemon,   // by its answer
  kNotSeen,  // there was a connection, but the daemon did not see the call: it is safe to repeat
  kLost,     // the connection broke; what the daemon did is unknown
  kNoConnection,  // none could be made
};

struct CallEnd {
  absl::Status status;
  EndedBy by = EndedBy::kDaemon;
};

// `status` without its payloads, which transport failures do not have, and sharing nothing with it.
// What goes to another thread is such a copy: Debian's Abseil is built without ThreadSanitizer,
// which would take the end of a shared one for a race.
inline absl::Status OwnCopy(const absl::Status& status) {
  return absl::Status(status.code(), status.message());
}

// Two sides with a lock each. The connection's side fills `exchange` under the lock of the
// channel's engine and passes on what is complete; the caller takes it out under this object's own
// lock, which is always the inner one.
class PendingCall {
 public:
  struct Request {
    std::string path;                         // /package.Service/Method
    std::shared_ptr<const std::string> body;  // one framed message
    absl::Time deadline = absl::InfiniteFuture();
    size_t message_bytes_max = 0;
    // The caller takes each message as it comes; else all are taken after the end.
    bool streaming = false;
    // Waits for the next try to connect instead of failing with the last one.
    bool wait_for_connection = false;
  };

  // State of the exchange; belongs to whoever holds the engine's lock.
  struct Exchange {
    Http2Connection* connection = nullptr;  // while the call is one of its streams
    int32_t stream_id = 0;
    size_t body_sent = 0;
    uint64_t written_before = 0;  // bytes that the connection had written when the call joined it
    size_t withheld = 0;          // received bytes for which the peer gets no new window yet
    ReplyHeaders headers;
    MessageReader reader;
    size_t messages = 0;  // complete ones
  };

  explicit PendingCall(Request call)
      : request(std::move(call)), exchange{.reader = MessageReader(request.message_bytes_max)} {}

  const Request request;
  Exchange exchange;

  // From the connection. Deliver returns false when so much lies unread that the peer should pause;
  // the caller's next Next then says `resume`. After Finish nothing counts any more.
  bool Deliver(std::vector<std::string> messages);
  void Finish(CallEnd end);
  bool finished();

  struct News {
    std::optional<std::string> message;
    std::optional<CallEnd> end;  // neither: the deadline passed
    bool resume = false;         // the peer may go on; tell the engine
  };
  // For the caller: waits until the deadline for the next message, for the end if there is none.
  News Next();

 private:
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return end_.has_value() || (request.streaming && !messages_.empty());
  }

  Mutex mutex_;
  std::deque<std::string> messages_ ABSL_GUARDED_BY(mutex_);
  size_t unread_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<CallEnd> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone
