// Writes to a store and tells each acknowledged write on standard output, until it is killed.
//   store_writer PATH ROUND    keys ROUND-0, ROUND-1, ...
//   store_writer --golden PATH  every noun once, then ends: how golden files are made
#include <unistd.h>

#include <iostream>
#include <string>

#include "runtime/store/sqlite_store.h"
#include "tests/store/samples.h"

namespace hone {
namespace {

bool Ok(const absl::Status& status) {
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok();
}

// One write(2), so that the line is in the pipe or not.
void Acknowledge(const std::string& line) {
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t size = write(STDOUT_FILENO, text.data(), text.size());
}

// Small and large rows in turn, so that kills meet one-page and many-page commits.
std::string BytesOf(const std::string& name, int i) {
  return name + std::string(static_cast<size_t>(i % 7) * 11000, 'b');
}

int WriteForEver(SqliteStore& store, const std::string& round) {
  if (!Ok(store.PutTuning(SampleTuning(round)))) return 1;
  for (int i = 0;; ++i) {
    const std::string name = round + "-" + std::to_string(i);
    const Artifact artifact = SampleArtifact(BytesOf(name, i));
    const std::string config = "I=" + std::to_string(i);
    if (!Ok(store.PutArtifact(SampleKey(name), artifact))) return 1;
    Acknowledge("artifact " + name);
    if (!Ok(store.PutMeasurement(round, SampleMeasurement(config, {1.0 * i})))) return 1;
    Acknowledge("measurement " + config);
    const auto generation = store.PutWinner(SampleWinner(round, config, artifact.sha256));
    if (!Ok(generation.status())) return 1;
    Acknowledge("winner " + std::to_string(*generation));
  }
}

int WriteGolden(SqliteStore& store) {
  const Artifact artifact = SampleArtifact("cubin bytes");
  const Winner winner = SampleWinner("golden", "X=1 Y=2", artifact.sha256);
  Winner same_bits = winner;
  same_bits.numerics = Numerics::kSameBitsAsDefault;
  same_bits.variants.push_back({*Config::Parse("X=1 Y=1"), artifact.sha256});
  Miss miss = SampleMiss("n=1");
  miss.tuning_key = "exact";
  miss.bucket_key = "bucket";
  const bool ok =
      Ok(store.PutArtifact(SampleKey("golden"), artifact)) &&
      Ok(store.PutLog("a log", 7).status()) && Ok(store.PutTuning(SampleTuning("golden"))) &&
      Ok(store.PutMeasurement("golden", SampleMeasurement("X=1 Y=2", {1.5, 2.5, 4}))) &&
      Ok(store.PutMeasurement("golden", SampleRejection("X=2 Y=2", RejectionKind::kWrongResult))) &&
      Ok(store.PutWinner(winner).status()) && Ok(store.PutWinner(same_bits).status()) &&
      Ok(store.PutPin(SamplePin("golden", "X=1 Y=2")).status()) &&
      // Of the two measurements the pinned one is spared.
      Ok(store.InvalidateMeasurements({.template_name = "copy_1d"}, "why", false).status()) &&
      Ok(store.PutCeilings(SampleTuning("golden").device, SampleCeilings())) &&
      Ok(store.PutTemplate({"digest", "copy_1d", "1", "text", "registered", 9})) &&
      Ok(store.PutHeaderSet("headers", "cutlass", {{"a.h", "#pragma once\n"}})) &&
      Ok(store.RecordMiss(miss));
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  const bool golden = std::string(argv[1]) == "--golden";
  auto store = hone::SqliteStore::Open({.path = golden ? argv[2] : argv[1]});
  if (!hone::Ok(store.status())) return 1;
  return golden ? hone::WriteGolden(**store) : hone::WriteForEver(**store, argv[2]);
}
