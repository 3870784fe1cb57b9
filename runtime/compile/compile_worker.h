// One hone-worker in the compile role, as the daemon holds it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/framed_channel.h"
#include "runtime/base/subprocess.h"
#include "runtime/base/unique_fd.h"
#include "runtime/compile/compiler.h"

namespace hone::v1::worker {
class CompileJob;
class CompileReplyMessage;
class CompileRequestMessage;
}  // namespace hone::v1::worker

namespace hone {

// Not thread-safe, but for Abort. The destructor kills the process and removes its scratch
// directory.
class CompileWorker {
 public:
  struct Options {
    std::string program;                 // hone-worker
    std::vector<std::string> arguments;  // of the compile role, without --scratch
    std::string scratch_directory;       // made here, removed at the end
    // Compiles at idle priority, in a session of its own.
    bool gives_way = false;
  };

  // Starts the process; it has not said anything yet.
  static absl::StatusOr<std::unique_ptr<CompileWorker>> Start(const Options& options);
  ~CompileWorker();

  // What the compiler in it is; CompilerInfo::available false says that it does not work. A Status:
  // the process did not start properly.
  absl::StatusOr<CompilerInfo> Describe(Deadline deadline);
  // OK when the compiler works; quicker than Describe. FAILED_PRECONDITION with the compiler's
  // reason.
  absl::Status Check(Deadline deadline);

  // One job. `limit` counts time on the wall without what the job's processes waited for a
  // processor, up to kStarvedFactor times as long: a busy machine is no fault of the source.
  // DEADLINE_EXCEEDED and UNAVAILABLE (the process ended) leave the worker useless: call End.
  static constexpr int kStarvedFactor = 10;
  absl::StatusOr<CompileOutcome> Compile(const v1::worker::CompileJob& job, absl::Duration limit);

  // Kills and reaps; returns how the process ended, if it was faster than the kill.
  ExitStatus End();
  // The last it wrote to standard error, at most 2 KiB, on one line.
  std::string LastWords() const;
  // Makes a Compile in another thread return UNAVAILABLE.
  void Abort();

  // Whether an idle worker has ended or misbehaves.
  bool Gone() const { return channel_.PeerGone(); }
  // Resident memory; 0 if unknown.
  int64_t ResidentBytes() const;
  int socket() const { return channel_.fd(); }
  pid_t pid() const { return process_.pid(); }
  int jobs() const { return jobs_; }

 private:
  CompileWorker(Subprocess process, UniqueFd standard_error, std::string scratch_directory);
  absl::StatusOr<v1::worker::CompileReplyMessage> Ask(
      const v1::worker::CompileRequestMessage& request, Deadline deadline);
  absl::StatusOr<v1::worker::CompileReplyMessage> ReadReply(Deadline deadline);
  absl::StatusOr<CompilerInfo> AskDescription(bool all, Deadline deadline);
  // False when the limit of Compile passed before anything came.
  bool AwaitReply(absl::Duration limit) const;

  Subprocess process_;
  FramedChannel channel_;
  UniqueFd standard_error_;
  std::string scratch_directory_;
  int jobs_ = 0;
};

}  // namespace hone
