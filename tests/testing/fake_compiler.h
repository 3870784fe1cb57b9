// A Compiler that obeys: every program compiles at once, unless a test scripted otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/mutex.h"
#include "runtime/compile/compiler.h"

namespace hone {

// The artifact's bytes are text that holds what a fake device needs to know, one item a line:
//   fake-artifact v1
//   program=copy_1d.cu
//   architecture=sm_90a
//   define=NAME=value
//   option=-lineinfo
//   entry=copy_1d<float, 256, 1, 2>
//   source_sha256=...
// so two programs that differ have different bytes. Thread-safe.
class FakeCompiler : public Compiler {
 public:
  FakeCompiler();
  ~FakeCompiler() override;

  // Programs whose name expressions, defines, options or source contain `substring` end with this
  // outcome (or Status). The rule set last is tried first.
  void FailFor(const std::string& substring, CompileOutcome outcome);
  void FailFor(const std::string& substring, Rejection rejection);
  void FailFor(const std::string& substring, absl::Status status);
  // What artifacts containing `substring` report about every entry.
  void SetResources(const std::string& substring, EntryResources resources);
  // Every compile takes this long, shared out as if `parallelism` compilers worked.
  void SetDelay(absl::Duration delay);
  // Compiles wait until Unblock; WaitForBlocked waits until `count` of them do.
  void Block();
  void Unblock();
  void WaitForBlocked(int count);
  void SetParallelism(int parallelism);
  // Compilers() and Select() answer with these; the default is one nvrtc 13.0.88 for every sm_* and
  // compute_*, and one host compiler for "cpu".
  void SetCompilers(std::vector<CompilerInfo> compilers);

  // Compiles begun so far, and how many of those named `substring` as FailFor would find it.
  int64_t calls() const;
  int64_t CallsFor(const std::string& substring) const;
  int max_concurrent() const;
  std::vector<Program> programs() const;

  absl::StatusOr<CompileOutcome> Compile(const Program& program,
                                         const CompileOptions& options) override;
  int parallelism() const override;
  std::vector<CompilerInfo> Compilers() const override;
  absl::StatusOr<CompilerInfo> Select(const std::string& architecture,
                                      int driver_version) const override;

 private:
  struct Rule {
    std::string substring;
    absl::StatusOr<CompileOutcome> result;
  };

  absl::StatusOr<CompileOutcome> Result(const Program& program)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasSlot() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return running_ < parallelism_; }
  bool IsUnblocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !blocked_; }

  mutable Mutex mutex_;
  std::vector<Rule> rules_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<std::string, EntryResources>> resources_ ABSL_GUARDED_BY(mutex_);
  std::vector<CompilerInfo> compilers_ ABSL_GUARDED_BY(mutex_);
  std::vector<Program> programs_ ABSL_GUARDED_BY(mutex_);
  absl::Duration delay_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  bool blocked_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_blocked_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  int max_concurrent_ ABSL_GUARDED_BY(mutex_) = 0;
  int parallelism_ ABSL_GUARDED_BY(mutex_) = 4;
};

// The symbol that FakeCompiler lowers `expression` to: every character outside [A-Za-z0-9_] is '_'.
std::string FakeLoweredName(const std::string& expression);

// The artifact FakeCompiler makes of a program.
Artifact FakeArtifact(const Program& program);

// All values of `field` ("entry", "define", ...) in the bytes of a fake artifact.
std::vector<std::string> FakeArtifactFields(const std::string& bytes, const std::string& field);

}  // namespace hone
