// What stores keep of each noun, as record text (record.h). Bytes of artifacts are kept beside, not
// in, the text.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/store/kernel_store.h"

namespace hone {

// Decoders: DATA_LOSS for text that the encoder did not write.

// Everything but the bytes; with the key's ingredients, for people.
std::string EncodeArtifact(const Key& key, const Artifact& artifact);
absl::StatusOr<Artifact> DecodeArtifact(const std::string& record);

std::string EncodeMeasurement(const Measurement& measurement);
absl::StatusOr<Measurement> DecodeMeasurement(const std::string& record);

// Without what listings fill in.
std::string EncodeTuning(const TuningRecord& tuning);
absl::StatusOr<TuningRecord> DecodeTuning(const std::string& record);

std::string EncodeWinner(const Winner& winner);
absl::StatusOr<Winner> DecodeWinner(const std::string& record);

// With the fingerprint, for people.
std::string EncodeCeilings(const DeviceFingerprint& device, const DeviceCeilings& ceilings);
absl::StatusOr<DeviceCeilings> DecodeCeilings(const std::string& record);

std::string EncodePin(const WinnerPin& pin);
absl::StatusOr<WinnerPin> DecodePin(const std::string& record);

std::string EncodeTemplate(const StoredTemplate& stored);
absl::StatusOr<StoredTemplate> DecodeTemplate(const std::string& record);

std::string EncodeFiles(const std::vector<SourceFile>& files);
absl::StatusOr<std::vector<SourceFile>> DecodeFiles(const std::string& record);

}  // namespace hone
