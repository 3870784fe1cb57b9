// A bounded SQLite store on the disk: what it takes there, what stays, and that nobody waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/error_info.h"
#include "runtime/store/sqlite_store.h"
#include "tests/store/samples.h"
#include "tests/store/temporary_store.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

class SqliteEvictionTest : public testing::Test {
 protected:
  void Open(int64_t bytes_max) {
    store_.reset();
    auto opened = SqliteStore::Open({.path = path_, .bytes_max = bytes_max});
    ASSERT_THAT(opened, IsOk());
    store_ = *std::move(opened);
  }
  static std::string Bytes(const std::string& name, size_t size) {
    return name + std::string(size, static_cast<char>('a' + name.size() % 26));
  }
  absl::Status Put(const std::string& name, size_t size) {
    return store_->PutArtifact(SampleKey(name), SampleArtifact(Bytes(name, size)));
  }
  bool Has(const std::string& name) {
    const auto found = store_->GetArtifact(SampleKey(name).id());
    EXPECT_THAT(found, IsOk());
    return found.ok() && found->has_value();
  }
  // Of database, log and index of the log, as `du` sees them.
  int64_t BytesOnDisk() const {
    int64_t bytes = 0;
    for (const std::string& name : directory_.Find("hone.db")) {
      std::error_code gone;
      const auto size = std::filesystem::file_size(directory_ / name, gone);
      if (!gone) bytes += static_cast<int64_t>(size);
    }
    return bytes;
  }
  // Waits until the store's thread has brought the disk's use below `bytes`.
  bool ShrinksTo(int64_t bytes) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (BytesOnDisk() > bytes && absl::Now() < deadline) std::this_thread::yield();
    return BytesOnDisk() <= bytes;
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "hone.db";
  std::unique_ptr<SqliteStore> store_;
};

// scenario P18
TEST_F(SqliteEvictionTest, ThreeHundredKernelsBelowAnEighthOfTheirSizeWhileTenAreHot) {
  constexpr int64_t kBound = int64_t{64} << 20;
  constexpr int64_t kKernel = int64_t{1} << 20;
  Open(kBound);
  ASSERT_THAT(store_->PutTuning(SampleTuning("t")), IsOk());
  ASSERT_THAT(Put("winner", kKernel), IsOk());
  ASSERT_THAT(
      store_->PutWinner(SampleWinner("t", "X=1", SampleArtifact(Bytes("winner", kKernel)).sha256)),
      IsOk());
  ASSERT_THAT(Put("open", kKernel), IsOk());
  const auto open = store_->Hold(SampleArtifact(Bytes("open", kKernel)).sha256);
  for (int i = 0; i < 10; ++i) ASSERT_THAT(Put(absl::StrCat("hot", i), kKernel), IsOk());
  int64_t largest = 0;
  for (int i = 0; i < 300; ++i) {
    ASSERT_THAT(Put(absl::StrCat("kernel", i), kKernel), IsOk()) << i;
    // Every hot key is hit between evictions: half from the store, half from a cache before it.
    const std::string hot = absl::StrCat("hot", i % 10);
    if (i % 2 == 0) {
      EXPECT_TRUE(Has(hot)) << i;
    } else {
      store_->NoteUse(SampleArtifact(Bytes(hot, kKernel)).sha256);
    }
    largest = std::max(largest, BytesOnDisk());
  }
  EXPECT_LE(largest, kBound + kKernel);
  EXPECT_GE(largest, kBound / 2) << "the bound is used";
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Has(absl::StrCat("hot", i))) << i;
  EXPECT_TRUE(Has("winner"));
  EXPECT_TRUE(Has("open"));
  EXPECT_TRUE(Has("kernel299"));
  EXPECT_FALSE(Has("kernel0"));
  EXPECT_GE(store_->Room().evictions, 312 - kBound / kKernel);
}

// scenario P18
TEST_F(SqliteEvictionTest, ALowerBoundGivesTheSpaceBackToTheFileSystem) {
  constexpr int64_t kKernel = int64_t{1} << 20;
  Open(0);
  for (int i = 0; i < 40; ++i) ASSERT_THAT(Put(absl::StrCat("kernel", i), kKernel), IsOk());
  EXPECT_EQ(store_->Room().evictions, 0) << "without a bound everything is kept";
  ASSERT_GE(BytesOnDisk(), 40 * kKernel);
  Open(16 * kKernel);
  EXPECT_TRUE(ShrinksTo(16 * kKernel)) << BytesOnDisk();
  EXPECT_TRUE(Has("kernel39"));
  EXPECT_FALSE(Has("kernel0"));
  EXPECT_THAT(OpenBehind(path_)->QueryInt("SELECT count(*) FROM artifact_keys"),
              IsOkAndHolds(testing::Le(16)));
}

// scenario P18
TEST_F(SqliteEvictionTest, UsesOutliveTheProcess) {
  constexpr int64_t kKernel = int64_t{1} << 20;
  Open(0);
  for (int i = 0; i < 20; ++i) ASSERT_THAT(Put(absl::StrCat("kernel", i), kKernel), IsOk());
  store_->NoteUse(SampleArtifact(Bytes("kernel3", kKernel)).sha256);
  Open(8 * kKernel);
  ASSERT_TRUE(ShrinksTo(8 * kKernel));
  EXPECT_TRUE(Has("kernel3")) << "used last, before the restart";
  EXPECT_TRUE(Has("kernel19"));
  EXPECT_FALSE(Has("kernel2"));
}

TEST_F(SqliteEvictionTest, WhatCanNeverFitIsRefusedWithBothNumbers) {
  constexpr int64_t kBound = int64_t{4} << 20;
  Open(kBound);
  ASSERT_THAT(Put("small", 1000), IsOk());
  const absl::Status refused = Put("huge", 5 << 20);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                testing::HasSubstr(absl::StrCat(kBound))));
  ASSERT_TRUE(ErrorInfoOf(refused).has_value());
  EXPECT_GE(ErrorInfoOf(refused)->needed, 5 << 20);
  EXPECT_LT(ErrorInfoOf(refused)->available, kBound);
  EXPECT_TRUE(Has("small")) << "nothing was evicted for it";
}

// scenario P18: reading goes on while much is evicted.
TEST_F(SqliteEvictionTest, ManyWritersStayBelowTheBoundTogether) {
  constexpr int64_t kBound = int64_t{16} << 20;
  constexpr int64_t kKernel = int64_t{256} << 10;
  // Of the kernel under way: its frames' headers in the log, and the log's index of 32 KiB.
  constexpr int64_t kAround = int64_t{64} << 10;
  Open(kBound);
  ASSERT_THAT(Put("read", kKernel), IsOk());
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) EXPECT_TRUE(Has("read"));
  });
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([this, writer] {
      for (int i = 0; i < 40; ++i) {
        EXPECT_THAT(Put(absl::StrCat("w", writer, "-", i), kKernel), IsOk());
        EXPECT_LE(BytesOnDisk(), kBound + kKernel + kAround);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
  EXPECT_GE(store_->Room().evictions, 160 - kBound / kKernel);
}

}  // namespace
}  // namespace hone
