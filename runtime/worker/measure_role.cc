#include "runtime/worker/measure_role.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "runtime/base/framed_channel.h"
#include "runtime/base/status_macros.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/cpu_facts.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_devices.h"
#include "runtime/device/ceilings.h"
#include "runtime/device/device_profiler.h"
#include "runtime/worker/convert.h"
#include "runtime/worker/measure_convert.h"
#include "runtime/worker/sandbox.h"

namespace hone {
namespace {

namespace wire = v1::worker;

constexpr int kCpuIndex = -1;

// No driver or no device is how most machines are; anything else is worth a word.
bool IsAbsence(const absl::Status& status) {
  return absl::StrContains(status.message(), "no CUDA driver") ||
         absl::StrContains(status.message(), "CUDA_ERROR_NO_DEVICE");
}

wire::EnumerateReply Enumerate() {
  wire::EnumerateReply reply;
  const auto devices = EnumerateCudaDevices();
  if (devices.ok()) {
    for (const DeviceInfo& info : *devices) *reply.add_devices() = ToWire(info);
  } else if (!IsAbsence(devices.status())) {
    reply.set_detail(std::string(devices.status().message()));
  }
  *reply.add_devices() = ToWire(ReadCpuInfo());
  return reply;
}

class MeasureServer {
 public:
  explicit MeasureServer(FramedChannel channel) : channel_(std::move(channel)) {}

  // OK when the peer has closed.
  absl::Status Serve() {
    while (true) {
      absl::StatusOr<std::string> message = channel_.Receive(Deadline::Never());
      if (absl::IsUnavailable(message.status())) return absl::OkStatus();
      HONE_RETURN_IF_ERROR(message.status());
      wire::MeasureRequestMessage request;
      if (!request.ParseFromString(*message)) {
        return absl::InvalidArgumentError("the request cannot be read");
      }
      // The text may hold a large artifact; the request has its own copy.
      message->clear();
      wire::MeasureReplyMessage reply;
      const absl::Status status = Answer(request, reply);
      if (!status.ok()) *reply.mutable_status() = ToWire(status);
      reply.set_device_lost(profiler_ != nullptr && profiler_->device_lost());
      HONE_RETURN_IF_ERROR(channel_.Send(reply.SerializeAsString(), Deadline::Never()));
      // A dead context does not tear down in order.
      if (reply.device_lost()) ::_exit(0);
    }
  }

 private:
  absl::Status Answer(const wire::MeasureRequestMessage& request,
                      wire::MeasureReplyMessage& reply) {
    switch (request.kind_case()) {
      case wire::MeasureRequestMessage::kEnumerate:
        *reply.mutable_enumerate() = Enumerate();
        return absl::OkStatus();
      case wire::MeasureRequestMessage::kActivity: {
        DeviceActivity activity;
        if (request.activity() == kCpuIndex) {
          activity = CpuActivity();
        } else {
          HONE_ASSIGN_OR_RETURN(activity, CudaDeviceActivity(request.activity()));
        }
        reply.mutable_activity()->set_processes(activity.processes);
        reply.mutable_activity()->set_used_bytes(activity.used_bytes);
        reply.mutable_activity()->set_utilization_percent(activity.utilization_percent);
        return absl::OkStatus();
      }
      case wire::MeasureRequestMessage::kOpen:
        return Open(request.open(), reply);
      default:
        if (profiler_ == nullptr) return absl::FailedPreconditionError("no device is open");
        return AnswerMeasuring(request, reply);
    }
  }

  absl::Status AnswerMeasuring(const wire::MeasureRequestMessage& request,
                               wire::MeasureReplyMessage& reply) {
    switch (request.kind_case()) {
      case wire::MeasureRequestMessage::kBegin: {
        HONE_ASSIGN_OR_RETURN(const ProfileProblem problem, FromWire(request.begin()));
        return profiler_->Begin(problem);
      }
      case wire::MeasureRequestMessage::kCheck: {
        HONE_ASSIGN_OR_RETURN(const ProfileCandidate candidate, FromWire(request.check()));
        HONE_ASSIGN_OR_RETURN(const CheckResult result, profiler_->Check(candidate));
        *reply.mutable_check() = ToWire(result);
        return absl::OkStatus();
      }
      case wire::MeasureRequestMessage::kSample: {
        HONE_ASSIGN_OR_RETURN(const SampleResult result,
                              profiler_->Sample(request.sample().id(), request.sample().count()));
        *reply.mutable_sample() = ToWire(result);
        return absl::OkStatus();
      }
      case wire::MeasureRequestMessage::kForget:
        profiler_->Forget(request.forget());
        return absl::OkStatus();
      case wire::MeasureRequestMessage::kEnd:
        profiler_->End();
        return absl::OkStatus();
      case wire::MeasureRequestMessage::kCeilings: {
        HONE_ASSIGN_OR_RETURN(const Artifact kernels, FromWire(request.ceilings().kernels()));
        profiler_->End();
        DeviceCeilings ceilings;
        HONE_ASSIGN_OR_RETURN(
            ceilings.ceilings,
            MeasureCeilings(*device_, kernels, request.ceilings().memory_bytes_max()));
        ceilings.clock_mhz = device_->Condition().clock_mhz;
        *reply.mutable_ceilings() = ToWire(ceilings);
        return absl::OkStatus();
      }
      default:
        return absl::InvalidArgumentError("the request says nothing");
    }
  }

  absl::Status Open(const wire::OpenRequest& request, wire::MeasureReplyMessage& reply) {
    if (profiler_ != nullptr) return absl::FailedPreconditionError("a device is open already");
    if (request.device_index() == kCpuIndex) {
      device_ = MakeCpuDevice();
    } else {
      HONE_ASSIGN_OR_RETURN(const Artifact support, FromWire(request.support()));
      HONE_ASSIGN_OR_RETURN(device_, MakeCudaDevice(request.device_index(), support));
    }
    profiler_ = std::make_unique<DeviceProfiler>(device_.get());
    profiler_->SetPhaseListener(
        [this](bool launching, const std::string& what) { SendPhase(launching, what); });
    *reply.mutable_open() = ToWire(device_->info());
    return absl::OkStatus();
  }

  void SendPhase(bool launching, const std::string& what) {
    wire::MeasureReplyMessage message;
    message.mutable_phase()->set_launching(launching);
    message.mutable_phase()->set_what(what);
    // Nobody listens any more: the reply would find no reader either.
    if (!channel_.Send(message.SerializeAsString(), Deadline::Never()).ok()) ::_exit(0);
  }

  FramedChannel channel_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceProfiler> profiler_;
};

}  // namespace

int RunMeasureRole(int socket) {
  // The watcher tells a bad address from other ends by the signal: no library's or sanitizer's
  // handler may turn it into an exit code.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(fault, SIG_DFL);
  ExitWhenPeerCloses(socket);
  const absl::Status status = MeasureServer(FramedChannel(UniqueFd(socket))).Serve();
  if (status.ok()) return 0;
  spdlog::error("measure role ended status={}", status.ToString());
  return 1;
}

}  // namespace hone
