#include "runtime/worker/convert.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/utf8.h"

namespace hone {
namespace {

int32_t Narrow(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, 0, std::numeric_limits<int32_t>::max()));
}

absl::StatusOr<ArtifactFormat> ParseFormat(const std::string& text) {
  for (ArtifactFormat format :
       {ArtifactFormat::kCubin, ArtifactFormat::kPtx, ArtifactFormat::kHostElf}) {
    if (Name(format) == text) return format;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown artifact format '", text, "'"));
}

absl::StatusOr<RejectionKind> ParseKind(const std::string& text) {
  for (int value = 1; value <= static_cast<int>(RejectionKind::kCrash); ++value) {
    const auto kind = static_cast<RejectionKind>(value);
    if (Name(kind) == text) return kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown rejection kind '", text, "'"));
}

}  // namespace

v1::worker::WireProgram ToWire(const Program& program,
                               const std::vector<HeaderSetDirectory>& header_sets) {
  v1::worker::WireProgram wire;
  wire.set_name(program.name);
  wire.set_source(program.source);
  for (const SourceFile& header : program.headers) {
    v1::SourceFile* file = wire.add_headers();
    file->set_name(header.name);
    file->set_content(header.content);
  }
  for (const HeaderSetDirectory& set : header_sets) {
    v1::worker::WireHeaderSet* wire_set = wire.add_header_sets();
    wire_set->set_digest(set.digest);
    wire_set->set_directory(set.directory);
  }
  for (const std::string& option : program.options) wire.add_options(option);
  for (const auto& [name, value] : program.defines) {
    v1::Define* define = wire.add_defines();
    define->set_name(name);
    define->set_value(value);
  }
  for (const std::string& expression : program.name_expressions) {
    wire.add_name_expressions(expression);
  }
  wire.set_architecture(program.architecture);
  return wire;
}

Program FromWire(const v1::worker::WireProgram& wire) {
  Program program;
  program.name = wire.name();
  program.source = wire.source();
  for (const auto& header : wire.headers()) {
    program.headers.push_back({header.name(), header.content()});
  }
  for (const auto& set : wire.header_sets()) program.header_sets.push_back(set.directory());
  program.options.assign(wire.options().begin(), wire.options().end());
  for (const auto& define : wire.defines()) {
    program.defines.emplace_back(define.name(), define.value());
  }
  program.name_expressions.assign(wire.name_expressions().begin(), wire.name_expressions().end());
  program.architecture = wire.architecture();
  return program;
}

v1::worker::WireArtifact ToWire(const Artifact& artifact) {
  v1::worker::WireArtifact wire;
  v1::ArtifactInfo* info = wire.mutable_info();
  info->set_sha256(artifact.sha256);
  info->set_size_bytes(static_cast<int64_t>(artifact.bytes.size()));
  info->set_format(Name(artifact.format));
  info->set_architecture(artifact.architecture);
  info->set_builder(artifact.builder);
  info->set_min_driver(artifact.min_driver);
  for (const auto& [expression, symbol] : artifact.lowered_names) {
    (*info->mutable_lowered_names())[expression] = symbol;
  }
  for (const EntryResources& resources : artifact.resources) {
    v1::EntryResources* entry = info->add_resources();
    entry->set_symbol(resources.symbol);
    entry->set_registers(resources.registers);
    entry->set_static_shared_bytes(Narrow(resources.static_shared_bytes));
    entry->set_local_bytes(Narrow(resources.local_bytes));
    entry->set_max_threads_per_block(resources.max_threads_per_block);
  }
  info->set_built_at_unix_ms(artifact.built_at_unix_ms);
  wire.set_data(artifact.bytes);
  wire.set_log(ReplaceInvalidUtf8(artifact.log));
  wire.set_log_truncated_bytes(artifact.log_truncated_bytes);
  return wire;
}

absl::StatusOr<Artifact> FromWire(const v1::worker::WireArtifact& wire) {
  const v1::ArtifactInfo& info = wire.info();
  Artifact artifact;
  HONE_ASSIGN_OR_RETURN(artifact.format, ParseFormat(info.format()));
  artifact.bytes = wire.data();
  artifact.sha256 = info.sha256();
  if (Sha256Hex(artifact.bytes) != artifact.sha256) {
    return absl::DataLossError(
        absl::StrCat("artifact ", info.sha256(), " does not match its bytes"));
  }
  artifact.architecture = info.architecture();
  artifact.builder = info.builder();
  artifact.min_driver = info.min_driver();
  artifact.lowered_names.insert(info.lowered_names().begin(), info.lowered_names().end());
  for (const auto& entry : info.resources()) {
    EntryResources resources;
    resources.symbol = entry.symbol();
    resources.registers = entry.registers();
    resources.static_shared_bytes = entry.static_shared_bytes();
    resources.local_bytes = entry.local_bytes();
    resources.max_threads_per_block = entry.max_threads_per_block();
    artifact.resources.push_back(std::move(resources));
  }
  artifact.log = wire.log();
  artifact.log_truncated_bytes = wire.log_truncated_bytes();
  artifact.built_at_unix_ms = info.built_at_unix_ms();
  return artifact;
}

v1::Rejection ToWire(const Rejection& rejection) {
  v1::Rejection wire;
  wire.set_kind(Name(rejection.kind));
  wire.set_detail(ReplaceInvalidUtf8(rejection.detail));
  wire.set_needed(rejection.needed);
  wire.set_limit(rejection.limit);
  wire.set_log_id(rejection.log_id);
  return wire;
}

absl::StatusOr<Rejection> FromWire(const v1::Rejection& wire) {
  Rejection rejection;
  HONE_ASSIGN_OR_RETURN(rejection.kind, ParseKind(wire.kind()));
  rejection.detail = wire.detail();
  rejection.needed = wire.needed();
  rejection.limit = wire.limit();
  rejection.log_id = wire.log_id();
  return rejection;
}

v1::worker::WireStatus ToWire(const absl::Status& status) {
  v1::worker::WireStatus wire;
  wire.set_code(static_cast<int32_t>(status.code()));
  wire.set_message(ReplaceInvalidUtf8(std::string(status.message())));
  if (const auto info = status.GetPayload(kErrorInfoPayload); info.has_value()) {
    wire.set_error_info(std::string(*info));
  }
  return wire;
}

absl::Status FromWire(const v1::worker::WireStatus& wire) {
  absl::Status status(static_cast<absl::StatusCode>(wire.code()), wire.message());
  if (!wire.error_info().empty()) {
    status.SetPayload(kErrorInfoPayload, absl::Cord(wire.error_info()));
  }
  return status;
}

v1::worker::CompileReply ToWire(const absl::StatusOr<CompileOutcome>& outcome) {
  v1::worker::CompileReply wire;
  if (!outcome.ok()) {
    *wire.mutable_error() = ToWire(outcome.status());
    return wire;
  }
  if (outcome->artifact.has_value()) *wire.mutable_artifact() = ToWire(*outcome->artifact);
  if (outcome->rejection.has_value()) *wire.mutable_rejection() = ToWire(*outcome->rejection);
  wire.set_log(ReplaceInvalidUtf8(outcome->log));
  wire.set_log_truncated_bytes(outcome->log_truncated_bytes);
  wire.set_error_count(outcome->error_count);
  wire.set_error_limit_reached(outcome->error_limit_reached);
  wire.set_excerpt(ReplaceInvalidUtf8(outcome->excerpt));
  return wire;
}

absl::StatusOr<CompileOutcome> FromWire(const v1::worker::CompileReply& wire) {
  if (wire.has_error()) {
    absl::Status error = FromWire(wire.error());
    return error.ok() ? absl::InternalError("a worker's error without a code") : error;
  }
  CompileOutcome outcome;
  if (wire.has_artifact()) {
    HONE_ASSIGN_OR_RETURN(outcome.artifact, FromWire(wire.artifact()));
  }
  if (wire.has_rejection()) {
    HONE_ASSIGN_OR_RETURN(outcome.rejection, FromWire(wire.rejection()));
  }
  if (outcome.artifact.has_value() == outcome.rejection.has_value()) {
    return absl::InternalError("a worker's reply holds neither or both of artifact and rejection");
  }
  outcome.log = wire.log();
  outcome.log_truncated_bytes = wire.log_truncated_bytes();
  outcome.error_count = wire.error_count();
  outcome.error_limit_reached = wire.error_limit_reached();
  outcome.excerpt = wire.excerpt();
  return outcome;
}

v1::worker::CompilerReply ToWire(const CompilerInfo& info) {
  v1::worker::CompilerReply wire;
  wire.set_kind(info.kind);
  wire.set_build(info.build);
  wire.set_path(info.path);
  wire.set_cuda_version(info.cuda_version);
  wire.set_available(info.available);
  wire.set_detail(ReplaceInvalidUtf8(info.detail));
  for (const std::string& architecture : info.architectures) wire.add_architectures(architecture);
  wire.set_headers_path(info.headers_path);
  wire.set_headers_version(info.headers_version);
  wire.set_headers_digest(info.headers_digest);
  wire.set_sandbox(info.sandbox);
  wire.set_builder(info.builder);
  return wire;
}

CompilerInfo FromWire(const v1::worker::CompilerReply& wire) {
  CompilerInfo info;
  info.kind = wire.kind();
  info.build = wire.build();
  info.path = wire.path();
  info.cuda_version = wire.cuda_version();
  info.available = wire.available();
  info.detail = wire.detail();
  info.architectures.assign(wire.architectures().begin(), wire.architectures().end());
  info.headers_path = wire.headers_path();
  info.headers_version = wire.headers_version();
  info.headers_digest = wire.headers_digest();
  info.sandbox = wire.sandbox();
  info.builder = wire.builder();
  return info;
}

}  // namespace hone
