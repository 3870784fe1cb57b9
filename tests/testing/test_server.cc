#include "tests/testing/test_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "google/protobuf/text_format.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/create_channel_posix.h"
#include "server/tune_log.h"

namespace hone {
namespace {

constexpr char kCopySource[] = R"(
template <typename T, int XBLOCK, int VEC>
__global__ void copy(T* dst, const T* src, long long n) {
  for (long long i = blockIdx.x * (long long)XBLOCK + threadIdx.x; i < n; i += n) dst[i] = src[i];
}
template <typename T>
__global__ void copy_reference(T* dst, const T* src, long long n) {
  const long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) dst[i] = src[i];
}
)";

constexpr char kCopyTemplate[] = R"pb(
  name: "copy"
  version: "1"
  description: "Copy n elements."
  source: "copy.cu"
  params {
    name: "T"
    dtype {
      values: [ F32, F16 ]
      default: F32
    }
  }
  params {
    name: "n"
    size { dynamic: true bucket: POW2 min: 0 }
  }
  tunables {
    name: "XBLOCK"
    values: [ 64, 128, 256 ]
    default: 64
  }
  tunables {
    name: "VEC"
    values: [ 1, 4 ]
    default: 1
  }
  arguments {
    name: "dst"
    buffer {
      dtype: "T"
      shape: [ "n" ]
      access: WRITE
    }
  }
  arguments {
    name: "src"
    buffer {
      dtype: "T"
      shape: [ "n" ]
      access: READ
      init: NORMAL
    }
  }
  arguments {
    name: "n"
    scalar { type: I64 value: "n" }
  }
  steps {
    entry: "copy<${T}, ${XBLOCK}, ${VEC}>"
    launch { grid_x: "ceil_div(n, XBLOCK * VEC)" block_x: "XBLOCK" }
  }
  work { bytes: "2 * n * sizeof(T)" flops: "0" }
  check {
    reference: "copy_reference<${T}>"
    launch { grid_x: "ceil_div(n, 256)" block_x: "256" }
    output: "dst"
    exact: true
  }
)pb";

void Require(const absl::Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "test server: %s\n", status.ToString().c_str());
  abort();
}

TemporaryDirectory MakeDirectory() {
  auto directory = TemporaryDirectory::Create();
  Require(directory.status());
  const std::string kernels = JoinPath(directory->path(), "kernels/copy");
  Require(MakeDirectories(kernels));
  Require(WriteNewFile(JoinPath(kernels, "template.pbtxt"), kCopyTemplate));
  Require(WriteNewFile(JoinPath(kernels, "copy.cu"), kCopySource));
  return *std::move(directory);
}

RolePolicy WithOwnUid(RolePolicy roles) {
  if (roles.own_uid == 0) roles.own_uid = getuid();
  return roles;
}

}  // namespace

TestServer::TestServer(TestServerOptions options)
    : options_(std::move(options)),
      directory_(MakeDirectory()),
      engine_(std::make_unique<Engine>()),
      catalog_(Catalog::Create(JoinPath(directory_.path(), "kernels"), &store_)),
      lookups_("look-ups", 8, 1024),
      compiles_("compiles", 8, 64),
      connections_(ConnectionTable::ForProcessLimit()),
      gate_(&timer_) {
  auto compiler = std::make_unique<FakeCompiler>();
  compiler_ = compiler.get();
  if (options_.prepare_compiler) options_.prepare_compiler(*compiler_);
  engine_->pool = std::move(compiler);
  engine_->compiler = std::make_unique<CachingCompiler>(engine_->pool.get(), &store_);
  engine_->catalog_only = !options_.sandbox;
  std::vector<KernelCache::DeviceLane> lanes;
  for (const DeviceInfo& device : options_.devices) {
    auto profiler = std::make_unique<FakeProfiler>(device);
    profilers_.push_back(profiler.get());
    auto monitor = std::make_shared<LaneMonitor>(nullptr);
    engine_->lanes.push_back(monitor);
    lanes.push_back(
        {device, std::make_unique<MonitoredProfiler>(std::move(profiler), std::move(monitor))});
  }
  engine_->cache = KernelCache::Create(engine_->compiler.get(), &store_, std::move(lanes),
                                       {.threads = 8, .on_tune = LogTune});

  context_.catalog = catalog_.get();
  context_.store = &store_;
  context_.gate = &gate_;
  context_.timer = &timer_;
  context_.connections = &connections_;
  context_.roles = WithOwnUid(options_.roles);
  context_.lookups = &lookups_;
  context_.compiles = &compiles_;
  context_.limits = options_.limits;
  context_.info = {.version = "test",
                   .store_path = "in memory",
                   .kernels_path = catalog_->directory(),
                   .listen = "unix:" + socket_path(),
                   .started = absl::Now()};
  if (options_.engine_ready) OpenEngine();
  auto listener = UnixListener::Bind({.path = socket_path()});
  Require(listener.status());
  auto server = RpcServer::Start(context_, connections_, *std::move(listener));
  Require(server.status());
  server_ = *std::move(server);
}

TestServer::~TestServer() {
  compiler_->Unblock();
  gate_.Shutdown();
  server_->Drain(absl::Seconds(5));
  lookups_.Shutdown();
  compiles_.Shutdown();
}

void TestServer::OpenEngine() { gate_.Open(std::move(engine_)); }

std::string TestServer::socket_path() const { return JoinPath(directory_.path(), "honed.sock"); }

std::shared_ptr<grpc::Channel> TestServer::Channel() {
  grpc::ChannelArguments arguments;
  // Without it, channels of one process to one address share a connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + socket_path(), grpc::InsecureChannelCredentials(),
                                   arguments);
}

std::unique_ptr<v1::KernelService::Stub> TestServer::Client() {
  return v1::KernelService::NewStub(Channel());
}

std::unique_ptr<v1::KernelService::Stub> TestServer::ClientAs(const Credentials& credentials) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) abort();
  server_->Serve(ends[0], credentials);
  return v1::KernelService::NewStub(grpc::CreateInsecureChannelFromFd("unix:test", ends[1]));
}

void ParseText(const std::string& text, google::protobuf::Message* message) {
  if (google::protobuf::TextFormat::ParseFromString(text, message)) return;
  fprintf(stderr, "not a %s: %s\n", message->GetTypeName().c_str(), text.c_str());
  abort();
}

v1::ErrorDetail DetailIn(const grpc::Status& status) {
  v1::ErrorDetail detail;
  detail.ParseFromString(status.error_details());
  return detail;
}

v1::KernelTemplate CopyTemplate(const std::string& name) {
  auto message = FromText<v1::KernelTemplate>(kCopyTemplate);
  message.set_name(name);
  v1::SourceFile* file = message.add_files();
  file->set_name("copy.cu");
  file->set_content(kCopySource);
  return message;
}

}  // namespace hone
