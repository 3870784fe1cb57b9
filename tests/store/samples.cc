#include "tests/store/samples.h"

#include <sstream>
#include <utility>

#include "runtime/base/sha256.h"

namespace hone {

Key SampleKey(const std::string& name) {
  return Key({{"source", name}, {"architecture", "sm_90a"}});
}

Artifact SampleArtifact(const std::string& bytes) {
  Artifact artifact;
  artifact.format = ArtifactFormat::kCubin;
  artifact.bytes = bytes;
  artifact.sha256 = Sha256Hex(bytes);
  artifact.architecture = "sm_90a";
  artifact.builder = "nvrtc 13.0.88";
  artifact.min_driver = 13000;
  artifact.lowered_names = {{"copy_1d<float, 256>", "_Z7copy_1dIfLi256EE"},
                            {"copy_1d_reference<float>", "_Z17copy_1d_referenceIfE"}};
  artifact.resources = {{"_Z7copy_1dIfLi256EE", 32, 1024, 8, 256},
                        {"_Z17copy_1d_referenceIfE", 12, 0, 0, 0}};
  artifact.log = "warning: line 1\nwarning: \"line\\2\"\n";
  artifact.log_truncated_bytes = 3;
  artifact.built_at_unix_ms = 1'796'000'000'123;
  return artifact;
}

Measurement SampleMeasurement(const std::string& config, std::vector<double> samples_ns) {
  Measurement measurement;
  if (!config.empty()) measurement.config = *Config::Parse(config);
  measurement.samples_ns = std::move(samples_ns);
  Summarise(measurement);
  measurement.verified_sizes = {"n=67108864", "n=0", "n=1023"};
  measurement.verified = true;
  measurement.output_sha256 = Sha256Hex("outputs");
  measurement.artifact_sha256 = Sha256Hex("bytes");
  measurement.measured_at_unix_ms = 500;
  measurement.driver = "580.159.04";
  measurement.compiler_build = "13.0.88";
  measurement.clock_mhz = 1980;
  measurement.memory_clock_mhz = 3201;
  measurement.paired_ratio = 1.0125;
  measurement.other_processes = 2;
  measurement.same_work_as = "XBLOCK=64 VEC=1";
  measurement.unstable = "the fastest took 9 % longer than in other rounds";
  measurement.small_outputs = {{"n=0", "0123456789abcdef"}, {"n=1023", "fedcba9876543210"}};
  return measurement;
}

Measurement SampleRejection(const std::string& config, RejectionKind kind) {
  Measurement measurement;
  measurement.config = *Config::Parse(config);
  measurement.rejection = Rejection{.kind = kind,
                                    .detail = "needs 240 KiB\nof shared memory",
                                    .needed = 245760,
                                    .limit = 232448,
                                    .log_id = Sha256Hex("log")};
  measurement.measured_at_unix_ms = 600;
  return measurement;
}

TuningRecord SampleTuning(const std::string& key) {
  TuningRecord tuning;
  tuning.key = key;
  tuning.ingredients = {{"problem", "T=F32 n=67108864"}, {"policy", "v1 cold"}};
  tuning.template_name = "copy_1d";
  tuning.kernel_digest = "kernel digest";
  tuning.problem = "T=F32 n=67108864";
  tuning.architecture = "sm_90a";
  tuning.device = {.kind = "cuda",
                   .architecture = "sm_90a",
                   .sm_count = 132,
                   .clock_khz = 1'980'000,
                   .memory_clock_khz = 3'201'000,
                   .memory_bus_bits = 6144,
                   .l2_bytes = 62'914'560,
                   .memory_bytes = 150'000'000'000,
                   .slice = "1g.18gb"};
  tuning.created_at_unix_ms = 1000;
  return tuning;
}

Winner SampleWinner(const std::string& tuning_key, const std::string& config,
                    const std::string& artifact_sha256) {
  Winner winner;
  winner.tuning_key = tuning_key;
  winner.template_digest = "digest";
  winner.variants = {{*Config::Parse(config), artifact_sha256}};
  winner.runner_up_ratio = 1.0625;
  winner.decided_at_unix_ms = 2000;
  winner.driver = "580.159.04";
  winner.compiler_build = "nvrtc 13.0.88";
  return winner;
}

WinnerPin SamplePin(const std::string& tuning_key, const std::string& config) {
  return {.tuning_key = tuning_key,
          .config = *Config::Parse(config),
          .reason = "known on every rank",
          .artifact_sha256 = Sha256Hex("bytes"),
          .pinned_at_unix_ms = 2500};
}

Miss SampleMiss(const std::string& problem) {
  return {.template_name = "copy_1d",
          .template_digest = "digest",
          .problem = problem,
          .architecture = "sm_90a",
          .policy = "FROZEN",
          .count = 1,
          .last_at_unix_ms = 3000};
}

DeviceCeilings SampleCeilings() {
  DeviceCeilings ceilings;
  ceilings.ceilings = {{kCopyCeiling, 4012.5, "GB/s", "16-byte accesses, 8 in flight"},
                       {kLaunchCeiling, 1850, "ns", ""}};
  ceilings.measured_at_unix_ms = 3500;
  ceilings.driver = "580.159.04";
  ceilings.clock_mhz = 1980;
  return ceilings;
}

std::string Describe(const Artifact& artifact) {
  std::ostringstream out;
  out << static_cast<int>(artifact.format) << "\n"
      << artifact.sha256 << "\n"
      << artifact.architecture << "\n"
      << artifact.builder << "\n"
      << artifact.min_driver << "\n"
      << artifact.log << "\n"
      << artifact.log_truncated_bytes << "\n"
      << artifact.built_at_unix_ms << "\n";
  for (const auto& [expression, symbol] : artifact.lowered_names) {
    out << expression << " -> " << symbol << "\n";
  }
  for (const EntryResources& entry : artifact.resources) {
    out << entry.symbol << " " << entry.registers << " " << entry.static_shared_bytes << " "
        << entry.local_bytes << " " << entry.max_threads_per_block << "\n";
  }
  return out.str();
}

std::string Describe(const Measurement& measurement) {
  std::ostringstream out;
  out << measurement.config.ToString() << "\n";
  if (measurement.rejection.has_value()) {
    const Rejection& rejection = *measurement.rejection;
    out << Name(rejection.kind) << " " << rejection.detail << " " << rejection.needed << " "
        << rejection.limit << " " << rejection.log_id << "\n";
  }
  out << measurement.median_ns << " " << measurement.spread << " " << measurement.verified << "\n";
  for (const std::string& sizes : measurement.verified_sizes) out << sizes << "\n";
  out << measurement.output_sha256 << "\n"
      << measurement.artifact_sha256 << "\n"
      << measurement.measured_at_unix_ms << "\n"
      << measurement.driver << "\n"
      << measurement.compiler_build << "\n"
      << measurement.clock_mhz << "\n";
  return out.str();
}

std::string Describe(const TuningRecord& tuning) {
  std::ostringstream out;
  out << tuning.key << "\n"
      << tuning.template_name << "\n"
      << tuning.kernel_digest << "\n"
      << tuning.problem << "\n"
      << tuning.architecture << "\n"
      << tuning.device.Canonical() << "\n"
      << tuning.created_at_unix_ms << "\n";
  for (const auto& [name, value] : tuning.ingredients) out << name << "=" << value << "\n";
  return out.str();
}

std::string Describe(const Winner& winner) {
  std::ostringstream out;
  out << winner.tuning_key << "\n"
      << winner.template_digest << "\n"
      << winner.runner_up_ratio << "\n"
      << winner.generation << "\n"
      << winner.decided_at_unix_ms << "\n";
  for (const WinnerVariant& variant : winner.variants) {
    out << variant.config.ToString() << " " << variant.artifact_sha256 << "\n";
  }
  return out.str();
}

}  // namespace hone
