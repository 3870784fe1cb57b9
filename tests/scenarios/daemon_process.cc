#include "tests/scenarios/daemon_process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/create_channel.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// A sanitized daemon on a busy machine is slow; one that is not up by then is broken.
constexpr absl::Duration kStartLimit = absl::Seconds(60);

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  if (value != nullptr) return value;
  std::fprintf(stderr, "%s is not set\n", name);
  std::abort();
}

}  // namespace

std::string BinaryPath(const std::string& name) { return JoinPath(Variable("HONE_BIN"), name); }

std::string ScenarioTemplates() {
  return JoinPath(DirectoryName(Variable("HONE_KERNELS")), "tests/scenarios/templates");
}

absl::StatusOr<std::unique_ptr<DaemonProcess>> DaemonProcess::Launch(const std::string& directory,
                                                                     DaemonOptions options) {
  const std::string socket_path = JoinPath(directory, "s");
  const std::string log_path =
      JoinPath(directory, absl::StrCat("log-", absl::ToUnixMicros(absl::Now())));
  const UniqueFd log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  Subprocess::Options spawn;
  spawn.program = BinaryPath("honed");
  // Later flags of the caller would repeat these: it gives other settings by variables.
  spawn.arguments = {
      "--listen",    "unix:" + socket_path,
      "--cache-dir", JoinPath(directory, "cache"),
      "--kernels",   options.kernels.empty() ? Variable("HONE_KERNELS") : options.kernels,
      "--device",    options.device};
  spawn.arguments.insert(spawn.arguments.end(), options.arguments.begin(), options.arguments.end());
  if (options.file_limit > 0) {
    spawn.arguments.insert(
        spawn.arguments.begin(),
        {"-c", absl::StrCat("ulimit -n ", options.file_limit, " && exec \"$0\" \"$@\""),
         spawn.program});
    spawn.program = "/bin/sh";
  }
  spawn.environment = EnvironmentWithout({"HONE_", "XDG_"});
  spawn.environment->insert(spawn.environment->end(), options.environment.begin(),
                            options.environment.end());
  spawn.stderr_fd = log.get();
  HONE_ASSIGN_OR_RETURN(Subprocess process, Subprocess::Spawn(spawn));
  return std::unique_ptr<DaemonProcess>(
      new DaemonProcess(std::move(process), socket_path, log_path));
}

absl::StatusOr<std::unique_ptr<DaemonProcess>> DaemonProcess::Start(const std::string& directory,
                                                                    DaemonOptions options) {
  const absl::Time began = absl::Now();
  HONE_ASSIGN_OR_RETURN(auto daemon, Launch(directory, std::move(options)));
  while (absl::Now() - began < kStartLimit) {
    if (PathExists(daemon->socket_path())) {
      grpc::ClientContext context;
      v1::GetStatusResponse response;
      if (daemon->Client()->GetStatus(&context, {}, &response).ok()) {
        daemon->ready_after_ = absl::Now() - began;
        return daemon;
      }
    }
    // Between looks at the file system; the socket's appearance is the condition.
    if (const auto ended = daemon->Wait(absl::Milliseconds(2))) {
      return absl::AbortedError(
          absl::StrCat("honed ended with ", ended->ToString(), ": ", daemon->Log()));
    }
  }
  return absl::DeadlineExceededError(absl::StrCat("honed is not up: ", daemon->Log()));
}

DaemonProcess::DaemonProcess(Subprocess process, std::string socket_path, std::string log_path)
    : process_(std::move(process)),
      socket_path_(std::move(socket_path)),
      log_path_(std::move(log_path)) {}

std::shared_ptr<grpc::Channel> DaemonProcess::Channel() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + socket_path_, grpc::InsecureChannelCredentials(),
                                   arguments);
}

std::unique_ptr<v1::KernelService::Stub> DaemonProcess::Client() const {
  return v1::KernelService::NewStub(Channel());
}

v1::GetStatusResponse DaemonProcess::Status() const {
  grpc::ClientContext context;
  v1::GetStatusResponse response;
  const grpc::Status status = Client()->GetStatus(&context, {}, &response);
  if (!status.ok()) std::fprintf(stderr, "GetStatus: %s\n", status.error_message().c_str());
  return response;
}

v1::GetStatusResponse DaemonProcess::WaitForEngine() const {
  const auto client = Client();
  const absl::Time deadline = absl::Now() + kStartLimit;
  v1::GetStatusResponse response;
  do {
    grpc::ClientContext context;
    if (!client->GetStatus(&context, {}, &response).ok()) break;
    if (response.devices_size() == 0 || response.devices(0).state() != "probing") break;
    absl::SleepFor(absl::Milliseconds(5));
  } while (absl::Now() < deadline);
  return response;
}

void DaemonProcess::Signal(int signal) { kill(process_.pid(), signal); }

std::optional<ExitStatus> DaemonProcess::Wait(absl::Duration timeout) {
  return process_.Wait(Deadline::In(timeout));
}

std::string DaemonProcess::Log() const { return ReadFile(log_path_).value_or(""); }

}  // namespace hone
