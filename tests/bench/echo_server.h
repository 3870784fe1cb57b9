// A bare gRPC server that answers every call with the same bytes: what hone's replies are held
// against.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "runtime/base/subprocess.h"

namespace hone {

// The method it answers, like any other.
inline constexpr char kEchoMethod[] = "/bench/Echo";

// In a process of its own, which is this program again: main() must begin with
//   if (const auto code = ServeEchoIfAsked(argc, argv)) return *code;
class EchoServer {
 public:
  // Listens on the unix socket `path` and answers with `reply_bytes` bytes.
  static absl::StatusOr<EchoServer> Start(const std::string& path, size_t reply_bytes);

  std::shared_ptr<grpc::Channel> Channel() const;
  pid_t pid() const { return process_.pid(); }

 private:
  EchoServer(Subprocess process, std::string path)
      : process_(std::move(process)), path_(std::move(path)) {}

  Subprocess process_;
  std::string path_;
};

// The exit code, when the program was started as an echo server.
std::optional<int> ServeEchoIfAsked(int argc, char** argv);

}  // namespace hone
