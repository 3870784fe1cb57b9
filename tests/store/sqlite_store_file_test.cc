// What opening does to files: made, refused, moved aside, migrated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "runtime/base/sha256.h"
#include "runtime/store/sqlite_schema.h"
#include "runtime/store/sqlite_store.h"
#include "tests/store/samples.h"
#include "tests/store/temporary_store.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SqliteFileTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<SqliteStore>> Open() { return SqliteStore::Open({.path = path_}); }

  // A store with one artifact and `measurements` measurements, closed again.
  void MakeStore(int measurements = 0) {
    const auto store = Open();
    ASSERT_THAT(store, IsOk());
    ASSERT_THAT((*store)->PutArtifact(SampleKey("a"), SampleArtifact("cubin bytes")), IsOk());
    ASSERT_THAT((*store)->PutTuning(SampleTuning("t")), IsOk());
    for (int i = 0; i < measurements; ++i) {
      ASSERT_THAT((*store)->PutMeasurement("t", SampleMeasurement(absl::StrCat("X=", i), {1})),
                  IsOk());
    }
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "hone.db";
};

TEST_F(SqliteFileTest, MakesTheDirectoryForItsOwnerOnly) {
  const auto store = SqliteStore::Open({.path = directory_ / "a/b/hone.db"});
  ASSERT_THAT(store, IsOk());
  EXPECT_TRUE((*store)->open_report().created);
  struct stat info;
  ASSERT_EQ(stat((directory_ / "a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(SqliteFileTest, NamesAPathThatCannotBeMade) {
  WriteFile(directory_ / "file", "x");
  EXPECT_THAT(SqliteStore::Open({.path = directory_ / "file/hone.db"}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(directory_ / "file"), HasSubstr("not a directory"))));
  // A place where nobody, not even root, makes directories.
  EXPECT_THAT(
      SqliteStore::Open({.path = "/proc/hone/hone.db"}),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("/proc/hone cannot be made")));
}

TEST_F(SqliteFileTest, ADirectoryInPlaceOfTheFileIsLeftAlone) {
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr(path_), HasSubstr("not a regular file"))));
}

// scenario P13
TEST_F(SqliteFileTest, ASecondOpenerIsToldTheOwner) {
  auto first = Open();
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr(absl::StrCat("process ", getpid())),
                                     HasSubstr(path_ + ".lock"))));
  first->reset();
  EXPECT_THAT(Open(), IsOk());
}

// scenario P36
TEST_F(SqliteFileTest, RefusesNetworkFileSystemsByName) {
  EXPECT_THAT(
      SqliteStore::Open(
          {.path = path_, .file_system_type = [](const std::string&) { return 0x6969; }}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("NFS"), HasSubstr(directory_.path()), HasSubstr("local disk"))));
  EXPECT_THAT(directory_.Find("hone"), testing::IsEmpty());
}

// scenario P36
TEST_F(SqliteFileTest, SharedMemoryThatCannotBeUsedIsAClearErrorAtTheStart) {
  ASSERT_EQ(mkdir((path_ + "-shm").c_str(), 0700), 0);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr(path_ + " or a file beside it cannot be")));
}

// scenario P39
class DamagedFileTest : public SqliteFileTest {
 protected:
  // Opens over the damage: loud in the report, the old file kept, the new store working.
  std::unique_ptr<SqliteStore> OpenDamaged(const std::string& expected_damage) {
    auto store = Open();
    EXPECT_THAT(store, IsOk());
    const OpenReport& report = (*store)->open_report();
    EXPECT_THAT(report.damage, HasSubstr(expected_damage));
    EXPECT_THAT(report.moved_aside_to, testing::StartsWith(path_ + ".damaged-20"));
    EXPECT_TRUE(std::filesystem::exists(report.moved_aside_to));
    EXPECT_THAT((*store)->PutArtifact(SampleKey("new"), SampleArtifact("new")), IsOk());
    return *std::move(store);
  }
};

// scenario P39
TEST_F(DamagedFileTest, AnEmptyFileIsMovedAside) {
  WriteFile(path_, "");
  OpenDamaged("it is empty (0 bytes)");
}

// scenario P39
TEST_F(DamagedFileTest, ATextFileIsMovedAside) {
  WriteFile(path_, "Dear diary,\n");
  const auto store = OpenDamaged("it is not an SQLite database");
  EXPECT_EQ(ReadFile(store->open_report().moved_aside_to), "Dear diary,\n");
}

// scenario P39
TEST_F(DamagedFileTest, AnOverwrittenMiddleIsFoundAndSoundRowsAreTakenOver) {
  MakeStore(300);
  {
    const auto store = Open();
    Winner winner = SampleWinner("t", "X=1", "sha");
    ASSERT_THAT((*store)->PutWinner(winner), IsOkAndHolds(1u));
    winner.numerics = Numerics::kSameBitsAsDefault;
    ASSERT_THAT((*store)->PutWinner(winner), IsOkAndHolds(2u));
    ASSERT_THAT((*store)->PutPin(SamplePin("t", "X=1")), IsOkAndHolds(3u));
  }
  // The page that holds this measurement, somewhere in the middle of its table.
  const size_t row = ReadFile(path_).find("config=X=150\n");
  ASSERT_NE(row, std::string::npos);
  OverwriteFile(path_, static_cast<int64_t>(row / 8192 * 8192), std::string(8192, 'x'));
  const auto store = OpenDamaged("");
  EXPECT_EQ((*store->GetArtifact(SampleKey("a").id()))->bytes, "cubin bytes");
  EXPECT_EQ((*store->GetPin("t"))->config->ToString(), "X=1");
  EXPECT_EQ((*store->GetWinner("t", "", Numerics::kSameBitsAsDefault))->generation, 2u);
  EXPECT_GT(*store->PutPin({.tuning_key = "t"}), 3u) << "generations only grow";
  const auto measurements = store->GetMeasurements("t");
  ASSERT_THAT(measurements, IsOk());
  EXPECT_GT(measurements->size(), 100u);
  EXPECT_LT(measurements->size(), 300u);
  EXPECT_EQ(measurements->front().config.ToString(), "X=0");
  EXPECT_EQ(measurements->back().config.ToString(), "X=299");
  EXPECT_GE(store->open_report().salvaged_rows, static_cast<int64_t>(measurements->size()) + 3);
}

// scenario P39
TEST_F(DamagedFileTest, ATruncatedFileIsFound) {
  MakeStore(300);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  OpenDamaged("");
}

TEST_F(DamagedFileTest, DamageWithinOneSecondGetsTwoNames) {
  WriteFile(path_, "one");
  OpenDamaged("");
  WriteFile(path_, "two");
  OpenDamaged("");
  EXPECT_THAT(directory_.Find(".damaged-"), testing::SizeIs(2));
}

TEST_F(DamagedFileTest, ALogWithoutItsDatabaseIsNotReplayedIntoANewOne) {
  {
    const auto store = Open();
    ASSERT_THAT(store, IsOk());
    ASSERT_THAT((*store)->PutArtifact(SampleKey("a"), SampleArtifact("old")), IsOk());
    std::filesystem::copy(path_ + "-wal", directory_ / "kept-wal");
  }
  std::filesystem::remove(path_);
  std::filesystem::rename(directory_ / "kept-wal", path_ + "-wal");
  const auto store = Open();
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->open_report().damage, HasSubstr("without its database"));
  EXPECT_EQ((*store)->GetArtifact(SampleKey("a").id())->has_value(), false);
  EXPECT_THAT((*store)->PutArtifact(SampleKey("a"), SampleArtifact("new")), IsOk());
}

TEST_F(SqliteFileTest, AnotherProgramsDatabaseIsLeftAlone) {
  {
    auto other = SqliteDatabase::Open(path_, SqliteDatabase::Mode::kCreate, absl::Seconds(1));
    ASSERT_THAT(other, IsOk());
    ASSERT_THAT((*other)->Run("CREATE TABLE recipes (dish TEXT)"), IsOk());
  }
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr(path_), HasSubstr("another program"))));
  EXPECT_THAT(OpenBehind(path_)->QueryInt("SELECT count(*) FROM recipes"), IsOkAndHolds(0));
}

TEST_F(SqliteFileTest, RefusesANewerSchema) {
  MakeStore();
  ASSERT_THAT(OpenBehind(path_)->Run("PRAGMA user_version = 9"), IsOk());
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr(path_), HasSubstr("schema 9"),
                                     HasSubstr(absl::StrCat("up to ", kStoreSchema)))));
  EXPECT_THAT(directory_.Find(".damaged-"), testing::IsEmpty());
}

TEST_F(SqliteFileTest, AfterADowngradeItsOwnBackupIsOpened) {
  MakeStore();
  ASSERT_THAT(BackUp(*OpenBehind(path_), kStoreSchema), IsOk());
  ASSERT_THAT(OpenBehind(path_)->Run("PRAGMA user_version = 9"), IsOk());
  const auto store = Open();
  ASSERT_THAT(store, IsOk());
  EXPECT_TRUE((*store)->open_report().older_file);
  EXPECT_EQ((*store)->open_report().path, BackupPath(path_, kStoreSchema));
  EXPECT_EQ((*(*store)->GetArtifact(SampleKey("a").id()))->bytes, "cubin bytes");
}

TEST_F(SqliteFileTest, MigrationsApplyTogetherOrNotAtAll) {
  MakeStore();
  const auto database = OpenBehind(path_);
  std::vector<Migration> migrations = Migrations();
  migrations.push_back(
      {kStoreSchema + 1, "CREATE TABLE notes (key TEXT); PRAGMA user_version = 3;"});
  migrations.push_back({kStoreSchema + 2, "CREATE TABLE notes (key TEXT);"});
  EXPECT_THAT(Migrate(*database, migrations, 1),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("notes already exists")));
  EXPECT_EQ(ReadSchema(*database)->schema, kStoreSchema);
  migrations.pop_back();
  ASSERT_THAT(Migrate(*database, migrations, 1), IsOk());
  EXPECT_EQ(ReadSchema(*database)->schema, kStoreSchema + 1);
  EXPECT_THAT(database->QueryInt("SELECT count(*) FROM artifacts"), IsOkAndHolds(1));
  EXPECT_THAT(database->QueryInt("SELECT count(*) FROM schema_info"),
              IsOkAndHolds(kStoreSchema + 1));
}

TEST_F(SqliteFileTest, ABackupIsAWholeStore) {
  MakeStore(50);
  {
    const auto store = Open();
    ASSERT_THAT(store, IsOk());
    ASSERT_THAT((*store)->PutArtifact(SampleKey("late"), SampleArtifact("in the log")), IsOk());
    ASSERT_THAT(BackUp(*OpenBehind(path_), 1), IsOk());
  }
  EXPECT_THAT(directory_.Find(".new"), testing::IsEmpty());
  std::filesystem::rename(BackupPath(path_, 1), directory_ / "copy.db");
  const auto copy = SqliteStore::Open({.path = directory_ / "copy.db"});
  ASSERT_THAT(copy, IsOk());
  EXPECT_EQ((*(*copy)->GetArtifact(SampleKey("late").id()))->bytes, "in the log");
  EXPECT_THAT((*copy)->GetMeasurements("t"), IsOkAndHolds(testing::SizeIs(50)));
}

// A file written by schema 1 opens for ever.
TEST_F(SqliteFileTest, OpensTheGoldenFileOfSchema1) {
  std::filesystem::copy(std::string(HONE_GOLDEN_DIR) + "/store_schema_1.db", path_);
  const auto opened = Open();
  ASSERT_THAT(opened, IsOk());
  SqliteStore& store = **opened;
  EXPECT_EQ(store.open_report().damage, "");
  EXPECT_EQ(store.open_report().migrated_from, 1);
  EXPECT_TRUE(std::filesystem::exists(BackupPath(path_, 1)));

  const Artifact artifact = SampleArtifact("cubin bytes");
  const auto found = store.GetArtifact(SampleKey("golden").id());
  ASSERT_THAT(found, IsOkAndHolds(testing::Optional(testing::_)));
  EXPECT_EQ((*found)->bytes, "cubin bytes");
  EXPECT_EQ(Describe(**found), Describe(artifact));
  EXPECT_EQ((*store.GetLog(Sha256Hex("a log")))->second, 7);
  EXPECT_EQ(Describe(**store.GetTuning("golden")), Describe(SampleTuning("golden")));
  const auto measurements = store.GetMeasurements("golden");
  ASSERT_THAT(measurements, IsOkAndHolds(testing::SizeIs(2)));
  EXPECT_EQ(Describe((*measurements)[0]), Describe(SampleMeasurement("X=1 Y=2", {1.5, 2.5, 4})));
  EXPECT_EQ(Describe((*measurements)[1]),
            Describe(SampleRejection("X=2 Y=2", RejectionKind::kWrongResult)));
  Winner winner = SampleWinner("golden", "X=1 Y=2", artifact.sha256);
  winner.generation = 1;
  EXPECT_EQ(Describe(**store.GetWinner("golden", "digest", Numerics::kWithinTolerance)),
            Describe(winner));
  EXPECT_THAT(store.GetWinner("golden", "digest", Numerics::kSameBitsAsDefault),
              IsOkAndHolds(testing::Eq(std::nullopt)));
  EXPECT_EQ((*measurements)[0].invalidated, "");
  EXPECT_EQ(store.GetPin("golden")->has_value(), false);
  EXPECT_THAT(store.PutPin(SamplePin("golden", "X=1 Y=2")), IsOkAndHolds(2u));
  EXPECT_EQ(store.ListTemplates()->front().encoded, "text");
  EXPECT_EQ((*store.GetHeaderSet("headers"))->front().content, "#pragma once\n");
  EXPECT_EQ(store.ListMisses({})->front().problem, "n=1");
  // What schema 2 added.
  EXPECT_EQ(store.ListMisses({})->front().tuning_key, "");
  EXPECT_THAT(OpenBehind(path_)->QueryInt("SELECT size_bytes FROM artifact_uses"),
              IsOkAndHolds(static_cast<int64_t>(artifact.bytes.size())));
}

// So does one written by schema 2, with what that added.
TEST_F(SqliteFileTest, OpensTheGoldenFileOfSchema2) {
  std::filesystem::copy(std::string(HONE_GOLDEN_DIR) + "/store_schema_2.db", path_);
  const auto opened = Open();
  ASSERT_THAT(opened, IsOk());
  SqliteStore& store = **opened;
  EXPECT_EQ(store.open_report().damage, "");
  EXPECT_EQ(store.open_report().migrated_from, kStoreSchema > 2 ? 2 : 0);

  const Artifact artifact = SampleArtifact("cubin bytes");
  EXPECT_EQ(Describe(**store.GetArtifact(SampleKey("golden").id())), Describe(artifact));
  EXPECT_EQ((*store.GetLog(Sha256Hex("a log")))->second, 7);
  EXPECT_EQ(Describe(**store.GetTuning("golden")), Describe(SampleTuning("golden")));
  const auto measurements = store.GetMeasurements("golden");
  ASSERT_THAT(measurements, IsOkAndHolds(testing::SizeIs(2)));
  const Measurement sample = SampleMeasurement("X=1 Y=2", {1.5, 2.5, 4});
  const Measurement& timed = (*measurements)[0];
  EXPECT_EQ(Describe(timed), Describe(sample));
  EXPECT_EQ(timed.small_outputs, sample.small_outputs);
  EXPECT_EQ(timed.paired_ratio, sample.paired_ratio);
  EXPECT_EQ(timed.other_processes, sample.other_processes);
  EXPECT_EQ(timed.memory_clock_mhz, sample.memory_clock_mhz);
  EXPECT_EQ(timed.same_work_as, sample.same_work_as);
  EXPECT_EQ(timed.unstable, sample.unstable);
  EXPECT_EQ(timed.invalidated, "") << "the pin spared it";
  EXPECT_EQ(Describe((*measurements)[1]),
            Describe(SampleRejection("X=2 Y=2", RejectionKind::kWrongResult)));
  EXPECT_EQ((*measurements)[1].invalidated, "why");
  Winner winner = SampleWinner("golden", "X=1 Y=2", artifact.sha256);
  winner.generation = 1;
  EXPECT_EQ(Describe(**store.GetWinner("golden", "digest", Numerics::kWithinTolerance)),
            Describe(winner));
  winner.numerics = Numerics::kSameBitsAsDefault;
  winner.variants.push_back({*Config::Parse("X=1 Y=1"), artifact.sha256});
  winner.generation = 2;
  const Winner same_bits = **store.GetWinner("golden", "digest", Numerics::kSameBitsAsDefault);
  EXPECT_EQ(Describe(same_bits), Describe(winner));
  EXPECT_EQ(same_bits.numerics, Numerics::kSameBitsAsDefault);
  EXPECT_EQ(same_bits.driver, winner.driver);
  EXPECT_EQ(same_bits.compiler_build, winner.compiler_build);
  const auto pin = store.GetPin("golden");
  ASSERT_THAT(pin, IsOkAndHolds(testing::Optional(testing::_)));
  EXPECT_EQ((*pin)->config->ToString(), "X=1 Y=2");
  EXPECT_EQ((*pin)->reason, SamplePin("golden", "X=1 Y=2").reason);
  EXPECT_EQ((*pin)->generation, 3u);
  const auto ceilings = store.GetCeilings(SampleTuning("golden").device.Key());
  ASSERT_THAT(ceilings, IsOkAndHolds(testing::Optional(testing::_)));
  EXPECT_EQ((*ceilings)->ceilings.size(), 2u);
  EXPECT_EQ((*ceilings)->Find(kCopyCeiling)->value, 4012.5);
  EXPECT_EQ((*ceilings)->Find(kCopyCeiling)->how, SampleCeilings().ceilings[0].how);
  EXPECT_EQ((*ceilings)->clock_mhz, 1980);
  EXPECT_EQ(store.ListTemplates()->front().encoded, "text");
  EXPECT_EQ((*store.GetHeaderSet("headers"))->front().content, "#pragma once\n");
  const auto misses = store.ListMisses({});
  ASSERT_THAT(misses, IsOkAndHolds(testing::SizeIs(1)));
  EXPECT_EQ(misses->front().tuning_key, "exact");
  EXPECT_EQ(misses->front().bucket_key, "bucket");
  EXPECT_THAT(store.PutPin({.tuning_key = "golden"}), IsOkAndHolds(4u)) << "it is written to";
}

}  // namespace
}  // namespace hone
