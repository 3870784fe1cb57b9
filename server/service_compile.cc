// Raw programs, and the logs of all compiles.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "runtime/base/error_info.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"
#include "runtime/compile/compile_options.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/logging.h"
#include "server/reply_size.h"

namespace hone {
namespace {

using CompileCall = CallPtr<v1::CompileRequest, v1::CompileResponse>;

// Beyond what any real program instantiates, and short of what a request could otherwise carry.
constexpr int kArchitecturesMax = 16;
constexpr int kNameExpressionsMax = 1024;
constexpr size_t kNameExpressionBytesMax = 4096;
// Of all for all architectures: a reply has each with its symbol twice, and must stay small enough.
constexpr size_t kNameExpressionsBytesMax = 512 * 1024;
constexpr size_t kReplyLogBytesMax = 16 * 1024;

absl::Status TooLarge(absl::string_view field, int64_t needed, int64_t available,
                      absl::string_view advice) {
  return WithErrorInfo(absl::ResourceExhaustedError(absl::StrCat(
                           field, " has ", needed, " bytes; the limit is ", available, advice)),
                       {.reason = "REQUEST_TOO_LARGE", .needed = needed, .available = available});
}

absl::Status CheckHeaders(const v1::CompileRequest& request, const ServiceLimits& limits) {
  int64_t bytes = 0;
  std::set<std::string> names;
  for (int i = 0; i < request.headers_size(); ++i) {
    const v1::SourceFile& header = request.headers(i);
    const std::string field = absl::StrCat("headers[", i, "]");
    if (absl::Status status = CheckRelativePath(header.name()); !status.ok()) {
      return InvalidField(absl::StrCat(field, ".name"), status.message());
    }
    if (!names.insert(header.name()).second) {
      return InvalidField(absl::StrCat(field, ".name"),
                          absl::StrCat("'", header.name(), "' is given twice"));
    }
    const size_t at = FindInvalidUtf8(header.content());
    if (at != absl::string_view::npos) {
      return InvalidField(absl::StrCat(field, ".content"),
                          absl::StrCat("byte ", at, " is not valid UTF-8; headers must be UTF-8"));
    }
    if (header.content().find('\0') != std::string::npos) {
      return InvalidField(absl::StrCat(field, ".content"), "holds a NUL byte; headers are text");
    }
    bytes += static_cast<int64_t>(header.content().size());
  }
  if (bytes <= limits.headers_bytes_max) return absl::OkStatus();
  return TooLarge("headers", bytes, limits.headers_bytes_max,
                  ". Register them as a header set and name it in header_sets");
}

absl::Status CheckCompile(const v1::CompileRequest& request, const ServiceLimits& limits) {
  if (request.source().empty()) return InvalidField("source", "is empty; give CUDA C++");
  if (const auto bytes = static_cast<int64_t>(request.source().size());
      bytes > limits.source_bytes_max) {
    return TooLarge("source", bytes, limits.source_bytes_max, " (1 MiB)");
  }
  if (request.driver_version() < 0) {
    return InvalidField("driver_version",
                        absl::StrCat(request.driver_version(),
                                     " is negative; give 0 or a version "
                                     "as cuDriverGetVersion does, for instance 13000"));
  }
  if (request.architectures_size() > kArchitecturesMax) {
    return InvalidField("architectures", absl::StrCat(request.architectures_size(),
                                                      " are given; at most ", kArchitecturesMax));
  }
  if (request.name_expressions_size() > kNameExpressionsMax) {
    return InvalidField(
        "name_expressions",
        absl::StrCat(request.name_expressions_size(), " are given; at most ", kNameExpressionsMax));
  }
  size_t all_bytes = 0;
  for (int i = 0; i < request.name_expressions_size(); ++i) {
    const size_t bytes = request.name_expressions(i).size();
    all_bytes += bytes * static_cast<size_t>(std::max(1, request.architectures_size()));
    if (bytes > 0 && bytes <= kNameExpressionBytesMax) continue;
    return InvalidField(absl::StrCat("name_expressions[", i, "]"),
                        absl::StrCat("has ", bytes, " bytes; give 1 to ", kNameExpressionBytesMax));
  }
  if (all_bytes > kNameExpressionsBytesMax) {
    return InvalidField("name_expressions",
                        absl::StrCat("have ", all_bytes, " bytes for all architectures; at most ",
                                     kNameExpressionsBytesMax, ": compile fewer at a time"));
  }
  return CheckHeaders(request, limits);
}

// Digests of the header sets, named by digest or by registered name.
absl::StatusOr<std::vector<std::string>> ResolveHeaderSets(const v1::CompileRequest& request,
                                                           KernelStore& store) {
  std::vector<std::string> digests;
  for (int i = 0; i < request.header_sets_size(); ++i) {
    const std::string& asked = request.header_sets(i);
    HONE_ASSIGN_OR_RETURN(std::optional<std::string> digest, store.FindHeaderSet(asked));
    if (!digest.has_value()) {
      return absl::NotFoundError(absl::StrCat("header_sets[", i,
                                              "]: no header set has the digest or name '", asked,
                                              "'; register it with hone headers add"));
    }
    digests.push_back(*std::move(digest));
  }
  return digests;
}

absl::StatusOr<Program> ProgramOf(const v1::CompileRequest& request, KernelStore& store) {
  Program program;
  program.name = request.name().empty() ? "program.cu" : request.name();
  program.source = request.source();
  for (const v1::SourceFile& header : request.headers()) {
    program.headers.push_back({header.name(), header.content()});
  }
  HONE_ASSIGN_OR_RETURN(program.header_sets, ResolveHeaderSets(request, store));
  HONE_ASSIGN_OR_RETURN(program.options,
                        NormalizeOptions({request.options().begin(), request.options().end()}));
  program.name_expressions = {request.name_expressions().begin(), request.name_expressions().end()};
  return program;
}

// Without an architecture in the request, and for "auto": that of the first device.
absl::StatusOr<std::vector<std::string>> ArchitecturesOf(const v1::CompileRequest& request,
                                                         const Engine& engine) {
  std::vector<std::string> architectures(request.architectures().begin(),
                                         request.architectures().end());
  if (architectures.empty()) architectures.emplace_back(kAutoArchitecture);
  for (std::string& architecture : architectures) {
    if (architecture != kAutoArchitecture) continue;
    const std::vector<DeviceInfo> devices = engine.cache->Devices();
    if (devices.empty()) {
      return InvalidField(
          "architectures",
          absl::StrCat(request.architectures_size() == 0 ? "is empty" : "holds auto",
                       " and this daemon has no device whose architecture could be taken; "
                       "name one, for instance sm_90a"));
    }
    architecture = devices.front().architecture;
  }
  return architectures;
}

absl::Status RejectionError(const CompileOutcome& outcome, const Program& program) {
  const Rejection& rejection = *outcome.rejection;
  const std::string text =
      absl::StrCat(program.name, " for ", program.architecture, ": ", rejection.detail);
  const bool at_fault = rejection.kind == RejectionKind::kCompile;
  const ErrorInfo info{.reason = at_fault ? "COMPILE_FAILED" : "COMPILE_LIMIT",
                       .excerpt = outcome.excerpt,
                       .log_id = outcome.log_id,
                       .error_count = outcome.error_count,
                       .error_limit_reached = outcome.error_limit_reached,
                       .needed = rejection.needed,
                       .available = rejection.limit};
  if (at_fault) return WithErrorInfo(absl::InvalidArgumentError(text), info);
  if (rejection.kind == RejectionKind::kTimeout) {
    return WithErrorInfo(absl::DeadlineExceededError(text), info);
  }
  return WithErrorInfo(absl::ResourceExhaustedError(text), info);
}

std::string PtxNote(const Artifact& artifact) {
  if (artifact.format != ArtifactFormat::kPtx) return "";
  return absl::StrFormat(
      "PTX only: the driver that loads it compiles it, and must be for CUDA %d.%d or later",
      artifact.min_driver / 1000, artifact.min_driver % 1000 / 10);
}

// Without the bytes.
v1::CompiledArtifact ToProto(const CompileOutcome& outcome) {
  const Artifact& artifact = *outcome.artifact;
  v1::CompiledArtifact proto;
  *proto.mutable_info() = ToProto(artifact, outcome.log_id);
  proto.set_log(BoundedUtf8(outcome.log, kReplyLogBytesMax));
  proto.set_cached(outcome.cached);
  proto.set_not_cached_reason(outcome.not_cached_reason);
  proto.set_note(PtxNote(artifact));
  return proto;
}

// Adds the bytes of each artifact as far as the reply stays small enough; the others are fetched.
void AddData(const std::vector<CompileOutcome>& outcomes, const ServiceLimits& limits,
             v1::CompileResponse& response) {
  size_t size = response.ByteSizeLong();
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const std::string& bytes = outcomes[i].artifact->bytes;
    if (static_cast<int64_t>(bytes.size()) > limits.chunk_bytes) continue;
    if (size + bytes.size() > kReplyBytesMax) continue;
    response.mutable_artifacts(static_cast<int>(i))->set_data(bytes);
    size += bytes.size();
  }
}

void LogCompile(const Caller& caller, const Program& program,
                const absl::StatusOr<CompileOutcome>& outcome, absl::Duration took) {
  LogEvent event("compile");
  event.Add("program", program.name).Add("architecture", program.architecture);
  if (!outcome.ok()) {
    event.Add("result", "error").Add("reason", outcome.status().message());
  } else if (outcome->rejection.has_value()) {
    event.Add("result", "rejected").Add("kind", Name(outcome->rejection->kind));
    event.Add("reason", BoundedUtf8(outcome->rejection->detail, 200));
  } else {
    event.Add("result", outcome->cached ? "cached" : "compiled");
    event.Add("sha256", outcome->artifact->sha256);
  }
  event.Add("took_ms", absl::ToInt64Milliseconds(took));
  event.Add("uid", static_cast<int64_t>(caller.credentials.uid)).Write();
}

// On a compile thread: blocks while workers compile.
absl::StatusOr<v1::CompileResponse> CompileAll(ServiceContext& context, Engine& engine,
                                               const CompileCall& call) {
  HONE_RETURN_IF_ERROR(CheckSourceTrusted(engine, /*from_catalog=*/false));
  HONE_ASSIGN_OR_RETURN(Program program, ProgramOf(call->request(), *context.store));
  HONE_ASSIGN_OR_RETURN(const auto architectures, ArchitecturesOf(call->request(), engine));
  CompileOptions options;
  options.timeout = context.limits.compile_timeout;
  options.priority = CompilePriority::kInteractive;
  options.driver_version = call->request().driver_version();
  v1::CompileResponse response;
  std::vector<CompileOutcome> outcomes;
  for (const std::string& architecture : architectures) {
    if (call->cancelled()) return absl::CancelledError("the caller has gone");
    program.architecture = architecture;
    const absl::Time start = absl::Now();
    auto outcome = engine.compiler->Compile(program, options);
    LogCompile(call->caller(), program, outcome, absl::Now() - start);
    HONE_RETURN_IF_ERROR(outcome.status());
    if (outcome->rejection.has_value()) return RejectionError(*outcome, program);
    *response.add_artifacts() = ToProto(*outcome);
    outcomes.push_back(*std::move(outcome));
  }
  AddData(outcomes, context.limits, response);
  return response;
}

}  // namespace

absl::Status CheckSourceTrusted(const Engine& engine, bool from_catalog) {
  if (from_catalog || !engine.catalog_only) return absl::OkStatus();
  return WithErrorInfo(
      absl::FailedPreconditionError("this host cannot confine the compiler (its kernel has no "
                                    "Landlock), so only templates of "
                                    "the daemon's own catalog are compiled"),
      {.reason = "NO_SANDBOX"});
}

void Compile(ServiceContext& context, CompileCall call) {
  if (absl::Status status = CheckCompile(call->request(), context.limits); !status.ok()) {
    return call->Fail(status);
  }
  const absl::Time deadline = absl::Now() + context.limits.wait_default;
  context.gate->WhenReady(deadline, [&context, call](absl::StatusOr<Engine*> engine) {
    if (!engine.ok()) return call->Fail(engine.status());
    const absl::Status queued =
        context.compiles->Submit(call->caller().connection, [&context, call, engine = *engine] {
          if (call->cancelled()) return;
          auto response = CompileAll(context, *engine, call);
          if (!response.ok()) return call->Fail(response.status());
          call->Reply(*response);
        });
    if (!queued.ok()) call->Fail(queued);
  });
}

void GetLog(ServiceContext& context, CallPtr<v1::GetLogRequest, v1::GetLogResponse> call) {
  RunLookup(context, call, [&context, call] {
    const std::string& id = call->request().log_id();
    auto log = context.store->GetLog(id);
    if (!log.ok()) return call->Fail(log.status());
    if (!log->has_value()) {
      return call->Fail(absl::NotFoundError(
          absl::StrCat("log_id: there is no log '", BoundedUtf8(id, 80),
                       "'; ids come with compile errors, rejections and artifacts")));
    }
    v1::GetLogResponse response;
    response.set_log(BoundedUtf8((*log)->first, (*log)->first.size() * 2 + 16));
    response.set_truncated_bytes((*log)->second);
    call->Reply(response);
  });
}

}  // namespace hone
