// Nouns with every field set, and their text for comparisons.
#pragma once

#include <string>
#include <vector>

#include "runtime/store/kernel_store.h"

namespace hone {

Key SampleKey(const std::string& name);
Artifact SampleArtifact(const std::string& bytes);
Measurement SampleMeasurement(const std::string& config, std::vector<double> samples_ns);
Measurement SampleRejection(const std::string& config, RejectionKind kind);
TuningRecord SampleTuning(const std::string& key);
// Under the template digest "digest".
Winner SampleWinner(const std::string& tuning_key, const std::string& config,
                    const std::string& artifact_sha256);
WinnerPin SamplePin(const std::string& tuning_key, const std::string& config);
Miss SampleMiss(const std::string& problem);
DeviceCeilings SampleCeilings();

// Every field that the files of schema 1 have, but bytes and what listings fill in, a line each.
std::string Describe(const Artifact& artifact);
std::string Describe(const Measurement& measurement);
std::string Describe(const TuningRecord& tuning);
std::string Describe(const Winner& winner);

}  // namespace hone
