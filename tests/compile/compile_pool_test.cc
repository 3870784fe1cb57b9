// The pool in good times: parallelism, idle workers, shutting down, the compilers it finds.
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <thread>

#include "runtime/base/files.h"
#include "tests/compile/pool_fixture.h"

namespace hone {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class CompilePoolTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasNvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  }
};

Program Numbered(int number) {
  return CudaProgram(
      absl::StrCat("extern \"C\" __global__ void k(int* a) { a[0] = ", number, "; }\n"));
}

TEST_F(CompilePoolTest, DescribesTheCompilerItFound) {
  auto pool = CompilePool::Create(NvrtcOptions());
  ASSERT_THAT(pool, IsOk());
  ASSERT_THAT((*pool)->Compilers(), Not(IsEmpty()));
  const CompilerInfo info = (*pool)->Compilers().front();
  EXPECT_EQ(info.kind, "nvrtc");
  EXPECT_TRUE(info.available) << info.detail;
  EXPECT_EQ(info.builder, "nvrtc " + info.build);
  EXPECT_GE(info.cuda_version, 12000);
  EXPECT_THAT(info.architectures, Contains("sm_90a"));
  EXPECT_THAT(info.headers_digest, SizeIs(64));
  EXPECT_THAT(info.headers_version, Not(IsEmpty()));
}

// scenario P10
TEST_F(CompilePoolTest, ManyCallersShareTheWorkersThereMayBe) {
  auto pool = CompilePool::Create(NvrtcOptions());
  ASSERT_THAT(pool, IsOk());
  std::vector<std::thread> callers;
  std::atomic<int> good{0};
  for (int i = 0; i < 20; ++i) {
    callers.emplace_back([&, i] {
      const auto outcome = (*pool)->Compile(Numbered(i), WithTimeout(absl::Minutes(3)));
      if (outcome.ok() && outcome->artifact.has_value()) ++good;
    });
  }
  while (good + (*pool)->stats().waiting > 0 && good < 20) {
    EXPECT_LE(Children().size(), 2u);
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(good, 20);
  EXPECT_LE((*pool)->stats().started_workers, 2);
}

// scenario P48
TEST_F(CompilePoolTest, NeedsNoCompilerOnThePath) {
  const std::string path = std::getenv("PATH");
  const TemporaryDirectory empty = *TemporaryDirectory::Create();
  ::setenv("PATH", empty.path().c_str(), 1);
  auto pool = CompilePool::Create(NvrtcOptions());
  ASSERT_THAT(pool, IsOk());
  const auto outcome = (*pool)->Compile(Numbered(1), {});
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_TRUE(outcome->artifact.has_value());
}

TEST_F(CompilePoolTest, WorkersLeaveWhenThereIsNoWork) {
  CompilePoolOptions options = NvrtcOptions();
  options.worker_idle = absl::Milliseconds(50);
  auto pool = CompilePool::Create(std::move(options));
  ASSERT_THAT(pool, IsOk());
  ASSERT_THAT((*pool)->Compile(Numbered(1), {}), IsOk());
  EXPECT_TRUE(Eventually([] { return Children().empty(); }));
  ASSERT_THAT((*pool)->Compile(Numbered(2), {}), IsOk());
}

TEST_F(CompilePoolTest, OnlyWorkThatNobodyWaitsForGivesWay) {
  CompilePoolOptions options = NvrtcOptions();
  options.idle_priority = true;
  auto pool = CompilePool::Create(std::move(options));
  ASSERT_THAT(pool, IsOk());
  const auto idle_workers = [] {
    const std::vector<pid_t> all = Children();
    return std::count_if(all.begin(), all.end(),
                         [](pid_t pid) { return ::sched_getscheduler(pid) == SCHED_IDLE; });
  };
  CompileOptions compile;
  compile.priority = CompilePriority::kInteractive;
  ASSERT_THAT((*pool)->Compile(Numbered(1), compile), IsOk());
  EXPECT_EQ(idle_workers(), 0);
  const std::vector<pid_t> ordinary = Children();
  compile.priority = CompilePriority::kTune;
  ASSERT_THAT((*pool)->Compile(Numbered(2), compile), IsOk());
  EXPECT_EQ(idle_workers(), 1);
  // To other sessions too, where the kernel weighs these.
  for (const pid_t pid : Children()) {
    if (std::count(ordinary.begin(), ordinary.end(), pid) > 0) continue;
    EXPECT_EQ(::getsid(pid), pid);
    const absl::StatusOr<std::string> autogroup =
        ReadFile(absl::StrCat("/proc/", pid, "/autogroup"));
    // The kernel refuses changes that follow too closely from all but root.
    if (autogroup.ok() && ::geteuid() == 0) {
      EXPECT_THAT(*autogroup, HasSubstr(" nice 19"));
    }
  }
}

TEST_F(CompilePoolTest, WorkersAreReplacedAfterTheirNumberOfJobs) {
  CompilePoolOptions options = NvrtcOptions();
  options.parallelism = 1;
  options.jobs_per_worker_max = 2;
  auto pool = CompilePool::Create(std::move(options));
  ASSERT_THAT(pool, IsOk());
  for (int i = 0; i < 4; ++i) ASSERT_THAT((*pool)->Compile(Numbered(i), {}), IsOk());
  EXPECT_EQ((*pool)->stats().recycled, 2);
  EXPECT_EQ((*pool)->stats().started_workers, 2);
}

// scenario P08
TEST_F(CompilePoolTest, LongLogsAreCutAndTheCutIsStated) {
  CompilePoolOptions options = NvrtcOptions();
  options.log_bytes_max = 500;
  auto pool = CompilePool::Create(std::move(options));
  ASSERT_THAT(pool, IsOk());
  std::string source;
  for (int i = 1; i <= 50; ++i) absl::StrAppend(&source, "__device__ int a", i, " = b", i, ";\n");
  const auto outcome = (*pool)->Compile(CudaProgram(source), {});
  ASSERT_THAT(outcome, IsOk());
  EXPECT_LE(outcome->log.size(), 500u);
  EXPECT_GT(outcome->log_truncated_bytes, 1000);
  EXPECT_EQ(outcome->error_count, 50);
}

TEST_F(CompilePoolTest, BinariesAboveTheLimitAreRejectedWithBothNumbers) {
  CompilePoolOptions options = NvrtcOptions();
  options.artifact_bytes_max = 100'000;
  auto pool = CompilePool::Create(std::move(options));
  ASSERT_THAT(pool, IsOk());
  const auto outcome = (*pool)->Compile(
      CudaProgram("__device__ int table[100000] = {1};\nextern \"C\" __global__ void k(int* a) { "
                  "a[0] = table[a[1]]; }\n"),
      {});
  ASSERT_THAT(outcome, IsOk());
  ASSERT_TRUE(outcome->rejection.has_value());
  EXPECT_EQ(outcome->rejection->limit, 100'000);
  EXPECT_GT(outcome->rejection->needed, 400'000);
}

// scenario P53
TEST_F(CompilePoolTest, ShuttingDownEndsRunningAndWaitingCallers) {
  CompilePoolOptions options = NvrtcOptions();
  options.parallelism = 1;
  auto pool = CompilePool::Create(std::move(options));
  ASSERT_THAT(pool, IsOk());
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      EXPECT_THAT((*pool)->Compile(CudaProgram(TypeTree(16)), WithTimeout(absl::Minutes(10))),
                  StatusIs(absl::StatusCode::kUnavailable, HasSubstr("shutting down")));
    });
  }
  ASSERT_TRUE(
      Eventually([&] { return (*pool)->stats().running == 1 && (*pool)->stats().waiting == 1; }));
  (*pool)->Shutdown();
  for (std::thread& caller : callers) caller.join();
  EXPECT_THAT(Children(), IsEmpty());
  EXPECT_THAT((*pool)->Compile(Numbered(1), {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("shutting down")));
}

TEST_F(CompilePoolTest, ScratchDirectoriesOfDeadPoolsAreSwept) {
  const TemporaryDirectory parent = *TemporaryDirectory::Create();
  const std::string left = JoinPath(parent.path(), "hone-compile-aaaaaa");
  ASSERT_THAT(MakeDirectories(JoinPath(left, "worker-0")), IsOk());
  ASSERT_THAT(WriteNewFile(JoinPath(left, "in-use"), ""), IsOk());
  ASSERT_THAT(MakeDirectories(JoinPath(parent.path(), "other")), IsOk());
  CompilePoolOptions options = NvrtcOptions();
  options.scratch_directory = parent.path();
  {
    auto first = CompilePool::Create(options);
    ASSERT_THAT(first, IsOk());
    EXPECT_FALSE(PathExists(left));
    // A second pool leaves the first one's directory alone.
    auto second = CompilePool::Create(options);
    ASSERT_THAT(second, IsOk());
    EXPECT_THAT(ListDirectory(parent.path()), IsOkAndHolds(SizeIs(3)));
    EXPECT_THAT((*first)->Compile(Numbered(1), {}), IsOk());
  }
  EXPECT_THAT(ListDirectory(parent.path()), IsOkAndHolds(testing::ElementsAre("other")));
}

TEST(CompilePoolStartTest, AMissingWorkerProgramIsNamed) {
  CompilePoolOptions options;
  options.worker_program = "/no/such/hone-worker";
  EXPECT_THAT(CompilePool::Create(std::move(options)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/hone-worker")));
}

}  // namespace
}  // namespace hone
