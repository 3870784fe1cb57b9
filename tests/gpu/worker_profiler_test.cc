// The lane over a real worker and a real GPU.
#include "runtime/device/worker_profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/clocks.h"
#include "tests/device/profile_fixtures.h"
#include "tests/gpu/gpu_support.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kSource[] = R"(
__global__ void copy_1d_reference(float* dst, const float* src, long long n) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) dst[i] = src[i];
}

template <int XBLOCK, int MODE>
__global__ void copy_1d(float* dst, const float* src, long long n) {
  const long long i = (long long)blockIdx.x * XBLOCK + threadIdx.x;
  if (MODE == 1) dst[i + (1LL << 40)] = 1;
  if (MODE == 2) {
    volatile float spin = 1;
    while (spin > 0) spin = 1;
  }
  if (MODE == 3) asm volatile("trap;");
  if (MODE == 4 && i == 0) dst[n] = 1;
  if (MODE == 5 && i == 3) return;
  if (MODE == 6 && i + 4 <= n && i % 4 == 0) {
    *(float4*)(dst + i) = *(const float4*)(src + i);
  }
  if (i < n) dst[i] = src[i];
  if (MODE == 7 && i == 0) dst[0] += 1e-6f * (clock64() & 4095);
}
)";

enum Mode {
  kGood = 0,
  kBadAddress = 1,
  kEndless = 2,
  kTrap = 3,
  kBeyond = 4,
  kWrong = 5,
  kMisaligned = 6,
  kShaky = 7
};

const Artifact& Kernels() {
  static const auto& artifact = *new Artifact([] {
    Program program;
    program.name = "copy_1d.cu";
    program.source = kSource;
    program.name_expressions = {"copy_1d_reference"};
    for (int mode = kGood; mode <= kShaky; ++mode) {
      for (const int xblock : {64, 128, 256, 512}) {
        program.name_expressions.push_back(absl::StrCat("copy_1d<", xblock, ", ", mode, ">"));
      }
    }
    return CompileForGpu(program);
  }());
  return artifact;
}

class GpuWorkerProfilerTest : public testing::Test {
 protected:
  void SetUp() override {
    HONE_SKIP_WITHOUT_GPU();
    WorkerProfiler::Options options;
    options.worker_program = WorkerProgram();
    options.device = GpuInfo();
    options.compiler = &GpuCompiler();
    profiler_ = std::make_unique<WorkerProfiler>(options);
  }
  void Begin(int64_t n = 1 << 20, const Tolerance& tolerance = {.exact = true}) {
    ProfileProblem problem = CopyProblem(n);
    problem.check.references[0].outputs[0].tolerance = tolerance;
    problem.check_artifact = Kernels();
    problem.check.references[0].reference.steps[0].symbol =
        Kernels().lowered_names.at("copy_1d_reference");
    problem.launch_timeout = absl::Seconds(2);
    const absl::Status status = profiler_->Begin(problem);
    ASSERT_TRUE(status.ok()) << status;
  }
  ProfileCandidate Candidate(int64_t id, Mode mode, int xblock = 64) {
    ProfileCandidate candidate = CopyCandidate(id, xblock, {0, xblock - 1, xblock + 1});
    candidate.artifact = Kernels();
    candidate.recipe.steps[0].symbol = Kernels().lowered_names.at(
        absl::StrCat("copy_1d<", xblock, ", ", static_cast<int>(mode), ">"));
    return candidate;
  }
  CheckResult Check(const ProfileCandidate& candidate) {
    const auto result = profiler_->Check(candidate);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : CheckResult();
  }
  void ExpectRejected(const ProfileCandidate& candidate, RejectionKind kind) {
    const CheckResult result = Check(candidate);
    ASSERT_TRUE(result.rejection);
    EXPECT_EQ(Name(result.rejection->kind), Name(kind)) << result.rejection->detail;
  }
  std::vector<double> Sampled(int64_t id, int count) {
    const auto result = profiler_->Sample(id, count);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    EXPECT_FALSE(result->rejection) << result->rejection->detail;
    return result->samples_ns;
  }

  std::unique_ptr<WorkerProfiler> profiler_;
};

// scenarios P25, P26, P27
TEST_F(GpuWorkerProfilerTest, EveryFaultCostsOneCandidate) {
  Begin();
  EXPECT_FALSE(Check(Candidate(1, kGood)).rejection);
  ExpectRejected(Candidate(2, kBadAddress), RejectionKind::kIllegalAccess);
  ExpectRejected(Candidate(3, kEndless), RejectionKind::kTimeout);
  ExpectRejected(Candidate(5, kBeyond), RejectionKind::kIllegalAccess);
  ExpectRejected(Candidate(6, kWrong), RejectionKind::kWrongResult);
  const CheckResult trap = Check(Candidate(4, kTrap));
  EXPECT_TRUE(trap.rejection);
  const CheckResult good = Check(Candidate(7, kGood, 128));
  EXPECT_FALSE(good.rejection);
  EXPECT_THAT(Sampled(1, 5), SizeIs(5));
  EXPECT_THAT(Sampled(7, 5), SizeIs(5));
}

// A candidate that declares 4 bytes and uses 16 meets an address where that fails.
TEST_F(GpuWorkerProfilerTest, ALieAboutAlignmentIsFoundAtSmallSizes) {
  Begin();
  ExpectRejected(Candidate(1, kMisaligned), RejectionKind::kIllegalAccess);
  EXPECT_FALSE(Check(Candidate(2, kGood)).rejection);
}

TEST_F(GpuWorkerProfilerTest, EqualOutputsHaveEqualHashesAndUnsteadyOnesHaveNone) {
  Begin(1 << 20, {.atol = 0.01});
  const CheckResult first = Check(Candidate(1, kGood, 64));
  const CheckResult second = Check(Candidate(2, kGood, 256));
  EXPECT_THAT(first.output_sha256, SizeIs(64));
  EXPECT_EQ(first.output_sha256, second.output_sha256);
  EXPECT_EQ(first.small_outputs.at("n=0"), second.small_outputs.at("n=0"));
  EXPECT_FALSE(first.irreproducible);
  const CheckResult shaky = Check(Candidate(3, kShaky));
  EXPECT_FALSE(shaky.rejection);
  EXPECT_TRUE(shaky.irreproducible);
  EXPECT_EQ(shaky.output_sha256, "");
}

// DESIGN: 24 or more candidates at 256 MiB in 5 s, compiling included.
TEST_F(GpuWorkerProfilerTest, ACandidateOf256MiBTakesMilliseconds) {
  Begin(int64_t{64} << 20);
  EXPECT_FALSE(Check(Candidate(0, kGood)).rejection);
  const absl::Duration start = MonotonicNow();
  for (int64_t id = 1; id <= 12; ++id) {
    EXPECT_FALSE(Check(Candidate(id, kGood, 64 << (id % 4))).rejection);
    EXPECT_THAT(Sampled(id, 10), SizeIs(10));
  }
  const absl::Duration each = (MonotonicNow() - start) / 12;
  EXPECT_LT(each, absl::Milliseconds(50));
  RecordProperty("candidate_us", std::to_string(absl::ToInt64Microseconds(each)));
}

// scenario P29
TEST_F(GpuWorkerProfilerTest, AProblemBeyondTheMemoryIsRefusedAndMemoryComesBack) {
  const int64_t n = GpuInfo().fingerprint.memory_bytes / 4;
  ProfileProblem problem = CopyProblem(n);
  problem.check_artifact = Kernels();
  problem.check.references[0].reference.steps[0].symbol =
      Kernels().lowered_names.at("copy_1d_reference");
  const absl::Status status = profiler_->Begin(problem);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("are available"));
  Begin();
  EXPECT_FALSE(Check(Candidate(1, kGood)).rejection);
}

}  // namespace
}  // namespace hone
