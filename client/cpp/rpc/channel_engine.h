// The connections of a channel and the thread that reads them.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/rpc/dialer.h"
#include "client/cpp/rpc/http2_connection.h"
#include "client/cpp/rpc/pending_call.h"
#include "client/cpp/rpc/tls_session.h"
#include "runtime/base/mutex.h"
#include "runtime/base/unique_fd.h"

namespace hone {

struct EngineOptions {
  ConnectionOptions connection;
  SteadyDuration connect_timeout{};
  // After a failed try to connect; doubles from the first to the last.
  SteadyDuration reconnect_first{};
  SteadyDuration reconnect_last{};
};

// Descriptors that a forked child may close without any lock: each is listed after it was opened
// and taken off before it is closed, so that the list never names one of somebody else's.
class InheritedFds {
 public:
  void Add(int fd);
  void Remove(int fd);
  void CloseAll();

 private:
  static constexpr int kNone = -1;
  // Wake-up, connection, one being made, and some that drain; more stay open in the child.
  std::array<std::atomic<int>, 8> fds_{kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
};

// Thread-safe, for one process: a forked child may only call owner() and Abandon().
//
// Requests are written by the thread that makes them; the engine's own thread reads replies,
// connects and keeps time. It is started by the first call, takes no signals and ends with the
// engine.
class ChannelEngine {
 public:
  explicit ChannelEngine(EngineOptions options);
  // No call may be running.
  ~ChannelEngine();
  ChannelEngine(const ChannelEngine&) = delete;
  ChannelEngine& operator=(const ChannelEngine&) = delete;

  pid_t owner() const { return owner_; }

  // Sends the call, now or when there is a connection; its end comes through the call.
  void Start(const std::shared_ptr<PendingCall>& call) ABSL_LOCKS_EXCLUDED(mutex_);
  // The caller waits no longer.
  void Cancel(const std::shared_ptr<PendingCall>& call) ABSL_LOCKS_EXCLUDED(mutex_);
  // The caller of a paused stream has caught up.
  void Resume(const std::shared_ptr<PendingCall>& call) ABSL_LOCKS_EXCLUDED(mutex_);

  // OK once a daemon has answered on a connection; tries again until `deadline`, then says why not.
  // With `one_try`, as RpcChannel::TryToConnect.
  absl::Status WaitUntilConnected(absl::Time deadline, bool one_try) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the present connection has been answered on and takes calls.
  bool connected() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends all calls with CANCELLED, and those that are started after it.
  void Shutdown() ABSL_LOCKS_EXCLUDED(mutex_);

  // In a forked child: closes what was inherited, sends nothing, and leaves everything else as the
  // parent's threads happened to have it. The engine is never used or destructed after it.
  static void Abandon(ChannelEngine* engine);

 private:
  static void* ThreadMain(void* self);
  bool Connected() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EnsureThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake() const;

  // The rest runs on the engine's thread, which alone makes and ends connections.
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void End() ABSL_LOCKS_EXCLUDED(mutex_);
  // Timers, connections that have ended, calls that have to wait. Returns false at the end.
  bool Housekeep(SteadyTime now) ABSL_LOCKS_EXCLUDED(mutex_);
  bool WantsToDial(SteadyTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Dial(SteadyTime now) ABSL_LOCKS_EXCLUDED(mutex_);
  void Adopt(UniqueFd socket, std::unique_ptr<TlsSession> tls, SteadyTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DialFailed(absl::Status why, SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the connection off and ends it.
  void Retire(std::unique_ptr<Http2Connection> connection, SteadyTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for sockets and timers, then reads.
  void Poll() ABSL_LOCKS_EXCLUDED(mutex_);
  void Read(Http2Connection& connection) ABSL_LOCKS_EXCLUDED(mutex_);
  SteadyTime NextTimer(SteadyTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EngineOptions options_;
  const pid_t owner_;
  UniqueFd wake_;
  InheritedFds inherited_;
  ChannelEngine* next_abandoned_ = nullptr;

  // Of the engine's thread only.
  std::optional<Dialer> dialer_;
  std::vector<char> read_buffer_;

  Mutex mutex_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  pthread_t thread_ ABSL_GUARDED_BY(mutex_) = {};
  // Takes new calls, unless it has just said that it takes none.
  std::unique_ptr<Http2Connection> current_ ABSL_GUARDED_BY(mutex_);
  // Take no new calls and finish theirs.
  std::vector<std::unique_ptr<Http2Connection>> draining_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<PendingCall>> waiting_ ABSL_GUARDED_BY(mutex_);
  int waiting_for_connection_ ABSL_GUARDED_BY(mutex_) = 0;  // callers of WaitUntilConnected
  SteadyTime next_dial_at_ ABSL_GUARDED_BY(mutex_) = SteadyTime::min();
  SteadyDuration backoff_ ABSL_GUARDED_BY(mutex_);
  absl::Status dial_failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t dial_failures_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hone
