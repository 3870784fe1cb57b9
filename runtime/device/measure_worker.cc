#include "runtime/device/measure_worker.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/utf8.h"

namespace hone {
namespace {

namespace wire = v1::worker;

constexpr off_t kLastWordsBytes = 512;
// A process with a CUDA context needs a while to leave.
constexpr absl::Duration kLeaveTime = absl::Seconds(5);
// A worker that closed its socket is about to end by itself; its signal or code tells why.
constexpr absl::Duration kEndTime = absl::Seconds(2);

std::vector<std::string> Environment() {
  // A fault while measuring must not reach the clients of somebody else's MPS. Without the variable
  // a process joins the MPS at the default place, so it is pointed at none.
  std::vector<std::string> environment = EnvironmentWithout({"CUDA_MPS_", "NVRTC_"});
  environment.push_back("CUDA_MPS_PIPE_DIRECTORY=/dev/null");
  return environment;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MeasureWorker>> MeasureWorker::Start(const std::string& program) {
  // Standard error goes to memory, where it can be read after a crash and fills no disk.
  UniqueFd standard_error(::memfd_create("hone-measure-stderr", MFD_CLOEXEC));
  if (!standard_error.valid()) return ErrnoStatus(errno, "memfd_create");
  Subprocess::Options spawn;
  spawn.program = program;
  spawn.arguments = {"measure"};
  spawn.environment = Environment();
  spawn.stderr_fd = standard_error.get();
  HONE_ASSIGN_OR_RETURN(Subprocess process, Subprocess::Spawn(spawn));
  return std::unique_ptr<MeasureWorker>(
      new MeasureWorker(std::move(process), std::move(standard_error)));
}

MeasureWorker::MeasureWorker(Subprocess process, UniqueFd standard_error)
    : process_(std::move(process)),
      channel_(std::move(process_.socket())),
      standard_error_(std::move(standard_error)) {}

MeasureWorker::~MeasureWorker() { process_.Kill(); }

void MeasureWorker::End() {
  channel_.Close();
  if (!process_.Wait(Deadline::In(kLeaveTime))) process_.Kill();
}

MeasureWorker::Outcome MeasureWorker::Ask(const wire::MeasureRequestMessage& request,
                                          const MeasureLimits& limits) {
  wire::MeasurePhase phase;
  Outcome outcome;
  const absl::Status sent = channel_.Send(request.SerializeAsString(), Deadline::In(limits.other));
  if (!sent.ok()) {
    outcome.end = Ended(sent, phase);
    return outcome;
  }
  while (true) {
    const auto message =
        channel_.Receive(Deadline::In(phase.launching() ? limits.launch : limits.other));
    wire::MeasureReplyMessage reply;
    if (!message.ok() || !reply.ParseFromString(*message)) {
      outcome.end = Ended(message.status(), phase);
      return outcome;
    }
    if (reply.kind_case() == wire::MeasureReplyMessage::kPhase) {
      phase = reply.phase();
      continue;
    }
    outcome.reply = std::move(reply);
    return outcome;
  }
}

WorkerEnd MeasureWorker::Ended(const absl::Status& status, const wire::MeasurePhase& phase) {
  WorkerEnd end;
  end.launching = phase.launching();
  end.what = phase.what();
  end.timed_out = absl::IsDeadlineExceeded(status);
  std::optional<ExitStatus> exit;
  if (absl::IsUnavailable(status)) exit = process_.Wait(Deadline::In(kEndTime));
  end.exit = exit ? *exit : process_.Kill();
  end.last_words = LastWords();
  return end;
}

std::string MeasureWorker::LastWords() const {
  struct stat info = {};
  if (::fstat(standard_error_.get(), &info) != 0 || info.st_size == 0) return "";
  const off_t begin = std::max<off_t>(0, info.st_size - kLastWordsBytes);
  std::string text(static_cast<size_t>(info.st_size - begin), '\0');
  const ssize_t got = ::pread(standard_error_.get(), text.data(), text.size(), begin);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  absl::StripAsciiWhitespace(&text);
  return ReplaceInvalidUtf8(absl::StrReplaceAll(text, {{"\n", "; "}, {std::string(1, '\0'), ""}}));
}

}  // namespace hone
