#include "runtime/compile/compile_worker.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "hone/v1/worker.pb.h"
#include "runtime/base/files.h"
#include "runtime/base/processor_wait.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/utf8.h"
#include "runtime/worker/convert.h"

namespace hone {
namespace {

namespace wire = v1::worker;

constexpr off_t kLastWordsBytes = 2048;
constexpr absl::Duration kShortestTurn = absl::Milliseconds(50);

std::vector<std::string> Environment(const std::string& scratch_directory) {
  // NVRTC_* changes what NVRTC does; temporary files belong where the sandbox lets them be.
  std::vector<std::string> environment = EnvironmentWithout({"NVRTC_", "TMPDIR=", "TEMP=", "TMP="});
  environment.push_back(absl::StrCat("TMPDIR=", scratch_directory));
  return environment;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompileWorker>> CompileWorker::Start(const Options& options) {
  HONE_RETURN_IF_ERROR(MakeDirectories(options.scratch_directory, 0700));
  // Standard error goes to memory, where it can be read after a crash and fills no disk.
  UniqueFd standard_error(::memfd_create("hone-worker-stderr", MFD_CLOEXEC));
  if (!standard_error.valid()) return ErrnoStatus(errno, "memfd_create");
  Subprocess::Options spawn;
  spawn.program = options.program;
  spawn.arguments = {"compile"};
  spawn.arguments.insert(spawn.arguments.end(), options.arguments.begin(), options.arguments.end());
  spawn.arguments.push_back(absl::StrCat("--scratch=", options.scratch_directory));
  if (options.gives_way) spawn.arguments.emplace_back("--idle-priority");
  spawn.own_session = options.gives_way;
  spawn.environment = Environment(options.scratch_directory);
  spawn.stderr_fd = standard_error.get();
  absl::StatusOr<Subprocess> process = Subprocess::Spawn(spawn);
  if (!process.ok()) {
    RemoveTree(options.scratch_directory).IgnoreError();
    return process.status();
  }
  return std::unique_ptr<CompileWorker>(
      new CompileWorker(*std::move(process), std::move(standard_error), options.scratch_directory));
}

CompileWorker::CompileWorker(Subprocess process, UniqueFd standard_error,
                             std::string scratch_directory)
    : process_(std::move(process)),
      channel_(std::move(process_.socket())),
      standard_error_(std::move(standard_error)),
      scratch_directory_(std::move(scratch_directory)) {}

CompileWorker::~CompileWorker() {
  End();
  // Best effort: the pool's own directory is removed with the pool.
  RemoveTree(scratch_directory_).IgnoreError();
}

absl::StatusOr<wire::CompileReplyMessage> CompileWorker::Ask(
    const wire::CompileRequestMessage& request, Deadline deadline) {
  HONE_RETURN_IF_ERROR(channel_.Send(request.SerializeAsString(), deadline));
  return ReadReply(deadline);
}

absl::StatusOr<wire::CompileReplyMessage> CompileWorker::ReadReply(Deadline deadline) {
  HONE_ASSIGN_OR_RETURN(const std::string message, channel_.Receive(deadline));
  wire::CompileReplyMessage reply;
  if (!reply.ParseFromString(message)) {
    return absl::UnavailableError("the worker's reply cannot be read");
  }
  return reply;
}

absl::StatusOr<CompilerInfo> CompileWorker::AskDescription(bool all, Deadline deadline) {
  wire::CompileRequestMessage request;
  request.set_describe(all);
  HONE_ASSIGN_OR_RETURN(const wire::CompileReplyMessage reply, Ask(request, deadline));
  return FromWire(reply.describe());
}

absl::StatusOr<CompilerInfo> CompileWorker::Describe(Deadline deadline) {
  return AskDescription(true, deadline);
}

absl::Status CompileWorker::Check(Deadline deadline) {
  HONE_ASSIGN_OR_RETURN(const CompilerInfo info, AskDescription(false, deadline));
  return info.available ? absl::OkStatus() : absl::FailedPreconditionError(info.detail);
}

bool CompileWorker::AwaitReply(absl::Duration limit) const {
  const Deadline last = Deadline::In(kStarvedFactor * limit);
  const absl::Duration begin = MonotonicNow();
  const absl::Duration waited_before = ProcessorWait(process_.pid());
  absl::Duration waited;
  Deadline deadline = Deadline::In(limit);
  while (true) {
    pollfd reply = {channel_.fd(), POLLIN, 0};
    if (::poll(&reply, 1, deadline.remaining_poll_ms()) > 0) return true;
    if (!deadline.passed()) continue;
    // A process that has ended takes its share out of the sum.
    waited = std::max(waited, ProcessorWait(process_.pid()) - waited_before);
    const absl::Duration left = limit + waited - (MonotonicNow() - begin);
    if (left <= absl::ZeroDuration() || last.passed()) return false;
    // Enough of a turn to get somewhere; a starved process earns every moment that it waits.
    deadline = Deadline::In(std::min(std::max(left, kShortestTurn), last.remaining()));
  }
}

absl::StatusOr<CompileOutcome> CompileWorker::Compile(const wire::CompileJob& job,
                                                      absl::Duration limit) {
  ++jobs_;
  wire::CompileRequestMessage request;
  *request.mutable_compile() = job;
  HONE_RETURN_IF_ERROR(channel_.Send(request.SerializeAsString(), Deadline::In(limit)));
  if (!AwaitReply(limit)) return absl::DeadlineExceededError("no reply within the limit");
  HONE_ASSIGN_OR_RETURN(const wire::CompileReplyMessage reply, ReadReply(Deadline::In(limit)));
  return FromWire(reply.compile());
}

ExitStatus CompileWorker::End() { return process_.Kill(); }

void CompileWorker::Abort() { ::shutdown(channel_.fd(), SHUT_RDWR); }

std::string CompileWorker::LastWords() const {
  struct stat info = {};
  if (::fstat(standard_error_.get(), &info) != 0 || info.st_size == 0) return "";
  const off_t begin = std::max<off_t>(0, info.st_size - kLastWordsBytes);
  std::string text(static_cast<size_t>(info.st_size - begin), '\0');
  const ssize_t got = ::pread(standard_error_.get(), text.data(), text.size(), begin);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  absl::StripAsciiWhitespace(&text);
  return ReplaceInvalidUtf8(absl::StrReplaceAll(text, {{"\n", "; "}, {std::string(1, '\0'), ""}}));
}

int64_t CompileWorker::ResidentBytes() const {
  const auto statm = ReadKernelFile(absl::StrCat("/proc/", process_.pid(), "/statm"));
  if (!statm.ok()) return 0;
  const std::vector<std::string> fields = absl::StrSplit(*statm, ' ');
  int64_t pages = 0;
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &pages)) return 0;
  return pages * ::sysconf(_SC_PAGE_SIZE);
}

}  // namespace hone
