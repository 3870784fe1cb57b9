// From a save to the first number under `hone tune DIR --watch`: copy_1d's directory is copied, its
// kernel saved again and again with another comment, and the time taken until the command prints
// the default config's time. usage: watch_bench [cpu|cuda]
//
// HONE_BIN names the directory of the programs, HONE_KERNELS the catalog.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/bench/bench_report.h"
#include "tests/scenarios/daemon_process.h"

namespace hone {
namespace {

constexpr int kSaves = 11;
constexpr int kIdleSaves = 3;
// The CPU device compiles a second for each of the other candidates before a tune ends.
constexpr int kCpuSaves = 2;
// Past the time after which an idle measuring worker leaves the device.
constexpr absl::Duration kIdle = absl::Seconds(12);
constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr char kN[] = "n=2^24";

// `hone tune DIR --watch` with its two outputs in one pipe.
class WatchingCommand {
 public:
  WatchingCommand(const std::string& endpoint, const std::string& directory) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    const std::string program = BinaryPath("hone");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      execl(program.c_str(), "hone", "--endpoint", endpoint.c_str(), "tune", directory.c_str(),
            "T=F32", kN, "--watch", nullptr);
      _exit(127);
    }
    close(ends[1]);
    from_ = ends[0];
  }
  ~WatchingCommand() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(from_);
  }

  // The next line that begins with `start`; false when none comes.
  bool AwaitLine(const std::string& start) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (absl::Now() < deadline) {
      const size_t end = text_.find('\n');
      if (end != std::string::npos) {
        const std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        seen_ += line + "\n";
        if (absl::StartsWith(line, start)) return true;
        continue;
      }
      pollfd waiting{from_, POLLIN, 0};
      if (poll(&waiting, 1, 1000) <= 0) continue;
      std::array<char, 4096> piece;
      const ssize_t got = read(from_, piece.data(), piece.size());
      if (got <= 0) return false;
      text_.append(piece.data(), static_cast<size_t>(got));
    }
    return false;
  }
  const std::string& seen() const { return seen_; }

 private:
  pid_t pid_ = -1;
  int from_ = -1;
  std::string text_, seen_;
};

class WatchBench {
 public:
  bool Start(const std::string& device) {
    const char* kernels = std::getenv("HONE_KERNELS");
    if (kernels == nullptr) return Fail("HONE_KERNELS is not set");
    daemon_ = DaemonProcess::Start(directory_.path(), {.device = device}).value();
    const v1::GetStatusResponse status = daemon_->WaitForEngine();
    if (status.devices().empty()) return Fail(absl::StrCat("no ", device, " device"));
    std::printf("device  %s, driver %s\n", status.devices(0).name().c_str(),
                status.devices(0).driver().c_str());
    template_ = JoinPath(directory_.path(), "copy_1d");
    if (!MakeDirectories(template_).ok()) return Fail("no directory");
    for (const char* name : {"template.pbtxt", "copy_1d.cu"}) {
      const auto text = ReadFile(JoinPath(JoinPath(kernels, "copy_1d"), name));
      if (!text.ok() || !WriteNewFile(JoinPath(template_, name), *text).ok()) {
        return Fail("copy_1d is not in HONE_KERNELS");
      }
      source_ = *text;  // of the last, the kernel
    }
    // A catalog template of this name and version exists: every save gets a version of its own.
    Save();
    command_ = std::make_unique<WatchingCommand>("unix:" + daemon_->socket_path(), template_);
    return AwaitDefault() && AwaitEnd();
  }

  // Seconds from the save to the number.
  double SaveToNumber() {
    const absl::Time begin = absl::Now();
    Save();
    if (!AwaitDefault()) return -1;
    return absl::ToDoubleSeconds(absl::Now() - begin);
  }
  // The tune has ended and the command waits for the next save.
  bool AwaitEnd() {
    return command_->AwaitLine("waiting for a save") || Fail("the command does not wait");
  }

  bool Fail(const std::string& why) {
    std::fprintf(stderr, "watch_bench: %s\n%s\n", why.c_str(),
                 command_ == nullptr ? "" : command_->seen().c_str());
    return false;
  }

 private:
  void Save() {
    const std::string path = JoinPath(template_, "copy_1d.cu");
    const std::string text = absl::StrCat(source_, "// save ", ++saves_, "\n");
    if (!WriteFileAtomic(path, text, 0644).ok()) std::abort();
  }

  // "default CONFIG" comes before the first candidate; then the line with its time.
  bool AwaitDefault() {
    if (!command_->AwaitLine("default ")) return Fail("no tune started");
    const std::string& seen = command_->seen();
    const size_t at = seen.rfind("default ") + 8;
    const std::string config = seen.substr(at, seen.find('\n', at) - at);
    return command_->AwaitLine(absl::StrCat(config, "  ")) || Fail("no time of the default config");
  }

  TemporaryDirectory directory_ = TemporaryDirectory::Create("/tmp", "hone").value();
  std::unique_ptr<DaemonProcess> daemon_;
  std::string template_, source_;
  int saves_ = 0;
  std::unique_ptr<WatchingCommand> command_;
};

int WatchMain(const std::string& device) {
  PrintMachine();
  WatchBench bench;
  if (!bench.Start(device)) return 1;
  std::vector<double> rested, busy, idle;
  const bool cpu = device == "cpu";
  for (int i = 0; i < (cpu ? kCpuSaves : kSaves); ++i) {
    rested.push_back(bench.SaveToNumber());
    // While the other candidates of this save are still being measured.
    busy.push_back(bench.SaveToNumber());
    if (rested.back() < 0 || busy.back() < 0 || !bench.AwaitEnd()) return 1;
  }
  for (int i = 0; i < (cpu ? 1 : kIdleSaves); ++i) {
    absl::SleepFor(kIdle);
    idle.push_back(bench.SaveToNumber());
    if (idle.back() < 0 || !bench.AwaitEnd()) return 1;
  }
  const auto figure = [](const char* name, const std::vector<double>& seconds) {
    PrintFigure(
        {.figure = absl::StrCat(name, "_p50"), .value = Percentile(seconds, 0.5), .unit = "s"});
    PrintFigure(
        {.figure = absl::StrCat(name, "_max"), .value = Percentile(seconds, 1), .unit = "s"});
  };
  figure("watch_save_to_number", rested);
  figure("watch_save_to_number_while_tuning", busy);
  figure("watch_save_to_number_after_idle", idle);
  return 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) { return hone::WatchMain(argc > 1 ? argv[1] : "cpu"); }
