// The lane over a real worker process and the CPU reference device.
#include "runtime/device/worker_profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/clocks.h"
#include "runtime/cpu/host_compiler.h"
#include "tests/device/profile_fixtures.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// MODE decides what goes wrong.
constexpr char kSource[] = R"(
__global__ void copy_1d_reference(float* dst, const float* src, long long n) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) dst[i] = src[i];
}

template <int XBLOCK, int MODE>
__global__ void copy_1d(float* dst, const float* src, long long n) {
  const long long i = (long long)blockIdx.x * XBLOCK + threadIdx.x;
  volatile int* nowhere = (volatile int*)16;
  if (MODE == 1) *nowhere = 1;
  if (MODE == 2) {
    volatile float spin = 1;
    while (spin > 0) spin = 1;
  }
  if (MODE == 3) __trap();
  if (MODE == 4 && i == 0) dst[n] = 1;
  if (MODE == 5 && i == 3) return;
  if (i < n) dst[i] = src[i];
}
)";

enum Mode { kGood = 0, kBadAddress = 1, kEndless = 2, kTrap = 3, kBeyond = 4, kWrong = 5 };

std::string WorkerProgram() { return absl::StrCat(std::getenv("HONE_BIN"), "/hone-worker"); }

Artifact Compiled(const std::vector<std::string>& expressions) {
  static const auto& compiler = *new std::unique_ptr<Compiler>(*HostCompiler::Create({}));
  Program program;
  program.name = "copy_1d.cu";
  program.source = kSource;
  program.architecture = "cpu";
  program.name_expressions = expressions;
  const auto outcome = compiler->Compile(program, {});
  if (!outcome.ok() || !outcome->artifact) {
    ADD_FAILURE() << outcome.status() << (outcome.ok() ? outcome->log : "");
    return Artifact();
  }
  return *outcome->artifact;
}

// All entries in one artifact: the host compiler takes seconds under sanitizers.
const Artifact& Kernels() {
  static const auto& artifact = *new Artifact([] {
    std::vector<std::string> expressions = {"copy_1d_reference"};
    for (int mode = kGood; mode <= kWrong; ++mode) {
      for (const int xblock : {64, 128}) {
        expressions.push_back(absl::StrCat("copy_1d<", xblock, ", ", mode, ">"));
      }
    }
    return Compiled(expressions);
  }());
  return artifact;
}

ProfileProblem Problem() {
  ProfileProblem problem = CopyProblem(4096);
  problem.check_artifact = Kernels();
  problem.check.references[0].reference.steps[0].symbol =
      Kernels().lowered_names.at("copy_1d_reference");
  problem.launch_timeout = absl::Seconds(1);
  return problem;
}

ProfileCandidate Candidate(int64_t id, Mode mode, int xblock = 64) {
  ProfileCandidate candidate = CopyCandidate(id, xblock, {0, 63, 65});
  candidate.artifact = Kernels();
  candidate.recipe.steps[0].symbol = Kernels().lowered_names.at(
      absl::StrCat("copy_1d<", xblock, ", ", static_cast<int>(mode), ">"));
  return candidate;
}

class WorkerProfilerTest : public testing::Test {
 protected:
  static DeviceInfo CpuInfo() {
    const auto list = EnumerateDevices(WorkerProgram());
    EXPECT_TRUE(list.ok()) << list.status();
    return list.ok() ? list->cpu : DeviceInfo();
  }
  void SetUp() override {
    if (std::getenv("HONE_BIN") == nullptr) GTEST_SKIP() << "HONE_BIN is not set";
    ASSERT_NE(Kernels().bytes, "");
  }
  void Begin(const ProfileProblem& problem = Problem()) {
    const absl::Status status = profiler_.Begin(problem);
    ASSERT_TRUE(status.ok()) << status;
  }
  CheckResult Check(const ProfileCandidate& candidate) {
    const auto result = profiler_.Check(candidate);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : CheckResult();
  }
  void ExpectSampled(int64_t id) {
    const auto result = profiler_.Sample(id, 3);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->rejection) << result->rejection->detail;
    EXPECT_THAT(result->samples_ns, SizeIs(3));
    for (const double sample_ns : result->samples_ns) EXPECT_GT(sample_ns, 0);
  }
  static void ExpectRejected(const CheckResult& result, RejectionKind kind) {
    ASSERT_TRUE(result.rejection);
    EXPECT_EQ(Name(result.rejection->kind), Name(kind)) << result.rejection->detail;
  }

  WorkerProfiler profiler_{{.worker_program = WorkerProgram(), .device = CpuInfo()}};
};

TEST_F(WorkerProfilerTest, EnumeratingDescribesTheCpuWithoutKeepingAProcess) {
  const DeviceInfo info = CpuInfo();
  EXPECT_EQ(info.fingerprint.kind, "cpu");
  EXPECT_EQ(info.architecture, "cpu");
  EXPECT_GT(info.fingerprint.sm_count, 0);
  EXPECT_GT(info.fingerprint.memory_bytes, 0);
}

TEST_F(WorkerProfilerTest, ChecksAndTimesInAnotherProcess) {
  EXPECT_EQ(profiler_.worker_pid(), 0);
  Begin();
  EXPECT_NE(profiler_.worker_pid(), 0);
  const CheckResult result = Check(Candidate(1, kGood));
  EXPECT_FALSE(result.rejection) << result.rejection->detail;
  EXPECT_TRUE(result.verified);
  EXPECT_THAT(result.verified_sizes, ElementsAre("n=4096", "n=0", "n=63", "n=65"));
  ExpectSampled(1);
  profiler_.End();
  EXPECT_EQ(profiler_.starts(), 1);
}

// scenario P25
TEST_F(WorkerProfilerTest, ABadAddressCostsOneCandidate) {
  Begin();
  EXPECT_FALSE(Check(Candidate(1, kGood)).rejection);
  const CheckResult bad = Check(Candidate(2, kBadAddress));
  ExpectRejected(bad, RejectionKind::kIllegalAccess);
  EXPECT_THAT(bad.rejection->detail, AllOf(HasSubstr("signal 11"), HasSubstr("at n=4096")));
  EXPECT_FALSE(Check(Candidate(3, kGood, 128)).rejection);
  // What was checked before the fault is loaded again for its samples.
  ExpectSampled(1);
  ExpectSampled(3);
}

// scenario P26
TEST_F(WorkerProfilerTest, AKernelThatNeverEndsIsKilledWithinItsLimit) {
  Begin();
  EXPECT_FALSE(Check(Candidate(1, kGood)).rejection);
  const pid_t worker = profiler_.worker_pid();
  const absl::Duration start = MonotonicNow();
  const CheckResult endless = Check(Candidate(2, kEndless));
  EXPECT_LT(MonotonicNow() - start, absl::Seconds(5));
  ExpectRejected(endless, RejectionKind::kTimeout);
  EXPECT_EQ(endless.rejection->detail, "did not end within 1s at n=4096");
  EXPECT_EQ(endless.rejection->limit, 1000);
  // Reaped: not even a zombie is left.
  EXPECT_EQ(::kill(worker, 0), -1);
  EXPECT_FALSE(Check(Candidate(3, kGood, 128)).rejection);
  ExpectSampled(1);
  ExpectSampled(3);
}

TEST_F(WorkerProfilerTest, TrapsDamageAndWrongResultsAreRejectedByKind) {
  Begin();
  ExpectRejected(Check(Candidate(1, kTrap)), RejectionKind::kCrash);
  ExpectRejected(Check(Candidate(2, kBeyond)), RejectionKind::kIllegalAccess);
  const CheckResult wrong = Check(Candidate(3, kWrong));
  ExpectRejected(wrong, RejectionKind::kWrongResult);
  EXPECT_THAT(wrong.rejection->detail, HasSubstr("first at 3: not written"));
  EXPECT_FALSE(Check(Candidate(4, kGood)).rejection);
  ExpectSampled(4);
}

// Killed from outside, as by the out-of-memory killer.
TEST_F(WorkerProfilerTest, AWorkerThatDiesBetweenRequestsIsReplacedWithoutBlame) {
  Begin();
  EXPECT_FALSE(Check(Candidate(1, kGood)).rejection);
  const pid_t worker = profiler_.worker_pid();
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  ExpectSampled(1);
  EXPECT_NE(profiler_.worker_pid(), worker);
  EXPECT_FALSE(Check(Candidate(2, kGood, 128)).rejection);
}

TEST_F(WorkerProfilerTest, WithoutAReferenceTheMeasureSurvivesAReplacedWorker) {
  ProfileProblem problem = Problem();
  problem.check.references.clear();
  problem.check_artifact.reset();
  Begin(problem);
  const CheckResult first = Check(Candidate(1, kGood));
  EXPECT_FALSE(first.rejection);
  EXPECT_FALSE(first.verified);
  ExpectRejected(Check(Candidate(2, kBadAddress)), RejectionKind::kIllegalAccess);
  const CheckResult wrong = Check(Candidate(3, kWrong));
  ExpectRejected(wrong, RejectionKind::kWrongResult);
  EXPECT_THAT(wrong.rejection->detail, HasSubstr("compared with XBLOCK=64"));
  EXPECT_FALSE(Check(Candidate(4, kGood, 128)).rejection);
}

TEST_F(WorkerProfilerTest, AReferenceThatFaultsIsTheTemplatesFault) {
  ProfileProblem problem = Problem();
  problem.check.references[0].reference.steps[0].symbol =
      Kernels().lowered_names.at(absl::StrCat("copy_1d<64, ", static_cast<int>(kBadAddress), ">"));
  const absl::Status status = profiler_.Begin(problem);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the reference at n=4096"));
  // The next problem finds a working lane.
  Begin();
  EXPECT_FALSE(Check(Candidate(1, kGood)).rejection);
}

TEST_F(WorkerProfilerTest, ReleaseEndsTheProcessAndTheNextProblemStartsAnother) {
  Begin();
  const pid_t worker = profiler_.worker_pid();
  profiler_.Release();
  EXPECT_EQ(profiler_.worker_pid(), 0);
  EXPECT_EQ(::kill(worker, 0), -1);
  Begin();
  EXPECT_FALSE(Check(Candidate(1, kGood)).rejection);
  EXPECT_EQ(profiler_.starts(), 2);
}

TEST_F(WorkerProfilerTest, ForgottenCandidatesCannotBeSampled) {
  Begin();
  EXPECT_FALSE(Check(Candidate(1, kGood)).rejection);
  profiler_.Forget(1);
  EXPECT_EQ(profiler_.Sample(1, 1).status().code(), absl::StatusCode::kInternal);
}

TEST(WorkerProfilerStartTest, AMissingWorkerIsNamed) {
  WorkerProfiler profiler({.worker_program = "/nonexistent/hone-worker", .device = DeviceInfo()});
  const absl::Status status = profiler.Begin(ProfileProblem());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/hone-worker"));
}

}  // namespace
}  // namespace hone
