#include "runtime/device/worker_profiler.h"

#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/support_program.h"
#include "runtime/worker/convert.h"
#include "runtime/worker/measure_convert.h"
#include "spdlog/spdlog.h"

namespace hone {
namespace {

namespace wire = v1::worker;

constexpr int kCpuIndex = -1;
// References are simple, not fast: on the CPU device a large one takes its time.
constexpr absl::Duration kReferenceTimeMin = absl::Seconds(120);
// The baseline is loaded under an id that callers do not use.
constexpr int64_t kBaselineId = -2;

std::string ExitText(const WorkerEnd& end) {
  std::string text = absl::StrCat("the worker ended with ", end.exit.ToString());
  if (!end.last_words.empty()) absl::StrAppend(&text, ": ", end.last_words);
  return text;
}

std::string At(const std::string& what) { return what.empty() ? "" : absl::StrCat(" at ", what); }

absl::Status StatusOf(const wire::MeasureReplyMessage& reply) {
  return reply.has_status() ? FromWire(reply.status()) : absl::OkStatus();
}

// One question to a worker of its own.
absl::StatusOr<wire::MeasureReplyMessage> AskOnce(const std::string& worker_program,
                                                  const wire::MeasureRequestMessage& request,
                                                  absl::Duration timeout,
                                                  absl::string_view what_failed) {
  HONE_ASSIGN_OR_RETURN(const auto worker, MeasureWorker::Start(worker_program));
  MeasureWorker::Outcome outcome =
      worker->Ask(request, MeasureLimits{.launch = timeout, .other = timeout});
  if (!outcome.reply) {
    return absl::UnavailableError(absl::StrCat(
        what_failed, ": ",
        outcome.end.timed_out ? absl::StrCat("no answer within ", absl::FormatDuration(timeout))
                              : ExitText(outcome.end)));
  }
  HONE_RETURN_IF_ERROR(StatusOf(*outcome.reply));
  worker->End();
  return *std::move(outcome.reply);
}

}  // namespace

absl::StatusOr<DeviceList> EnumerateDevices(const std::string& worker_program,
                                            absl::Duration timeout) {
  wire::MeasureRequestMessage request;
  request.set_enumerate(true);
  HONE_ASSIGN_OR_RETURN(const wire::MeasureReplyMessage reply,
                        AskOnce(worker_program, request, timeout, "devices cannot be listed"));
  DeviceList list;
  for (const wire::WireDeviceInfo& device : reply.enumerate().devices()) {
    DeviceInfo info = FromWire(device);
    if (info.fingerprint.kind == "cuda") {
      list.cuda.push_back(std::move(info));
    } else {
      list.cpu = std::move(info);
    }
  }
  list.detail = reply.enumerate().detail();
  return list;
}

absl::StatusOr<DeviceActivity> QueryDeviceActivity(const std::string& worker_program,
                                                   const DeviceInfo& device,
                                                   absl::Duration timeout) {
  wire::MeasureRequestMessage request;
  request.set_activity(device.fingerprint.kind == "cuda" ? device.index : kCpuIndex);
  HONE_ASSIGN_OR_RETURN(const wire::MeasureReplyMessage reply,
                        AskOnce(worker_program, request, timeout,
                                absl::StrCat("the activity of ", device.name, " cannot be told")));
  return DeviceActivity{.processes = reply.activity().processes(),
                        .used_bytes = reply.activity().used_bytes(),
                        .utilization_percent = reply.activity().utilization_percent()};
}

WorkerProfiler::WorkerProfiler(Options options) : options_(std::move(options)) {}

WorkerProfiler::~WorkerProfiler() { DropWorker(); }

// ---- The worker ---------------------------------------------------------------------------------

void WorkerProfiler::DropWorker() {
  worker_.reset();
  worker_pid_ = 0;
  begun_ = false;
  baseline_loaded_ = false;
  for (auto& [id, loaded] : loaded_) loaded = false;
  ran_ = 0;
  last_ran_ = -1;
}

absl::Status WorkerProfiler::EnsureWorker() {
  if (worker_ != nullptr && !worker_->Gone()) return absl::OkStatus();
  DropWorker();
  auto worker = MeasureWorker::Start(options_.worker_program);
  if (!worker.ok()) {
    return absl::UnavailableError(absl::StrCat("no measuring worker: ", worker.status().message()));
  }
  worker_ = *std::move(worker);
  worker_pid_ = worker_->pid();
  ++starts_;
  const absl::Status status = Open();
  if (!status.ok()) DropWorker();
  return status;
}

absl::StatusOr<wire::OpenRequest> WorkerProfiler::MakeOpenRequest() {
  wire::OpenRequest open;
  if (options_.device.fingerprint.kind != "cuda") {
    open.set_device_index(kCpuIndex);
    return open;
  }
  if (!support_) {
    HONE_ASSIGN_OR_RETURN(support_, CompileOwn(SupportProgram(options_.device.architecture),
                                               "the measuring lane's own kernels"));
  }
  open.set_device_index(options_.device.index);
  *open.mutable_support() = ToWire(*support_);
  return open;
}

absl::StatusOr<Artifact> WorkerProfiler::CompileOwn(const Program& program,
                                                    absl::string_view what) {
  CompileOptions compile;
  compile.priority = CompilePriority::kInteractive;
  compile.driver_version = options_.device.driver_version;
  HONE_ASSIGN_OR_RETURN(CompileOutcome outcome, options_.compiler->Compile(program, compile));
  if (!outcome.artifact) {
    return absl::InternalError(absl::StrCat(
        what, " do not compile: ", outcome.rejection ? outcome.rejection->detail : outcome.log));
  }
  return *std::move(outcome.artifact);
}

absl::Status WorkerProfiler::Open() {
  wire::MeasureRequestMessage request;
  HONE_ASSIGN_OR_RETURN(*request.mutable_open(), MakeOpenRequest());
  const MeasureWorker::Outcome outcome = worker_->Ask(request, limits_);
  if (!outcome.reply) {
    return absl::UnavailableError(absl::StrCat("device ", options_.device.index, " (",
                                               options_.device.name,
                                               ") cannot be opened: ", ExitText(outcome.end)));
  }
  spdlog::debug("measure_worker_started pid={} device={}", worker_->pid(), options_.device.name);
  return StatusOf(*outcome.reply);
}

void WorkerProfiler::Tell(const Request& request) {
  if (worker_ == nullptr) return;
  const MeasureWorker::Outcome outcome = worker_->Ask(request, limits_);
  // A worker that fails even at this is replaced at the next request.
  if (!outcome.reply) DropWorker();
}

absl::StatusOr<DeviceCeilings> WorkerProfiler::MeasureCeilings(int64_t memory_bytes_max) {
  End();
  if (options_.compiler == nullptr) {
    return absl::UnimplementedError("this lane has no compiler for the kernels of ceilings");
  }
  Request request;
  HONE_ASSIGN_OR_RETURN(const Artifact kernels,
                        CompileOwn(CeilingProgram(options_.device.architecture),
                                   "the kernels that measure ceilings"));
  *request.mutable_ceilings()->mutable_kernels() = ToWire(kernels);
  request.mutable_ceilings()->set_memory_bytes_max(memory_bytes_max);
  HONE_RETURN_IF_ERROR(EnsureWorker());
  const MeasureWorker::Outcome outcome = worker_->Ask(request, MeasureLimits());
  absl::Status status =
      outcome.reply
          ? StatusOf(*outcome.reply)
          : absl::UnavailableError(absl::StrCat("measuring ceilings: ", ExitText(outcome.end)));
  if (!status.ok()) {
    // Whatever went wrong was not a candidate's doing, and must not become one's.
    DropWorker();
    return status;
  }
  HONE_ASSIGN_OR_RETURN(DeviceCeilings ceilings, FromWire(outcome.reply->ceilings()));
  ceilings.driver = options_.device.driver;
  ceilings.measured_at_unix_ms = absl::ToUnixMillis(absl::Now());
  return ceilings;
}

void WorkerProfiler::Release() {
  begin_.reset();
  loaded_.clear();
  checks_.clear();
  baseline_.reset();
  if (worker_ != nullptr) worker_->End();
  DropWorker();
}

// ---- The problem --------------------------------------------------------------------------------

absl::Status WorkerProfiler::Begin(const ProfileProblem& problem) {
  End();
  Request request;
  *request.mutable_begin() = ToWire(problem);
  begin_ = std::move(request);
  limits_.launch = problem.launch_timeout;
  has_reference_ = problem.check.verifies();
  absl::Status status = EnsureWorker();
  if (status.ok()) status = SendBegin();
  // The worker was idle; it may have died meanwhile without anybody's fault.
  if (absl::IsUnavailable(status)) status = EnsureWorker();
  if (status.ok() && !begun_) status = SendBegin();
  if (!status.ok()) begin_.reset();
  return status;
}

absl::Status WorkerProfiler::SendBegin() {
  MeasureLimits limits = limits_;
  limits.launch = std::max(limits.launch, kReferenceTimeMin);
  const MeasureWorker::Outcome outcome = worker_->Ask(*begin_, limits);
  if (!outcome.reply) {
    DropWorker();
    if (!outcome.end.launching && !outcome.end.timed_out) {
      return absl::UnavailableError(absl::StrCat("preparing the problem: ", ExitText(outcome.end)));
    }
    const std::string what =
        outcome.end.launching ? outcome.end.what : std::string("preparing the problem");
    return absl::InternalError(
        outcome.end.timed_out
            ? absl::StrCat(
                  what, " did not end within ",
                  absl::FormatDuration(outcome.end.launching ? limits.launch : limits.other))
            : absl::StrCat(what, ": ", ExitText(outcome.end)));
  }
  if (outcome.reply->device_lost()) DropWorker();
  const absl::Status status = StatusOf(*outcome.reply);
  begun_ = status.ok();
  return status;
}

absl::Status WorkerProfiler::EnsureProblem() {
  if (!begin_) return absl::InternalError("no problem was begun");
  HONE_RETURN_IF_ERROR(EnsureWorker());
  if (!begun_) HONE_RETURN_IF_ERROR(SendBegin());
  if (!baseline_ || baseline_loaded_) return absl::OkStatus();
  // It was accepted before; now it becomes the measure again before any other candidate is checked.
  HONE_ASSIGN_OR_RETURN(const Answer answer, AskAbout(kBaselineId, *baseline_));
  if (answer.rejection || answer.reply->check().has_rejection()) {
    DropWorker();
    return absl::InternalError(absl::StrCat(
        "the candidate that the others are compared with failed when it was run again: ",
        answer.rejection ? answer.rejection->detail : answer.reply->check().rejection().detail()));
  }
  baseline_loaded_ = true;
  return absl::OkStatus();
}

void WorkerProfiler::Forget(int64_t candidate_id) {
  checks_.erase(candidate_id);
  const auto found = loaded_.find(candidate_id);
  if (found == loaded_.end()) return;
  const bool in_worker = found->second;
  loaded_.erase(found);
  if (!in_worker) return;
  Request request;
  request.set_forget(candidate_id);
  Tell(request);
}

void WorkerProfiler::End() {
  const bool tell = begun_;
  begin_.reset();
  begun_ = false;
  loaded_.clear();
  checks_.clear();
  baseline_.reset();
  baseline_loaded_ = false;
  ran_ = 0;
  last_ran_ = -1;
  if (!tell) return;
  Request request;
  request.set_end(true);
  Tell(request);
}

// ---- Candidates ---------------------------------------------------------------------------------

Rejection WorkerProfiler::Verdict(const WorkerEnd& end) const {
  Rejection rejection;
  if (end.timed_out) {
    rejection.kind = RejectionKind::kTimeout;
    rejection.detail = absl::StrCat(
        "did not end within ", absl::FormatDuration(end.launching ? limits_.launch : limits_.other),
        At(end.what));
    rejection.limit = absl::ToInt64Milliseconds(end.launching ? limits_.launch : limits_.other);
    return rejection;
  }
  const bool bad_address = end.exit.signal == SIGSEGV || end.exit.signal == SIGBUS;
  rejection.kind = bad_address ? RejectionKind::kIllegalAccess : RejectionKind::kCrash;
  rejection.detail = absl::StrCat(ExitText(end), At(end.what));
  return rejection;
}

absl::StatusOr<WorkerProfiler::Answer> WorkerProfiler::AskAbout(int64_t id,
                                                                const Request& request) {
  const bool others_ran = ran_ > 1 || (ran_ == 1 && last_ran_ != id);
  if (last_ran_ != id) ++ran_;
  last_ran_ = id;
  MeasureWorker::Outcome outcome = worker_->Ask(request, limits_);
  Answer answer;
  if (!outcome.reply) {
    answer.rejection = Verdict(outcome.end);
    // Damage done before by others, or a kill from outside: not this candidate's doing.
    answer.worth_repeating = !outcome.end.timed_out && (others_ran || !outcome.end.launching ||
                                                        outcome.end.exit.signal == SIGKILL);
    spdlog::info("measure_worker_replaced pid={} reason={} detail=\"{}\"", worker_->pid(),
                 Name(answer.rejection->kind), answer.rejection->detail);
    DropWorker();
    return answer;
  }
  const absl::Status status = StatusOf(*outcome.reply);
  if (outcome.reply->device_lost()) {
    spdlog::info("measure_worker_replaced pid={} reason=device_lost", worker_->pid());
    DropWorker();
  }
  HONE_RETURN_IF_ERROR(status);
  answer.reply = std::move(outcome.reply);
  return answer;
}

absl::StatusOr<WorkerProfiler::Answer> WorkerProfiler::TryCheck(int64_t id,
                                                                const Request& request) {
  HONE_RETURN_IF_ERROR(EnsureProblem());
  return AskAbout(id, request);
}

absl::StatusOr<CheckResult> WorkerProfiler::Check(const ProfileCandidate& candidate) {
  Request request;
  *request.mutable_check() = ToWire(candidate);
  HONE_ASSIGN_OR_RETURN(Answer answer, TryCheck(candidate.id, request));
  if (answer.worth_repeating) {
    HONE_ASSIGN_OR_RETURN(answer, TryCheck(candidate.id, request));
  }
  CheckResult result;
  if (answer.reply) {
    HONE_ASSIGN_OR_RETURN(result, FromWire(answer.reply->check()));
  } else {
    result.rejection = std::move(answer.rejection);
  }
  if (result.rejection) return result;
  request.mutable_check()->clear_check_sizes();
  if (!has_reference_ && !baseline_) {
    baseline_ = request;
    baseline_->mutable_check()->set_id(kBaselineId);
    baseline_loaded_ = true;  // under the caller's id: the lane keeps it for the whole problem
  }
  checks_[candidate.id] = std::move(request);
  loaded_[candidate.id] = worker_ != nullptr;
  return result;
}

absl::StatusOr<WorkerProfiler::Answer> WorkerProfiler::EnsureLoaded(int64_t id) {
  HONE_RETURN_IF_ERROR(EnsureProblem());
  Answer answer;
  if (loaded_.at(id)) return answer;
  HONE_ASSIGN_OR_RETURN(answer, AskAbout(id, checks_.at(id)));
  if (answer.rejection) return answer;
  HONE_ASSIGN_OR_RETURN(const CheckResult result, FromWire(answer.reply->check()));
  answer.rejection = result.rejection;
  loaded_[id] = !result.rejection && worker_ != nullptr;
  return answer;
}

absl::StatusOr<WorkerProfiler::Answer> WorkerProfiler::TrySample(int64_t id, int count) {
  HONE_ASSIGN_OR_RETURN(Answer loaded, EnsureLoaded(id));
  if (loaded.rejection) return loaded;
  Request request;
  request.mutable_sample()->set_id(id);
  request.mutable_sample()->set_count(count);
  return AskAbout(id, request);
}

absl::StatusOr<SampleResult> WorkerProfiler::Sample(int64_t candidate_id, int count) {
  if (!checks_.contains(candidate_id)) {
    return absl::InternalError(absl::StrCat("Sample of candidate ", candidate_id,
                                            ", which was not checked or was rejected"));
  }
  HONE_ASSIGN_OR_RETURN(Answer answer, TrySample(candidate_id, count));
  if (answer.worth_repeating) {
    HONE_ASSIGN_OR_RETURN(answer, TrySample(candidate_id, count));
  }
  SampleResult result;
  if (answer.rejection) {
    result.rejection = std::move(answer.rejection);
  } else {
    HONE_ASSIGN_OR_RETURN(result, FromWire(answer.reply->sample()));
  }
  if (result.rejection) {
    checks_.erase(candidate_id);
    loaded_.erase(candidate_id);
  }
  return result;
}

}  // namespace hone
