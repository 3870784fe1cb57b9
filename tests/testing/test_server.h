// The real service over gRPC on a unix socket, with fakes for compiler, devices and store.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "hone/v1/kernel_service.grpc.pb.h"
#include "runtime/base/files.h"
#include "server/rpc_server.h"
#include "server/service_context.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/fake_profiler.h"
#include "tests/testing/in_memory_store.h"

namespace hone {

struct TestServerOptions {
  // One lane each; none: a machine without devices.
  std::vector<DeviceInfo> devices = {FakeDeviceInfo()};
  RolePolicy roles = {};  // the default's own uid is this process's
  ServiceLimits limits = {};
  // False: the engine is still being probed until OpenEngine.
  bool engine_ready = true;
  bool sandbox = true;
  // Called with the engine's fakes before anything runs.
  std::function<void(FakeCompiler&)> prepare_compiler = {};
};

// Its catalog holds the template "copy": T (F32, F16), dynamic n with POW2 buckets, XBLOCK 64 128
// 256, VEC 1 4, default XBLOCK=64 VEC=1, a reference. Its temporary directory goes with it.
class TestServer {
 public:
  explicit TestServer(TestServerOptions options = {});
  ~TestServer();

  void OpenEngine();

  // A client of this process's own uid, through the socket.
  std::unique_ptr<v1::KernelService::Stub> Client();
  std::shared_ptr<grpc::Channel> Channel();
  // A client whose connection says it is someone else's.
  std::unique_ptr<v1::KernelService::Stub> ClientAs(const Credentials& credentials);

  FakeCompiler& compiler() { return *compiler_; }
  FakeProfiler& profiler(size_t device = 0) { return *profilers_.at(device); }
  InMemoryStore& store() { return store_; }
  ServiceContext& context() { return context_; }
  RpcServer& server() { return *server_; }
  Catalog& catalog() { return *catalog_; }
  std::string socket_path() const;

 private:
  TestServerOptions options_;
  TemporaryDirectory directory_;
  InMemoryStore store_;
  FakeCompiler* compiler_ = nullptr;      // owned by the engine
  std::vector<FakeProfiler*> profilers_;  // owned by the engine
  std::unique_ptr<Engine> engine_;        // until it is opened
  std::unique_ptr<Catalog> catalog_;
  DeadlineTimer timer_;
  WorkQueue lookups_;
  WorkQueue compiles_;
  ConnectionTable connections_;
  EngineGate gate_;
  ServiceContext context_;
  std::unique_ptr<RpcServer> server_;
};

// A message from text, aborting on a mistake in the test.
void ParseText(const std::string& text, google::protobuf::Message* message);
template <class Message>
Message FromText(const std::string& text) {
  Message message;
  ParseText(text, &message);
  return message;
}

// The details every error carries.
v1::ErrorDetail DetailIn(const grpc::Status& status);

// The template of TestServer's catalog under another name, with files, for RegisterTemplate.
v1::KernelTemplate CopyTemplate(const std::string& name);

}  // namespace hone
