// The nouns of compiling on the wire between daemon and worker.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hone/v1/worker.pb.h"
#include "runtime/compile/compiler.h"
#include "runtime/kernel/measurement.h"
#include "runtime/kernel/program.h"

namespace hone {

// A registered header set as a worker sees it.
struct HeaderSetDirectory {
  std::string digest;
  std::string directory;
};

// `header_sets` stand for program.header_sets, in the same order.
v1::worker::WireProgram ToWire(const Program& program,
                               const std::vector<HeaderSetDirectory>& header_sets);
// In a worker, Program::header_sets holds the directories, not the digests.
Program FromWire(const v1::worker::WireProgram& wire);

v1::worker::WireArtifact ToWire(const Artifact& artifact);
// DATA_LOSS when the bytes do not match their hash, INVALID_ARGUMENT for an unknown format.
absl::StatusOr<Artifact> FromWire(const v1::worker::WireArtifact& wire);

v1::Rejection ToWire(const Rejection& rejection);
// INVALID_ARGUMENT for an unknown kind.
absl::StatusOr<Rejection> FromWire(const v1::Rejection& wire);

v1::worker::WireStatus ToWire(const absl::Status& status);
absl::Status FromWire(const v1::worker::WireStatus& wire);

// An outcome, or the error that stands in its place.
v1::worker::CompileReply ToWire(const absl::StatusOr<CompileOutcome>& outcome);
absl::StatusOr<CompileOutcome> FromWire(const v1::worker::CompileReply& wire);

v1::worker::CompilerReply ToWire(const CompilerInfo& info);
CompilerInfo FromWire(const v1::worker::CompilerReply& wire);

}  // namespace hone
