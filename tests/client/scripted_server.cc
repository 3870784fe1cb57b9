#include "tests/client/scripted_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "client/cpp/rpc/message_reader.h"
#include "tests/client/scripted_tls.h"

namespace hone {
namespace {

constexpr size_t kPrefaceBytes = 24;
constexpr size_t kFrameHeaderBytes = 9;
constexpr uint8_t kEndHeaders = 4;

std::string BigEndian(uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return text;
}

// HPACK: an integer with a prefix of seven bits, and a string without Huffman's code.
void AppendText(absl::string_view text, std::string& block) {
  size_t size = text.size();
  if (size < 127) {
    block.push_back(static_cast<char>(size));
  } else {
    block.push_back(127);
    for (size -= 127; size >= 128; size >>= 7) block.push_back(static_cast<char>(size % 128 + 128));
    block.push_back(static_cast<char>(size));
  }
  absl::StrAppend(&block, text);
}

}  // namespace

namespace http2 {

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, absl::string_view payload) {
  std::string frame = BigEndian(static_cast<uint32_t>(payload.size()), 3);
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  return absl::StrCat(frame, BigEndian(stream, 4), payload);
}

std::string Headers(uint32_t stream, const Fields& fields, bool end) {
  std::string block;
  for (const auto& [name, value] : fields) {
    block.push_back(0);  // a literal that enters no table
    AppendText(name, block);
    AppendText(value, block);
  }
  return Frame(kHeaders, static_cast<uint8_t>(kEndHeaders | (end ? kEndStream : 0)), stream, block);
}

std::string Data(uint32_t stream, absl::string_view bytes, bool end) {
  return Frame(kData, end ? kEndStream : 0, stream, bytes);
}

std::string Reset(uint32_t stream, uint32_t error_code) {
  return Frame(kReset, 0, stream, BigEndian(error_code, 4));
}

std::string GoAway(uint32_t last_stream, uint32_t error_code) {
  return Frame(kGoAway, 0, 0, BigEndian(last_stream, 4) + BigEndian(error_code, 4));
}

uint32_t Number(absl::string_view payload) {
  uint32_t value = 0;
  for (const char byte : payload.substr(0, 4)) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

std::string ReplyBegins(uint32_t stream) {
  return Headers(stream, {{":status", "200"}, {"content-type", "application/grpc"}}, false);
}

std::string ReplyEnds(uint32_t stream) { return Headers(stream, {{"grpc-status", "0"}}, true); }

std::string Reply(uint32_t stream, absl::string_view message) {
  return absl::StrCat(ReplyBegins(stream), Data(stream, FramedMessage(message), false),
                      ReplyEnds(stream));
}

}  // namespace http2

ScriptedConnection::ScriptedConnection(UniqueFd fd, std::unique_ptr<ScriptedTls> tls)
    : fd_(std::move(fd)), tls_(std::move(tls)) {}

ScriptedConnection::~ScriptedConnection() = default;

bool ScriptedConnection::Shake() { return tls_ == nullptr || tls_->Shake(fd_.get()); }

void ScriptedConnection::EndTls() { tls_->End(); }

bool ScriptedConnection::Send(absl::string_view bytes) {
  if (tls_ != nullptr) return tls_->Send(bytes);
  while (!bytes.empty()) {
    const ssize_t count = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool ScriptedConnection::ReadExactly(size_t size, std::string& bytes) {
  bytes.resize(size);
  for (size_t at = 0; at < size;) {
    const ssize_t count = tls_ != nullptr ? tls_->Read(bytes.data() + at, size - at)
                                          : recv(fd_.get(), bytes.data() + at, size - at, 0);
    if (count < 0 && tls_ == nullptr && errno == EINTR) continue;
    if (count <= 0) return false;
    at += static_cast<size_t>(count);
  }
  return true;
}

bool ScriptedConnection::Greet(bool settings) {
  std::string preface;
  if (!ReadExactly(kPrefaceBytes, preface)) return false;
  if (!settings) return true;
  // The client's SETTINGS follow its preface at once.
  return Send(http2::Frame(http2::kSettings, 0, 0, "") +
              http2::Frame(http2::kSettings, http2::kAck, 0, ""));
}

std::optional<ReceivedFrame> ScriptedConnection::Read() {
  std::string header;
  if (!ReadExactly(kFrameHeaderBytes, header)) return std::nullopt;
  const auto byte = [&](size_t i) { return uint32_t{static_cast<uint8_t>(header[i])}; };
  ReceivedFrame frame;
  frame.type = static_cast<uint8_t>(byte(3));
  frame.flags = static_cast<uint8_t>(byte(4));
  frame.stream = byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8);
  if (!ReadExactly(byte(0) << 16 | byte(1) << 8 | byte(2), frame.payload)) return std::nullopt;
  return frame;
}

std::optional<ReceivedFrame> ScriptedConnection::ReadUntil(uint8_t type) {
  std::optional<ReceivedFrame> frame = Read();
  while (frame && frame->type != type) frame = Read();
  return frame;
}

uint32_t ScriptedConnection::ReadRequest() {
  while (const std::optional<ReceivedFrame> frame = ReadUntil(http2::kData)) {
    if ((frame->flags & http2::kEndStream) != 0) return frame->stream;
  }
  return 0;
}

void ScriptedConnection::ReadToEnd() {
  while (Read()) {
  }
}

void ScriptedConnection::Shutdown() const { ::shutdown(fd_.get(), SHUT_RDWR); }

void Serve(ScriptedConnection& connection, const std::string& reply) {
  if (!connection.Greet()) return;
  // Enough for what all requests of a test have together.
  connection.Send(http2::Frame(http2::kWindowUpdate, 0, 0, BigEndian(1u << 30, 4)));
  while (const uint32_t stream = connection.ReadRequest()) {
    if (!connection.Send(http2::Reply(stream, reply))) return;
  }
}

ScriptedServer::ScriptedServer(Script script, Kind kind) : script_(std::move(script)) {
  if (kind == Kind::kTcp) {
    ListenTcp();
  } else {
    absl::StatusOr<TemporaryDirectory> directory = TemporaryDirectory::Create("/tmp", "hone");
    if (!directory.ok()) std::abort();
    directory_.emplace(*std::move(directory));
    socket_path_ = JoinPath(directory_->path(), "s");
    ListenUnix();
  }
  acceptor_ = std::thread([this] { Accept(); });
}

ScriptedServer::ScriptedServer(Script script, const std::string& socket_path)
    : script_(std::move(script)), socket_path_(socket_path) {
  ListenUnix();
  acceptor_ = std::thread([this] { Accept(); });
}

ScriptedServer::ScriptedServer(Script script, ScriptedTlsOptions tls)
    : script_(std::move(script)), tls_(std::move(tls)) {
  ListenTcp();
  acceptor_ = std::thread([this] { Accept(); });
}

ScriptedServer::~ScriptedServer() { Stop(); }

void ScriptedServer::ListenUnix() {
  endpoint_ = "unix:" + socket_path_;
  listener_.Reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener_.get(), 64) != 0) {
    std::abort();
  }
}

void ScriptedServer::ListenTcp() {
  listener_.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_.get(), generic, size) != 0 || listen(listener_.get(), 64) != 0 ||
      getsockname(listener_.get(), generic, &size) != 0) {
    std::abort();
  }
  endpoint_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
}

void ScriptedServer::Accept() {
  while (true) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) return;  // stopped
    const MutexLock lock(&mutex_);
    open_.push_back(std::make_unique<ScriptedConnection>(
        std::move(fd), tls_ ? std::make_unique<ScriptedTls>(*tls_) : nullptr));
    threads_.emplace_back([this, connection = open_.back().get(), number = count_] {
      if (connection->Shake()) script_(*connection, number);
      // A script that has ended has hung up.
      const MutexLock ended(&mutex_);
      connection->Close();
    });
    ++count_;
  }
}

int ScriptedServer::connections() const {
  const MutexLock lock(&mutex_);
  return count_;
}

void ScriptedServer::AwaitConnections(int count) const {
  const auto enough = [this, count]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return count_ >= count; };
  const MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&enough));
}

void ScriptedServer::Stop() {
  if (!listener_.valid()) return;
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  listener_.Reset();
  if (!socket_path_.empty()) unlink(socket_path_.c_str());
  std::vector<std::thread> threads;
  {
    const MutexLock lock(&mutex_);
    for (const auto& connection : open_) connection->Shutdown();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hone
