#include "client/cpp/rpc/channel_engine.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/rpc/endpoint.h"

namespace hone {
namespace {

// What one recv may take: a reply with a large inline artifact in one or two.
constexpr size_t kReadBytes = 256 << 10;
// Before another connection gets its turn.
constexpr int kReadsInARow = 16;
// Calls whose callers have gone count until the daemon has been told, so this also bounds what
// piles up for a daemon that is stopped.
constexpr size_t kCallsMax = 10'000;

constexpr absl::string_view kShutDown = "the channel was shut down";

SteadyTime Now() { return std::chrono::steady_clock::now(); }

// Kept reachable for ever: their threads' state cannot be taken apart in a child.
std::atomic<ChannelEngine*> abandoned_engines{nullptr};

}  // namespace

void InheritedFds::Add(int fd) {
  for (std::atomic<int>& slot : fds_) {
    int none = kNone;
    if (slot.compare_exchange_strong(none, fd)) return;
  }
}

void InheritedFds::Remove(int fd) {
  for (std::atomic<int>& slot : fds_) {
    int listed = fd;
    if (slot.compare_exchange_strong(listed, kNone)) return;
  }
}

void InheritedFds::CloseAll() {
  for (std::atomic<int>& slot : fds_) {
    const int fd = slot.exchange(kNone);
    if (fd != kNone) ::close(fd);
  }
}

ChannelEngine::ChannelEngine(EngineOptions options)
    : options_(std::move(options)), owner_(getpid()), backoff_(options_.reconnect_first) {}

ChannelEngine::~ChannelEngine() {
  pthread_t thread;
  {
    const MutexLock lock(&mutex_);
    if (!started_) return;
    stopping_ = true;
    thread = thread_;
  }
  Wake();
  pthread_join(thread, nullptr);
  inherited_.Remove(wake_.get());
}

void ChannelEngine::Abandon(ChannelEngine* engine) {
  engine->inherited_.CloseAll();
  ChannelEngine* head = abandoned_engines.load();
  do {
    engine->next_abandoned_ = head;
  } while (!abandoned_engines.compare_exchange_weak(head, engine));
}

absl::Status ChannelEngine::EnsureThread() {
  if (stopping_) return absl::CancelledError(kShutDown);
  if (started_) return absl::OkStatus();
  if (!wake_.valid()) {
    wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_.valid()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot make an eventfd: ", std::strerror(errno)));
    }
    inherited_.Add(wake_.get());
  }
  // The application's signals are for its own threads; faults stay with who has caused them, so
  // that its crash handler sees them.
  sigset_t blocked;
  sigset_t before;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS}) {
    sigdelset(&blocked, fault);
  }
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  const int error = pthread_create(&thread_, nullptr, &ChannelEngine::ThreadMain, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start a thread: ", std::strerror(error)));
  }
  started_ = true;
  return absl::OkStatus();
}

void* ChannelEngine::ThreadMain(void* self) {
  pthread_setname_np(pthread_self(), "hone-rpc");
  static_cast<ChannelEngine*>(self)->Run();
  return nullptr;
}

void ChannelEngine::Wake() const {
  const uint64_t one = 1;
  // A full counter wakes as well.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

void ChannelEngine::Start(const std::shared_ptr<PendingCall>& call) {
  const MutexLock lock(&mutex_);
  if (absl::Status status = EnsureThread(); !status.ok()) {
    call->Finish({.status = std::move(status), .by = EndedBy::kNoConnection});
    return;
  }
  const size_t calls = waiting_.size() + (current_ ? current_->calls() : 0);
  if (calls >= kCallsMax) {
    call->Finish({.status = absl::ResourceExhaustedError(absl::StrCat(
                      calls, " calls to ", options_.connection.endpoint, " are outstanding")),
                  .by = EndedBy::kNoConnection});
    return;
  }
  if (current_ && current_->accepts_calls()) {
    // A timer of the connection begins with its first call.
    const bool timed = options_.connection.keepalive_interval && current_->calls() == 0;
    current_->Submit(call);
    current_->Flush();
    if (timed || current_->wants_thread()) Wake();
    return;
  }
  if (!call->request.wait_for_connection && !dial_failure_.ok() && Now() < next_dial_at_) {
    call->Finish({.status = OwnCopy(dial_failure_), .by = EndedBy::kNoConnection});
    return;
  }
  waiting_.push_back(call);
  Wake();
}

void ChannelEngine::Cancel(const std::shared_ptr<PendingCall>& call) {
  const MutexLock lock(&mutex_);
  if (Http2Connection* connection = call->exchange.connection) {
    connection->Cancel(*call);
    connection->Flush();
    // It may have been the last of a connection that drains.
    if (connection->wants_thread() || connection != current_.get()) Wake();
    return;
  }
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), call), waiting_.end());
}

void ChannelEngine::Resume(const std::shared_ptr<PendingCall>& call) {
  const MutexLock lock(&mutex_);
  Http2Connection* connection = call->exchange.connection;
  if (connection == nullptr) return;
  connection->Resume(*call);
  connection->Flush();
  if (connection->wants_thread()) Wake();
}

bool ChannelEngine::Connected() const {
  return current_ && current_->established() && current_->accepts_calls();
}

bool ChannelEngine::connected() {
  const MutexLock lock(&mutex_);
  return Connected();
}

void ChannelEngine::Shutdown() {
  const MutexLock lock(&mutex_);
  stopping_ = true;
  if (started_) Wake();
}

absl::Status ChannelEngine::WaitUntilConnected(absl::Time deadline, bool one_try) {
  {
    const MutexLock lock(&mutex_);
    if (Connected()) return absl::OkStatus();
    if (absl::Status status = EnsureThread(); !status.ok()) return status;
    // No try is due, or the one under way has not been answered: the last failure still holds.
    if (one_try && !dial_failure_.ok() && (current_ || Now() < next_dial_at_)) {
      return OwnCopy(dial_failure_);
    }
    struct Waiter {
      ChannelEngine* engine;
      uint64_t failures;
      bool one_try;
      static bool HasNews(Waiter* waiter) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const ChannelEngine& engine = *waiter->engine;
        if (engine.Connected() || engine.stopping_) return true;
        // Trying again cures a daemon that is not there yet, but neither lack of permission nor a
        // certificate that is not to be trusted.
        return engine.dial_failures_ != waiter->failures &&
               (waiter->one_try || !absl::IsUnavailable(engine.dial_failure_));
      }
    } waiter{this, dial_failures_, one_try};
    ++waiting_for_connection_;
    Wake();
    mutex_.AwaitWithDeadline(absl::Condition(&Waiter::HasNews, &waiter), deadline);
    --waiting_for_connection_;
    if (Connected()) return absl::OkStatus();
    if (stopping_) return absl::CancelledError(kShutDown);
    if (!current_ && dial_failures_ != waiter.failures && !dial_failure_.ok()) {
      return OwnCopy(dial_failure_);
    }
  }
  return Diagnose(options_.connection.endpoint);
}

bool ChannelEngine::WantsToDial(SteadyTime now) const {
  return !current_ && (!waiting_.empty() || waiting_for_connection_ > 0) && now >= next_dial_at_;
}

void ChannelEngine::Run() {
  read_buffer_.resize(kReadBytes);
  while (Housekeep(Now())) Poll();
  End();
  if (const auto& tls = options_.connection.tls) TlsSession::ForgetThread(*tls->library);
}

void ChannelEngine::End() {
  const MutexLock lock(&mutex_);
  const absl::Status closed = absl::CancelledError(kShutDown);
  for (const auto& call : std::exchange(waiting_, {})) {
    call->Finish({.status = OwnCopy(closed), .by = EndedBy::kNoConnection});
  }
  if (current_) draining_.push_back(std::move(current_));
  for (const auto& connection : draining_) {
    connection->FailCalls(closed);
    inherited_.Remove(connection->socket());
  }
  draining_.clear();
  if (dialer_) inherited_.Remove(dialer_->poll_fd());
  dialer_.reset();
}

bool ChannelEngine::Housekeep(SteadyTime now) {
  bool dial = false;
  {
    const MutexLock lock(&mutex_);
    if (stopping_) return false;
    if (current_) {
      current_->OnTimer(now);
      if (!current_->accepts_calls()) draining_.push_back(std::move(current_));
    }
    for (auto& connection : draining_) {
      connection->OnTimer(now);
      // Without calls there is nothing to wait for.
      if (connection->finished() || connection->calls() == 0) {
        Retire(std::move(connection), now);
      }
    }
    draining_.erase(std::remove(draining_.begin(), draining_.end(), nullptr), draining_.end());
    dial = dialer_.has_value() || WantsToDial(now);
  }
  if (dial) Dial(now);
  return true;
}

void ChannelEngine::Retire(std::unique_ptr<Http2Connection> connection, SteadyTime now) {
  const absl::Status failure = connection->failure();
  if (!connection->established()) {
    // As good as never connected: the next try waits, or a peer that accepts and closes would be
    // called without end.
    DialFailed(failure.ok() ? DiagnoseAttempt(options_.connection.endpoint, 0) : failure, now);
  }
  connection->FailCalls(
      failure.ok() ? absl::UnavailableError(absl::StrCat(
                         "the daemon at ", options_.connection.endpoint, " ended the connection"))
                   : failure);
  inherited_.Remove(connection->socket());
}

void ChannelEngine::Dial(SteadyTime now) {
  if (!dialer_) dialer_.emplace(options_.connection.endpoint, options_.connect_timeout);
  const int before = dialer_->poll_fd();
  if (before >= 0) inherited_.Remove(before);  // a step may close it
  const Dialer::Progress progress = dialer_->Step(now);
  if (progress == Dialer::Progress::kWaiting) {
    if (dialer_->poll_fd() >= 0) inherited_.Add(dialer_->poll_fd());
    return;
  }
  absl::StatusOr<std::unique_ptr<TlsSession>> tls = nullptr;
  if (progress == Dialer::Progress::kConnected && options_.connection.tls) {
    // Each connection reads its certificates anew: authorities may be replaced meanwhile, and a
    // forked child shares nothing.
    tls = TlsSession::Start(*options_.connection.tls);
  }
  const MutexLock lock(&mutex_);
  if (!tls.ok()) {
    DialFailed(tls.status(), now);
  } else if (progress == Dialer::Progress::kConnected) {
    Adopt(dialer_->TakeSocket(), *std::move(tls), now);
  } else {
    DialFailed(DiagnoseAttempt(options_.connection.endpoint, dialer_->error()), now);
  }
  dialer_.reset();
}

void ChannelEngine::Adopt(UniqueFd socket, std::unique_ptr<TlsSession> tls, SteadyTime now) {
  inherited_.Add(socket.get());
  current_ = std::make_unique<Http2Connection>(std::move(socket), std::move(tls),
                                               options_.connection, now);
  for (const auto& call : std::exchange(waiting_, {})) current_->Submit(call);
  current_->Flush();
}

void ChannelEngine::DialFailed(absl::Status why, SteadyTime now) {
  dial_failure_ = std::move(why);
  ++dial_failures_;
  next_dial_at_ = now + backoff_;
  backoff_ = std::min(2 * backoff_, options_.reconnect_last);
  for (const auto& call : std::exchange(waiting_, {})) {
    call->Finish({.status = OwnCopy(dial_failure_), .by = EndedBy::kNoConnection});
  }
}

SteadyTime ChannelEngine::NextTimer(SteadyTime now) const {
  SteadyTime next = dialer_ ? dialer_->next_step_at() : SteadyTime::max();
  if (!dialer_ && !current_ && (!waiting_.empty() || waiting_for_connection_ > 0)) {
    next = std::min(next, next_dial_at_);
  }
  if (current_) next = std::min(next, current_->NextTimer());
  for (const auto& connection : draining_) next = std::min(next, connection->NextTimer());
  return std::max(next, now);
}

void ChannelEngine::Poll() {
  std::vector<pollfd> polled = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  std::vector<Http2Connection*> connections;
  int timeout_ms = -1;
  {
    const MutexLock lock(&mutex_);
    if (current_) connections.push_back(current_.get());
    for (const auto& connection : draining_) connections.push_back(connection.get());
    const SteadyTime now = Now();
    SteadyTime next = NextTimer(now);
    for (const Http2Connection* connection : connections) {
      const bool full = connection->wants_write();
      polled.push_back({.fd = connection->socket(),
                        .events = static_cast<short>(full ? POLLIN | POLLOUT : POLLIN),
                        .revents = 0});
      if (connection->write_error() != 0) next = now;
    }
    if (next != SteadyTime::max()) {
      const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - now);
      timeout_ms = static_cast<int>(std::min<int64_t>(wait.count(), 60'000));
    }
  }
  if (dialer_ && dialer_->poll_fd() >= 0) {
    polled.push_back({.fd = dialer_->poll_fd(), .events = POLLOUT, .revents = 0});
  }
  if (poll(polled.data(), polled.size(), timeout_ms) < 0) return;  // EINTR; the loop comes back
  if (polled[0].revents != 0) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t size = ::read(wake_.get(), &count, sizeof(count));
  }
  for (size_t i = 0; i < connections.size(); ++i) {
    const short events = polled[i + 1].revents;
    if ((events & POLLOUT) != 0) {
      const MutexLock lock(&mutex_);
      connections[i]->Flush();
    }
    if ((events & ~POLLOUT) != 0) {
      Read(*connections[i]);
      continue;
    }
    // After a failed write, what came before it has been read now.
    const MutexLock lock(&mutex_);
    if (const int error = connections[i]->write_error()) connections[i]->OnEnd(error);
  }
}

void ChannelEngine::Read(Http2Connection& connection) {
  for (int i = 0; i < kReadsInARow; ++i) {
    const ssize_t count =
        recv(connection.socket(), read_buffer_.data(), read_buffer_.size(), MSG_DONTWAIT);
    const int error = count < 0 ? errno : 0;
    if (error == EINTR) continue;
    if (error == EAGAIN || error == EWOULDBLOCK) return;
    const MutexLock lock(&mutex_);
    if (count <= 0) {
      connection.OnEnd(error);
      return;
    }
    connection.OnBytes({read_buffer_.data(), static_cast<size_t>(count)}, Now());
    if (&connection == current_.get() && connection.established()) {
      backoff_ = options_.reconnect_first;
      dial_failure_ = absl::OkStatus();
    }
    if (connection.finished() || static_cast<size_t>(count) < read_buffer_.size()) return;
  }
}

}  // namespace hone
