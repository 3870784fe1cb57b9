#include "runtime/compile/compile_pool.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "hone/v1/worker.pb.h"
#include "runtime/base/status_macros.h"
#include "runtime/compile/cubin.h"
#include "runtime/compile/nvrtc_locate.h"
#include "runtime/compile/parallelism.h"
#include "runtime/worker/convert.h"
#include "spdlog/spdlog.h"

namespace hone {
namespace {

constexpr char kScratchPrefix[] = "hone-compile";
constexpr char kLockName[] = "in-use";
constexpr absl::Duration kLongestLimit = absl::Hours(24);

absl::Duration LimitOf(const CompileOptions& options) {
  return std::clamp(options.timeout, absl::Milliseconds(1), kLongestLimit);
}

absl::StatusOr<UniqueFd> LockScratch(const std::string& directory) {
  const std::string path = JoinPath(directory, kLockName);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus(errno, "create", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return ErrnoStatus(errno, "lock", path);
  return fd;
}

// Removes what pools of killed processes left: directories of ours whose lock nobody holds.
void SweepScratch(const std::string& parent) {
  const auto names = ListDirectory(parent);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, absl::StrCat(kScratchPrefix, "-"))) continue;
    const std::string directory = JoinPath(parent, name);
    UniqueFd fd(::open(JoinPath(directory, kLockName).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!fd.valid() || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    // Best effort: it may belong to another user.
    if (RemoveTree(directory).ok()) spdlog::info("swept path={}", directory);
  }
}

std::string ParentDirectory(const std::string& configured) {
  if (!configured.empty()) return configured;
  const char* tmpdir = ::getenv("TMPDIR");
  return tmpdir != nullptr && *tmpdir != '\0' ? tmpdir : "/tmp";
}

CompileOutcome Rejected(RejectionKind kind, std::string detail) {
  CompileOutcome outcome;
  outcome.rejection = Rejection{kind, std::move(detail)};
  return outcome;
}

std::string Mebibytes(int64_t bytes) { return absl::StrCat(bytes >> 20, " MiB"); }

}  // namespace

// Registers the worker of a running job so that Shutdown can reach it.
class CompilePool::ActiveWorker {
 public:
  ActiveWorker(CompilePool& pool, CompileWorker* worker) : pool_(pool), worker_(worker) {
    MutexLock lock(&pool_.mutex_);
    pool_.active_.insert(worker_);
    if (pool_.shutting_down_) worker_->Abort();
  }
  ~ActiveWorker() {
    MutexLock lock(&pool_.mutex_);
    pool_.active_.erase(worker_);
  }
  ActiveWorker(const ActiveWorker&) = delete;
  ActiveWorker& operator=(const ActiveWorker&) = delete;

 private:
  CompilePool& pool_;
  CompileWorker* const worker_;
};

// Counts a caller in, so that Shutdown can wait for all of them.
class CompilePool::CallScope {
 public:
  explicit CallScope(CompilePool& pool) : pool_(pool) {
    MutexLock lock(&pool_.mutex_);
    ++pool_.calls_;
  }
  ~CallScope() {
    MutexLock lock(&pool_.mutex_);
    --pool_.calls_;
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  CompilePool& pool_;
};

absl::StatusOr<std::unique_ptr<CompilePool>> CompilePool::Create(CompilePoolOptions options) {
  if (options.worker_program.empty()) {
    options.worker_program = JoinPath(DirectoryName(ExecutablePath()), "hone-worker");
  }
  if (::access(options.worker_program.c_str(), X_OK) != 0) {
    return ErrnoStatus(errno, "worker program", options.worker_program);
  }
  options.scratch_directory = ParentDirectory(options.scratch_directory);
  SweepScratch(options.scratch_directory);
  HONE_ASSIGN_OR_RETURN(TemporaryDirectory scratch,
                        TemporaryDirectory::Create(options.scratch_directory, kScratchPrefix));
  HONE_ASSIGN_OR_RETURN(UniqueFd lock, LockScratch(scratch.path()));
  HONE_RETURN_IF_ERROR(MakeDirectories(JoinPath(scratch.path(), "sets"), 0700));
  if (options.parallelism <= 0) {
    options.parallelism =
        DefaultCompileParallelism(options.worker_memory_bytes_max, ReadCgroupLimits());
  }
  std::unique_ptr<CompilePool> pool(
      new CompilePool(std::move(options), std::move(scratch), std::move(lock)));
  pool->first_probe_ = std::thread([raw = pool.get()] { raw->registry_.Probe(); });
  return pool;
}

CompilePool::CompilePool(CompilePoolOptions options, TemporaryDirectory scratch,
                         UniqueFd scratch_lock)
    : options_(std::move(options)),
      scratch_(std::move(scratch)),
      scratch_lock_(std::move(scratch_lock)),
      header_sets_(JoinPath(scratch_.path(), "sets"), options_.header_sets),
      queue_(options_.parallelism, options_.queue_max),
      shelf_(options_.worker_idle, options_.parallelism),
      registry_([this] { return Locate(); },
                [this](const CompilerSpec& spec) { return Describe(spec); },
                options_.probe_interval) {}

CompilePool::~CompilePool() {
  Shutdown();
  if (first_probe_.joinable()) first_probe_.join();
}

void CompilePool::Shutdown() {
  {
    MutexLock lock(&mutex_);
    shutting_down_ = true;
    for (CompileWorker* worker : active_) worker->Abort();
  }
  queue_.Close();
  {
    MutexLock lock(&mutex_);
    const auto alone = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_ == 0; };
    mutex_.Await(absl::Condition(&alone));
  }
  shelf_.Clear();
}

bool CompilePool::shutting_down() const {
  MutexLock lock(&mutex_);
  return shutting_down_;
}

CompilerRegistry::Found CompilePool::Locate() const {
  std::vector<std::string> common = {
      absl::StrCat("--header-sets=", header_sets_.directory()),
      absl::StrCat("--memory-bytes=", options_.worker_memory_bytes_max)};

  CompilerRegistry::Found found;
  if (options_.nvrtc) {
    const NvrtcSearch search =
        LocateNvrtc(options_.nvrtc_directories, options_.cuda_include_directories);
    for (const NvrtcLocation& location : search.found) {
      CompilerSpec spec{absl::StrCat("nvrtc ", location.library), "nvrtc", common};
      spec.arguments.emplace_back("--compiler=nvrtc");
      spec.arguments.push_back(absl::StrCat("--library=", location.library));
      for (const std::string& include : location.include_directories) {
        spec.arguments.push_back(absl::StrCat("--include=", include));
      }
      found.specs.push_back(std::move(spec));
    }
    found.nothing_found =
        absl::StrCat("libnvrtc.so.* was not found in ", absl::StrJoin(search.searched, ", "));
  } else {
    found.nothing_found = "NVRTC is switched off";
  }
  if (options_.host) {
    CompilerSpec spec{"host", "host", common};
    spec.arguments.emplace_back("--compiler=host");
    if (!options_.host_compiler.empty()) {
      spec.arguments.push_back(absl::StrCat("--host-compiler=", options_.host_compiler));
    }
    for (const std::string& include : options_.cuda_include_directories) {
      spec.arguments.push_back(absl::StrCat("--include=", include));
    }
    found.specs.push_back(std::move(spec));
  }
  return found;
}

bool CompilePool::GivesWay(CompilePriority priority) const {
  return options_.idle_priority && priority != CompilePriority::kInteractive;
}

std::string CompilePool::ShelfOf(const CompilerSpec& spec, CompilePriority priority) const {
  return GivesWay(priority) ? spec.id + " (idle priority)" : spec.id;
}

absl::StatusOr<std::unique_ptr<CompileWorker>> CompilePool::StartWorker(const CompilerSpec& spec,
                                                                        CompilePriority priority) {
  CompileWorker::Options worker;
  worker.program = options_.worker_program;
  worker.arguments = spec.arguments;
  worker.gives_way = GivesWay(priority);
  {
    MutexLock lock(&mutex_);
    if (shutting_down_) return absl::UnavailableError("the compile pool is shutting down");
    worker.scratch_directory = JoinPath(scratch_.path(), absl::StrCat("worker-", next_worker_++));
    ++counts_.started_workers;
  }
  return CompileWorker::Start(worker);
}

CompilerInfo CompilePool::Describe(const CompilerSpec& spec) {
  CompilerInfo broken;
  broken.kind = spec.kind;
  absl::StatusOr<std::unique_ptr<CompileWorker>> worker =
      StartWorker(spec, CompilePriority::kInteractive);
  if (!worker.ok()) {
    broken.detail = std::string(worker.status().message());
    return broken;
  }
  absl::StatusOr<CompilerInfo> info = absl::InternalError("not asked");
  {
    const ActiveWorker active(*this, worker->get());
    info = (*worker)->Describe(Deadline::In(options_.start_timeout));
  }
  if (!info.ok()) {
    const ExitStatus end = (*worker)->End();
    broken.detail =
        absl::StrCat("the worker for ", spec.id, " did not start: ", info.status().message(), " (",
                     end.ToString(), "): ", (*worker)->LastWords());
    return broken;
  }
  // The first compile that somebody waits for finds it warm.
  if (info->available) {
    shelf_.Put(ShelfOf(spec, CompilePriority::kInteractive), *std::move(worker));
  }
  return *std::move(info);
}

absl::StatusOr<std::unique_ptr<CompileWorker>> CompilePool::GetWorker(const KnownCompiler& compiler,
                                                                      CompilePriority priority) {
  if (auto idle = shelf_.Take(ShelfOf(compiler.spec, priority)); idle != nullptr) return idle;
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<CompileWorker> worker,
                        StartWorker(compiler.spec, priority));
  const ActiveWorker active(*this, worker.get());
  const absl::Status works = worker->Check(Deadline::In(options_.start_timeout));
  if (works.ok()) return worker;
  if (shutting_down()) return absl::UnavailableError("the compile pool is shutting down");
  const ExitStatus end = worker->End();
  // Killed from outside while it started; that says nothing about the compiler.
  if (end.signal == SIGKILL && absl::IsUnavailable(works)) return works;
  const std::string detail =
      absl::StrCat("the worker for ", compiler.spec.id, " does not start: ", works.message(), " (",
                   end.ToString(), ") ", worker->LastWords());
  registry_.MarkUnavailable(compiler.spec.id, detail);
  return absl::FailedPreconditionError(detail);
}

absl::StatusOr<CompilerInfo> CompilePool::Select(const std::string& architecture,
                                                 int driver_version) const {
  HONE_ASSIGN_OR_RETURN(const KnownCompiler compiler,
                        registry_.Select(architecture, driver_version));
  return compiler.info;
}

absl::StatusOr<CompileOutcome> CompilePool::Compile(const Program& program,
                                                    const CompileOptions& options) {
  const CallScope call(*this);
  if (!program.prebuilt_bytes.empty()) {
    HONE_ASSIGN_OR_RETURN(
        Artifact artifact,
        PrebuiltArtifact(program.prebuilt_bytes, program.architecture, program.prebuilt_symbols));
    CompileOutcome outcome;
    outcome.artifact = std::move(artifact);
    return outcome;
  }
  HONE_ASSIGN_OR_RETURN(const Program checked, CheckProgram(program, options_.limits));
  HONE_ASSIGN_OR_RETURN(const KnownCompiler compiler,
                        registry_.Select(program.architecture, options.driver_version));
  CompileOptions now = options;
  HONE_ASSIGN_OR_RETURN(now.priority, queue_.Acquire(options.priority, options.urgency.get()));
  const auto release = absl::MakeCleanup([&] { queue_.Release(now.priority); });
  return RunJob(compiler, checked, now);
}

absl::StatusOr<CompileOutcome> CompilePool::RunJob(const KnownCompiler& compiler,
                                                   const Program& program,
                                                   const CompileOptions& options) {
  std::vector<HeaderSetDirectory> sets;
  for (const std::string& digest : program.header_sets) {
    HONE_ASSIGN_OR_RETURN(std::string directory, header_sets_.DirectoryOf(digest));
    sets.push_back({digest, std::move(directory)});
  }
  v1::worker::CompileJob job;
  *job.mutable_program() = ToWire(program, sets);
  job.set_log_bytes_max(options_.log_bytes_max);
  job.set_artifact_bytes_max(options_.artifact_bytes_max);
  // The wall clock ends a job first; this ends one whose daemon is gone or stopped.
  job.set_cpu_ms_max(absl::ToInt64Milliseconds(LimitOf(options)) + 1000);

  auto first = TryJob(compiler, job, options, /*last=*/false);
  if (first.has_value()) return *std::move(first);
  return *TryJob(compiler, job, options, /*last=*/true);
}

std::optional<absl::StatusOr<CompileOutcome>> CompilePool::TryJob(const KnownCompiler& compiler,
                                                                  const v1::worker::CompileJob& job,
                                                                  const CompileOptions& options,
                                                                  bool last) {
  absl::StatusOr<std::unique_ptr<CompileWorker>> worker = GetWorker(compiler, options.priority);
  if (absl::IsUnavailable(worker.status()) && !shutting_down()) {
    MutexLock lock(&mutex_);
    ++(last ? counts_.crashes : counts_.retries);
    if (!last) return std::nullopt;
    return Rejected(RejectionKind::kCrash, "the compile worker was killed while it started");
  }
  if (!worker.ok()) return worker.status();
  absl::StatusOr<CompileOutcome> outcome = absl::InternalError("no outcome");
  {
    const ActiveWorker active(*this, worker->get());
    outcome = (*worker)->Compile(job, LimitOf(options));
  }
  if (absl::IsDeadlineExceeded(outcome.status())) {
    (*worker)->End();
    spdlog::warn("compile timeout program={} architecture={} limit_ms={}", job.program().name(),
                 job.program().architecture(), absl::ToInt64Milliseconds(LimitOf(options)));
    MutexLock lock(&mutex_);
    ++counts_.timeouts;
    return Rejected(RejectionKind::kTimeout,
                    absl::StrCat("the compile took longer than ",
                                 absl::FormatDuration(options.timeout), "; its worker was killed"));
  }
  if (absl::IsUnavailable(outcome.status())) return AfterDeath(**worker, compiler.spec.id, last);
  PutBack(ShelfOf(compiler.spec, options.priority), *std::move(worker), outcome);
  return outcome;
}

std::optional<absl::StatusOr<CompileOutcome>> CompilePool::AfterDeath(CompileWorker& worker,
                                                                      const std::string& compiler,
                                                                      bool last) {
  const ExitStatus end = worker.End();
  if (shutting_down()) return absl::UnavailableError("the compile pool is shutting down");
  const std::string words = worker.LastWords();
  spdlog::warn("compile worker ended compiler=\"{}\" end=\"{}\" stderr=\"{}\"", compiler,
               end.ToString(), words);
  MutexLock lock(&mutex_);
  if (end.signal == SIGXCPU) {
    ++counts_.timeouts;
    return Rejected(RejectionKind::kTimeout, "the compile used up its processor time");
  }
  // Nothing in a source sends SIGKILL: an operator did, or the kernel short of memory.
  if (end.signal == SIGKILL && !last) {
    ++counts_.retries;
    return std::nullopt;
  }
  ++counts_.crashes;
  std::string detail =
      absl::StrCat("the compile worker ended by ", end.ToString(), "; its memory limit is ",
                   Mebibytes(options_.worker_memory_bytes_max));
  if (!words.empty()) absl::StrAppend(&detail, "; it said: ", words);
  return Rejected(RejectionKind::kCrash, std::move(detail));
}

void CompilePool::PutBack(const std::string& shelf, std::unique_ptr<CompileWorker> worker,
                          const absl::StatusOr<CompileOutcome>& outcome) {
  const bool crashed = outcome.ok() && outcome->rejection.has_value() &&
                       outcome->rejection->kind != RejectionKind::kCompile;
  const bool worn = worker->jobs() >= options_.jobs_per_worker_max ||
                    worker->ResidentBytes() > options_.worker_resident_bytes_max;
  if (!crashed && !worn) {
    shelf_.Put(shelf, std::move(worker));
    return;
  }
  MutexLock lock(&mutex_);
  if (crashed) {
    ++(outcome->rejection->kind == RejectionKind::kTimeout ? counts_.timeouts : counts_.crashes);
  } else {
    ++counts_.recycled;
  }
}

CompilePoolStats CompilePool::stats() const {
  CompilePoolStats stats;
  {
    MutexLock lock(&mutex_);
    stats = counts_;
  }
  stats.running = queue_.running();
  stats.waiting = queue_.waiting();
  stats.idle_workers = shelf_.size();
  return stats;
}

}  // namespace hone
