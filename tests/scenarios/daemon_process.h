// A real honed in a directory of its own, for tests and benchmarks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "hone/v1/kernel_service.grpc.pb.h"
#include "runtime/base/files.h"
#include "runtime/base/subprocess.h"

namespace hone {

// The program `name` in $HONE_BIN; aborts when it is not there.
std::string BinaryPath(const std::string& name);
// tests/scenarios/templates beside $HONE_KERNELS.
std::string ScenarioTemplates();

struct DaemonOptions {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=value, besides what is needed to run
  std::string device = "cpu";
  std::string kernels;  // the catalog; empty: hone's own
  int file_limit = 0;   // of open files, soft and hard; 0: this process's
};

// One daemon's life. Its directory (cache, socket) outlives it when the caller keeps it.
class DaemonProcess {
 public:
  // Starts it on `directory`/cache and `directory`/s and waits until the socket answers.
  static absl::StatusOr<std::unique_ptr<DaemonProcess>> Start(const std::string& directory,
                                                              DaemonOptions options = {});
  // Starts it without waiting; for daemons that are expected to refuse.
  static absl::StatusOr<std::unique_ptr<DaemonProcess>> Launch(const std::string& directory,
                                                               DaemonOptions options = {});
  // Kills what still runs.
  ~DaemonProcess() = default;

  std::unique_ptr<v1::KernelService::Stub> Client() const;
  std::shared_ptr<grpc::Channel> Channel() const;
  // Waits until devices and compilers are known.
  v1::GetStatusResponse WaitForEngine() const;
  v1::GetStatusResponse Status() const;

  void Signal(int signal);
  void Kill() { process_.Kill(); }
  // How it ended; nullopt when it still runs after `timeout`.
  std::optional<ExitStatus> Wait(absl::Duration timeout = absl::Seconds(30));
  // Everything it wrote to standard error so far.
  std::string Log() const;

  pid_t pid() const { return process_.pid(); }
  // From exec to the first answered call.
  absl::Duration ready_after() const { return ready_after_; }
  const std::string& socket_path() const { return socket_path_; }

 private:
  DaemonProcess(Subprocess process, std::string socket_path, std::string log_path);

  Subprocess process_;
  const std::string socket_path_;
  const std::string log_path_;
  absl::Duration ready_after_ = absl::ZeroDuration();
};

}  // namespace hone
