#include "runtime/worker/compile_role.h"

#include <fcntl.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/files.h"
#include "runtime/base/framed_channel.h"
#include "runtime/base/status_macros.h"
#include "runtime/compile/diagnostics.h"
#include "runtime/cpu/host_compiler.h"
#include "runtime/cpu/host_toolchain.h"
#include "runtime/cuda/nvrtc_compiler.h"
#include "runtime/worker/convert.h"
#include "runtime/worker/sandbox.h"

namespace hone {
namespace {

namespace wire = v1::worker;

// Compiles give way to whoever serves from this machine. Best effort: a container may refuse.
class IdlePriority {
 public:
  // Opens what the sandbox will hide.
  explicit IdlePriority(bool wanted) : wanted_(wanted) {
    if (wanted) session_.Reset(::open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC));
  }

  // Before each job; not sooner, as a start that someone waits for is short.
  void Take() {
    if (std::exchange(wanted_, false)) LowerThread();
    // With autogroups, policies count within a session only: sessions share processors by a weight
    // of their own (sched(7)). The kernel takes one change in 100 ms from all who are not root, so
    // that it may take several jobs until it is done.
    if (session_.valid() && ::write(session_.get(), "19", 2) == 2) session_.Reset();
  }

 private:
  static void LowerThread() {
    const struct sched_param parameters = {};
    if (::sched_setscheduler(0, SCHED_IDLE, &parameters) == 0) return;
    errno = 0;
    if (::nice(19) == -1 && errno != 0) spdlog::warn("priority unchanged errno={}", errno);
  }

  bool wanted_;
  UniqueFd session_;
};

SandboxOptions CommonSandbox(const CompileRoleOptions& options) {
  SandboxOptions sandbox;
  if (!options.header_sets_directory.empty()) {
    sandbox.read.push_back(options.header_sets_directory);
  }
  sandbox.write = {options.scratch_directory};
  sandbox.memory_bytes_max = options.memory_bytes_max;
  sandbox.file_bytes_max = options.file_bytes_max;
  return sandbox;
}

// Opens what must be opened by path, then confines the process, then starts the compiler.
absl::StatusOr<std::unique_ptr<Compiler>> StartNvrtc(int socket, const CompileRoleOptions& options,
                                                     std::string& sandbox) {
  absl::StatusOr<std::unique_ptr<NvrtcLibrary>> library = NvrtcLibrary::Open(options.library);
  SandboxOptions confined = CommonSandbox(options);
  confined.read.insert(confined.read.end(), options.include_directories.begin(),
                       options.include_directories.end());
  HONE_ASSIGN_OR_RETURN(sandbox, EnterSandbox(confined));
  ExitWhenPeerCloses(socket);
  HONE_RETURN_IF_ERROR(library.status());
  NvrtcCompiler::Options nvrtc;
  nvrtc.include_directories = options.include_directories;
  nvrtc.scratch_directory = options.scratch_directory;
  return NvrtcCompiler::Create(*std::move(library), std::move(nvrtc));
}

// A host compiler is many programs that read the system; it sees what programs need to run and what
// sources may include, and of /etc only the loader's cache and the links to alternatives.
absl::StatusOr<std::unique_ptr<Compiler>> StartHost(int socket, const CompileRoleOptions& options,
                                                    std::string& sandbox) {
  const HostToolchain tools = FindHostToolchain(options.host_compiler, options.include_directories);
  SandboxOptions confined = CommonSandbox(options);
  confined.execute = {"/usr", "/bin", "/lib", "/lib64", "/sbin"};
  if (const auto compiler = RealPath(tools.compiler); compiler.ok()) {
    confined.execute.push_back(DirectoryName(DirectoryName(*compiler)));
  }
  for (const char* path : {"/etc/ld.so.cache", "/etc/alternatives"}) {
    confined.read.emplace_back(path);
  }
  confined.read.insert(confined.read.end(), tools.include_directories.begin(),
                       tools.include_directories.end());
  confined.write.emplace_back("/dev/null");
  HONE_ASSIGN_OR_RETURN(sandbox, EnterSandbox(confined));
  ExitWhenPeerCloses(socket);
  HostCompilerOptions host;
  host.scratch_directory = options.scratch_directory;
  host.compiler = tools.compiler;
  host.include_directories = tools.include_directories;
  // The daemon prepared the sets and sends their directories in place of the digests.
  host.header_set_directory = [](const std::string& directory) {
    return absl::StatusOr<std::string>(directory);
  };
  return HostCompiler::Create(std::move(host));
}

// The process after its start: a compiler, or why there is none.
class CompileServer {
 public:
  CompileServer(absl::StatusOr<std::unique_ptr<Compiler>> compiler, CompilerInfo unavailable,
                IdlePriority priority)
      : compiler_(std::move(compiler)),
        unavailable_(std::move(unavailable)),
        priority_(std::move(priority)) {}

  wire::CompileReplyMessage Answer(const wire::CompileRequestMessage& request) {
    wire::CompileReplyMessage reply;
    if (request.kind_case() == wire::CompileRequestMessage::kCompile) {
      *reply.mutable_compile() = ToWire(Compile(request.compile()));
    } else {
      *reply.mutable_describe() = Describe(request.describe());
    }
    return reply;
  }

 private:
  wire::CompilerReply Describe(bool all) const {
    if (!compiler_.ok()) return ToWire(unavailable_);
    if (all) {
      CompilerInfo info = (*compiler_)->Compilers().front();
      info.sandbox = unavailable_.sandbox;
      if (info.builder.empty()) info.builder = info.build;
      return ToWire(info);
    }
    wire::CompilerReply works;
    works.set_available(true);
    return works;
  }

  absl::StatusOr<CompileOutcome> Compile(const wire::CompileJob& job) {
    HONE_RETURN_IF_ERROR(compiler_.status());
    priority_.Take();
    HONE_RETURN_IF_ERROR(LimitProcessorTime(job.cpu_ms_max()));
    const Program program = FromWire(job.program());
    absl::StatusOr<CompileOutcome> outcome = absl::InternalError("not compiled");
    try {
      CompileOptions options;
      // The daemon ends a job that takes too long, with all its processes.
      options.timeout = absl::InfiniteDuration();
      outcome = (*compiler_)->Compile(program, options);
    } catch (const std::bad_alloc&) {
      CompileOutcome crash;
      crash.rejection = Rejection{RejectionKind::kCrash, "out of memory"};
      outcome = std::move(crash);
    }
    if (outcome.ok()) Bound(job, *outcome);
    return outcome;
  }

  void Bound(const wire::CompileJob& job, CompileOutcome& outcome) const {
    outcome.log_truncated_bytes = TruncateLog(outcome.log, job.log_bytes_max());
    if (!outcome.artifact.has_value()) return;
    Artifact& artifact = *outcome.artifact;
    artifact.log = outcome.log;
    artifact.log_truncated_bytes = outcome.log_truncated_bytes;
    const auto size = static_cast<int64_t>(artifact.bytes.size());
    if (job.artifact_bytes_max() == 0 || size <= job.artifact_bytes_max()) return;
    outcome.rejection =
        Rejection{RejectionKind::kCompile,
                  absl::StrCat("the binary of ", size, " bytes is above the limit of ",
                               job.artifact_bytes_max()),
                  size, job.artifact_bytes_max()};
    outcome.artifact.reset();
  }

  absl::StatusOr<std::unique_ptr<Compiler>> compiler_;
  const CompilerInfo unavailable_;
  IdlePriority priority_;
};

int Serve(FramedChannel channel, CompileServer server) {
  while (true) {
    const absl::StatusOr<std::string> message = channel.Receive(Deadline::Never());
    if (absl::IsUnavailable(message.status())) return 0;
    wire::CompileRequestMessage request;
    if (!message.ok() || !request.ParseFromString(*message)) {
      spdlog::error("bad request status={}", message.status().ToString());
      return 1;
    }
    const absl::Status sent =
        channel.Send(server.Answer(request).SerializeAsString(), Deadline::Never());
    if (absl::IsUnavailable(sent)) return 0;
    if (!sent.ok()) {
      spdlog::error("reply not sent status={}", sent.ToString());
      return 1;
    }
  }
}

}  // namespace

int RunCompileRole(int socket, const CompileRoleOptions& options) {
  FramedChannel channel((UniqueFd(socket)));
  IdlePriority priority(options.idle_priority);
  CompilerInfo unavailable;
  unavailable.kind = options.compiler;
  unavailable.path = options.library;
  absl::StatusOr<std::unique_ptr<Compiler>> compiler =
      options.compiler == "host" ? StartHost(socket, options, unavailable.sandbox)
                                 : StartNvrtc(socket, options, unavailable.sandbox);
  unavailable.detail = std::string(compiler.status().message());
  return Serve(std::move(channel),
               CompileServer(std::move(compiler), std::move(unavailable), std::move(priority)));
}

}  // namespace hone
