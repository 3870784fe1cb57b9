#include "runtime/store/stored_rows.h"

#include <utility>

#include "runtime/base/status_macros.h"
#include "runtime/store/record.h"

namespace hone {
namespace {

// The i-th value of each of two repeated fields that were written in pairs.
std::vector<std::pair<std::string, std::string>> ReadPairs(RecordReader& reader,
                                                           const std::string& first,
                                                           const std::string& second) {
  std::vector<std::string> firsts = reader.Texts(first);
  std::vector<std::string> seconds = reader.Texts(second);
  if (firsts.size() != seconds.size()) {
    reader.Fail("'" + first + "' and '" + second + "' differ in number");
    return {};
  }
  std::vector<std::pair<std::string, std::string>> pairs;
  for (size_t i = 0; i < firsts.size(); ++i) {
    pairs.emplace_back(std::move(firsts[i]), std::move(seconds[i]));
  }
  return pairs;
}

Config ReadConfig(RecordReader& reader, const std::string& text) {
  if (text.empty()) return Config();  // a template without tunables
  absl::StatusOr<Config> config = Config::Parse(text);
  if (config.ok()) return *std::move(config);
  reader.Fail("config '" + text + "' does not parse");
  return Config();
}

void WriteResources(const Artifact& artifact, RecordWriter& writer) {
  for (const EntryResources& entry : artifact.resources) {
    writer.Text("resources.symbol", entry.symbol)
        .Int("resources.registers", entry.registers)
        .Int("resources.static_shared_bytes", entry.static_shared_bytes)
        .Int("resources.local_bytes", entry.local_bytes)
        .Int("resources.max_threads_per_block", entry.max_threads_per_block);
  }
}

std::vector<EntryResources> ReadResources(RecordReader& reader) {
  const std::vector<std::string> symbols = reader.Texts("resources.symbol");
  const std::vector<int64_t> registers = reader.Ints("resources.registers");
  const std::vector<int64_t> shared = reader.Ints("resources.static_shared_bytes");
  const std::vector<int64_t> local = reader.Ints("resources.local_bytes");
  const std::vector<int64_t> threads = reader.Ints("resources.max_threads_per_block");
  const size_t count = symbols.size();
  if (registers.size() != count || shared.size() != count || local.size() != count ||
      threads.size() != count) {
    reader.Fail("the fields of 'resources' differ in number");
    return {};
  }
  std::vector<EntryResources> entries;
  for (size_t i = 0; i < count; ++i) {
    entries.push_back({.symbol = symbols[i],
                       .registers = static_cast<int>(registers[i]),
                       .static_shared_bytes = shared[i],
                       .local_bytes = local[i],
                       .max_threads_per_block = static_cast<int>(threads[i])});
  }
  return entries;
}

void WriteDevice(const DeviceFingerprint& device, RecordWriter& writer) {
  writer.Text("device.kind", device.kind)
      .Text("device.architecture", device.architecture)
      .Int("device.sm_count", device.sm_count)
      .Int("device.clock_khz", device.clock_khz)
      .Int("device.memory_clock_khz", device.memory_clock_khz)
      .Int("device.memory_bus_bits", device.memory_bus_bits)
      .Int("device.l2_bytes", device.l2_bytes)
      .Int("device.memory_bytes", device.memory_bytes)
      .Text("device.slice", device.slice);
}

DeviceFingerprint ReadDevice(RecordReader& reader) {
  DeviceFingerprint device;
  device.kind = reader.Text("device.kind");
  device.architecture = reader.Text("device.architecture");
  device.sm_count = static_cast<int>(reader.Int("device.sm_count"));
  device.clock_khz = reader.Int("device.clock_khz");
  device.memory_clock_khz = reader.Int("device.memory_clock_khz");
  device.memory_bus_bits = static_cast<int>(reader.Int("device.memory_bus_bits"));
  device.l2_bytes = reader.Int("device.l2_bytes");
  device.memory_bytes = reader.Int("device.memory_bytes");
  device.slice = reader.Text("device.slice");
  return device;
}

template <typename T>
absl::StatusOr<T> Finish(const RecordReader& reader, T value) {
  HONE_RETURN_IF_ERROR(reader.status());
  return value;
}

}  // namespace

std::string EncodeArtifact(const Key& key, const Artifact& artifact) {
  RecordWriter writer;
  writer.Text("sha256", artifact.sha256)
      .Int("format", static_cast<int>(artifact.format))
      .Text("architecture", artifact.architecture)
      .Text("builder", artifact.builder)
      .Int("min_driver", artifact.min_driver)
      .Int("built_at_unix_ms", artifact.built_at_unix_ms)
      .Text("log", artifact.log)
      .Int("log_truncated_bytes", artifact.log_truncated_bytes);
  for (const auto& [expression, symbol] : artifact.lowered_names) {
    writer.Text("lowered_name.expression", expression).Text("lowered_name.symbol", symbol);
  }
  WriteResources(artifact, writer);
  for (const auto& [name, value] : key.ingredients()) {
    writer.Text("ingredient.name", name).Text("ingredient.value", value);
  }
  return writer.text();
}

absl::StatusOr<Artifact> DecodeArtifact(const std::string& record) {
  RecordReader reader(record);
  Artifact artifact;
  artifact.sha256 = reader.Text("sha256");
  artifact.format = static_cast<ArtifactFormat>(reader.Int("format"));
  artifact.architecture = reader.Text("architecture");
  artifact.builder = reader.Text("builder");
  artifact.min_driver = static_cast<int>(reader.Int("min_driver"));
  artifact.built_at_unix_ms = reader.Int("built_at_unix_ms");
  artifact.log = reader.Text("log");
  artifact.log_truncated_bytes = reader.Int("log_truncated_bytes");
  for (auto& [expression, symbol] :
       ReadPairs(reader, "lowered_name.expression", "lowered_name.symbol")) {
    artifact.lowered_names.emplace(std::move(expression), std::move(symbol));
  }
  artifact.resources = ReadResources(reader);
  return Finish(reader, std::move(artifact));
}

std::string EncodeMeasurement(const Measurement& measurement) {
  RecordWriter writer;
  writer.Text("config", measurement.config.ToString());
  if (measurement.rejection.has_value()) {
    const Rejection& rejection = *measurement.rejection;
    writer.Int("rejection.kind", static_cast<int>(rejection.kind))
        .Text("rejection.detail", rejection.detail)
        .Int("rejection.needed", rejection.needed)
        .Int("rejection.limit", rejection.limit)
        .Text("rejection.log_id", rejection.log_id);
  }
  for (const double sample : measurement.samples_ns) writer.Double("sample_ns", sample);
  writer.Double("median_ns", measurement.median_ns).Double("spread", measurement.spread);
  for (const std::string& sizes : measurement.verified_sizes) writer.Text("verified_size", sizes);
  writer.Int("verified", measurement.verified ? 1 : 0)
      .Text("output_sha256", measurement.output_sha256)
      .Text("artifact_sha256", measurement.artifact_sha256)
      .Int("measured_at_unix_ms", measurement.measured_at_unix_ms)
      .Text("driver", measurement.driver)
      .Text("compiler_build", measurement.compiler_build)
      .Int("clock_mhz", measurement.clock_mhz)
      .Int("memory_clock_mhz", measurement.memory_clock_mhz)
      .Double("paired_ratio", measurement.paired_ratio)
      .Text("unstable", measurement.unstable)
      .Int("other_processes", measurement.other_processes)
      .Text("same_work_as", measurement.same_work_as);
  for (const auto& [sizes, digest] : measurement.small_outputs) {
    writer.Text("small_output.sizes", sizes).Text("small_output.sha256", digest);
  }
  if (measurement.irreproducible) writer.Int("irreproducible", 1);
  if (!measurement.invalidated.empty()) writer.Text("invalidated", measurement.invalidated);
  return writer.text();
}

absl::StatusOr<Measurement> DecodeMeasurement(const std::string& record) {
  RecordReader reader(record);
  Measurement measurement;
  measurement.config = ReadConfig(reader, reader.Text("config"));
  if (reader.Has("rejection.kind")) {
    measurement.rejection =
        Rejection{.kind = static_cast<RejectionKind>(reader.Int("rejection.kind")),
                  .detail = reader.Text("rejection.detail"),
                  .needed = reader.Int("rejection.needed"),
                  .limit = reader.Int("rejection.limit"),
                  .log_id = reader.Text("rejection.log_id")};
  }
  measurement.samples_ns = reader.Doubles("sample_ns");
  measurement.median_ns = reader.Double("median_ns");
  measurement.spread = reader.Double("spread");
  measurement.verified_sizes = reader.Texts("verified_size");
  measurement.verified = reader.Int("verified") != 0;
  measurement.output_sha256 = reader.Text("output_sha256");
  measurement.artifact_sha256 = reader.Text("artifact_sha256");
  measurement.measured_at_unix_ms = reader.Int("measured_at_unix_ms");
  measurement.driver = reader.Text("driver");
  measurement.compiler_build = reader.Text("compiler_build");
  measurement.clock_mhz = static_cast<int>(reader.Int("clock_mhz"));
  // Rows of version 0.1 before these existed have none of them.
  if (reader.Has("memory_clock_mhz")) {
    measurement.memory_clock_mhz = static_cast<int>(reader.Int("memory_clock_mhz"));
    measurement.paired_ratio = reader.Double("paired_ratio");
    measurement.unstable = reader.Text("unstable");
  }
  if (reader.Has("other_processes")) {
    measurement.other_processes = static_cast<int>(reader.Int("other_processes"));
  }
  if (reader.Has("same_work_as")) measurement.same_work_as = reader.Text("same_work_as");
  for (auto& [sizes, digest] : ReadPairs(reader, "small_output.sizes", "small_output.sha256")) {
    measurement.small_outputs.emplace(std::move(sizes), std::move(digest));
  }
  measurement.irreproducible = reader.Has("irreproducible");
  if (reader.Has("invalidated")) measurement.invalidated = reader.Text("invalidated");
  return Finish(reader, std::move(measurement));
}

std::string EncodeTuning(const TuningRecord& tuning) {
  RecordWriter writer;
  writer.Text("key", tuning.key)
      .Text("template_name", tuning.template_name)
      .Text("kernel_digest", tuning.kernel_digest)
      .Text("problem", tuning.problem)
      .Text("architecture", tuning.architecture)
      .Int("created_at_unix_ms", tuning.created_at_unix_ms);
  WriteDevice(tuning.device, writer);
  for (const auto& [name, value] : tuning.ingredients) {
    writer.Text("ingredient.name", name).Text("ingredient.value", value);
  }
  return writer.text();
}

absl::StatusOr<TuningRecord> DecodeTuning(const std::string& record) {
  RecordReader reader(record);
  TuningRecord tuning;
  tuning.key = reader.Text("key");
  tuning.template_name = reader.Text("template_name");
  tuning.kernel_digest = reader.Text("kernel_digest");
  tuning.problem = reader.Text("problem");
  tuning.architecture = reader.Text("architecture");
  tuning.created_at_unix_ms = reader.Int("created_at_unix_ms");
  tuning.device = ReadDevice(reader);
  tuning.ingredients = ReadPairs(reader, "ingredient.name", "ingredient.value");
  return Finish(reader, std::move(tuning));
}

std::string EncodeWinner(const Winner& winner) {
  RecordWriter writer;
  writer.Text("tuning_key", winner.tuning_key)
      .Text("template_digest", winner.template_digest)
      .Double("runner_up_ratio", winner.runner_up_ratio)
      .Int("generation", static_cast<int64_t>(winner.generation))
      .Int("decided_at_unix_ms", winner.decided_at_unix_ms)
      .Int("numerics", static_cast<int64_t>(winner.numerics))
      .Text("driver", winner.driver)
      .Text("compiler_build", winner.compiler_build);
  for (const WinnerVariant& variant : winner.variants) {
    writer.Text("variant.config", variant.config.ToString())
        .Text("variant.artifact_sha256", variant.artifact_sha256);
  }
  return writer.text();
}

absl::StatusOr<Winner> DecodeWinner(const std::string& record) {
  RecordReader reader(record);
  Winner winner;
  winner.tuning_key = reader.Text("tuning_key");
  winner.template_digest = reader.Text("template_digest");
  winner.runner_up_ratio = reader.Double("runner_up_ratio");
  winner.generation = static_cast<uint64_t>(reader.Int("generation"));
  winner.decided_at_unix_ms = reader.Int("decided_at_unix_ms");
  // Rows of schema 1 have none of these.
  if (reader.Has("numerics")) {
    winner.numerics = static_cast<Numerics>(reader.Int("numerics"));
    winner.driver = reader.Text("driver");
    winner.compiler_build = reader.Text("compiler_build");
  }
  for (auto& [config, sha256] : ReadPairs(reader, "variant.config", "variant.artifact_sha256")) {
    winner.variants.push_back({ReadConfig(reader, config), std::move(sha256)});
  }
  return Finish(reader, std::move(winner));
}

std::string EncodePin(const WinnerPin& pin) {
  RecordWriter writer;
  writer.Text("tuning_key", pin.tuning_key);
  if (pin.config) writer.Text("config", pin.config->ToString());
  writer.Text("reason", pin.reason)
      .Text("artifact_sha256", pin.artifact_sha256)
      .Int("pinned_at_unix_ms", pin.pinned_at_unix_ms)
      .Int("generation", static_cast<int64_t>(pin.generation));
  return writer.text();
}

absl::StatusOr<WinnerPin> DecodePin(const std::string& record) {
  RecordReader reader(record);
  WinnerPin pin;
  pin.tuning_key = reader.Text("tuning_key");
  if (reader.Has("config")) pin.config = ReadConfig(reader, reader.Text("config"));
  pin.reason = reader.Text("reason");
  pin.artifact_sha256 = reader.Text("artifact_sha256");
  pin.pinned_at_unix_ms = reader.Int("pinned_at_unix_ms");
  pin.generation = static_cast<uint64_t>(reader.Int("generation"));
  return Finish(reader, std::move(pin));
}

std::string EncodeTemplate(const StoredTemplate& stored) {
  RecordWriter writer;
  writer.Text("digest", stored.digest)
      .Text("name", stored.name)
      .Text("version", stored.version)
      .Text("origin", stored.origin)
      .Int("registered_at_unix_ms", stored.registered_at_unix_ms)
      .Text("encoded", stored.encoded);
  return writer.text();
}

absl::StatusOr<StoredTemplate> DecodeTemplate(const std::string& record) {
  RecordReader reader(record);
  StoredTemplate stored;
  stored.digest = reader.Text("digest");
  stored.name = reader.Text("name");
  stored.version = reader.Text("version");
  stored.origin = reader.Text("origin");
  stored.registered_at_unix_ms = reader.Int("registered_at_unix_ms");
  stored.encoded = reader.Text("encoded");
  return Finish(reader, std::move(stored));
}

std::string EncodeCeilings(const DeviceFingerprint& device, const DeviceCeilings& ceilings) {
  RecordWriter writer;
  WriteDevice(device, writer);
  writer.Int("version", ceilings.version)
      .Int("measured_at_unix_ms", ceilings.measured_at_unix_ms)
      .Text("driver", ceilings.driver)
      .Int("clock_mhz", ceilings.clock_mhz);
  for (const Ceiling& ceiling : ceilings.ceilings) {
    writer.Text("ceiling.name", ceiling.name)
        .Double("ceiling.value", ceiling.value)
        .Text("ceiling.unit", ceiling.unit)
        .Text("ceiling.how", ceiling.how);
  }
  return writer.text();
}

absl::StatusOr<DeviceCeilings> DecodeCeilings(const std::string& record) {
  RecordReader reader(record);
  DeviceCeilings ceilings;
  ceilings.version = static_cast<int>(reader.Int("version"));
  ceilings.measured_at_unix_ms = reader.Int("measured_at_unix_ms");
  ceilings.driver = reader.Text("driver");
  ceilings.clock_mhz = static_cast<int>(reader.Int("clock_mhz"));
  const std::vector<std::string> names = reader.Texts("ceiling.name");
  const std::vector<double> values = reader.Doubles("ceiling.value");
  const std::vector<std::string> units = reader.Texts("ceiling.unit");
  const std::vector<std::string> ways = reader.Texts("ceiling.how");
  if (values.size() != names.size() || units.size() != names.size() ||
      ways.size() != names.size()) {
    reader.Fail("the fields of 'ceiling' differ in number");
  }
  HONE_RETURN_IF_ERROR(reader.status());
  for (size_t i = 0; i < names.size(); ++i) {
    ceilings.ceilings.push_back({names[i], values[i], units[i], ways[i]});
  }
  return ceilings;
}

std::string EncodeFiles(const std::vector<SourceFile>& files) {
  RecordWriter writer;
  for (const SourceFile& file : files) {
    writer.Text("file.name", file.name).Text("file.content", file.content);
  }
  return writer.text();
}

absl::StatusOr<std::vector<SourceFile>> DecodeFiles(const std::string& record) {
  RecordReader reader(record);
  std::vector<SourceFile> files;
  for (auto& [name, content] : ReadPairs(reader, "file.name", "file.content")) {
    files.push_back({std::move(name), std::move(content)});
  }
  return Finish(reader, std::move(files));
}

}  // namespace hone
