// The measuring lane over a worker process: what runs foreign kernels can be killed.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/v1/worker.pb.h"
#include "runtime/compile/compiler.h"
#include "runtime/device/device_activity.h"
#include "runtime/device/measure_worker.h"
#include "runtime/device/profiler.h"

namespace hone {

struct DeviceList {
  std::vector<DeviceInfo> cuda;  // in the driver's order
  DeviceInfo cpu;                // the reference device; always there
  std::string detail;            // why CUDA devices are missing, when that is a fault
};

// Asks a worker, so that this process never loads the CUDA driver; no context is made.
absl::StatusOr<DeviceList> EnumerateDevices(const std::string& worker_program,
                                            absl::Duration timeout = absl::Seconds(30));

// Asks a worker that then leaves; no context is made. Errors as of EnumerateDevices.
absl::StatusOr<DeviceActivity> QueryDeviceActivity(const std::string& worker_program,
                                                   const DeviceInfo& device,
                                                   absl::Duration timeout = absl::Seconds(10));

// Starts `hone-worker measure` when first needed and replaces it after a fault, a timeout or a
// crash; the problem is then begun again there, and candidates are loaded as they are sampled.
//
// A candidate is rejected for what happens while it runs. When the worker dies although other
// candidates ran in it before, who may have done the damage, it is run once more in a new worker,
// and that counts.
class WorkerProfiler : public Profiler {
 public:
  struct Options {
    std::string worker_program;
    DeviceInfo device;
    // Compiles the lane's own kernels for a CUDA device; not used for the CPU. Must outlive this
    // object.
    Compiler* compiler = nullptr;
  };
  explicit WorkerProfiler(Options options);
  ~WorkerProfiler() override;

  absl::StatusOr<DeviceInfo> Info() override { return options_.device; }
  void WarmUp() override { EnsureWorker().IgnoreError(); }
  absl::Status Begin(const ProfileProblem& problem) override;
  absl::StatusOr<CheckResult> Check(const ProfileCandidate& candidate) override;
  absl::StatusOr<SampleResult> Sample(int64_t candidate_id, int count) override;
  void Forget(int64_t candidate_id) override;
  void End() override;
  absl::StatusOr<DeviceCeilings> MeasureCeilings(int64_t memory_bytes_max) override;
  void Release() override;

  // Of the running worker; 0 when there is none. Thread-safe.
  pid_t worker_pid() const { return worker_pid_; }
  // Workers started so far. Thread-safe.
  int64_t starts() const { return starts_; }

 private:
  using Reply = v1::worker::MeasureReplyMessage;
  using Request = v1::worker::MeasureRequestMessage;
  // What a request about one candidate came to: a reply, a verdict, or (a Status) the lane's
  // failure.
  struct Answer {
    std::optional<Reply> reply;
    std::optional<Rejection> rejection;
    bool worth_repeating = false;
  };

  absl::Status EnsureWorker();
  absl::Status Open();
  absl::StatusOr<v1::worker::OpenRequest> MakeOpenRequest();
  // A program of ours for the device. `what` it is, for the error.
  absl::StatusOr<Artifact> CompileOwn(const Program& program, absl::string_view what);
  // The problem is begun in the running worker, and so is the candidate all others are compared
  // with.
  absl::Status EnsureProblem();
  absl::Status SendBegin();
  // The candidate is loaded in the running worker.
  absl::StatusOr<Answer> EnsureLoaded(int64_t id);
  absl::StatusOr<Answer> AskAbout(int64_t id, const Request& request);
  absl::StatusOr<Answer> TryCheck(int64_t id, const Request& request);
  absl::StatusOr<Answer> TrySample(int64_t id, int count);
  Rejection Verdict(const WorkerEnd& end) const;
  // A request whose failure does not matter.
  void Tell(const Request& request);
  void DropWorker();

  const Options options_;
  std::optional<Artifact> support_;
  std::unique_ptr<MeasureWorker> worker_;
  std::atomic<pid_t> worker_pid_{0};
  std::atomic<int64_t> starts_{0};

  // The problem under way; absent between End and Begin.
  std::optional<Request> begin_;
  MeasureLimits limits_;
  bool has_reference_ = false;
  bool begun_ = false;                 // in the running worker
  std::map<int64_t, bool> loaded_;     // candidates: in the running worker or not
  std::map<int64_t, Request> checks_;  // without check sizes: to load again
  std::optional<Request> baseline_;    // the first accepted candidate, when there is no reference
  bool baseline_loaded_ = false;
  int64_t ran_ = 0;  // candidates run in the running worker
  int64_t last_ran_ = -1;
};

}  // namespace hone
