#include "runtime/cpu/host_compiler.h"

#include "runtime/launch/cpu_elf.h"
#include "tests/cpu/cpu_kernel.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr char kAxpy[] = R"(
#include <cuda_fp16.h>
namespace a::b {
template <typename T, int N>
__global__ void __launch_bounds__(N) axpy(T* y, const T* x, float a, long long n) {
  const long long i = (long long)blockIdx.x * N + threadIdx.x;
  if (i < n) y[i] = T(float(y[i]) + a * float(x[i]));
}
}
)";

// scenario P07
TEST(HostCompilerTest, TemplatesInNamespacesAreFoundByTheirExpressions) {
  const auto outcome = CompileForCpu(kAxpy, {"a::b::axpy<float, 128>", "a::b::axpy<__half,2>"});
  ASSERT_THAT(outcome, IsOk());
  ASSERT_TRUE(outcome->artifact.has_value()) << outcome->log;
  const Artifact& artifact = *outcome->artifact;
  EXPECT_EQ(artifact.format, ArtifactFormat::kHostElf);
  EXPECT_EQ(artifact.architecture, "cpu");
  ASSERT_EQ(artifact.lowered_names.size(), 2u);
  const std::string& symbol = artifact.lowered_names.at("a::b::axpy<float, 128>");
  EXPECT_NE(symbol, artifact.lowered_names.at("a::b::axpy<__half,2>"));
  ASSERT_NE(artifact.FindResources(symbol), nullptr);

  const auto again = CompileForCpu(kAxpy, {"a::b::axpy<float, 128>", "a::b::axpy<__half,2>"});
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->artifact->lowered_names, artifact.lowered_names);
  EXPECT_EQ(again->artifact->sha256, artifact.sha256) << "the same program gives the same bytes";
}

TEST(HostCompilerTest, BytesDoNotDependOnThePrecompiledPrelude) {
  // A compiler of its own: its first program sees no prelude, its third does.
  const auto compiler = HostCompiler::Create({});
  ASSERT_THAT(compiler, IsOk());
  Program program;
  program.name = "axpy.cu";
  program.source = kAxpy;
  program.name_expressions = {"a::b::axpy<float, 64>"};
  program.architecture = "cpu";
  std::string first;
  for (int i = 0; i < 3; ++i) {
    const auto outcome = (*compiler)->Compile(program, {});
    ASSERT_THAT(outcome, IsOk());
    ASSERT_TRUE(outcome->artifact.has_value()) << outcome->log;
    if (i == 0) first = outcome->artifact->sha256;
    EXPECT_EQ(outcome->artifact->sha256, first);
  }
}

TEST(HostCompilerTest, ASourceErrorIsARejectionWithTheUsersLine) {
  const auto outcome = CompileForCpu(
      "template <int N> __global__ void k(int* p) {\n"
      "  static_assert(N % 2 == 0, \"N must be even\");\n"
      "  p[0] = N;\n"
      "}\n",
      {"k<3>"});
  ASSERT_THAT(outcome, IsOk());
  ASSERT_FALSE(outcome->artifact.has_value());
  EXPECT_EQ(outcome->rejection->kind, RejectionKind::kCompile);  // scenario P24
  EXPECT_THAT(outcome->rejection->detail,
              AllOf(HasSubstr("kernel.cu:2:"), HasSubstr("N must be even")));
  EXPECT_THAT(outcome->excerpt, HasSubstr("static_assert(N % 2 == 0"));
  EXPECT_EQ(outcome->error_count, 1);
  EXPECT_THAT(outcome->log, Not(HasSubstr("/tmp/"))) << "no paths of the scratch tree";
}

TEST(HostCompilerTest, AnUnknownNameExpressionIsNamed) {
  const auto outcome = CompileForCpu("__global__ void k(int* p) { p[0] = 1; }", {"missing<3>"});
  ASSERT_THAT(outcome, IsOk());
  ASSERT_TRUE(outcome->rejection.has_value());
  EXPECT_THAT(outcome->rejection->detail,
              AllOf(HasSubstr("name expression missing<3>"), HasSubstr("not declared")));
}

TEST(HostCompilerTest, AnUndefinedFunctionIsACompileError) {
  const auto outcome = CompileForCpu(
      "__device__ float f(float);\n__global__ void k(float* p) { p[0] = f(p[1]); }", {"k"});
  ASSERT_THAT(outcome, IsOk());
  ASSERT_TRUE(outcome->rejection.has_value());
  EXPECT_EQ(outcome->rejection->kind, RejectionKind::kCompile);
  EXPECT_THAT(outcome->log, HasSubstr("undefined reference to `f(float)'"));
}

TEST(HostCompilerTest, HeadersDefinesAndIncludePathsAreUsed) {
  Program program;
  program.name = "main.cu";
  program.source =
      "#include \"lib/scale.cuh\"\n#include <deep.cuh>\n"
      "__global__ void k(float* p) { p[0] = scale(p[0]) + DEEP + EXTRA; }";
  program.headers = {{"lib/scale.cuh",
                      "#pragma once\n__device__ inline float scale(float x) {\n"
                      "  extern __shared__ float s[];\n  s[0] = x;\n"
                      "  return s[0] * FACTOR; }\n"},
                     {"more/deep.cuh", "#define DEEP 100\n"}};
  program.defines = {{"FACTOR", "3"}};
  program.options = {"-I", "more", "-DEXTRA=1000", "--std=c++20", "--use_fast_math", "-lineinfo"};
  program.name_expressions = {"k"};
  program.architecture = "cpu";
  const auto outcome = TheHostCompiler().Compile(program, {});
  ASSERT_THAT(outcome, IsOk());
  ASSERT_TRUE(outcome->artifact.has_value()) << outcome->log;
  auto module = CpuModule::Load(outcome->artifact->bytes);
  ASSERT_THAT(module, IsOk());
  float value = 2;
  float* address = &value;
  ResolvedStep step;
  step.symbol = outcome->artifact->lowered_names.at("k");
  step.dynamic_shared_bytes = 4;
  step.arguments.resize(1);
  step.arguments[0].bytes.resize(sizeof address);
  std::memcpy(step.arguments[0].bytes.data(), &address, sizeof address);
  ASSERT_THAT(TheLauncher().Launch(**module, ResolvedLaunch{{step}, {}}), IsOk());
  EXPECT_EQ(value, 1106);
}

TEST(HostCompilerTest, ErrorsInHeadersNameTheHeader) {
  Program program;
  program.name = "main.cu";
  program.source = "#include \"bad.cuh\"\n__global__ void k() {}";
  program.headers = {{"bad.cuh", "\n\nint x = nonsense;\n"}};
  program.name_expressions = {"k"};
  program.architecture = "cpu";
  const auto outcome = TheHostCompiler().Compile(program, {});
  ASSERT_THAT(outcome, IsOk());
  ASSERT_TRUE(outcome->rejection.has_value());
  EXPECT_THAT(outcome->excerpt, AllOf(HasSubstr("bad.cuh:3:9: error"), HasSubstr("nonsense")));
}

TEST(HostCompilerTest, TooMuchStaticSharedMemoryIsRejectedWithTheLimit) {
  const auto outcome = CompileForCpu(
      "__global__ void k(float* p) { __shared__ float s[12289]; s[threadIdx.x] = 1; "
      "__syncthreads(); p[0] = s[threadIdx.x ^ 1]; }",
      {"k"});
  ASSERT_THAT(outcome, IsOk());
  ASSERT_TRUE(outcome->rejection.has_value());
  EXPECT_EQ(outcome->rejection->needed, 49'156);
  EXPECT_EQ(outcome->rejection->limit, 49'152);
}

TEST(HostCompilerTest, StaticSharedMemoryIsReportedAsAResource) {
  const auto outcome = CompileForCpu(
      "__global__ void k(float* p) { __shared__ float s[256]; s[threadIdx.x] = 1; "
      "__syncthreads(); p[0] = s[threadIdx.x ^ 1]; }",
      {"k"});
  ASSERT_THAT(outcome, IsOk());
  ASSERT_TRUE(outcome->artifact.has_value()) << outcome->log;
  EXPECT_EQ(outcome->artifact->resources.at(0).static_shared_bytes, 1024);
}

TEST(HostCompilerTest, ACompileBombIsStoppedAtItsLimit) {
  // scenario P09: a binary tree of distinct types.
  Program program;
  program.name = "bomb.cu";
  program.source =
      "template <int N, long M> struct F { static constexpr long v = F<N - 1, 2 * M>::v + "
      "F<N - 1, 2 * M + 1>::v; };\n"
      "template <long M> struct F<0, M> { static constexpr long v = M; };\n"
      "__global__ void k(long* p) { p[0] = F<24, 1>::v; }\n";
  program.name_expressions = {"k"};
  program.architecture = "cpu";
  CompileOptions options;
  options.timeout = absl::Seconds(1);
  const auto outcome = TheHostCompiler().Compile(program, options);
  ASSERT_THAT(outcome, IsOk());
  ASSERT_TRUE(outcome->rejection.has_value());
  EXPECT_EQ(outcome->rejection->kind, RejectionKind::kTimeout);
}

TEST(HostCompilerTest, WhatIsNotAllowedIsNamed) {
  EXPECT_THAT(CompileForCpu("__global__ void k() {}", {"k"}, {"--time=/etc/x"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--time=/etc/x")));
  EXPECT_THAT(CompileForCpu("__global__ void k() {}", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name_expressions")));
  Program program;
  program.source = "__global__ void k() {}";
  program.name_expressions = {"k"};
  program.architecture = "sm_90a";
  EXPECT_THAT(
      TheHostCompiler().Compile(program, {}),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("'sm_90a'"), HasSubstr("cpu"))));
}

TEST(HostCompilerTest, TheCompilerSaysWhatItIs) {
  const auto info = TheHostCompiler().Select("cpu", 0);
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->kind, "host");
  EXPECT_THAT(info->build, testing::ContainsRegex("^(g|clang)\\+\\+ [0-9]+\\.[0-9]+"));
  EXPECT_TRUE(info->available);
  EXPECT_GE(info->cuda_version, 12'000);
  EXPECT_EQ(info->headers_digest.size(), 64u);
  EXPECT_THAT(info->architectures, Contains("cpu"));
}

TEST(HostCompilerTest, AMissingCompilerIsSaidNotCrashedOn) {
  HostCompilerOptions options;
  options.compiler = "no-such-compiler++";
  const auto compiler = HostCompiler::Create(options);
  ASSERT_THAT(compiler, IsOk());
  EXPECT_FALSE((*compiler)->Compilers().at(0).available);
  Program program;
  program.source = "__global__ void k() {}";
  program.name_expressions = {"k"};
  program.architecture = "cpu";
  EXPECT_THAT((*compiler)->Compile(program, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no-such-compiler++")));
}

TEST(CpuModuleTest, BytesThatAreNoModuleAreDataLoss) {
  EXPECT_THAT(CpuModule::Load(""),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not a 64-bit ELF")));
  auto outcome = CompileForCpu("__global__ void k() {}", {"k"});
  ASSERT_THAT(outcome, IsOk());
  std::string bytes = outcome->artifact->bytes;
  EXPECT_THAT(ReadCpuElf(bytes.substr(0, bytes.size() / 2)), Not(IsOk()));
  EXPECT_THAT(CpuModule::Load(bytes), IsOk());
}

}  // namespace
}  // namespace hone
