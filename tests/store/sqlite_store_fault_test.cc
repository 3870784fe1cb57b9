// Real faults: processes killed while they write, disks that are full or read-only.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/error_info.h"
#include "runtime/store/sqlite_store.h"
#include "tests/store/samples.h"
#include "tests/store/temporary_store.h"
#include "tests/testing/status_matchers.h"

extern char** environ;

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// store_writer in its own process, with its acknowledgements.
class Writer {
 public:
  Writer(const std::string& path, const std::string& round) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string program = STORE_WRITER, first = path, second = round;
    char* arguments[] = {program.data(), first.data(), second.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    acknowledged_ = fdopen(ends[0], "r");
  }
  ~Writer() { std::fclose(acknowledged_); }

  // Kills it after it acknowledged `count` writes; returns these and those still in the pipe.
  std::vector<std::string> KillAfter(int count) {
    std::vector<std::string> lines;
    char line[256];
    while (std::fgets(line, sizeof(line), acknowledged_) != nullptr) {
      lines.emplace_back(line, std::strcspn(line, "\n"));
      if (--count == 0) kill(pid_, SIGKILL);
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << status;
    return lines;
  }

 private:
  pid_t pid_ = -1;
  std::FILE* acknowledged_ = nullptr;
};

TEST(SqliteStoreKillTest, EveryAcknowledgedWriteSurvivesKills) {
  TemporaryDirectory directory;
  const std::string path = directory / "hone.db";
  std::mt19937 random(20261130);
  std::map<std::string, std::vector<std::string>> artifacts;  // by round
  uint64_t generation = 0;
  for (int round = 0; round < 30; ++round) {
    const std::string name = absl::StrCat("round", round);
    const int kill_after = std::uniform_int_distribution<int>(1, 40)(random);
    size_t measurements = 0;
    for (const std::string& line : Writer(path, name).KillAfter(kill_after)) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      if (words[0] == "artifact") artifacts[name].push_back(words[1]);
      if (words[0] == "measurement") ++measurements;
      if (words[0] == "winner") generation = std::max<uint64_t>(generation, std::stoull(words[1]));
    }
    const auto store = SqliteStore::Open({.path = path});
    ASSERT_THAT(store, IsOk());
    EXPECT_EQ((*store)->open_report().damage, "");
    EXPECT_TRUE((*store)->open_report().check_complete);
    for (const std::string& artifact : artifacts[name]) {
      EXPECT_THAT((*store)->GetArtifact(SampleKey(artifact).id()),
                  IsOkAndHolds(testing::Optional(
                      testing::Field(&Artifact::bytes, testing::StartsWith(artifact)))));
    }
    const auto found = (*store)->GetMeasurements(name);
    ASSERT_THAT(found, IsOk());
    EXPECT_GE(found->size(), measurements);
  }
  const auto store = SqliteStore::Open({.path = path});
  ASSERT_THAT(store, IsOk());
  for (const auto& [round, names] : artifacts) {
    for (const std::string& name : names) {
      EXPECT_EQ((*store)->GetArtifact(SampleKey(name).id())->has_value(), true) << name;
    }
  }
  ASSERT_THAT((*store)->PutTuning(SampleTuning("t")), IsOk());
  EXPECT_GT(*(*store)->PutWinner(SampleWinner("t", "X=1", "sha")), generation);
}

// scenario P13
TEST(SqliteStoreKillTest, AnotherProcessIsNamedAndItsDeathFreesTheStore) {
  TemporaryDirectory directory;
  const std::string path = directory / "hone.db";
  {
    const auto owner = SqliteStore::Open({.path = path});
    ASSERT_THAT(owner, IsOk());
    std::FILE* refused = popen(absl::StrCat(STORE_WRITER, " ", path, " x 2>&1").c_str(), "r");
    char line[512] = {};
    EXPECT_NE(std::fgets(line, sizeof(line), refused), nullptr);
    EXPECT_NE(pclose(refused), 0);
    EXPECT_THAT(line, AllOf(HasSubstr(absl::StrCat("process ", getpid())), HasSubstr(path)));
  }
  Writer(path, "y").KillAfter(3);
  EXPECT_THAT(SqliteStore::Open({.path = path}), IsOk());
}

// Puts artifacts of 64 KiB until one fails; returns the failure. `stored` counts the others.
absl::Status FillUp(SqliteStore& store, int& stored) {
  for (int i = 0; i < 1000; ++i) {
    const std::string bytes = absl::StrCat(i, std::string(64 << 10, 'x'));
    const absl::Status status =
        store.PutArtifact(SampleKey(absl::StrCat("fill", i)), SampleArtifact(bytes));
    if (!status.ok()) return status;
    ++stored;
  }
  return absl::OkStatus();
}

void ExpectAllThere(SqliteStore& store, int stored) {
  for (int i = 0; i < stored; ++i) {
    const auto found = store.GetArtifact(SampleKey(absl::StrCat("fill", i)).id());
    ASSERT_THAT(found, IsOkAndHolds(testing::Optional(testing::_))) << i;
  }
}

// A file system of its own, or a visible skip where mounting is not allowed.
class MountedTest : public testing::Test {
 protected:
  void SetUp() override {
    if (mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, "size=6m") != 0) {
      GTEST_SKIP() << "cannot mount a tmpfs here: " << std::strerror(errno);
    }
    mounted_ = true;
  }
  void TearDown() override {
    if (!mounted_) return;
    EXPECT_EQ(umount2(directory_.path().c_str(), MNT_DETACH), 0);
  }
  TemporaryDirectory directory_;
  bool mounted_ = false;
};

// scenario P54
TEST_F(MountedTest, AFullDiskIsToldWithFreeBytesAndHealsByItself) {
  WriteFile(directory_ / "ballast", std::string(2 << 20, 'b'));
  const auto opened = SqliteStore::Open({.path = directory_ / "hone.db"});
  ASSERT_THAT(opened, IsOk());
  SqliteStore& store = **opened;
  int stored = 0;
  const absl::Status full = FillUp(store, stored);
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted,
                             AllOf(HasSubstr(directory_ / "hone.db"), HasSubstr("bytes free"))));
  ASSERT_TRUE(ErrorInfoOf(full).has_value());
  EXPECT_EQ(ErrorInfoOf(full)->reason, "DISK_FULL");
  EXPECT_GT(ErrorInfoOf(full)->retry_after_ms, 0);
  EXPECT_GT(stored, 5);
  ExpectAllThere(store, stored);
  EXPECT_EQ(store.GetArtifact(SampleKey(absl::StrCat("fill", stored)).id())->has_value(), false);

  std::filesystem::remove(directory_ / "ballast");
  EXPECT_THAT(store.PutArtifact(SampleKey("after"), SampleArtifact("after")), IsOk());
  ExpectAllThere(store, stored);
}

TEST_F(MountedTest, AReadOnlyFileSystemIsNamed) {
  { ASSERT_THAT(SqliteStore::Open({.path = directory_ / "hone.db"}), IsOk()); }
  ASSERT_EQ(mount("tmpfs", directory_.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, ""), 0);
  EXPECT_THAT(SqliteStore::Open({.path = directory_ / "hone.db"}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(directory_.path()), HasSubstr("Read-only"))));
}

// A limit on file size stands for a full disk where nothing may be mounted. scenario P54
TEST(SqliteStoreLimitTest, AFileThatMayNotGrowIsToldAndHealsByItself) {
  TemporaryDirectory directory;
  const std::string path = directory / "hone.db";
  const auto opened = SqliteStore::Open({.path = path});
  ASSERT_THAT(opened, IsOk());
  SqliteStore& store = **opened;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limited = before;
  limited.rlim_cur = 2 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
  int stored = 0;
  const absl::Status full = FillUp(store, stored);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(path)));
  EXPECT_GT(stored, 5);
  ExpectAllThere(store, stored);
  EXPECT_THAT(store.PutArtifact(SampleKey("after"), SampleArtifact("after")), IsOk());
}

// A bit flips anywhere in the file, as on a failing disk: whatever is served is what was stored.
TEST(SqliteStoreFlipTest, AFlippedBitIsNeverServed) {
  TemporaryDirectory directory;
  const std::string sound = directory / "sound.db";
  constexpr int kArtifacts = 12;
  {
    const auto store = SqliteStore::Open({.path = sound});
    ASSERT_THAT(store, IsOk());
    ASSERT_THAT((*store)->PutTuning(SampleTuning("t")), IsOk());
    for (int i = 0; i < kArtifacts; ++i) {
      const std::string name = absl::StrCat("a", i);
      ASSERT_THAT(
          (*store)->PutArtifact(SampleKey(name), SampleArtifact(name + std::string(3000, 'x'))),
          IsOk());
      ASSERT_THAT((*store)->PutMeasurement("t", SampleMeasurement(absl::StrCat("X=", i), {5})),
                  IsOk());
    }
  }
  const std::string content = ReadFile(sound);
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    const std::string path = directory / absl::StrCat("flipped", round, ".db");
    std::string flipped = content;
    const size_t byte = random() % flipped.size();
    flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << (random() % 8)));
    WriteFile(path, flipped);
    const auto store = SqliteStore::Open({.path = path});
    if (!store.ok()) {
      // The mark that says whose file it is: left alone, and said so.
      EXPECT_THAT(store, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(path)));
      continue;
    }
    for (int i = 0; i < kArtifacts; ++i) {
      const std::string name = absl::StrCat("a", i);
      const auto found = (*store)->GetArtifact(SampleKey(name).id());
      if (!found.ok() || !found->has_value()) continue;
      const Artifact stored = SampleArtifact(name + std::string(3000, 'x'));
      EXPECT_EQ((*found)->bytes, stored.bytes) << "byte " << byte;
      EXPECT_EQ(Describe(**found), Describe(stored)) << "byte " << byte;
    }
    const auto measurements = (*store)->GetMeasurements("t");
    if (!measurements.ok()) continue;
    for (const Measurement& measurement : *measurements) {
      const std::string config = measurement.config.ToString();
      EXPECT_EQ(Describe(measurement), Describe(SampleMeasurement(config, {5}))) << "byte " << byte;
    }
  }
}

}  // namespace
}  // namespace hone
