// A GetKernel hit over a unix socket against a bare gRPC echo of the same payload.
//
// Both servers are processes of their own: honed with its CPU device and a kernel in memory, and
// this program again as an echo that answers every call with bytes of the same number. The client
// is the same for both (bytes in, bytes out), calls are sequential, rounds are interleaved.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "google/protobuf/text_format.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "tests/bench/bench_report.h"
#include "tests/scenarios/daemon_process.h"

namespace hone {
namespace {

constexpr int kRounds = 30;
constexpr int kCallsPerRound = 200;
constexpr int kWarmUpCalls = 500;  // channels, threads and caches settle within far fewer

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

// Answers every unary call with `reply`.
class EchoService : public grpc::CallbackGenericService {
 public:
  explicit EchoService(std::string reply) : reply_(std::move(reply)) {}

 private:
  class Reactor : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(const std::string& reply) : reply_(Bytes(reply)) { StartRead(&request_); }
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

  const std::string reply_;
};

int ServeEcho(const std::string& socket_path, const std::string& reply_bytes) {
  size_t size = 0;
  if (!absl::SimpleAtoi(reply_bytes, &size)) return 64;
  EchoService service(std::string(size, 'x'));
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket_path, grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(&service);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  server->Wait();
  return 0;
}

// Sequential unary calls of one method.
class Caller {
 public:
  Caller(const std::shared_ptr<grpc::Channel>& channel, std::string method, std::string request)
      : stub_(channel), method_(std::move(method)), request_(std::move(request)) {}

  // The reply, or an empty string after printing why there is none.
  std::string Call() {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    auto call = stub_.PrepareUnaryCall(&context, method_, Bytes(request_), &queue_);
    call->StartCall();
    grpc::ByteBuffer reply;
    grpc::Status status;
    void* tag = nullptr;
    bool ok = false;
    call->Finish(&reply, &status, &tag);
    queue_.Next(&tag, &ok);
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", method_.c_str(), status.error_message().c_str());
      std::exit(1);
    }
    grpc::Slice slice;
    return reply.DumpToSingleSlice(&slice).ok()
               ? std::string(reinterpret_cast<const char*>(slice.begin()), slice.size())
               : std::string();
  }

  double TimeUs() {
    const int64_t began = absl::GetCurrentTimeNanos();
    Call();
    return static_cast<double>(absl::GetCurrentTimeNanos() - began) / 1e3;
  }

 private:
  grpc::GenericStub stub_;
  const std::string method_;
  const std::string request_;
  grpc::CompletionQueue queue_;
};

std::string HitRequest() {
  v1::GetKernelRequest request;
  google::protobuf::TextFormat::ParseFromString(
      "template { name: 'copy_1d' } params { key: 'T' value { text: 'F32' } } "
      "params { key: 'n' value { integer: 67108864 } } max_wait_ms: 600000",
      &request);
  return request.SerializeAsString();
}

int Main() {
  PrintMachine();
  const auto directory = TemporaryDirectory::Create("/tmp", "hone");
  if (!directory.ok()) return 1;
  const auto daemon = DaemonProcess::Start(directory->path());
  if (!daemon.ok()) {
    std::fprintf(stderr, "%s\n", daemon.status().ToString().c_str());
    return 1;
  }
  Caller hit((*daemon)->Channel(), "/hone.v1.KernelService/GetKernel", HitRequest());
  const std::string reply = hit.Call();  // compiles the default config

  const std::string echo_path = JoinPath(directory->path(), "e");
  Subprocess::Options options;
  options.program = ExecutablePath();
  options.arguments = {"--echo", echo_path, std::to_string(reply.size())};
  const auto echo_process = Subprocess::Spawn(options);
  if (!echo_process.ok()) return 1;
  Caller echo(grpc::CreateChannel("unix:" + echo_path, grpc::InsecureChannelCredentials()),
              "/bench/Echo", HitRequest());
  for (int i = 0; i < kWarmUpCalls; ++i) {
    hit.Call();
    echo.Call();
  }
  const int64_t hits_before = (*daemon)->Status().counters().at("memory_hits");
  std::vector<double> hit_us, echo_us;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kCallsPerRound; ++i) hit_us.push_back(hit.TimeUs());
    for (int i = 0; i < kCallsPerRound; ++i) echo_us.push_back(echo.TimeUs());
  }
  const int64_t hits = (*daemon)->Status().counters().at("memory_hits") - hits_before;
  std::printf("payload: %zu bytes out, %zu bytes back; %lld of %d calls were memory hits\n",
              HitRequest().size(), reply.size(), static_cast<long long>(hits),
              kRounds * kCallsPerRound);
  for (const double share : {0.5, 0.99}) {
    PrintFigure({.figure = share == 0.5 ? "get_kernel_hit_p50" : "get_kernel_hit_p99",
                 .value = Percentile(hit_us, share),
                 .unit = "us",
                 .peer = "grpc_echo",
                 .peer_value = Percentile(echo_us, share)});
  }
  return 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--echo") == 0) return hone::ServeEcho(argv[2], argv[3]);
  return hone::Main();
}
