// The pool when compilers hang, crash, are killed, or are not there.
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "runtime/base/error_info.h"
#include "tests/compile/pool_fixture.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class CompilePoolFaultsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasNvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  }

  static void ExpectWorks(CompilePool& pool) {
    const auto outcome =
        pool.Compile(CudaProgram("extern \"C\" __global__ void k(int* a) { a[0] = 1; }\n"), {});
    ASSERT_THAT(outcome, IsOk());
    EXPECT_TRUE(outcome->artifact.has_value()) << outcome->log;
  }
};

// scenario P09
TEST_F(CompilePoolFaultsTest, ACompileWithoutEndIsKilledAtItsLimitAndOthersGoOn) {
  auto pool = CompilePool::Create(NvrtcOptions());
  ASSERT_THAT(pool, IsOk());
  std::thread other([&] { ExpectWorks(**pool); });
  const absl::Duration start = MonotonicNow();
  const auto outcome = (*pool)->Compile(CudaProgram(TypeTree(18)), WithTimeout(absl::Seconds(2)));
  const absl::Duration took = MonotonicNow() - start;
  other.join();
  ASSERT_THAT(outcome, IsOk());
  ASSERT_TRUE(outcome->rejection.has_value());
  EXPECT_EQ(outcome->rejection->kind, RejectionKind::kTimeout);
  EXPECT_THAT(outcome->rejection->detail, HasSubstr("2s"));
  EXPECT_TRUE(Expires(outcome->rejection->kind));
  // The start of a worker is not counted in the limit, and this machine may be busy.
  EXPECT_LT(took, absl::Seconds(15));
  EXPECT_EQ((*pool)->stats().timeouts, 1);
  EXPECT_EQ(static_cast<int>(Children().size()), (*pool)->stats().idle_workers);
  ExpectWorks(**pool);
}

// Keeps the test's processes, and many threads that only burn time, on one processor.
class OneBusyProcessor {
 public:
  OneBusyProcessor() {
    CPU_ZERO(&before_);
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(::sched_getcpu()), &one);
    ::sched_setaffinity(0, sizeof one, &one);
    for (int i = 0; i < 12; ++i) {
      threads_.emplace_back([this] {
        while (!stop_) {
        }
      });
    }
  }
  ~OneBusyProcessor() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    ::sched_setaffinity(0, sizeof before_, &before_);
  }

 private:
  cpu_set_t before_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

TEST_F(CompilePoolFaultsTest, WaitingForAProcessorDoesNotCountAgainstTheLimit) {
  const Program program = CudaProgram(TypeTree(10));
  absl::Duration alone;
  {
    auto pool = CompilePool::Create(NvrtcOptions());
    ASSERT_THAT(pool, IsOk());
    ASSERT_THAT((*pool)->Compile(CudaProgram(TypeTree(1)), {}), IsOk());
    const absl::Duration begin = MonotonicNow();
    ASSERT_THAT((*pool)->Compile(program, {}), IsOk());
    alone = MonotonicNow() - begin;
  }
  const absl::Duration limit = 3 * alone;
  const OneBusyProcessor busy;
  auto pool = CompilePool::Create(NvrtcOptions());
  ASSERT_THAT(pool, IsOk());
  ASSERT_THAT((*pool)->Select("sm_90", 0), IsOk());
  const absl::Duration begin = MonotonicNow();
  const auto outcome = (*pool)->Compile(program, WithTimeout(limit));
  const absl::Duration taken = MonotonicNow() - begin;
  ASSERT_THAT(outcome, IsOk());
  EXPECT_TRUE(outcome->artifact.has_value()) << outcome->rejection->detail;
  EXPECT_GT(taken, limit) << "the machine was not busy enough to show anything";
}

TEST_F(CompilePoolFaultsTest, AnIncludeThatBlocksIsKilledByTheWallClock) {
  const TemporaryDirectory headers = *TemporaryDirectory::Create();
  ASSERT_EQ(::mkfifo(JoinPath(headers.path(), "fifo.h").c_str(), 0600), 0);
  CompilePoolOptions options = NvrtcOptions();
  options.cuda_include_directories = {headers.path()};
  auto pool = CompilePool::Create(std::move(options));
  ASSERT_THAT(pool, IsOk());
  const auto outcome =
      (*pool)->Compile(CudaProgram("#include <fifo.h>\n"), WithTimeout(absl::Milliseconds(500)));
  ASSERT_THAT(outcome, IsOk());
  ASSERT_TRUE(outcome->rejection.has_value());
  EXPECT_EQ(outcome->rejection->kind, RejectionKind::kTimeout);
  ExpectWorks(**pool);
}

#ifndef HONE_SANITIZED  // the workers' memory is not limited under sanitizers
TEST_F(CompilePoolFaultsTest, AMemoryBombCostsOneWorkerAndSaysTheLimit) {
  CompilePoolOptions options = NvrtcOptions();
  options.worker_memory_bytes_max = int64_t{448} << 20;
  auto pool = CompilePool::Create(std::move(options));
  ASSERT_THAT(pool, IsOk());
  ExpectWorks(**pool);
  const std::string bomb =
      "__device__ int x = " + std::string(200'000, '(') + "1" + std::string(200'000, ')') + ";\n";
  const auto outcome = (*pool)->Compile(CudaProgram(bomb), {});
  ASSERT_THAT(outcome, IsOk());
  ASSERT_TRUE(outcome->rejection.has_value());
  EXPECT_EQ(outcome->rejection->kind, RejectionKind::kCrash) << outcome->rejection->detail;
  EXPECT_THAT(outcome->rejection->detail, HasSubstr("448 MiB"));
  EXPECT_EQ((*pool)->stats().crashes, 1);
  ExpectWorks(**pool);
}
#endif

TEST_F(CompilePoolFaultsTest, AJobWhoseWorkerIsKilledIsBegunAgainAndThenGivenUp) {
  const TemporaryDirectory scratch = *TemporaryDirectory::Create();
  CompilePoolOptions options = NvrtcOptions();
  options.parallelism = 1;
  options.scratch_directory = scratch.path();
  auto pool = CompilePool::Create(std::move(options));
  ASSERT_THAT(pool, IsOk());
  std::thread caller([&] {
    const auto outcome =
        (*pool)->Compile(CudaProgram(TypeTree(18)), WithTimeout(absl::Minutes(10)));
    ASSERT_THAT(outcome, IsOk());
    ASSERT_TRUE(outcome->rejection.has_value());
    EXPECT_EQ(outcome->rejection->kind, RejectionKind::kCrash);
    EXPECT_THAT(outcome->rejection->detail, HasSubstr("signal 9"));
  });
  // A worker has its source tree while it compiles.
  const std::string root = JoinPath(scratch.path(), ListDirectory(scratch.path())->front());
  for (const char* worker : {"worker-0", "worker-1"}) {
    const std::string tree = JoinPath(JoinPath(root, worker), "source");
    EXPECT_TRUE(Eventually([&] { return PathExists(tree); })) << tree;
    ASSERT_THAT(Children(), SizeIs(1));
    ::kill(Children().front(), SIGKILL);
  }
  caller.join();
  EXPECT_EQ((*pool)->stats().retries, 1);
  EXPECT_EQ((*pool)->stats().crashes, 1);
  ExpectWorks(**pool);
}

TEST_F(CompilePoolFaultsTest, AnIdleWorkerThatIsKilledLeavesNoZombie) {
  auto pool = CompilePool::Create(NvrtcOptions());
  ASSERT_THAT(pool, IsOk());
  ExpectWorks(**pool);
  ASSERT_THAT(Children(), SizeIs(1));
  ::kill(Children().front(), SIGKILL);
  EXPECT_TRUE(Eventually([] { return Children().empty(); }));
  EXPECT_EQ((*pool)->stats().idle_workers, 0);
  ExpectWorks(**pool);
}

TEST_F(CompilePoolFaultsTest, WorkersEndWithTheirDaemon) {
  // A process of its own makes a pool, starts an endless compile and is killed; its worker must
  // follow.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    auto pool = CompilePool::Create(NvrtcOptions());
    if (!pool.ok()) ::_exit(1);
    std::thread compile([&] {
      (*pool)->Compile(CudaProgram(TypeTree(20)), WithTimeout(absl::Minutes(10))).IgnoreError();
    });
    while ((*pool)->stats().running == 0 || Children().empty()) ::usleep(1000);
    ::usleep(200'000);
    const pid_t worker = Children().front();
    if (::write(ends[1], &worker, sizeof(worker)) != sizeof(worker)) ::_exit(1);
    ::pause();
  }
  ::close(ends[1]);
  pid_t worker = 0;
  ASSERT_EQ(::read(ends[0], &worker, sizeof(worker)), static_cast<ssize_t>(sizeof(worker)));
  EXPECT_EQ(::kill(worker, 0), 0);
  ::kill(daemon, SIGKILL);
  ASSERT_EQ(::waitpid(daemon, nullptr, 0), daemon);
  EXPECT_TRUE(Eventually([&] {
    const auto stat = ReadKernelFile(absl::StrCat("/proc/", worker, "/stat"));
    return !stat.ok() || stat->substr(stat->rfind(')') + 2, 1) == "Z";
  }));
  ::close(ends[0]);
}

// scenario P06
TEST_F(CompilePoolFaultsTest, MissingBuiltinsAreNamedAndFoundAgainWithoutARestart) {
  const NvrtcLocation real = LocateNvrtc({}).found.front();
  const TemporaryDirectory toolkit = *TemporaryDirectory::Create();
  // A copy: a link would lead back to the directory with the builtins.
  const std::string name = BaseName(real.library);
  const auto library = ReadFile(real.library, int64_t{1} << 30);
  ASSERT_THAT(library, IsOk());
  ASSERT_THAT(WriteNewFile(JoinPath(toolkit.path(), name), *library, 0755), IsOk());

  CompilePoolOptions options = NvrtcOptions();
  options.nvrtc_directories = {toolkit.path()};
  options.cuda_include_directories = real.include_directories;
  options.probe_interval = absl::ZeroDuration();
  auto pool = CompilePool::Create(std::move(options));
  ASSERT_THAT(pool, IsOk());
  const CompilerInfo info = (*pool)->Compilers().front();
  EXPECT_FALSE(info.available);
  EXPECT_THAT(info.detail, AllOf(HasSubstr("libnvrtc-builtins.so"), HasSubstr(toolkit.path())));
  const auto compile = (*pool)->Compile(CudaProgram("__global__ void k() {}\n"), {});
  EXPECT_THAT(compile,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("libnvrtc-builtins.so"), HasSubstr(toolkit.path()))));
  EXPECT_EQ(ErrorInfoOf(compile.status())->reason, "NVRTC_MISSING");

  const auto files = ListDirectory(DirectoryName(real.library));
  ASSERT_THAT(files, IsOk());
  for (const std::string& file : *files) {
    if (file.find("libnvrtc-builtins.so.") != 0) continue;
    const auto builtins = ReadFile(JoinPath(DirectoryName(real.library), file));
    ASSERT_THAT(WriteNewFile(JoinPath(toolkit.path(), file), *builtins, 0755), IsOk());
  }
  ExpectWorks(**pool);
}

// Whether any process was started with `text` in its command line.
bool SomeProcessNames(const std::string& text) {
  const auto names = ListDirectory("/proc");
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    const auto line = ReadKernelFile(absl::StrCat("/proc/", name, "/cmdline"));
    if (line.ok() && line->find(text) != std::string::npos) return true;
  }
  return false;
}

Program CpuProgram(const std::string& source) {
  Program program = CudaProgram(source, "cpu");
  program.name_expressions = {"k"};
  return program;
}

TEST(HostCompilePoolTest, CompilesConfinedAndEndsEveryToolAtTheLimit) {
  const TemporaryDirectory scratch = *TemporaryDirectory::Create();
  CompilePoolOptions options = NvrtcOptions();
  options.nvrtc = false;
  options.host = true;
  options.scratch_directory = scratch.path();
  auto pool = CompilePool::Create(std::move(options));
  ASSERT_THAT(pool, IsOk());
  const auto info = (*pool)->Select("cpu", 0);
  if (!info.ok()) GTEST_SKIP() << info.status();

  const auto good = (*pool)->Compile(CpuProgram("__global__ void k(int* a) { a[0] = 1; }\n"), {});
  ASSERT_THAT(good, IsOk());
  ASSERT_TRUE(good->artifact.has_value()) << good->log;
  EXPECT_EQ(good->artifact->format, ArtifactFormat::kHostElf);
  EXPECT_EQ(good->artifact->builder, info->builder);

  if (info->sandbox != "none") {
    const auto leak = (*pool)->Compile(CpuProgram("#include \"/etc/passwd\"\n"), {});
    ASSERT_THAT(leak, IsOk());
    ASSERT_TRUE(leak->rejection.has_value());
    EXPECT_THAT(leak->log, testing::Not(HasSubstr("root:")));
  }

  const auto endless = (*pool)->Compile(CpuProgram(TypeTree(20)), WithTimeout(absl::Seconds(1)));
  ASSERT_THAT(endless, IsOk());
  ASSERT_TRUE(endless->rejection.has_value());
  EXPECT_EQ(endless->rejection->kind, RejectionKind::kTimeout) << endless->rejection->detail;
  // Idle workers carry the directory in their own command line.
  (*pool)->Shutdown();
  EXPECT_TRUE(Eventually([&] { return !SomeProcessNames(scratch.path()); }));
}

// scenario P52
TEST_F(CompilePoolFaultsTest, WithoutNvrtcThePoolStartsAndSaysWhatIsMissing) {
  const TemporaryDirectory nothing = *TemporaryDirectory::Create();
  CompilePoolOptions options = NvrtcOptions();
  options.nvrtc_directories = {nothing.path()};
  auto pool = CompilePool::Create(std::move(options));
  ASSERT_THAT(pool, IsOk());
  EXPECT_THAT((*pool)->Compile(CudaProgram("__global__ void k() {}\n"), {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(nothing.path())));
  EXPECT_THAT(Children(), IsEmpty());
}

}  // namespace
}  // namespace hone
