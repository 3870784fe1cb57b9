// A server that does on its socket what a test tells it to: HTTP/2 frames by hand, for everything
// that gRPC's own server never sends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/base/files.h"
#include "runtime/base/mutex.h"
#include "runtime/base/unique_fd.h"
#include "tests/client/tls_identity.h"

namespace hone {

namespace http2 {

inline constexpr uint8_t kData = 0;
inline constexpr uint8_t kHeaders = 1;
inline constexpr uint8_t kReset = 3;
inline constexpr uint8_t kSettings = 4;
inline constexpr uint8_t kPing = 6;
inline constexpr uint8_t kGoAway = 7;
inline constexpr uint8_t kWindowUpdate = 8;

inline constexpr uint8_t kEndStream = 1;  // of kData and kHeaders
inline constexpr uint8_t kAck = 1;        // of kSettings and kPing

inline constexpr uint32_t kInternalError = 2;
inline constexpr uint32_t kRefusedStream = 7;
inline constexpr uint32_t kCancel = 8;
inline constexpr uint32_t kEnhanceYourCalm = 11;

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload);
std::string Headers(uint32_t stream, const Fields& fields, bool end);
std::string Data(uint32_t stream, absl::string_view bytes, bool end);
std::string Reset(uint32_t stream, uint32_t error_code);
std::string GoAway(uint32_t last_stream, uint32_t error_code);

// The value of a payload of four bytes.
uint32_t Number(absl::string_view payload);

// The first HEADERS of a reply that goes well, its end, and all of one with one message.
std::string ReplyBegins(uint32_t stream);
std::string ReplyEnds(uint32_t stream);
std::string Reply(uint32_t stream, absl::string_view message);

}  // namespace http2

struct ReceivedFrame {
  uint8_t type = 0;
  uint8_t flags = 0;
  uint32_t stream = 0;
  std::string payload;
};

// How a scripted server speaks TLS.
struct ScriptedTlsOptions {
  TlsIdentity identity;
  std::string protocol = "h2";  // agreed to by ALPN; empty: none
  int version_max = 0;          // as TLS1_1_VERSION; 0: the newest
};

// The server's end of one TLS connection.
class ScriptedTls;

// The server's end of one connection. Blocks; everything fails once the other end or the test's end
// has closed it. Not thread-safe.
class ScriptedConnection {
 public:
  // `tls` may be nullptr: plain text.
  ScriptedConnection(UniqueFd fd, std::unique_ptr<ScriptedTls> tls);
  ~ScriptedConnection();

  // Before anything else, on the script's thread; false if the client does not go along.
  bool Shake();
  bool Send(absl::string_view bytes);
  // Reads the client's preface, says SETTINGS and takes the client's.
  bool Greet(bool settings = true);
  // The next frame, nullopt at the end.
  std::optional<ReceivedFrame> Read();
  // The next frame of this type, passing over others.
  std::optional<ReceivedFrame> ReadUntil(uint8_t type);
  // The stream of the next complete request; 0 at the end.
  uint32_t ReadRequest();
  // Reads until the end.
  void ReadToEnd();
  // Hangs up, for both directions.
  void Shutdown() const;
  // Says the end in TLS, and leaves the connection open.
  void EndTls();
  // For the server, after the script.
  void Close() { fd_.Reset(); }

 private:
  bool ReadExactly(size_t size, std::string& bytes);

  UniqueFd fd_;
  const std::unique_ptr<ScriptedTls> tls_;
};

// Answers every request with `reply` until the end.
void Serve(ScriptedConnection& connection, const std::string& reply);

// Hands each connection, with its number from 0, to the script, on a thread of its own.
class ScriptedServer {
 public:
  using Script = std::function<void(ScriptedConnection& connection, int number)>;
  enum class Kind { kUnix, kTcp };

  explicit ScriptedServer(Script script, Kind kind = Kind::kUnix);
  // On TCP, for 127.0.0.1.
  ScriptedServer(Script script, ScriptedTlsOptions tls);
  // On the unix socket of one that has stopped.
  ScriptedServer(Script script, const std::string& socket_path);
  ~ScriptedServer();

  std::string endpoint() const { return endpoint_; }
  const std::string& socket_path() const { return socket_path_; }
  int connections() const;
  // Waits until there have been so many.
  void AwaitConnections(int count) const;

  // Closes the socket and all connections.
  void Stop();

 private:
  void ListenUnix();
  void ListenTcp();
  void Accept();

  const Script script_;
  const std::optional<ScriptedTlsOptions> tls_;
  std::optional<TemporaryDirectory> directory_;
  std::string socket_path_;
  std::string endpoint_;
  UniqueFd listener_;
  std::thread acceptor_;
  mutable Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<ScriptedConnection>> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone
