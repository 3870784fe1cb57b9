#include "tests/bench/echo_server.h"

#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

constexpr char kEchoFlag[] = "--echo";

// Answers every unary call with `reply`, whose bytes all calls share.
class EchoService : public grpc::CallbackGenericService {
 public:
  explicit EchoService(const grpc::Slice& reply) : reply_(&reply, 1) {}

 private:
  class Reactor : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(const grpc::ByteBuffer& reply) : reply_(reply) { StartRead(&request_); }
    void OnReadDone(bool ok) override {
      if (ok) {
        StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
      } else {
        Finish(grpc::Status::CANCELLED);
      }
    }
    void OnDone() override { delete this; }

   private:
    grpc::ByteBuffer request_;
    grpc::ByteBuffer reply_;
  };

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Reactor(reply_);
  }

  const grpc::ByteBuffer reply_;
};

}  // namespace

absl::StatusOr<EchoServer> EchoServer::Start(const std::string& path, size_t reply_bytes) {
  Subprocess::Options options;
  options.program = ExecutablePath();
  options.arguments = {kEchoFlag, path, std::to_string(reply_bytes)};
  HONE_ASSIGN_OR_RETURN(Subprocess process, Subprocess::Spawn(options));
  return EchoServer(std::move(process), path);
}

std::shared_ptr<grpc::Channel> EchoServer::Channel() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  return grpc::CreateCustomChannel("unix:" + path_, grpc::InsecureChannelCredentials(), arguments);
}

std::optional<int> ServeEchoIfAsked(int argc, char** argv) {
  size_t size = 0;
  if (argc != 4 || std::strcmp(argv[1], kEchoFlag) != 0) return std::nullopt;
  if (!absl::SimpleAtoi(argv[3], &size)) return 64;
  EchoService service(grpc::Slice(std::string(size, 'x')));
  grpc::ServerBuilder builder;
  builder.AddListeningPort(std::string("unix:") + argv[2], grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(&service);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  server->Wait();
  return 0;
}

}  // namespace hone
