// What the machine offers: cgroup limits and installed NVRTCs, on made-up trees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "runtime/base/files.h"
#include "runtime/compile/nvrtc_locate.h"
#include "runtime/compile/parallelism.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::SizeIs;

class TreeTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& content) {
    const std::string full = directory_.path() + "/" + path;
    ASSERT_THAT(MakeDirectories(DirectoryName(full)), IsOk());
    ASSERT_THAT(WriteNewFile(full, content), IsOk());
  }
  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }

  TemporaryDirectory directory_ = *TemporaryDirectory::Create();
};

using CgroupTest = TreeTest;

TEST_F(CgroupTest, TheTightestLimitOnTheWayUpCountsInVersion2) {
  Write("proc/self/cgroup", "0::/pod/container\n");
  Write("sys/fs/cgroup/pod/container/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/pod/cpu.max", "350000 100000\n");
  Write("sys/fs/cgroup/pod/container/memory.max", "8589934592\n");
  Write("sys/fs/cgroup/pod/memory.max", "max\n");
  const CgroupLimits limits = ReadCgroupLimits(directory_.path());
  EXPECT_DOUBLE_EQ(limits.cpus, 3.5);
  EXPECT_EQ(limits.memory_bytes, int64_t{8} << 30);
}

TEST_F(CgroupTest, Version1IsReadFromItsControllers) {
  Write("proc/self/cgroup", "4:memory:/job\n1:cpu,cpuacct:/\n0::/\n");
  Write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const CgroupLimits limits = ReadCgroupLimits(directory_.path());
  EXPECT_EQ(limits.cpus, 0);
  EXPECT_EQ(limits.memory_bytes, int64_t{1} << 30);
}

TEST_F(CgroupTest, NothingReadableLimitsNothing) {
  const CgroupLimits limits = ReadCgroupLimits(directory_.path());
  EXPECT_EQ(limits.cpus, 0);
  EXPECT_EQ(limits.memory_bytes, 0);
}

TEST(ParallelismTest, IsTheLeastOfCpusAndMemoryAndAtLeastOne) {
  EXPECT_EQ(DefaultCompileParallelism(int64_t{4} << 30, {0.5, int64_t{64} << 30}), 1);
  EXPECT_EQ(DefaultCompileParallelism(int64_t{4} << 30, {64, int64_t{1} << 30}), 1);
  EXPECT_LE(DefaultCompileParallelism(1, {64, int64_t{64} << 30}), 16);
}

using LocateTest = TreeTest;

TEST_F(LocateTest, FindsAToolkitWithItsHeadersUnderAnyOfItsNames) {
  Write("cuda/lib/libnvrtc.so.13", "");
  Write("cuda/lib/libnvrtc.alt.so.13", "");
  Write("cuda/lib/libnvrtc-builtins.so.13.0", "");
  Write("cuda/include/cuda_fp16.h", "");
  Write("cuda/include/cccl/cuda/std/cstdint", "");
  ASSERT_EQ(::symlink("lib", Path("cuda/lib64").c_str()), 0);
  ASSERT_EQ(::symlink("cuda", Path("cuda-13").c_str()), 0);
  // scenario P17: the same files under two names are one compiler.
  const NvrtcSearch search = LocateNvrtc({Path("cuda"), Path("cuda-13"), Path("cuda/lib64")});
  ASSERT_THAT(search.found, SizeIs(1));
  EXPECT_THAT(search.found[0].library, EndsWith("/cuda/lib/libnvrtc.so.13"));
  EXPECT_THAT(search.found[0].include_directories,
              ElementsAre(EndsWith("/cuda/include"), EndsWith("/cuda/include/cccl")));
}

TEST_F(LocateTest, FindsTheWheelsOfASitePackagesDirectory) {
  Write("site/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "");
  Write("site/nvidia/cuda_runtime/include/cuda_fp16.h", "");
  Write("site/nvidia/cuda_cccl/include/cuda/std/cstdint", "");
  Write("site/nvidia/cuda_nvcc/include/crt/mma.h", "");
  Write("site/nvidia/cu13/lib/libnvrtc.so.13", "");
  Write("site/nvidia/cu13/include/cuda_fp16.h", "");
  const NvrtcSearch search = LocateNvrtc({Path("site")});
  ASSERT_THAT(search.found, SizeIs(2));
  EXPECT_THAT(search.found[0].include_directories,
              ElementsAre(EndsWith("cuda_runtime/include"), EndsWith("cuda_cccl/include"),
                          EndsWith("cuda_nvcc/include")));
  EXPECT_THAT(search.found[1].include_directories, ElementsAre(EndsWith("cu13/include")));
}

TEST_F(LocateTest, HeadersGivenReplaceTheLibrarysOwn) {
  Write("cuda/lib/libnvrtc.so.13", "");
  Write("cuda/include/cuda_fp16.h", "");
  const NvrtcSearch search = LocateNvrtc({Path("cuda")}, {"/elsewhere"});
  ASSERT_THAT(search.found, SizeIs(1));
  EXPECT_THAT(search.found[0].include_directories, ElementsAre("/elsewhere"));
}

TEST_F(LocateTest, SaysWhereItLookedWhenThereIsNone) {
  const NvrtcSearch search = LocateNvrtc({Path("nothing")});
  EXPECT_THAT(search.found, SizeIs(0));
  EXPECT_THAT(search.searched, ElementsAre(Path("nothing")));
}

TEST_F(LocateTest, TheVariableNamesDirectoriesWhenNoneAreGiven) {
  Write("one/libnvrtc.so.12.6.85", "");
  ::setenv("HONE_NVRTC_DIRS", (Path("zero") + ":" + Path("one")).c_str(), 1);
  const NvrtcSearch search = LocateNvrtc({});
  ::unsetenv("HONE_NVRTC_DIRS");
  ASSERT_THAT(search.found, SizeIs(1));
  EXPECT_THAT(search.searched, ElementsAre(Path("zero"), Path("one")));
  EXPECT_THAT(LocateNvrtc({}).searched, Contains("/usr/local/cuda"));
}

}  // namespace
}  // namespace hone
