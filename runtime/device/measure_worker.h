// One hone-worker in the measure role, as the daemon holds it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "hone/v1/worker.pb.h"
#include "runtime/base/framed_channel.h"
#include "runtime/base/subprocess.h"

namespace hone {

// How long the worker may be silent.
struct MeasureLimits {
  absl::Duration launch = absl::Seconds(10);  // while a kernel runs
  absl::Duration other = absl::Seconds(120);  // loading, filling, comparing
};

// What a request came to when there is no reply.
struct WorkerEnd {
  bool timed_out = false;  // of a launch; the worker was killed
  bool launching = false;  // a kernel was running
  std::string what;        // at which sizes, as the worker's last phase said
  ExitStatus exit;
  std::string last_words;  // the end of its standard error, on one line
};

// Not thread-safe. The destructor kills the process.
class MeasureWorker {
 public:
  // Starts the process without CUDA_MPS_ and with MPS opted out. UNAVAILABLE or NOT_FOUND.
  static absl::StatusOr<std::unique_ptr<MeasureWorker>> Start(const std::string& program);
  ~MeasureWorker();

  // The reply, its own status not looked at; or how the worker ended, after which it is of no use.
  struct Outcome {
    std::optional<v1::worker::MeasureReplyMessage> reply;
    WorkerEnd end;
  };
  Outcome Ask(const v1::worker::MeasureRequestMessage& request, const MeasureLimits& limits);

  // Closes the socket, which ends the process, and waits; kills it if that takes long.
  void End();
  bool Gone() const { return channel_.PeerGone(); }
  pid_t pid() const { return process_.pid(); }

 private:
  MeasureWorker(Subprocess process, UniqueFd standard_error);
  WorkerEnd Ended(const absl::Status& status, const v1::worker::MeasurePhase& phase);
  std::string LastWords() const;

  Subprocess process_;
  FramedChannel channel_;
  UniqueFd standard_error_;
};

}  // namespace hone
