// honed: the composition root's shell. Settings, signals and exit codes.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "server/config.h"
#include "server/daemon.h"
#include "server/logging.h"
#include "server/notify.h"

namespace hone {
namespace {

// Drain's own bound plus what closing the store may take.
constexpr absl::Duration kTeardownMargin = absl::Seconds(2);

// Each connection and each worker takes descriptors; the hard limit is what the administrator
// allows.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Blocks the signals that end the daemon, for this thread and all to come, and returns a descriptor
// that tells of them.
int WatchSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);  // the terminal went away
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &signals, SFD_CLOEXEC);
}

// The next signal, or 0 when `timeout` passes first.
int NextSignal(int fd, absl::Duration timeout) {
  pollfd wait{fd, POLLIN, 0};
  const int timeout_ms = timeout == absl::InfiniteDuration()
                             ? -1
                             : static_cast<int>(absl::ToInt64Milliseconds(timeout));
  signalfd_siginfo info{};
  if (poll(&wait, 1, timeout_ms) <= 0) return 0;
  if (read(fd, &info, sizeof(info)) != sizeof(info)) return 0;
  return static_cast<int>(info.ssi_signo);
}

// Ends the daemon in an orderly way, within its bound; a second signal ends the process at once.
void DrainAndExit(std::unique_ptr<Daemon> daemon, const DaemonConfig& config, int signals) {
  std::thread teardown([&daemon] {
    daemon->Drain();
    daemon.reset();
    LogEvent("stopped").Write();
    // The rest of the process has nothing left to do that this thread should wait for.
    _exit(0);
  });
  const int second = NextSignal(signals, config.drain_timeout + kTeardownMargin);
  LogEvent("drain_cut_short")
      .Add("reason", second != 0 ? "a second signal" : "the drain timeout passed")
      .Write(spdlog::level::warn);
  // What was acknowledged is on disk; workers end with their sockets.
  _exit(second != 0 ? 128 + second : 0);
}

int Main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const ConfigOutcome outcome = LoadConfig(arguments, ConfigEnvironment::OfProcess());
  if (outcome.exit_code.has_value()) {
    std::fputs(outcome.text.c_str(), *outcome.exit_code == 0 ? stdout : stderr);
    return *outcome.exit_code;
  }
  const DaemonConfig& config = outcome.config;
  StartLogging(config.log_level, config.log_format);
  RaiseFileLimit();
  const int signals = WatchSignals();

  auto daemon = Daemon::Start(config, HONE_VERSION);
  if (!daemon.ok()) {
    std::fprintf(stderr, "honed: %s\n", std::string(daemon.status().message()).c_str());
    return ExitCodeOf(daemon.status());
  }
  LogEvent("ready")
      .Add("listen", config.listen)
      .Add("cache_dir", config.cache_dir)
      .Add("kernels", config.kernels_dir)
      .Add("version", HONE_VERSION)
      .Add("pid", static_cast<int64_t>(getpid()))
      .Write();
  NotifyManager("READY=1");

  int signal = 0;
  while (signal == 0) signal = NextSignal(signals, absl::InfiniteDuration());
  LogEvent("draining").Add("signal", static_cast<int64_t>(signal)).Write();
  NotifyManager("STOPPING=1");
  DrainAndExit(*std::move(daemon), config, signals);
  return 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) { return hone::Main(argc, argv); }
