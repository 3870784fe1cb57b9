// SqliteStore under the common contract, and what only it has: bounds, damaged rows, locks.
#include "runtime/store/sqlite_store.h"

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/store/kernel_store_contract.h"
#include "tests/store/kernel_store_room_contract.h"
#include "tests/store/served_contract.h"
#include "tests/store/temporary_store.h"

namespace hone {
namespace {

std::unique_ptr<SqliteStore> OpenOrDie(SqliteStoreOptions options) {
  auto store = SqliteStore::Open(std::move(options));
  EXPECT_THAT(store, IsOk());
  return *std::move(store);
}

class SqliteStoreUnderTest : public StoreUnderTest {
 public:
  SqliteStoreUnderTest() { Open(); }
  KernelStore& store() override { return *store_; }
  void Restart() override {
    store_.reset();
    Open();
  }
  void Bound(int64_t bytes_max) override {
    bytes_max_ = bytes_max;
    Restart();
  }
  void CorruptArtifact(const std::string& sha256) override {
    EXPECT_THAT(OpenBehind(directory_ / "hone.db")
                    ->Run("UPDATE artifacts SET bytes = CAST(x'00' || substr(bytes, 2) AS BLOB)"
                          " WHERE sha256 = ?1",
                          sha256),
                IsOk());
  }

 private:
  void Open() {
    store_ = OpenOrDie({.path = directory_ / "hone.db", .bytes_max = bytes_max_});
    EXPECT_EQ(store_->open_report().damage, "");
  }
  TemporaryDirectory directory_;
  int64_t bytes_max_ = 0;
  std::unique_ptr<SqliteStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, KernelStoreContract,
                         testing::Values([]() -> std::unique_ptr<StoreUnderTest> {
                           return std::make_unique<SqliteStoreUnderTest>();
                         }));

class SqliteStoreTest : public testing::Test {
 protected:
  std::unique_ptr<SqliteStore> Open() { return OpenOrDie({.path = path_}); }
  // Runs SQL on the store's file from a second connection.
  template <typename... Values>
  void Behind(Sql sql, const Values&... values) {
    EXPECT_THAT(OpenBehind(path_)->Run(sql, values...), IsOk());
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "hone.db";
};

TEST_F(SqliteStoreTest, ALongLogKeepsItsHeadAndTail) {
  const auto store = OpenOrDie({.path = path_, .log_bytes_max = 100});
  const std::string log = "head" + std::string(1000, '.') + "tail";
  const auto id = store->PutLog(log, 5);
  ASSERT_THAT(id, IsOk());
  const auto found = store->GetLog(*id);
  ASSERT_THAT(found, IsOkAndHolds(testing::Optional(testing::_)));
  EXPECT_THAT((*found)->first,
              testing::AllOf(testing::StartsWith("head."), testing::EndsWith(".tail"),
                             testing::HasSubstr("908 bytes left out")));
  EXPECT_EQ((*found)->second, 5 + 908);
}

TEST_F(SqliteStoreTest, OldLogsMakeRoomForNewOnes) {
  const auto store = OpenOrDie({.path = path_, .logs_bytes_max = 2500});
  std::vector<std::string> ids;
  for (const char c : {'a', 'b', 'c', 'd'}) {
    ids.push_back(*store->PutLog(std::string(1000, c), 0));
  }
  EXPECT_EQ(store->GetLog(ids[0])->has_value(), false);
  EXPECT_EQ(store->GetLog(ids[1])->has_value(), false);
  EXPECT_EQ(store->GetLog(ids[2])->has_value(), true);
  EXPECT_EQ(store->GetLog(ids[3])->has_value(), true);
}

TEST_F(SqliteStoreTest, MissesNotSeenForLongestMakeRoom) {
  const auto store = OpenOrDie({.path = path_, .misses_max = 3});
  for (int i = 0; i < 5; ++i) {
    Miss miss = SampleMiss("n=" + std::to_string(i));
    miss.last_at_unix_ms = 1000 - i;  // the first recorded was seen last
    ASSERT_THAT(store->RecordMiss(miss), IsOk());
  }
  const auto misses = store->ListMisses({});
  ASSERT_THAT(misses, IsOk());
  std::vector<std::string> problems;
  for (const Miss& miss : *misses) problems.push_back(miss.problem);
  EXPECT_THAT(problems, testing::ElementsAre("n=0", "n=1", "n=2"));
}

TEST_F(SqliteStoreTest, ADamagedMeasurementIsToldOnceAndTheRestStays) {
  const auto store = Open();
  ASSERT_THAT(store->PutTuning(SampleTuning("t")), IsOk());
  ASSERT_THAT(store->PutMeasurement("t", SampleMeasurement("X=1", {100})), IsOk());
  ASSERT_THAT(store->PutMeasurement("t", SampleMeasurement("X=2", {200})), IsOk());
  // One digit of a time: it would still parse, and could win.
  Behind(
      "UPDATE measurements SET record = replace(record, 'median_ns=200', 'median_ns=100')"
      " WHERE config = 'X=2'");
  EXPECT_THAT(store->GetMeasurements("t"),
              StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr("X=2")));
  const auto rest = store->GetMeasurements("t");
  ASSERT_THAT(rest, IsOkAndHolds(testing::SizeIs(1)));
  EXPECT_EQ(rest->front().config.ToString(), "X=1");
}

TEST_F(SqliteStoreTest, EveryDamagedRowIsToldOnceAndThenGone) {
  const auto store = Open();
  ASSERT_THAT(store->PutArtifact(SampleKey("a"), SampleArtifact("bytes")), IsOk());
  ASSERT_THAT(store->PutTuning(SampleTuning("t")), IsOk());
  ASSERT_THAT(store->PutWinner(SampleWinner("t", "X=1", "sha")), IsOk());
  ASSERT_THAT(store->PutTemplate({"d", "copy_1d", "", "text", "registered", 1}), IsOk());
  ASSERT_THAT(store->PutHeaderSet("h", "cutlass", {{"a.h", "x"}}), IsOk());
  const std::string log_id = *store->PutLog("a log", 0);
  Behind("UPDATE artifact_keys SET record = replace(record, '_Z', '_Y')");
  Behind("UPDATE tunings SET record = replace(record, 'n=', 'm=')");
  Behind("UPDATE winners SET record = replace(record, 'X=1', 'X=9')");
  Behind("UPDATE templates SET record = replace(record, 'text', 'test')");
  Behind("UPDATE header_sets SET record = replace(record, '=x', '=y')");
  Behind("UPDATE logs SET log = 'b log'");

  const auto is_data_loss = StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr(path_));
  EXPECT_THAT(store->GetArtifact(SampleKey("a").id()), is_data_loss);
  EXPECT_THAT(store->GetTuning("t"), is_data_loss);
  EXPECT_THAT(store->GetWinner("t", "digest", Numerics::kWithinTolerance), is_data_loss);
  EXPECT_THAT(store->ListTemplates(), is_data_loss);
  EXPECT_THAT(store->GetHeaderSet("h"), is_data_loss);
  EXPECT_THAT(store->GetLog(log_id), is_data_loss);

  EXPECT_EQ(store->GetArtifact(SampleKey("a").id())->has_value(), false);
  EXPECT_EQ(store->GetTuning("t")->has_value(), false);
  EXPECT_EQ(store->GetWinner("t", "digest", Numerics::kWithinTolerance)->has_value(), false);
  EXPECT_THAT(store->ListTemplates(), IsOkAndHolds(testing::IsEmpty()));
  EXPECT_EQ(store->GetHeaderSet("h")->has_value(), false);
  EXPECT_EQ(store->GetLog(log_id)->has_value(), false);
}

TEST_F(SqliteStoreTest, ARowUnderAnotherRowsKeyIsDamaged) {
  const auto store = Open();
  ASSERT_THAT(store->PutTuning(SampleTuning("t")), IsOk());
  ASSERT_THAT(store->PutMeasurement("t", SampleMeasurement("X=1", {100})), IsOk());
  Behind("UPDATE measurements SET tuning_key = 'u'");
  EXPECT_THAT(store->GetMeasurements("u"), StatusIs(absl::StatusCode::kDataLoss, testing::_));
}

// Look up, then insert, from 16 threads, while another process writes. scenario P37
class LockedStoreTest : public SqliteStoreTest {
 protected:
  std::vector<absl::Status> LookUpThenInsert(SqliteStore& store, int threads_count) {
    std::vector<absl::Status> results(static_cast<size_t>(threads_count));
    std::vector<std::thread> threads;
    for (size_t i = 0; i < results.size(); ++i) {
      threads.emplace_back([&store, &results, i] {
        const Key key = SampleKey(std::to_string(i));
        const auto found = store.GetArtifact(key.id());
        results[i] =
            found.ok() ? store.PutArtifact(key, SampleArtifact(std::to_string(i))) : found.status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }
};

// scenario P37
TEST_F(LockedStoreTest, ALockHeldForAWhileReachesNoCaller) {
  const auto store = Open();
  const auto other = OpenBehind(path_);
  ASSERT_THAT(other->Run("BEGIN IMMEDIATE"), IsOk());
  std::thread holder([&other] {
    absl::SleepFor(absl::Milliseconds(400));  // how long the lock is held
    EXPECT_THAT(other->Run("COMMIT"), IsOk());
  });
  EXPECT_THAT(LookUpThenInsert(*store, 16), testing::Each(IsOk()));
  holder.join();
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ((*store->GetArtifact(SampleKey(std::to_string(i)).id()))->bytes, std::to_string(i));
  }
}

// scenario P37
TEST_F(LockedStoreTest, ALockHeldForTooLongIsUnavailableWithinTheBoundForEveryCaller) {
  const auto store = OpenOrDie({.path = path_, .busy_wait_max = absl::Milliseconds(300)});
  ASSERT_THAT(store->PutArtifact(SampleKey("here"), SampleArtifact("here")), IsOk());
  const auto other = OpenBehind(path_);
  ASSERT_THAT(other->Run("BEGIN IMMEDIATE"), IsOk());
  const absl::Time start = absl::Now();
  EXPECT_THAT(LookUpThenInsert(*store, 16),
              testing::Each(StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr(path_))));
  // 16 callers one after another would take 4.8 s.
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
  EXPECT_EQ((*store->GetArtifact(SampleKey("here").id()))->bytes, "here");
  ASSERT_THAT(other->Run("COMMIT"), IsOk());
  EXPECT_THAT(store->PutArtifact(SampleKey("x"), SampleArtifact("x")), IsOk());
}

}  // namespace
}  // namespace hone
