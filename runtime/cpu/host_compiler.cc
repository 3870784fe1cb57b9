#include "runtime/cpu/host_compiler.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "runtime/base/clocks.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"
#include "runtime/compile/check_program.h"
#include "runtime/compile/compile_options.h"
#include "runtime/compile/diagnostics.h"
#include "runtime/compile/source_tree.h"
#include "runtime/cpu/embedded_headers.h"
#include "runtime/cpu/run_tool.h"
#include "runtime/cpu/source_rewriter.h"
#include "runtime/launch/cpu_block.h"
#include "runtime/launch/cpu_elf.h"

namespace hone {
namespace {

constexpr char kArchitecture[] = "cpu";
// A precompiled prelude takes some 30 MB of scratch space; more kinds than this are rare.
constexpr size_t kPreludesMax = 4;
// "hone_copy_1d_float_128_1a2b3c4d": readable, and unique in a program by its digest.
std::string LoweredName(const std::string& expression) {
  std::string name = "hone_";
  for (char c : expression) {
    const bool word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (word) {
      name += c;
    } else if (name.back() != '_') {
      name += '_';
    }
  }
  if (name.size() > 80) name.resize(80);
  if (name.back() != '_') name += '_';
  return name + Sha256Hex(expression).substr(0, 8);
}

std::string QuotedFileName(absl::string_view name) {
  return absl::StrCat("\"", absl::StrReplaceAll(name, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

// Where the program's source lies in its tree: under its own name, so that the compiler's messages
// name and quote it. REQUIRES: CheckProgram accepted the program.
std::string SourceFileName(const Program& program) {
  const std::string name = program.name[0] == '-' ? "_" + program.name : program.name;
  for (const SourceFile& header : program.headers) {
    if (header.name == name || absl::StartsWith(header.name, name + "/")) return "main-" + name;
  }
  return name;
}

bool Mentions(const std::string& source, absl::string_view header) {
  return absl::StrContains(source, absl::StrCat("<", header, ">"));
}

std::string FirstLine(absl::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

// The compiler, or what it started, ended without giving a verdict on the source.
bool CompilerCrashed(const ToolRun& run) {
  return run.exit.signal.has_value() || absl::StrContains(run.log, "internal compiler error") ||
         absl::StrContains(run.log, "signal terminated program") ||
         absl::StrContains(run.log, "virtual memory exhausted") ||
         absl::StrContains(run.log, "out of memory allocating");
}

}  // namespace

HostCompiler::HostCompiler(HostCompilerOptions options, HostToolchain tools)
    : options_(std::move(options)), tools_(std::move(tools)) {
  info_.kind = "host";
  info_.build = tools_.version;
  info_.builder = tools_.version;
  info_.path = tools_.compiler;
  info_.cuda_version = tools_.cuda_version;
  info_.available = tools_.status.ok();
  info_.detail = std::string(tools_.status.message());
  info_.architectures = {kArchitecture};
  if (!tools_.include_directories.empty()) info_.headers_path = tools_.include_directories.front();
  if (tools_.cuda_version > 0) {
    info_.headers_version =
        absl::StrCat(tools_.cuda_version / 1000, ".", tools_.cuda_version % 1000 / 10);
  }
  info_.headers_digest = tools_.headers_digest;
}

absl::StatusOr<std::unique_ptr<Compiler>> HostCompiler::Create(HostCompilerOptions options) {
  HostToolchain tools = FindHostToolchain(options.compiler, options.include_directories);
  std::unique_ptr<HostCompiler> compiler(new HostCompiler(std::move(options), std::move(tools)));
  compiler->scratch_ = compiler->options_.scratch_directory;
  if (compiler->scratch_.empty()) {
    HONE_ASSIGN_OR_RETURN(compiler->temporary_, TemporaryDirectory::Create("", "hone-host"));
    compiler->scratch_ = compiler->temporary_.path();
  }
  HONE_ASSIGN_OR_RETURN(compiler->scratch_, RealPath(compiler->scratch_));
  HONE_RETURN_IF_ERROR(compiler->WriteHeaders());
  return std::unique_ptr<Compiler>(std::move(compiler));
}

absl::Status HostCompiler::WriteHeaders() {
  for (const char* name : {"include", "tmp"}) {
    HONE_RETURN_IF_ERROR(MakeDirectories(JoinPath(scratch_, name), 0700));
  }
  for (const EmbeddedFile& file : CudaOnCpuHeaders()) {
    const std::string path = JoinPath(JoinPath(scratch_, "include"), file.name);
    HONE_RETURN_IF_ERROR(WriteFileAtomic(path, file.content));
  }
  return absl::OkStatus();
}

absl::StatusOr<CompilerInfo> HostCompiler::Select(const std::string& architecture, int) const {
  if (architecture != kArchitecture) {
    return absl::InvalidArgumentError(
        absl::StrCat("architecture '", architecture, "': the host compiler supports cpu"));
  }
  HONE_RETURN_IF_ERROR(tools_.status);
  return info_;
}

std::vector<std::string> HostCompiler::BaseFlags(const std::string& standard) const {
  std::vector<std::string> flags = {
      tools_.compiler, absl::StrCat("-std=", standard), "-O3", "-fPIC", "-fvisibility=hidden",
      // CUDA C++ is written as if any pointer may alias any other, and without exceptions.
      "-fno-strict-aliasing", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
      "-fno-math-errno", "-fno-trapping-math",
      // Big frames touch their guard page instead of stepping over it.
      "-fstack-clash-protection", "-Wno-unknown-pragmas", "-Wno-attributes"};
  // Each copy of a module has its own statics, also those of templates.
  if (tools_.is_gcc) flags.push_back("-fno-gnu-unique");
  if (tools_.isa_level >= 3) flags.push_back("-march=x86-64-v3");
  return flags;
}

std::vector<std::string> HostCompiler::Environment() const {
  // Nothing that changes what the compiler reads, writes or says.
  std::vector<std::string> environment =
      EnvironmentWithout({"LC_", "LANG", "TMPDIR", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
                          "GCC_", "COMPILER_PATH", "LIBRARY_PATH", "DEPENDENCIES_OUTPUT",
                          "SUNPRO_DEPENDENCIES", "SOURCE_DATE_EPOCH", "GCCGO", "CCACHE_"});
  environment.push_back("LC_ALL=C");
  environment.push_back(absl::StrCat("TMPDIR=", JoinPath(scratch_, "tmp")));
  return environment;
}

std::string HostCompiler::PreludeFor(const std::string& source, const std::string& standard) {
  if (!tools_.is_gcc) return "";
  std::string key = standard;
  std::string prelude = "#include \"cuda_on_cpu.h\"\n";
  for (const char* header : {"cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h"}) {
    if (!Mentions(source, header)) continue;
    absl::StrAppend(&key, "-", header);
    absl::StrAppend(&prelude, "#include <", header, ">\n");
  }
  const std::string directory = JoinPath(JoinPath(scratch_, "prelude"), key);
  MutexLock lock(&mutex_);
  if (preludes_.count(key) != 0) return directory;
  // Once only: a prelude that cannot be made is done without.
  if (preludes_.size() >= kPreludesMax || seen_preludes_.count(key) == 0 ||
      seen_preludes_.count(key + " tried") != 0) {
    seen_preludes_.insert(key);
    return "";
  }
  seen_preludes_.insert(key + " tried");
  const std::string header = JoinPath(directory, "prelude.h");
  if (!MakeDirectories(directory, 0700).ok() || !WriteFileAtomic(header, prelude).ok()) return "";
  ToolOptions tool;
  tool.directory = directory;
  tool.command = BaseFlags(standard);
  for (const std::string& flag : {std::string("-I"), JoinPath(scratch_, "include")}) {
    tool.command.push_back(flag);
  }
  for (const std::string& root : tools_.include_directories) {
    tool.command.insert(tool.command.end(), {"-isystem", root});
  }
  tool.command.insert(tool.command.end(), {"-x", "c++-header", "prelude.h", "-o", "prelude.h.gch"});
  tool.environment = Environment();
  const absl::StatusOr<ToolRun> run = RunTool(tool);
  if (!run.ok() || run->timed_out || !run->exit.success()) return "";
  preludes_.insert(key);
  return directory;
}

absl::StatusOr<std::vector<std::string>> HostCompiler::Command(const Program& program,
                                                               const std::string& source,
                                                               const std::string& output) {
  std::string standard = "c++17";
  std::vector<std::string> own;
  for (const std::string& option : program.options) {
    const ParsedOption parsed = SplitOption(option);
    if (parsed.name == "--std") {
      // cuda_on_cpu.h is C++17.
      standard = std::max(parsed.value, standard);
    } else if (parsed.name == "--include-path") {
      own.push_back(absl::StrCat("-I", parsed.value));
    } else if (parsed.name == "--define-macro") {
      own.push_back(absl::StrCat("-D", parsed.value));
    } else if (parsed.name == "--undefine-macro") {
      own.push_back(absl::StrCat("-U", parsed.value));
    } else if (parsed.name == "--disable-warnings") {
      own.push_back("-w");
    } else if (parsed.name == "--fmad") {
      own.push_back(parsed.value == "false" ? "-ffp-contract=off" : "-ffp-contract=fast");
    }
    // The rest is about GPUs: registers, line tables, ptxas. It changes nothing here.
  }
  std::vector<std::string> command = BaseFlags(standard);
  const std::string prelude = PreludeFor(program.source, standard);
  if (prelude.empty()) {
    command.insert(command.end(), {"-include", "cuda_on_cpu.h"});
  } else {
    command.insert(command.end(), {"-include", "prelude.h", "-I", prelude});
  }
  command.insert(command.end(), {"-I.", "-I", JoinPath(scratch_, "include")});
  command.insert(command.end(), own.begin(), own.end());
  for (const auto& [name, value] : program.defines) {
    command.push_back(absl::StrCat("-D", name, "=", value));
  }
  for (const std::string& digest : program.header_sets) {
    if (!options_.header_set_directory) {
      return absl::FailedPreconditionError(
          absl::StrCat("header set ", digest, " is not known to the host compiler"));
    }
    HONE_ASSIGN_OR_RETURN(const std::string directory, options_.header_set_directory(digest));
    command.insert(command.end(), {"-isystem", directory});
  }
  for (const std::string& root : tools_.include_directories) {
    command.insert(command.end(), {"-isystem", root});
  }
  command.insert(command.end(), {"-x", "c++", source, "-shared", "-Wl,-z,defs", "-Wl,-z,now",
                                 "-Wl,--as-needed", "-Wl,--build-id=none", "-o", output});
  return command;
}

absl::StatusOr<CompileOutcome> HostCompiler::Compile(const Program& given,
                                                     const CompileOptions& options) {
  HONE_RETURN_IF_ERROR(Select(given.architecture, options.driver_version).status());
  HONE_ASSIGN_OR_RETURN(const Program program, CheckProgram(given, ProgramLimits()));
  if (program.name_expressions.empty()) {
    return absl::InvalidArgumentError(
        "name_expressions is empty: the CPU device launches kernels by name expression");
  }

  Program rewritten = program;
  for (SourceFile& header : rewritten.headers) header.content = RewriteForHost(header.content);
  const std::string job = absl::StrCat("job-", next_job_.fetch_add(1));
  HONE_ASSIGN_OR_RETURN(const SourceTree tree,
                        SourceTree::Create(JoinPath(scratch_, job), rewritten));
  const std::string file = SourceFileName(program);
  const std::string output = JoinPath(JoinPath(scratch_, "tmp"), job + ".so");

  std::vector<Entry> entries;
  std::string source = RewriteForHost(program.source);
  for (const std::string& expression : program.name_expressions) {
    Entry entry{expression, LoweredName(expression)};
    const bool seen = std::any_of(entries.begin(), entries.end(),
                                  [&](const Entry& other) { return other.symbol == entry.symbol; });
    if (!seen) {
      absl::StrAppend(&source, "\n#line 1 ",
                      QuotedFileName(absl::StrCat("name expression ", expression)),
                      "\nHONE_CPU_ENTRY(", entry.symbol, ", ", expression, ")\n");
    }
    entries.push_back(std::move(entry));
  }
  HONE_RETURN_IF_ERROR(WriteNewFile(JoinPath(tree.root(), file), source));

  ToolOptions tool;
  HONE_ASSIGN_OR_RETURN(tool.command, Command(program, file, output));
  tool.directory = tree.root();
  tool.environment = Environment();
  tool.timeout = options.timeout;
  HONE_ASSIGN_OR_RETURN(ToolRun run, RunTool(tool));

  CompileOutcome outcome;
  outcome.log = ScrubPaths(run.log, {tree.root(), JoinPath(scratch_, "include"), scratch_});
  if (file != program.name) outcome.log = absl::StrReplaceAll(outcome.log, {{file, program.name}});
  const Diagnostics diagnostics = ReadLog(outcome.log, program);
  outcome.error_count = diagnostics.error_count;
  outcome.error_limit_reached = diagnostics.error_limit_reached;
  outcome.excerpt = diagnostics.excerpt;
  outcome.log_truncated_bytes =
      TruncateLog(outcome.log, options_.log_bytes_max) + run.log_dropped_bytes;

  // The second: a limit on processor time, which a worker may have set too.
  if (run.timed_out || absl::StrContains(run.log, "CPU time limit exceeded")) {
    outcome.rejection = Rejection{
        RejectionKind::kTimeout,
        absl::StrCat("compiling took longer than ", absl::FormatDuration(options.timeout))};
  } else if (!run.exit.success() && CompilerCrashed(run)) {
    outcome.rejection = Rejection{RejectionKind::kCrash,
                                  absl::StrCat(tools_.version, " ended with ", run.exit.ToString(),
                                               " before it had compiled the source")};
  } else if (!run.exit.success()) {
    std::string detail = FirstLine(outcome.excerpt.empty() ? outcome.log : outcome.excerpt);
    outcome.rejection = Rejection{RejectionKind::kCompile, std::move(detail)};
  } else {
    absl::StatusOr<CompileOutcome> finished = Finish(program, entries, output, std::move(outcome));
    HONE_RETURN_IF_ERROR(RemoveTree(output));
    return finished;
  }
  // Half-written output; the next job has another name, so a leftover would only take space.
  (void)RemoveTree(output);
  return outcome;
}

absl::StatusOr<CompileOutcome> HostCompiler::Finish(const Program& program,
                                                    const std::vector<Entry>& entries,
                                                    const std::string& elf_path,
                                                    CompileOutcome outcome) const {
  Artifact artifact;
  HONE_ASSIGN_OR_RETURN(artifact.bytes, ReadFile(elf_path));
  HONE_ASSIGN_OR_RETURN(const CpuElfFacts facts, ReadCpuElf(artifact.bytes));
  const int64_t shared =
      entries.size() == 1 ? facts.total_shared_bytes : facts.largest_shared_bytes;
  if (shared > kCpuStaticSharedBytesMax) {
    // As ptxas, which refuses to assemble such a kernel.
    outcome.rejection =
        Rejection{RejectionKind::kCompile,
                  absl::StrCat(program.name, ": error: static shared memory of ", shared,
                               " bytes per block is more than ", kCpuStaticSharedBytesMax,
                               "; use dynamic shared memory"),
                  shared, kCpuStaticSharedBytesMax};
    outcome.error_count = 1;
    outcome.excerpt = outcome.rejection->detail;
    absl::StrAppend(&outcome.log, outcome.rejection->detail, "\n");
    return outcome;
  }
  artifact.format = ArtifactFormat::kHostElf;
  artifact.sha256 = Sha256Hex(artifact.bytes);
  artifact.architecture = program.architecture;
  artifact.builder = tools_.version;
  artifact.log = outcome.log;
  artifact.log_truncated_bytes = outcome.log_truncated_bytes;
  artifact.built_at_unix_ms = UnixMillis();
  for (const Entry& entry : entries) {
    if (!artifact.lowered_names.emplace(entry.expression, entry.symbol).second) continue;
    EntryResources resources;
    resources.symbol = entry.symbol;
    resources.static_shared_bytes = shared;
    artifact.resources.push_back(std::move(resources));
  }
  outcome.artifact = std::move(artifact);
  return outcome;
}

}  // namespace hone
