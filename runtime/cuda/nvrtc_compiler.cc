#include "runtime/cuda/nvrtc_compiler.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "runtime/base/clocks.h"
#include "runtime/base/files.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"
#include "runtime/compile/compile_options.h"
#include "runtime/compile/cubin.h"
#include "runtime/compile/diagnostics.h"
#include "runtime/compile/source_tree.h"
#include "runtime/cuda/standard_headers.h"
#include "runtime/cuda/toolkit_headers.h"
#include "runtime/kernel/architecture.h"

namespace hone {
namespace {

constexpr char kDefaultStandard[] = "--std=c++20";
constexpr char kNoCache[] = "--no-cache";
// NVRTC otherwise names variables of internal linkage by its process id, so that no two workers
// build the same binary. Nothing else changes with it, so the key need not know.
constexpr char kSeed[] = "--frandom-seed=hone";
constexpr int kSeedSince = 13000;  // CUDA 12.9 refuses the option
constexpr char kTrivialSource[] = "extern \"C\" __global__ void hone_self_test() {}\n";

// Whatever bytes would change with these lines must change the key too.
constexpr char kFixedOptionsVersion[] = "fixed-options 1\n";

std::string MainFile(const Program& program) {
  return program.name.empty() ? "program.cu" : program.name;
}

bool SetsStandard(const Program& program) {
  return std::any_of(program.options.begin(), program.options.end(),
                     [](const std::string& option) { return absl::StartsWith(option, "--std="); });
}

std::string StandardHeadersText() {
  std::string text = kFixedOptionsVersion;
  for (const SourceFile& header : StandardHeaders()) {
    absl::StrAppend(&text, header.name, "\n", header.content.size(), "\n", header.content);
  }
  return text;
}

// "13.0.88" from "// Cuda compilation tools, release 13.0, V13.0.88".
std::string BuildFromPtx(const std::string& ptx) {
  constexpr absl::string_view kMarker = "Cuda compilation tools, release ";
  const size_t at = ptx.find(std::string(kMarker));
  if (at == std::string::npos) return "";
  const absl::string_view line = absl::string_view(ptx).substr(at, ptx.find('\n', at) - at);
  const size_t version = line.find(", V");
  return version == absl::string_view::npos ? "" : std::string(line.substr(version + 3));
}

// The process's working directory for the length of one compile.
class WorkingDirectory {
 public:
  static absl::StatusOr<WorkingDirectory> Enter(const std::string& path, std::string back) {
    if (::chdir(path.c_str()) != 0) return ErrnoStatus(errno, "enter", path);
    return WorkingDirectory(std::move(back));
  }
  WorkingDirectory(WorkingDirectory&& other) noexcept : back_(std::exchange(other.back_, "")) {}
  WorkingDirectory& operator=(WorkingDirectory&&) = delete;
  ~WorkingDirectory() {
    // The directory left may be removed next, so this one is entered even if nobody needs it.
    if (!back_.empty() && ::chdir(back_.c_str()) != 0) back_.clear();
  }

 private:
  explicit WorkingDirectory(std::string back) : back_(std::move(back)) {}
  std::string back_;
};

}  // namespace

// One nvrtcProgram. The library outlives it.
class NvrtcCompiler::NvrtcProgram {
 public:
  NvrtcProgram(const NvrtcLibrary& library, const std::string& source, const std::string& name)
      : library_(library) {
    created_ = library_.CreateProgram(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr);
  }
  ~NvrtcProgram() {
    if (program_ != nullptr) library_.DestroyProgram(&program_);
  }
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;

  nvrtcResult Compile(const std::vector<std::string>& name_expressions,
                      const std::vector<std::string>& arguments) {
    if (created_ != NVRTC_SUCCESS) return created_;
    for (const std::string& expression : name_expressions) {
      const nvrtcResult added = library_.AddNameExpression(program_, expression.c_str());
      if (added != NVRTC_SUCCESS) return added;
    }
    std::vector<const char*> pointers;
    for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
    return library_.CompileProgram(program_, static_cast<int>(pointers.size()), pointers.data());
  }

  std::string Log() const { return Text(library_.GetProgramLogSize, library_.GetProgramLog); }
  std::string Ptx() const { return Text(library_.GetPTXSize, library_.GetPTX); }
  std::string Cubin() const {
    size_t size = 0;
    if (library_.GetCUBINSize(program_, &size) != NVRTC_SUCCESS) return "";
    std::string bytes(size, '\0');
    return library_.GetCUBIN(program_, bytes.data()) == NVRTC_SUCCESS ? bytes : "";
  }
  // Empty if the expression has none.
  std::string LoweredName(const std::string& expression) const {
    const char* symbol = nullptr;
    const nvrtcResult got = library_.GetLoweredName(program_, expression.c_str(), &symbol);
    return got == NVRTC_SUCCESS && symbol != nullptr ? symbol : "";
  }
  std::string ErrorText(nvrtcResult result) const { return library_.GetErrorString(result); }

 private:
  // Both are C strings with their NUL counted in the size.
  std::string Text(decltype(&nvrtcGetPTXSize) size_of, decltype(&nvrtcGetPTX) get) const {
    size_t size = 0;
    if (program_ == nullptr || size_of(program_, &size) != NVRTC_SUCCESS || size <= 1) return "";
    std::string text(size, '\0');
    if (get(program_, text.data()) != NVRTC_SUCCESS) return "";
    text.resize(size - 1);
    return text;
  }

  const NvrtcLibrary& library_;
  nvrtcProgram program_ = nullptr;
  nvrtcResult created_ = NVRTC_SUCCESS;
};

absl::StatusOr<std::unique_ptr<NvrtcCompiler>> NvrtcCompiler::Create(
    std::unique_ptr<NvrtcLibrary> library, Options options) {
  std::unique_ptr<NvrtcCompiler> compiler(
      new NvrtcCompiler(std::move(library), std::move(options)));
  const std::string& directory = compiler->standard_headers_directory_;
  HONE_RETURN_IF_ERROR(MakeDirectories(directory, 0700));
  for (const SourceFile& header : StandardHeaders()) {
    HONE_RETURN_IF_ERROR(WriteNewFile(JoinPath(directory, header.name), header.content));
  }
  compiler->self_test_ = compiler->SelfTest();
  return compiler;
}

NvrtcCompiler::NvrtcCompiler(std::unique_ptr<NvrtcLibrary> library, Options options)
    : library_(std::move(library)),
      options_(std::move(options)),
      standard_headers_directory_(JoinPath(options_.scratch_directory, "standard")) {}

absl::StatusOr<std::string> NvrtcCompiler::CompileTrivialPtx(bool no_cache) const {
  const std::string target = library_->architectures().empty()
                                 ? "compute_75"
                                 : absl::StrCat("compute_", library_->architectures()[0].substr(3));
  std::vector<std::string> arguments = {absl::StrCat("--gpu-architecture=", target)};
  if (no_cache) arguments.push_back(kNoCache);
  NvrtcProgram program(*library_, kTrivialSource, "self_test.cu");
  const nvrtcResult result = program.Compile({}, arguments);
  if (result == NVRTC_SUCCESS) return program.Ptx();
  const std::string text = absl::StrCat(program.ErrorText(result), ": ", program.Log());
  if (result == NVRTC_ERROR_INVALID_OPTION) return absl::InvalidArgumentError(text);
  return absl::FailedPreconditionError(
      absl::StrCat("NVRTC at ", library_->path(), " fails its self-test: ", text,
                   "; its libnvrtc-builtins was taken from ", DirectoryName(library_->path())));
}

absl::Status NvrtcCompiler::SelfTest() {
  absl::StatusOr<std::string> ptx = CompileTrivialPtx(no_cache_);
  if (absl::IsInvalidArgument(ptx.status())) {
    no_cache_ = false;
    ptx = CompileTrivialPtx(no_cache_);
  }
  if (!ptx.ok()) return absl::FailedPreconditionError(ptx.status().message());
  build_ = BuildFromPtx(*ptx);
  if (build_.empty()) {
    build_ =
        absl::StrCat(library_->cuda_version() / 1000, ".", library_->cuda_version() % 1000 / 10);
  }
  return absl::OkStatus();
}

std::vector<CompilerInfo> NvrtcCompiler::Compilers() const {
  CompilerInfo info;
  info.kind = "nvrtc";
  info.build = build_;
  info.builder = absl::StrCat("nvrtc ", build_);
  info.path = library_->path();
  info.cuda_version = library_->cuda_version();
  info.available = self_test_.ok();
  info.architectures = library_->architectures();
  info.headers_path = absl::StrJoin(options_.include_directories, ":");
  info.headers_version = ToolkitHeadersVersion(options_.include_directories);
  info.headers_digest = ToolkitHeadersDigest(options_.include_directories, StandardHeadersText());
  info.detail = self_test_.ok() ? HeadersMismatch() : std::string(self_test_.message());
  return {info};
}

absl::StatusOr<CompilerInfo> NvrtcCompiler::Select(const std::string& architecture, int) const {
  HONE_RETURN_IF_ERROR(CheckArchitecture(architecture));
  HONE_RETURN_IF_ERROR(self_test_);
  return Compilers().front();
}

std::string NvrtcCompiler::HeadersMismatch() const {
  const std::string own =
      absl::StrCat(library_->cuda_version() / 1000, ".", library_->cuda_version() % 1000 / 10);
  const std::string roots = absl::StrJoin(options_.include_directories, ":");
  if (roots.empty()) {
    return absl::StrCat("no CUDA headers found beside ", library_->path(),
                        ": only programs that include none compile");
  }
  const std::string theirs = ToolkitHeadersVersion(options_.include_directories);
  if (theirs == own) return "";
  return absl::StrCat("the CUDA headers in ", roots, " are of version ",
                      theirs.empty() ? "unknown" : theirs, ", NVRTC at ", library_->path(),
                      " is of version ", own);
}

absl::Status NvrtcCompiler::CheckArchitecture(const std::string& architecture) const {
  const std::vector<std::string>& known = library_->architectures();
  const auto parsed = ParseArchitecture(architecture);
  std::string name = architecture;
  if (parsed.ok() && parsed->ptx) name = absl::StrCat("sm_", architecture.substr(8));
  if (parsed.ok() && std::find(known.begin(), known.end(), name) != known.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("architecture '", architecture,
                                                 "' is not supported by NVRTC ", build_,
                                                 "; it has ", absl::StrJoin(known, ", ")));
}

std::vector<std::string> NvrtcCompiler::Arguments(const Program& program) const {
  std::vector<std::string> arguments = {absl::StrCat("--gpu-architecture=", program.architecture)};
  if (no_cache_) arguments.push_back(kNoCache);
  if (library_->cuda_version() >= kSeedSince) arguments.push_back(kSeed);
  if (!SetsStandard(program)) arguments.push_back(kDefaultStandard);
  arguments.insert(arguments.end(), program.options.begin(), program.options.end());
  // The headers sent lie in the working directory.
  arguments.push_back("--include-path=.");
  for (const std::string& directory : program.header_sets) {
    arguments.push_back(absl::StrCat("--include-path=", directory));
  }
  arguments.push_back(absl::StrCat("--include-path=", standard_headers_directory_));
  for (const std::string& directory : options_.include_directories) {
    arguments.push_back(absl::StrCat("--include-path=", directory));
  }
  for (const auto& [name, value] : program.defines) {
    arguments.push_back(absl::StrCat("--define-macro=", name, "=", value));
  }
  return arguments;
}

absl::StatusOr<CompileOutcome> NvrtcCompiler::Compile(const Program& program,
                                                      const CompileOptions&) {
  HONE_RETURN_IF_ERROR(self_test_);
  HONE_RETURN_IF_ERROR(CheckArchitecture(program.architecture));
  const std::string directory = JoinPath(options_.scratch_directory, "source");
  HONE_ASSIGN_OR_RETURN(const SourceTree tree, SourceTree::Create(directory, program));
  HONE_ASSIGN_OR_RETURN(const WorkingDirectory inside,
                        WorkingDirectory::Enter(tree.root(), options_.scratch_directory));
  return Run(program, tree.root());
}

absl::StatusOr<CompileOutcome> NvrtcCompiler::Run(const Program& program, const std::string& tree) {
  NvrtcProgram compiled(*library_, program.source, MainFile(program));
  const nvrtcResult result = compiled.Compile(program.name_expressions, Arguments(program));
  std::vector<std::string> scrubbed = {tree};
  scrubbed.insert(scrubbed.end(), program.header_sets.begin(), program.header_sets.end());
  scrubbed.push_back(standard_headers_directory_);
  std::string log = ScrubPaths(compiled.Log(), scrubbed);

  CompileOutcome outcome;
  switch (result) {
    case NVRTC_SUCCESS: {
      absl::StatusOr<Artifact> artifact = MakeArtifact(compiled, program);
      if (!artifact.ok()) {
        return Failed(program, absl::StrCat(log, "error: ", artifact.status().message(), "\n"));
      }
      outcome.artifact = *std::move(artifact);
      outcome.log = std::move(log);
      return outcome;
    }
    case NVRTC_ERROR_INVALID_OPTION:
      return absl::InvalidArgumentError(absl::StrCat(
          "NVRTC ", build_, " does not take the options (", absl::StrJoin(program.options, " "),
          ") for ", program.architecture, ": ", log));
    case NVRTC_ERROR_COMPILATION:
    case NVRTC_ERROR_INVALID_INPUT:
    case NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID:
      return Failed(program, Annotate(std::move(log), program));
    case NVRTC_ERROR_BUILTIN_OPERATION_FAILURE:
      return absl::FailedPreconditionError(
          absl::StrCat("NVRTC at ", library_->path(), ": ", compiled.ErrorText(result), ": ", log,
                       "; its libnvrtc-builtins must lie in ", DirectoryName(library_->path())));
    default:
      outcome.rejection =
          Rejection{RejectionKind::kCrash, absl::StrCat("NVRTC: ", compiled.ErrorText(result))};
      outcome.log = std::move(log);
      return outcome;
  }
}

CompileOutcome NvrtcCompiler::Failed(const Program& program, std::string log) const {
  Program named = program;
  named.name = MainFile(program);
  const Diagnostics diagnostics = ReadLog(log, named);
  CompileOutcome outcome;
  outcome.rejection = Rejection{RejectionKind::kCompile, ErrorSummary(diagnostics)};
  outcome.log = std::move(log);
  outcome.error_count = std::max(diagnostics.error_count, 1);
  outcome.error_limit_reached = diagnostics.error_limit_reached;
  outcome.excerpt = diagnostics.excerpt;
  return outcome;
}

// What NVRTC leaves unsaid: where it looked for a header, and that its headers may not fit it.
std::string NvrtcCompiler::Annotate(std::string log, const Program& program) const {
  if (absl::StrContains(log, "cannot open source file")) {
    std::vector<std::string> searched;
    for (const std::string& option : program.options) {
      const ParsedOption parsed = SplitOption(option);
      if (parsed.name == "--include-path") searched.push_back(parsed.value);
    }
    searched.push_back("the headers sent with the program");
    if (!program.header_sets.empty()) searched.push_back("its header sets");
    searched.push_back("hone's standard headers");
    searched.insert(searched.end(), options_.include_directories.begin(),
                    options_.include_directories.end());
    absl::StrAppend(
        &log, "note: searched for headers, in this order: ", absl::StrJoin(searched, ", "), "\n");
  }
  const std::string mismatch = HeadersMismatch();
  if (!mismatch.empty()) absl::StrAppend(&log, "note: ", mismatch, "\n");
  return log;
}

absl::StatusOr<Artifact> NvrtcCompiler::MakeArtifact(const NvrtcProgram& compiled,
                                                     const Program& program) const {
  Artifact artifact;
  const bool ptx = absl::StartsWith(program.architecture, "compute_");
  artifact.format = ptx ? ArtifactFormat::kPtx : ArtifactFormat::kCubin;
  artifact.bytes = ptx ? compiled.Ptx() : compiled.Cubin();
  if (artifact.bytes.empty()) return absl::InternalError("NVRTC gave no binary");
  artifact.sha256 = Sha256Hex(artifact.bytes);
  artifact.architecture = program.architecture;
  artifact.builder = absl::StrCat("nvrtc ", build_);
  // A cubin loads with any driver of its CUDA major; PTX needs a driver that knows its version.
  artifact.min_driver = ptx ? library_->cuda_version() : library_->cuda_version() / 1000 * 1000;
  for (const std::string& expression : program.name_expressions) {
    const std::string symbol = compiled.LoweredName(expression);
    if (symbol.empty()) {
      return absl::NotFoundError(
          absl::StrCat("name expression '", expression, "' names no kernel of the program"));
    }
    artifact.lowered_names[expression] = symbol;
  }
  if (!ptx) {
    HONE_ASSIGN_OR_RETURN(const CubinInfo info, ParseCubin(artifact.bytes));
    artifact.resources = info.kernels;
  }
  artifact.built_at_unix_ms = UnixMillis();
  return artifact;
}

}  // namespace hone
