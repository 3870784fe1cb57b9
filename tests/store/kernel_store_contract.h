// What every KernelStore promises, as tests over a parameter. Include it in one file of a test
// program and instantiate KernelStoreContract with a factory.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/sha256.h"
#include "runtime/store/kernel_store.h"
#include "tests/store/samples.h"
#include "tests/testing/status_matchers.h"

namespace hone {

// A store under test with the two things that are done to it from outside.
class StoreUnderTest {
 public:
  virtual ~StoreUnderTest() = default;
  virtual KernelStore& store() = 0;
  // Ends the store and starts it again over what it kept; nothing for a store in memory.
  virtual void Restart() = 0;
  // Restart with a bound on the store's size.
  virtual void Bound(int64_t bytes_max) = 0;
  // Damages the stored bytes behind the store's back.
  virtual void CorruptArtifact(const std::string& sha256) = 0;
};

using StoreFactory = std::function<std::unique_ptr<StoreUnderTest>()>;

class KernelStoreContract : public testing::TestWithParam<StoreFactory> {
 protected:
  KernelStore& store() { return under_test_->store(); }
  void Restart() { under_test_->Restart(); }
  void Bound(int64_t bytes_max) { under_test_->Bound(bytes_max); }

  // A quarter of a MiB of its own under the key `name`; returns its hash.
  std::string PutLarge(const std::string& name) {
    const Artifact artifact = SampleArtifact(name + std::string(256 << 10, 'k'));
    EXPECT_THAT(store().PutArtifact(SampleKey(name), artifact), IsOk());
    return artifact.sha256;
  }
  bool Has(const std::string& name) {
    const auto found = store().GetArtifact(SampleKey(name).id());
    EXPECT_THAT(found, IsOk());
    return found.ok() && found->has_value();
  }
  void CorruptArtifact(const std::string& sha256) { under_test_->CorruptArtifact(sha256); }

  std::vector<std::string> Configs(const std::string& tuning_key) {
    std::vector<std::string> configs;
    const auto measurements = store().GetMeasurements(tuning_key);
    EXPECT_THAT(measurements, IsOk());
    if (!measurements.ok()) return configs;
    for (const Measurement& measurement : *measurements) {
      configs.push_back(measurement.config.ToString());
    }
    return configs;
  }

 private:
  std::unique_ptr<StoreUnderTest> under_test_ = GetParam()();
};

TEST_P(KernelStoreContract, ReturnsAnArtifactAsItWasStored) {
  const Artifact artifact = SampleArtifact("cubin bytes");
  ASSERT_THAT(store().PutArtifact(SampleKey("a"), artifact), IsOk());
  Restart();
  const auto found = store().GetArtifact(SampleKey("a").id());
  ASSERT_THAT(found, IsOkAndHolds(testing::Optional(testing::_)));
  EXPECT_EQ(Describe(**found), Describe(artifact));
  EXPECT_EQ((*found)->bytes, "cubin bytes");
}

TEST_P(KernelStoreContract, UnknownKeysAreAbsentNotErrors) {
  EXPECT_THAT(store().GetArtifact("none"), IsOkAndHolds(testing::Eq(std::nullopt)));
  EXPECT_THAT(store().GetArtifactBySha256("none"), IsOkAndHolds(testing::Eq(std::nullopt)));
  EXPECT_THAT(store().GetLog("none"), IsOkAndHolds(testing::Eq(std::nullopt)));
  EXPECT_THAT(store().GetMeasurements("none"), IsOkAndHolds(testing::IsEmpty()));
  EXPECT_EQ(store().GetTuning("none")->has_value(), false);
  EXPECT_EQ(store().GetWinner("none", "none", Numerics::kWithinTolerance)->has_value(), false);
  EXPECT_EQ(store().GetHeaderSet("none")->has_value(), false);
  EXPECT_THAT(store().FindHeaderSet("none"), IsOkAndHolds(testing::Eq(std::nullopt)));
}

// scenario P16
TEST_P(KernelStoreContract, KeysDoNotAnswerEachOther) {
  ASSERT_THAT(store().PutArtifact(SampleKey("x=1"), SampleArtifact("one")), IsOk());
  ASSERT_THAT(store().PutArtifact(SampleKey("x=2"), SampleArtifact("two")), IsOk());
  EXPECT_EQ((*store().GetArtifact(SampleKey("x=1").id()))->bytes, "one");
  EXPECT_EQ((*store().GetArtifact(SampleKey("x=2").id()))->bytes, "two");
  EXPECT_EQ(store().GetArtifact(SampleKey("x=3").id())->has_value(), false);
}

TEST_P(KernelStoreContract, AnArtifactReplacesTheEarlierOneOfItsKey) {
  ASSERT_THAT(store().PutArtifact(SampleKey("a"), SampleArtifact("old")), IsOk());
  ASSERT_THAT(store().PutArtifact(SampleKey("a"), SampleArtifact("new")), IsOk());
  EXPECT_EQ((*store().GetArtifact(SampleKey("a").id()))->bytes, "new");
}

TEST_P(KernelStoreContract, KeepsIdenticalBytesOnce) {
  const std::string bytes(1 << 20, 'k');
  ASSERT_THAT(store().PutArtifact(SampleKey("a"), SampleArtifact(bytes)), IsOk());
  ASSERT_THAT(store().PutArtifact(SampleKey("b"), SampleArtifact(bytes)), IsOk());
  ASSERT_THAT(store().PutArtifact(SampleKey("c"), SampleArtifact(bytes)), IsOk());
  Restart();
  EXPECT_LT(*store().SizeBytes(), 2 << 20);
  EXPECT_EQ((*store().GetArtifact(SampleKey("b").id()))->bytes, bytes);
}

TEST_P(KernelStoreContract, BytesByHashKnowTheLoweredNamesOfAllTheirKeys) {
  Artifact first = SampleArtifact("same");
  first.lowered_names = {{"copy<float>", "_Z4copyIfE"}};
  Artifact second = SampleArtifact("same");
  second.lowered_names = {{"copy< float >", "_Z4copyIfE"}};
  second.builder = "nvrtc 13.0.89";
  ASSERT_THAT(store().PutArtifact(SampleKey("a"), first), IsOk());
  ASSERT_THAT(store().PutArtifact(SampleKey("b"), second), IsOk());
  const auto found = store().GetArtifactBySha256(first.sha256);
  ASSERT_THAT(found, IsOkAndHolds(testing::Optional(testing::_)));
  EXPECT_EQ((*found)->builder, "nvrtc 13.0.89");
  EXPECT_THAT((*found)->lowered_names,
              testing::UnorderedElementsAre(testing::Pair("copy<float>", "_Z4copyIfE"),
                                            testing::Pair("copy< float >", "_Z4copyIfE")));
}

TEST_P(KernelStoreContract, RefusesBytesThatDoNotMatchTheirHash) {
  Artifact artifact = SampleArtifact("bytes");
  artifact.sha256 = Sha256Hex("other bytes");
  EXPECT_THAT(store().PutArtifact(SampleKey("a"), artifact),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(testing::HasSubstr(artifact.sha256),
                                      testing::HasSubstr(Sha256Hex("bytes")))));
  EXPECT_EQ(store().GetArtifact(SampleKey("a").id())->has_value(), false);
}

// scenario P14
TEST_P(KernelStoreContract, DamagedBytesAreToldOnceAndNeverServed) {
  const Artifact artifact = SampleArtifact("cubin bytes");
  ASSERT_THAT(store().PutArtifact(SampleKey("a"), artifact), IsOk());
  CorruptArtifact(artifact.sha256);
  EXPECT_THAT(store().GetArtifact(SampleKey("a").id()),
              StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr(artifact.sha256)));
  EXPECT_THAT(store().GetArtifact(SampleKey("a").id()), IsOkAndHolds(testing::Eq(std::nullopt)));
}

// scenario P14
TEST_P(KernelStoreContract, DamagedBytesFoundByHashAreToldToo) {
  const Artifact artifact = SampleArtifact("cubin bytes");
  ASSERT_THAT(store().PutArtifact(SampleKey("a"), artifact), IsOk());
  CorruptArtifact(artifact.sha256);
  EXPECT_THAT(store().GetArtifactBySha256(artifact.sha256),
              StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr(artifact.sha256)));
}

// scenario P14
TEST_P(KernelStoreContract, StoringAgainHealsDamagedBytes) {
  const Artifact artifact = SampleArtifact("cubin bytes");
  ASSERT_THAT(store().PutArtifact(SampleKey("a"), artifact), IsOk());
  CorruptArtifact(artifact.sha256);
  ASSERT_THAT(store().PutArtifact(SampleKey("b"), artifact), IsOk());
  EXPECT_EQ((*store().GetArtifact(SampleKey("a").id()))->bytes, "cubin bytes");
}

TEST_P(KernelStoreContract, QuarantineDropsTheBytesAndTheirKeysOnly) {
  const Artifact bad = SampleArtifact("bad");
  const Artifact good = SampleArtifact("good");
  ASSERT_THAT(store().PutArtifact(SampleKey("a"), bad), IsOk());
  ASSERT_THAT(store().PutArtifact(SampleKey("b"), bad), IsOk());
  ASSERT_THAT(store().PutArtifact(SampleKey("c"), good), IsOk());
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  ASSERT_THAT(store().PutWinner(SampleWinner("t", "X=1", bad.sha256)), IsOk());
  ASSERT_THAT(store().QuarantineArtifact(bad.sha256), IsOk());
  EXPECT_EQ(store().GetArtifact(SampleKey("a").id())->has_value(), false);
  EXPECT_EQ(store().GetArtifact(SampleKey("b").id())->has_value(), false);
  EXPECT_EQ(store().GetArtifactBySha256(bad.sha256)->has_value(), false);
  EXPECT_EQ(store().GetArtifact(SampleKey("c").id())->has_value(), true);
  EXPECT_EQ(store().GetWinner("t", "digest", Numerics::kWithinTolerance)->has_value(), true);
  EXPECT_THAT(store().QuarantineArtifact(bad.sha256), IsOk());
}

TEST_P(KernelStoreContract, ReturnsALogWithWhatWasCutOff) {
  const auto id = store().PutLog("error: expected ';'\n", 17);
  ASSERT_THAT(id, IsOkAndHolds(Sha256Hex("error: expected ';'\n")));
  Restart();
  EXPECT_THAT(store().GetLog(*id),
              IsOkAndHolds(testing::Optional(testing::Pair("error: expected ';'\n", 17))));
}

// scenario P30
TEST_P(KernelStoreContract, ReturnsMeasurementsAsTheyWereStored) {
  const Measurement timed = SampleMeasurement("XBLOCK=256 VEC=4", {11200.5, 1.0 / 3.0, 11201.25});
  const Measurement rejected = SampleRejection("XBLOCK=512 VEC=4", RejectionKind::kResources);
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  ASSERT_THAT(store().PutMeasurement("t", timed), IsOk());
  ASSERT_THAT(store().PutMeasurement("t", rejected), IsOk());
  Restart();
  const auto found = store().GetMeasurements("t");
  ASSERT_THAT(found, IsOkAndHolds(testing::SizeIs(2)));
  EXPECT_EQ(Describe((*found)[0]), Describe(timed));
  EXPECT_EQ((*found)[0].samples_ns, timed.samples_ns);
  EXPECT_EQ((*found)[0].memory_clock_mhz, timed.memory_clock_mhz);
  EXPECT_EQ((*found)[0].paired_ratio, timed.paired_ratio);
  EXPECT_EQ((*found)[0].unstable, timed.unstable);
  EXPECT_EQ(Describe((*found)[1]), Describe(rejected));
}

TEST_P(KernelStoreContract, MeasurementsKeepTheOrderOfFirstInsertion) {
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  for (const char* config : {"X=4", "X=1", "X=2"}) {
    ASSERT_THAT(store().PutMeasurement("t", SampleMeasurement(config, {1})), IsOk());
  }
  ASSERT_THAT(store().PutMeasurement("t", SampleMeasurement("X=4", {7, 8})), IsOk());
  EXPECT_THAT(Configs("t"), testing::ElementsAre("X=4", "X=1", "X=2"));
  EXPECT_THAT((*store().GetMeasurements("t"))[0].samples_ns, testing::ElementsAre(7, 8));
}

TEST_P(KernelStoreContract, AMeasurementNeedsItsTuning) {
  EXPECT_THAT(store().PutMeasurement("t", SampleMeasurement("X=1", {1})),
              StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr("t has no row")));
  EXPECT_THAT(store().PutWinner(SampleWinner("t", "X=1", "sha")),
              StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr("t has no row")));
}

TEST_P(KernelStoreContract, ATemplateWithoutTunablesHasOneConfig) {
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  ASSERT_THAT(store().PutMeasurement("t", SampleMeasurement("", {3})), IsOk());
  EXPECT_THAT(Configs("t"), testing::ElementsAre(""));
}

TEST_P(KernelStoreContract, ATuningCountsItsMeasurements) {
  TuningRecord record = SampleTuning("t");
  record.created_at_unix_ms = 1000;
  ASSERT_THAT(store().PutTuning(record), IsOk());
  Measurement late = SampleMeasurement("X=2", {1});
  late.measured_at_unix_ms = 5000;
  ASSERT_THAT(store().PutMeasurement("t", late), IsOk());
  ASSERT_THAT(store().PutMeasurement("t", SampleMeasurement("X=1", {1})), IsOk());
  ASSERT_THAT(store().PutMeasurement("t", SampleRejection("X=3", RejectionKind::kTimeout)), IsOk());
  Restart();
  const auto found = store().GetTuning("t");
  ASSERT_THAT(found, IsOkAndHolds(testing::Optional(testing::_)));
  EXPECT_EQ((*found)->measured, 2);
  EXPECT_EQ((*found)->rejected, 1);
  EXPECT_EQ((*found)->updated_at_unix_ms, 5000);
  EXPECT_EQ(Describe(**found), Describe(record));
}

TEST_P(KernelStoreContract, PutTuningAgainChangesNothing) {
  TuningRecord record = SampleTuning("t");
  ASSERT_THAT(store().PutTuning(record), IsOk());
  ASSERT_THAT(store().PutMeasurement("t", SampleMeasurement("X=1", {1})), IsOk());
  TuningRecord later = record;
  later.created_at_unix_ms += 1000;
  ASSERT_THAT(store().PutTuning(later), IsOk());
  EXPECT_EQ((*store().GetTuning("t"))->created_at_unix_ms, record.created_at_unix_ms);
  EXPECT_THAT(Configs("t"), testing::ElementsAre("X=1"));
}

TEST_P(KernelStoreContract, FindsTuningsByPrefix) {
  for (const char* key : {"ab3", "ab1", "b", "ab2", "a"}) {
    ASSERT_THAT(store().PutTuning(SampleTuning(key)), IsOk());
  }
  EXPECT_THAT(store().FindTunings("ab", 10),
              IsOkAndHolds(testing::ElementsAre("ab1", "ab2", "ab3")));
  EXPECT_THAT(store().FindTunings("ab", 2), IsOkAndHolds(testing::ElementsAre("ab1", "ab2")));
  EXPECT_THAT(store().FindTunings("c", 10), IsOkAndHolds(testing::IsEmpty()));
  EXPECT_THAT(store().FindTunings("", 10), IsOkAndHolds(testing::SizeIs(5)));
}

TEST_P(KernelStoreContract, ListsTuningsNewestFirstInPages) {
  for (int i = 0; i < 7; ++i) {
    TuningRecord record = SampleTuning("key" + std::to_string(i));
    record.created_at_unix_ms = 1000 + i / 2;  // some share a time
    record.template_name = i == 3 ? "transpose" : "copy_1d";
    ASSERT_THAT(store().PutTuning(record), IsOk());
  }
  std::vector<std::string> listed;
  std::string token;
  int pages = 0;
  do {
    const auto page = store().ListTunings("copy_1d", 2, token);
    ASSERT_THAT(page, IsOk());
    for (const TuningRecord& record : page->records) listed.push_back(record.key);
    token = page->next_page_token;
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(pages, 3);
  EXPECT_THAT(listed, testing::ElementsAre("key6", "key4", "key5", "key2", "key0", "key1"));
  EXPECT_EQ(store().ListTunings("", 100, "")->records.size(), 7u);
}

TEST_P(KernelStoreContract, RefusesAForeignPageToken) {
  EXPECT_THAT(store().ListTunings("", 10, "next please"),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("next please")));
  EXPECT_THAT(store().ListTunings("", 0, ""),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("page_size is 0")));
}

TEST_P(KernelStoreContract, NearestCandidatesWereTimedOnTheSameDevice) {
  TuningRecord other_device = SampleTuning("other_device");
  other_device.device.sm_count = 7;
  TuningRecord other_kernel = SampleTuning("other_kernel");
  other_kernel.kernel_digest = "another";
  for (const TuningRecord& record :
       {SampleTuning("timed"), SampleTuning("open"), other_device, other_kernel}) {
    ASSERT_THAT(store().PutTuning(record), IsOk());
    Measurement measurement = SampleMeasurement("X=1", {1000});
    if (record.key == "open") measurement.rejection = Rejection{.kind = RejectionKind::kTimeout};
    ASSERT_THAT(store().PutMeasurement(record.key, measurement), IsOk());
  }
  const TuningRecord sample = SampleTuning("timed");
  const auto found = store().TuningsOf(sample.kernel_digest, sample.device.Key());
  ASSERT_THAT(found, IsOkAndHolds(testing::SizeIs(1)));
  EXPECT_EQ(found->front().key, "timed");
}

TEST_P(KernelStoreContract, ReturnsAWinnerAsItWasStored) {
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  Winner winner = SampleWinner("t", "XBLOCK=256 VEC=4", "sha-a");
  winner.variants.push_back({*Config::Parse("XBLOCK=256 VEC=1"), "sha-b"});
  const auto generation = store().PutWinner(winner);
  ASSERT_THAT(generation, IsOk());
  Restart();
  const auto found = store().GetWinner("t", "digest", Numerics::kWithinTolerance);
  ASSERT_THAT(found, IsOkAndHolds(testing::Optional(testing::_)));
  winner.generation = *generation;
  EXPECT_EQ(Describe(**found), Describe(winner));
  EXPECT_EQ(store().GetWinner("t", "another digest", Numerics::kWithinTolerance)->has_value(),
            false);
}

TEST_P(KernelStoreContract, WithoutADigestTheNewestWinnerAnswers) {
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  Winner first = SampleWinner("t", "X=1", "sha");
  first.template_digest = "zzz";
  Winner second = SampleWinner("t", "X=2", "sha");
  second.template_digest = "aaa";
  ASSERT_THAT(store().PutWinner(first), IsOk());
  ASSERT_THAT(store().PutWinner(second), IsOk());
  EXPECT_EQ((*store().GetWinner("t", "", Numerics::kWithinTolerance))->template_digest, "aaa");
}

TEST_P(KernelStoreContract, FindsTuningsOfAKernelOnEveryDevice) {
  TuningRecord other = SampleTuning("other device");
  other.device.sm_count = 66;
  for (const TuningRecord& record : {SampleTuning("here"), other}) {
    ASSERT_THAT(store().PutTuning(record), IsOk());
    ASSERT_THAT(store().PutMeasurement(record.key, SampleMeasurement("X=1", {1000})), IsOk());
  }
  EXPECT_THAT(store().TuningsOf(other.kernel_digest, ""), IsOkAndHolds(testing::SizeIs(2)));
  EXPECT_THAT(store().TuningsOf(other.kernel_digest, other.device.Key()),
              IsOkAndHolds(testing::SizeIs(1)));
}

TEST_P(KernelStoreContract, GenerationsGrowAcrossKeysAndRestarts) {
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  ASSERT_THAT(store().PutTuning(SampleTuning("u")), IsOk());
  const uint64_t first = *store().PutWinner(SampleWinner("t", "X=1", "sha"));
  const uint64_t second = *store().PutWinner(SampleWinner("u", "X=1", "sha"));
  Restart();
  const uint64_t third = *store().PutWinner(SampleWinner("t", "X=2", "sha"));
  EXPECT_GT(first, 0u);
  EXPECT_GT(second, first);
  EXPECT_GT(third, second);
}

TEST_P(KernelStoreContract, AnUnchangedWinnerKeepsItsGeneration) {
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  const uint64_t first = *store().PutWinner(SampleWinner("t", "X=1", "sha"));
  Winner again = SampleWinner("t", "X=1", "sha");
  again.runner_up_ratio = 1.5;
  EXPECT_EQ(*store().PutWinner(again), first);
  EXPECT_EQ((*store().GetWinner("t", "digest", Numerics::kWithinTolerance))->runner_up_ratio, 1.5);
  EXPECT_GT(*store().PutWinner(SampleWinner("t", "X=1", "other sha")), first);
}

TEST_P(KernelStoreContract, ListsTemplatesInTheOrderOfRegistration) {
  const std::string encoded("\x0a\x00\n\\\r\xff binary", 13);
  ASSERT_THAT(store().PutTemplate({"d2", "softmax", "1", encoded, "registered", 5}), IsOk());
  ASSERT_THAT(store().PutTemplate({"d1", "copy_1d", "", "x", "catalog", 6}), IsOk());
  ASSERT_THAT(store().PutTemplate({"d2", "softmax", "2", encoded, "registered", 7}), IsOk());
  Restart();
  const auto templates = store().ListTemplates();
  ASSERT_THAT(templates, IsOkAndHolds(testing::SizeIs(2)));
  EXPECT_EQ((*templates)[0].digest, "d2");
  EXPECT_EQ((*templates)[0].version, "2");
  EXPECT_EQ((*templates)[0].encoded, encoded);
  EXPECT_EQ((*templates)[0].registered_at_unix_ms, 7);
  EXPECT_EQ((*templates)[1].origin, "catalog");
}

TEST_P(KernelStoreContract, ReturnsHeaderSetsByDigestAndTheNewestByName) {
  ASSERT_THAT(store().PutHeaderSet("d1", "cutlass", {{"cute/tensor.hpp", "#pragma once\n"}}),
              IsOk());
  ASSERT_THAT(store().PutHeaderSet("d2", "cutlass", {{"a.h", ""}, {"b.h", "#include \"a.h\"\n"}}),
              IsOk());
  Restart();
  const auto files = store().GetHeaderSet("d2");
  ASSERT_THAT(files, IsOkAndHolds(testing::Optional(testing::SizeIs(2))));
  EXPECT_EQ((**files)[0].name, "a.h");
  EXPECT_EQ((**files)[1].content, "#include \"a.h\"\n");
  EXPECT_THAT(store().FindHeaderSet("cutlass"), IsOkAndHolds(testing::Optional(std::string("d2"))));
  EXPECT_THAT(store().FindHeaderSet("d1"), IsOkAndHolds(testing::Optional(std::string("d1"))));
  EXPECT_EQ(store().ListHeaderSets()->front().digest, "d2");
  ASSERT_THAT(store().PutHeaderSet("d1", "cutlass", {{"cute/tensor.hpp", "#pragma once\n"}}),
              IsOk());
  EXPECT_THAT(store().FindHeaderSet("cutlass"), IsOkAndHolds(testing::Optional(std::string("d1"))));
  const auto sets = store().ListHeaderSets();
  ASSERT_THAT(sets, IsOkAndHolds(testing::SizeIs(2)));
  EXPECT_EQ(sets->front().name, "cutlass");
  EXPECT_EQ(sets->front().digest, "d1");
}

TEST_P(KernelStoreContract, CountsMisses) {
  const Miss rare = SampleMiss("n=1");
  Miss frequent = SampleMiss("n=2");
  ASSERT_THAT(store().RecordMiss(rare), IsOk());
  ASSERT_THAT(store().RecordMiss(frequent), IsOk());
  frequent.count = 4;
  frequent.last_at_unix_ms += 50;
  ASSERT_THAT(store().RecordMiss(frequent), IsOk());
  Restart();
  const auto misses = store().ListMisses({});
  ASSERT_THAT(misses, IsOkAndHolds(testing::SizeIs(2)));
  EXPECT_EQ((*misses)[0].problem, "n=2");
  EXPECT_EQ((*misses)[0].count, 5);
  EXPECT_EQ((*misses)[0].last_at_unix_ms, frequent.last_at_unix_ms);
  EXPECT_EQ((*misses)[0].template_name, frequent.template_name);
  EXPECT_EQ((*misses)[1].count, 1);
  EXPECT_EQ((*misses)[0].tuning_key, frequent.tuning_key);
  EXPECT_EQ((*misses)[0].bucket_key, frequent.bucket_key);
  EXPECT_THAT(store().ListMisses({.limit = 1}), IsOkAndHolds(testing::SizeIs(1)));
}

TEST_P(KernelStoreContract, KeepsTheLastCeilingsOfADevice) {
  const DeviceFingerprint device = SampleTuning("t").device;
  EXPECT_THAT(store().GetCeilings(device.Key()), IsOkAndHolds(testing::Eq(std::nullopt)));
  DeviceCeilings ceilings;
  ceilings.ceilings = {{"copy", 1.0 / 3, "GB/s", "16-byte accesses"}, {"launch", 1500, "ns", ""}};
  ceilings.measured_at_unix_ms = 7;
  ceilings.driver = "580.1";
  ceilings.clock_mhz = 1980;
  ASSERT_THAT(store().PutCeilings(device, DeviceCeilings()), IsOk());
  ASSERT_THAT(store().PutCeilings(device, ceilings), IsOk());
  Restart();
  const auto found = store().GetCeilings(device.Key());
  ASSERT_THAT(found, IsOkAndHolds(testing::Optional(testing::_)));
  ASSERT_EQ((*found)->ceilings.size(), 2u);
  EXPECT_EQ((*found)->Find("copy")->value, 1.0 / 3);
  EXPECT_EQ((*found)->Find("copy")->how, "16-byte accesses");
  EXPECT_EQ((*found)->Find("launch")->unit, "ns");
  EXPECT_EQ((*found)->Find("f32"), nullptr);
  EXPECT_EQ((*found)->version, DeviceCeilings::kVersion);
  EXPECT_EQ((*found)->measured_at_unix_ms, 7);
  EXPECT_EQ((*found)->driver, "580.1");
  EXPECT_EQ((*found)->clock_mhz, 1980);
  EXPECT_THAT(store().GetCeilings("other"), IsOkAndHolds(testing::Eq(std::nullopt)));
}

TEST_P(KernelStoreContract, GrowsWithWhatItKeeps) {
  const int64_t before = *store().SizeBytes();
  ASSERT_THAT(store().PutArtifact(SampleKey("a"), SampleArtifact(std::string(300'000, 'x'))),
              IsOk());
  EXPECT_GE(*store().SizeBytes(), before + 300'000);
}

TEST_P(KernelStoreContract, ManyThreadsLoseNothing) {
  constexpr int kThreads = 8;
  constexpr int kEach = 12;
  ASSERT_THAT(store().PutTuning(SampleTuning("t")), IsOk());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      for (int i = 0; i < kEach; ++i) {
        const std::string name = std::to_string(thread) + std::to_string(i + 100);
        EXPECT_THAT(store().GetArtifact(SampleKey(name).id()), IsOk());
        EXPECT_THAT(store().PutArtifact(SampleKey(name), SampleArtifact(name)), IsOk());
        EXPECT_THAT(store().PutMeasurement("t", SampleMeasurement("X=" + name, {1})), IsOk());
        EXPECT_THAT(store().GetMeasurements("t"), IsOk());
        EXPECT_THAT(store().RecordMiss(SampleMiss("n=1")), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Configs("t").size(), static_cast<size_t>(kThreads * kEach));
  EXPECT_EQ((*store().ListMisses({}))[0].count, kThreads * kEach);
  EXPECT_EQ((*store().GetArtifact(SampleKey("3105").id()))->bytes, "3105");
}

}  // namespace hone
