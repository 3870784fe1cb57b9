#include "tests/testing/fake_compiler.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool Mentions(const Program& program, const std::string& substring) {
  const auto has = [&](const std::string& text) { return Contains(text, substring); };
  return std::any_of(program.name_expressions.begin(), program.name_expressions.end(), has) ||
         std::any_of(program.options.begin(), program.options.end(), has) ||
         std::any_of(program.defines.begin(), program.defines.end(),
                     [&](const auto& define) {
                       return has(absl::StrCat(define.first, "=", define.second));
                     }) ||
         has(program.source) || has(program.name);
}

std::vector<CompilerInfo> DefaultCompilers() {
  CompilerInfo nvrtc;
  nvrtc.kind = "nvrtc";
  nvrtc.build = "13.0.88";
  nvrtc.cuda_version = 13000;
  nvrtc.available = true;
  nvrtc.headers_version = "13.0";
  nvrtc.headers_digest = "fake-toolkit-headers";
  nvrtc.architectures = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120a"};
  CompilerInfo host;
  host.kind = "host";
  host.build = "gcc 12.2.0";
  host.available = true;
  host.headers_digest = "fake-host-headers";
  host.architectures = {"cpu"};
  return {nvrtc, host};
}

}  // namespace

std::string FakeLoweredName(const std::string& expression) {
  std::string symbol = expression;
  for (char& c : symbol) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return symbol;
}

Artifact FakeArtifact(const Program& program) {
  Artifact artifact;
  std::string& bytes = artifact.bytes;
  absl::StrAppend(&bytes, "fake-artifact v1\nprogram=", program.name,
                  "\narchitecture=", program.architecture, "\n");
  for (const auto& [name, value] : program.defines) {
    absl::StrAppend(&bytes, "define=", name, "=", value, "\n");
  }
  for (const std::string& option : program.options)
    absl::StrAppend(&bytes, "option=", option, "\n");
  for (const std::string& expression : program.name_expressions) {
    absl::StrAppend(&bytes, "entry=", expression, "\n");
    artifact.lowered_names[expression] = FakeLoweredName(expression);
    EntryResources resources;
    resources.symbol = FakeLoweredName(expression);
    resources.registers = 32;
    resources.max_threads_per_block = 1024;
    artifact.resources.push_back(resources);
  }
  std::string headers;
  for (const SourceFile& header : program.headers) {
    absl::StrAppend(&headers, header.name, "\n", header.content, "\n");
  }
  absl::StrAppend(&bytes, "source_sha256=", Sha256Hex(absl::StrCat(program.source, headers)), "\n");
  artifact.format = program.architecture == "cpu"                         ? ArtifactFormat::kHostElf
                    : absl::StrContains(program.architecture, "compute_") ? ArtifactFormat::kPtx
                                                                          : ArtifactFormat::kCubin;
  artifact.sha256 = Sha256Hex(bytes);
  artifact.architecture = program.architecture;
  artifact.builder = program.architecture == "cpu" ? "gcc 12.2.0" : "nvrtc 13.0.88";
  artifact.min_driver = program.architecture == "cpu" ? 0 : 13000;
  artifact.built_at_unix_ms = absl::ToUnixMillis(absl::Now());
  return artifact;
}

std::vector<std::string> FakeArtifactFields(const std::string& bytes, const std::string& field) {
  std::vector<std::string> values;
  for (absl::string_view line : absl::StrSplit(bytes, '\n')) {
    if (absl::ConsumePrefix(&line, absl::StrCat(field, "="))) values.emplace_back(line);
  }
  return values;
}

FakeCompiler::FakeCompiler() : compilers_(DefaultCompilers()) {}
FakeCompiler::~FakeCompiler() = default;

void FakeCompiler::FailFor(const std::string& substring, CompileOutcome outcome) {
  MutexLock lock(&mutex_);
  rules_.insert(rules_.begin(), {substring, std::move(outcome)});
}

void FakeCompiler::FailFor(const std::string& substring, Rejection rejection) {
  CompileOutcome outcome;
  outcome.log = rejection.detail;
  outcome.error_count = rejection.kind == RejectionKind::kCompile ? 1 : 0;
  outcome.excerpt = rejection.detail;
  outcome.rejection = std::move(rejection);
  FailFor(substring, std::move(outcome));
}

void FakeCompiler::FailFor(const std::string& substring, absl::Status status) {
  MutexLock lock(&mutex_);
  rules_.insert(rules_.begin(), {substring, std::move(status)});
}

void FakeCompiler::SetResources(const std::string& substring, EntryResources resources) {
  MutexLock lock(&mutex_);
  resources_.emplace(resources_.begin(), substring, std::move(resources));
}

void FakeCompiler::SetDelay(absl::Duration delay) {
  MutexLock lock(&mutex_);
  delay_ = delay;
}

void FakeCompiler::Block() {
  MutexLock lock(&mutex_);
  blocked_ = true;
}

void FakeCompiler::Unblock() {
  MutexLock lock(&mutex_);
  blocked_ = false;
}

void FakeCompiler::WaitForBlocked(int count) {
  MutexLock lock(&mutex_);
  const auto enough = [this, count]()
                          ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return waiting_blocked_ >= count; };
  mutex_.Await(absl::Condition(&enough));
}

void FakeCompiler::SetParallelism(int parallelism) {
  MutexLock lock(&mutex_);
  parallelism_ = parallelism;
}

void FakeCompiler::SetCompilers(std::vector<CompilerInfo> compilers) {
  MutexLock lock(&mutex_);
  compilers_ = std::move(compilers);
}

int64_t FakeCompiler::calls() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(programs_.size());
}

int64_t FakeCompiler::CallsFor(const std::string& substring) const {
  MutexLock lock(&mutex_);
  return std::count_if(programs_.begin(), programs_.end(),
                       [&](const Program& program) { return Mentions(program, substring); });
}

int FakeCompiler::max_concurrent() const {
  MutexLock lock(&mutex_);
  return max_concurrent_;
}

std::vector<Program> FakeCompiler::programs() const {
  MutexLock lock(&mutex_);
  return programs_;
}

int FakeCompiler::parallelism() const {
  MutexLock lock(&mutex_);
  return parallelism_;
}

std::vector<CompilerInfo> FakeCompiler::Compilers() const {
  MutexLock lock(&mutex_);
  return compilers_;
}

absl::StatusOr<CompilerInfo> FakeCompiler::Select(const std::string& architecture,
                                                  int driver_version) const {
  MutexLock lock(&mutex_);
  const std::string kind = architecture == "cpu" ? "host" : "nvrtc";
  for (const CompilerInfo& info : compilers_) {
    if (info.kind != kind || !info.available) continue;
    if (driver_version != 0 && info.cuda_version / 1000 > driver_version / 1000) continue;
    return info;
  }
  return absl::FailedPreconditionError(absl::StrCat("no ", kind, " compiler for ", architecture,
                                                    " and driver version ", driver_version));
}

absl::StatusOr<CompileOutcome> FakeCompiler::Result(const Program& program) {
  for (const Rule& rule : rules_) {
    if (Mentions(program, rule.substring)) return rule.result;
  }
  CompileOutcome outcome;
  outcome.artifact = FakeArtifact(program);
  for (const auto& [substring, resources] : resources_) {
    if (!Mentions(program, substring)) continue;
    for (EntryResources& entry : outcome.artifact->resources) {
      const std::string symbol = entry.symbol;
      entry = resources;
      entry.symbol = symbol;
    }
    break;
  }
  return outcome;
}

absl::StatusOr<CompileOutcome> FakeCompiler::Compile(const Program& program,
                                                     const CompileOptions& options) {
  HONE_RETURN_IF_ERROR(Select(program.architecture, options.driver_version).status());
  MutexLock lock(&mutex_);
  programs_.push_back(program);
  mutex_.Await(absl::Condition(this, &FakeCompiler::HasSlot));
  ++running_;
  max_concurrent_ = std::max(max_concurrent_, running_);
  if (blocked_) {
    ++waiting_blocked_;
    mutex_.Await(absl::Condition(this, &FakeCompiler::IsUnblocked));
    --waiting_blocked_;
  }
  if (delay_ > absl::ZeroDuration()) {
    const absl::Duration delay = delay_;
    mutex_.Unlock();
    absl::SleepFor(delay);
    mutex_.Lock();
  }
  --running_;
  return Result(program);
}

}  // namespace hone
