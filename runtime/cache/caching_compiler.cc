#include "runtime/cache/caching_compiler.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/compile/compile_options.h"
#include "runtime/compile/cubin.h"

namespace hone {
namespace {

// A waiter outlasts the leader's limit by this much, for queueing and the way back.
constexpr absl::Duration kWaitMargin = absl::Seconds(30);

CompileOutcome FromStore(Artifact artifact) {
  CompileOutcome outcome;
  outcome.log = artifact.log;
  outcome.log_truncated_bytes = artifact.log_truncated_bytes;
  outcome.artifact = std::move(artifact);
  outcome.cached = true;
  return outcome;
}

// A toolkit's headers do not enter prebuilt binaries.
constexpr char kNoHeaders[] = "";

// However an option is spelled, it is one ingredient.
absl::StatusOr<Key> KeyWith(const Program& program, const std::string& headers_digest) {
  if (program.options.empty()) return ArtifactKey(program, headers_digest);
  Program normalized = program;
  HONE_ASSIGN_OR_RETURN(normalized.options, NormalizeOptions(program.options));
  return ArtifactKey(normalized, headers_digest);
}

}  // namespace

struct CachingCompiler::Flight {
  explicit Flight(CompilePriority priority) : urgency(std::make_shared<CompileUrgency>(priority)) {}
  const std::shared_ptr<CompileUrgency> urgency;
  bool done = false;
  absl::StatusOr<CompileOutcome> result = absl::UnknownError("under way");
};

CachingCompiler::CachingCompiler(Compiler* inner, KernelStore* store)
    : inner_(inner), store_(store) {}
CachingCompiler::~CachingCompiler() = default;

absl::StatusOr<Key> CachingCompiler::KeyFor(const Program& program, int driver_version) const {
  if (!program.prebuilt_bytes.empty()) return ArtifactKey(program, kNoHeaders);
  HONE_ASSIGN_OR_RETURN(const CompilerInfo info,
                        inner_->Select(program.architecture, driver_version));
  return KeyWith(program, info.headers_digest);
}

absl::StatusOr<std::optional<CachingCompiler::Stored>> CachingCompiler::Lookup(
    const Program& program, int driver_version, bool any_build) {
  const absl::StatusOr<Key> key = KeyFor(program, driver_version);
  if (key.ok()) {
    HONE_ASSIGN_OR_RETURN(auto artifact, LookupKey(*key));
    if (artifact) return Stored{.artifact = *std::move(artifact), .current = true};
    if (!any_build || !program.prebuilt_bytes.empty()) return std::nullopt;
  } else if (!absl::IsFailedPrecondition(key.status())) {
    return key.status();
  }
  HONE_ASSIGN_OR_RETURN(const Key any, KeyWith(program, kAnyToolkitHeaders));
  HONE_ASSIGN_OR_RETURN(auto artifact, LookupKey(any));
  if (artifact && (driver_version == 0 || artifact->min_driver <= driver_version)) {
    return Stored{.artifact = *std::move(artifact), .current = false};
  }
  if (!key.ok() && !any_build) return key.status();
  return std::nullopt;
}

absl::StatusOr<std::optional<Artifact>> CachingCompiler::LookupKey(const Key& key) {
  auto found = store_->GetArtifact(key.id());
  if (found.ok() && *found) ++store_hits_;
  if (found.status().code() == absl::StatusCode::kDataLoss) {
    // The store has put the damaged bytes aside or will when they are replaced; here they are a
    // miss.
    ++corruptions_;
    return std::nullopt;
  }
  return found;
}

absl::StatusOr<CompileOutcome> CachingCompiler::Compile(const Program& program,
                                                        const CompileOptions& options) {
  std::string builder;
  if (program.prebuilt_bytes.empty()) {
    HONE_ASSIGN_OR_RETURN(const CompilerInfo info,
                          inner_->Select(program.architecture, options.driver_version));
    builder = info.builder;
  }
  HONE_ASSIGN_OR_RETURN(const Key key, KeyFor(program, options.driver_version));

  std::shared_ptr<Flight> flight;
  bool leader = false;
  {
    MutexLock lock(&mutex_);
    auto& slot = flights_[key.id()];
    leader = slot == nullptr;
    if (leader) slot = std::make_shared<Flight>(options.priority);
    flight = slot;
  }
  if (!leader) {
    ++joined_;
    flight->urgency->Raise(options.priority);
    MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&flight->done), options.timeout + kWaitMargin);
    if (!flight->done) {
      return absl::DeadlineExceededError(absl::StrCat(
          "compile of '", program.name, "' by another caller has not ended; it goes on"));
    }
    return flight->result;
  }
  CompileOptions shared = options;
  shared.urgency = flight->urgency;
  auto result = LookupOrCompile(key, builder, program, shared);
  MutexLock lock(&mutex_);
  flight->result = result;
  flight->done = true;
  flights_.erase(key.id());
  return result;
}

absl::StatusOr<CompileOutcome> CachingCompiler::LookupOrCompile(const Key& key,
                                                                const std::string& builder,
                                                                const Program& program,
                                                                const CompileOptions& options) {
  // A store that cannot be read costs a compile, not the answer.
  auto stored = LookupKey(key);
  if (stored.ok() && *stored && (builder.empty() || (*stored)->builder == builder)) {
    return FromStore(**std::move(stored));
  }
  CompileOutcome outcome;
  if (program.prebuilt_bytes.empty()) {
    ++compiles_;
    HONE_ASSIGN_OR_RETURN(outcome, inner_->Compile(program, options));
  } else {
    HONE_ASSIGN_OR_RETURN(
        outcome.artifact,
        PrebuiltArtifact(program.prebuilt_bytes, program.architecture, program.prebuilt_symbols));
  }
  if (!outcome.log.empty()) {
    // Best effort: the reply carries an excerpt anyway.
    if (auto id = store_->PutLog(outcome.log, outcome.log_truncated_bytes); id.ok()) {
      outcome.log_id = *id;
      if (outcome.rejection) outcome.rejection->log_id = *id;
    }
  }
  if (outcome.artifact) {
    const absl::Status put = store_->PutArtifact(key, *outcome.artifact);
    if (!put.ok()) outcome.not_cached_reason = std::string(put.message());
    if (put.ok() && program.prebuilt_bytes.empty()) {
      HONE_ASSIGN_OR_RETURN(const Key any, KeyWith(program, kAnyToolkitHeaders));
      // Best effort: it is wanted only once the compiler is gone or another.
      store_->PutArtifact(any, *outcome.artifact).IgnoreError();
    }
  }
  return outcome;
}

}  // namespace hone
