// What programs get from NVRTC, through a pool of real workers.
#include <set>

#include "runtime/compile/cubin.h"
#include "tests/compile/pool_fixture.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class NvrtcProgramsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!HasNvrtc()) return;
    CompilePoolOptions options = NvrtcOptions();
    options.header_sets = [](const std::string& digest) -> absl::StatusOr<std::vector<SourceFile>> {
      if (digest != "5e7") return absl::NotFoundError("no set " + digest);
      return std::vector<SourceFile>{{"set/value.h", "#define SET_VALUE 7\n#include \"own.h\"\n"},
                                     {"set/own.h", "#define SET_OWN 8\n"}};
    };
    auto pool = CompilePool::Create(std::move(options));
    ASSERT_THAT(pool, IsOk());
    pool_ = pool->release();
  }
  static void TearDownTestSuite() {
    delete pool_;
    pool_ = nullptr;
  }
  void SetUp() override {
    if (pool_ == nullptr) GTEST_SKIP() << "no NVRTC on this machine";
  }

  static CompileOutcome Compile(const Program& program) {
    auto outcome = pool_->Compile(program, WithTimeout(absl::Minutes(3)));
    EXPECT_THAT(outcome, IsOk());
    return outcome.ok() ? *std::move(outcome) : CompileOutcome();
  }
  // A kernel that stores the value of a constant expression, so that bytes differ with the value.
  static std::string Storing(const std::string& expression) {
    return absl::StrCat("extern \"C\" __global__ void k(int* a) { a[0] = 1000 + (", expression,
                        "); }\n");
  }

  static CompilePool* pool_;
};
CompilePool* NvrtcProgramsTest::pool_ = nullptr;

TEST_F(NvrtcProgramsTest, ACubinSaysEverythingAboutItself) {
  Program program = CudaProgram(
      "extern \"C\" __global__ void __launch_bounds__(128) k(float* a) {\n"
      "  __shared__ float s[64]; s[threadIdx.x % 64] = a[0]; __syncthreads(); a[1] = s[3]; }\n",
      "sm_90a");
  program.name_expressions = {"k"};
  const CompileOutcome outcome = Compile(program);
  ASSERT_TRUE(outcome.artifact.has_value()) << outcome.log;
  const Artifact& artifact = *outcome.artifact;
  EXPECT_EQ(artifact.format, ArtifactFormat::kCubin);
  EXPECT_EQ(artifact.architecture, "sm_90a");
  EXPECT_THAT(artifact.builder, testing::MatchesRegex("nvrtc [0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(artifact.min_driver % 1000, 0);
  EXPECT_EQ(artifact.lowered_names.at("k"), "k");
  ASSERT_NE(artifact.FindResources("k"), nullptr);
  EXPECT_EQ(artifact.FindResources("k")->static_shared_bytes, 256);
  EXPECT_EQ(artifact.FindResources("k")->max_threads_per_block, 128);
  EXPECT_EQ(ParseCubin(artifact.bytes)->architecture, "sm_90a");
}

// scenario P05
TEST_F(NvrtcProgramsTest, ComputeTargetsGivePtxThatStatesTheDriverItNeeds) {
  const CompileOutcome outcome = Compile(CudaProgram(Storing("1"), "compute_90"));
  ASSERT_TRUE(outcome.artifact.has_value()) << outcome.log;
  EXPECT_EQ(outcome.artifact->format, ArtifactFormat::kPtx);
  EXPECT_THAT(outcome.artifact->bytes, HasSubstr(".target sm_90"));
  EXPECT_EQ(outcome.artifact->min_driver, pool_->Select("compute_90", 0)->cuda_version);
}

// scenario P01
TEST_F(NvrtcProgramsTest, StandardHeadersForDeviceCodeAreThere) {
  const CompileOutcome outcome = Compile(CudaProgram(
      "#include <cstdint>\n#include <type_traits>\n#include <cstddef>\n#include <climits>\n"
      "static_assert(std::is_same<std::uint32_t, unsigned int>::value, \"\");\n"
      "static_assert(std::is_same_v<std::decay_t<const int&>, int>);\n"
      "static_assert(std::is_convertible_v<int, float> && std::is_signed_v<int>);\n"
      "static_assert(std::is_same_v<std::common_type_t<int, float, double>, double>);\n"
      "enum class E : short {};\n"
      "static_assert(std::is_same_v<std::underlying_type_t<E>, short> && CHAR_BIT == 8);\n"
      "extern \"C\" __global__ void k(std::uint32_t* a, std::size_t n) { if (n) a[0] = UINT32_MAX; "
      "}\n"));
  EXPECT_TRUE(outcome.artifact.has_value()) << outcome.log;
}

// scenario P01
TEST_F(NvrtcProgramsTest, AMissingHeaderIsTheUsersErrorWithTheRootsSearched) {
  Program program = CudaProgram("\n#include \"nope.h\"\n");
  program.options = {"-I", "dirA"};
  const CompileOutcome outcome = Compile(program);
  ASSERT_TRUE(outcome.rejection.has_value());
  EXPECT_EQ(outcome.rejection->kind, RejectionKind::kCompile);
  EXPECT_THAT(outcome.log, AllOf(HasSubstr("k.cu(2)"), HasSubstr("\"nope.h\""),
                                 HasSubstr("searched for headers, in this order: dirA, ")));
}

// scenario P02
TEST_F(NvrtcProgramsTest, TheFirstIncludeDirectoryWins) {
  Program program = CudaProgram("#include \"cfg.h\"\n" + Storing("VAL"));
  program.headers = {{"dirA/cfg.h", "#define VAL 1\n"}, {"dirB/cfg.h", "#define VAL 2\n"}};
  program.options = {"-I", "dirA", "-I", "dirB"};
  const CompileOutcome a = Compile(program);
  program.options = {"-I", "dirB", "-I", "dirA"};
  const CompileOutcome b = Compile(program);
  ASSERT_TRUE(a.artifact.has_value()) << a.log;
  ASSERT_TRUE(b.artifact.has_value()) << b.log;
  EXPECT_EQ(a.artifact->sha256, Compile(CudaProgram(Storing("1"))).artifact->sha256);
  EXPECT_EQ(b.artifact->sha256, Compile(CudaProgram(Storing("2"))).artifact->sha256);
  EXPECT_NE(a.artifact->sha256, b.artifact->sha256);
}

TEST_F(NvrtcProgramsTest, HeadersMayIncludeTheirNeighbours) {
  Program program = CudaProgram("#include <lib/a.h>\n" + Storing("DEEP"));
  program.headers = {{"lib/a.h", "#include \"detail/b.h\"\n"},
                     {"lib/detail/b.h", "#include \"../c.h\"\n"},
                     {"lib/c.h", "#define DEEP 3\n"}};
  EXPECT_TRUE(Compile(program).artifact.has_value());
}

TEST_F(NvrtcProgramsTest, HeaderSetsAreFoundByDigest) {
  Program program = CudaProgram("#include <set/value.h>\n" + Storing("SET_VALUE + SET_OWN"));
  program.header_sets = {"5e7"};
  const CompileOutcome outcome = Compile(program);
  EXPECT_TRUE(outcome.artifact.has_value()) << outcome.log;
  program.header_sets = {"bad1"};
  EXPECT_EQ(pool_->Compile(program, {}).status().code(), absl::StatusCode::kNotFound);
}

// scenario P03
TEST_F(NvrtcProgramsTest, TheToolkitsHeadersNeedNoOption) {
  for (const char* header : {"cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h"}) {
    const CompileOutcome outcome =
        Compile(CudaProgram(absl::StrCat("#include <", header, ">\n", Storing("1"))));
    EXPECT_TRUE(outcome.artifact.has_value()) << header << ": " << outcome.log;
  }
}

// scenario P04
TEST_F(NvrtcProgramsTest, UnknownArchitecturesAreNamedWithTheList) {
  for (const char* architecture : {"sm_999", "sm_35", "compute_999", "sm_90b", "hopper"}) {
    EXPECT_THAT(pool_->Compile(CudaProgram(Storing("1"), architecture), {}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(architecture)));
  }
  EXPECT_THAT(pool_->Compile(CudaProgram(Storing("1"), "sm_999"), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sm_90a")));
}

// scenario P04
TEST_F(NvrtcProgramsTest, ArchitectureSpecificInstructionsNeedTheSuffix) {
  const std::string source =
      "extern \"C\" __global__ void k() { asm volatile(\"setmaxnreg.inc.sync.aligned.u32 240;\"); "
      "}\n";
  const CompileOutcome plain = Compile(CudaProgram(source, "sm_90"));
  ASSERT_TRUE(plain.rejection.has_value());
  EXPECT_EQ(plain.rejection->kind, RejectionKind::kCompile);
  EXPECT_THAT(plain.log, HasSubstr("setmaxnreg"));
  EXPECT_THAT(plain.rejection->detail, HasSubstr("setmaxnreg"));
  EXPECT_TRUE(Compile(CudaProgram(source, "sm_90a")).artifact.has_value());
}

TEST_F(NvrtcProgramsTest, EveryArchitectureItNamesCompiles) {
  const auto info = pool_->Select("sm_90", 0);
  ASSERT_THAT(info, IsOk());
  for (const std::string& architecture : info->architectures) {
    const CompileOutcome outcome = Compile(CudaProgram(Storing("1"), architecture));
    EXPECT_TRUE(outcome.artifact.has_value()) << architecture << ": " << outcome.log;
  }
}

// scenario P07
TEST_F(NvrtcProgramsTest, TemplatesInNamespacesAreFoundByTheirExpressions) {
  Program program = CudaProgram(
      "#include <cuda_fp16.h>\nnamespace a { namespace b {\n"
      "template <class T, int N> __global__ void axpy(T* x) { x[N] = x[0]; }\n} }\n");
  program.name_expressions = {"a::b::axpy<float, 128>", "a::b::axpy<__half,2>"};
  const CompileOutcome outcome = Compile(program);
  ASSERT_TRUE(outcome.artifact.has_value()) << outcome.log;
  std::set<std::string> symbols;
  for (const std::string& expression : program.name_expressions) {
    const std::string& symbol = outcome.artifact->lowered_names.at(expression);
    EXPECT_THAT(symbol, StartsWith("_ZN1a1b4axpyI"));
    EXPECT_NE(outcome.artifact->FindResources(symbol), nullptr) << symbol;
    symbols.insert(symbol);
  }
  EXPECT_EQ(symbols.size(), 2u);
}

TEST_F(NvrtcProgramsTest, AnExpressionThatNamesNothingIsACompileError) {
  Program program = CudaProgram(Storing("1"));
  program.name_expressions = {"nothing<float>"};
  const CompileOutcome outcome = Compile(program);
  ASSERT_TRUE(outcome.rejection.has_value());
  EXPECT_THAT(outcome.log, HasSubstr("nothing"));
}

// scenario P08
TEST_F(NvrtcProgramsTest, ManyErrorsAreCountedToTheLimitWithAnExcerptOfTheSource) {
  std::string source;
  for (int i = 1; i <= 300; ++i) absl::StrAppend(&source, "__device__ int a", i, " = b", i, ";\n");
  const CompileOutcome outcome = Compile(CudaProgram(source));
  ASSERT_TRUE(outcome.rejection.has_value());
  EXPECT_EQ(outcome.error_count, 100);
  EXPECT_TRUE(outcome.error_limit_reached);
  EXPECT_THAT(outcome.rejection->detail, StartsWith("100 errors, limit reached; first: k.cu(1)"));
  EXPECT_THAT(outcome.excerpt, HasSubstr(">     1 | __device__ int a1 = b1;"));
  EXPECT_THAT(outcome.log, HasSubstr("\"b100\""));
  EXPECT_EQ(outcome.log_truncated_bytes, 0);
}

// scenario P08
TEST_F(NvrtcProgramsTest, WarningsOfASuccessAreKept) {
  const CompileOutcome outcome = Compile(CudaProgram("#warning hello there\n" + Storing("1")));
  ASSERT_TRUE(outcome.artifact.has_value());
  EXPECT_THAT(outcome.log, HasSubstr("hello there"));
  EXPECT_EQ(outcome.artifact->log, outcome.log);
}

// scenario P12
TEST_F(NvrtcProgramsTest, UnannotatedFunctionsNeedTheOptionThatTheErrorNames) {
  Program program = CudaProgram("int helper() { return 4; }\n" + Storing("helper()"));
  const CompileOutcome without = Compile(program);
  ASSERT_TRUE(without.rejection.has_value());
  EXPECT_THAT(without.log, HasSubstr("-default-device"));
  EXPECT_THAT(without.rejection->detail, HasSubstr("-default-device"));
  program.options = {"-default-device"};
  EXPECT_TRUE(Compile(program).artifact.has_value());
  program.options = {"--bogus"};
  EXPECT_THAT(pool_->Compile(program, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'--bogus'")));
}

TEST_F(NvrtcProgramsTest, DefinesReachTheSource) {
  Program program = CudaProgram(Storing("X"));
  program.defines = {{"X", "5"}};
  const CompileOutcome a = Compile(program);
  program.defines.clear();
  program.options = {"-DX=5"};
  const CompileOutcome b = Compile(program);
  ASSERT_TRUE(a.artifact.has_value() && b.artifact.has_value());
  EXPECT_EQ(a.artifact->sha256, b.artifact->sha256);
}

// The host's files: neither read nor told about.
TEST_F(NvrtcProgramsTest, FilesOfTheHostCannotBeIncluded) {
  const auto info = pool_->Select("sm_90", 0);
  ASSERT_THAT(info, IsOk());
  if (info->sandbox == "none") GTEST_SKIP() << "the kernel has no Landlock";
  const TemporaryDirectory outside = *TemporaryDirectory::Create();
  const std::string secret = JoinPath(outside.path(), "secret.h");
  ASSERT_THAT(WriteNewFile(secret, "s3cret_w0rd here\n"), IsOk());
  for (const std::string& file :
       {std::string("\"/etc/passwd\""), std::string("</etc/passwd>"), "\"" + secret + "\"",
        "\"../../../../.." + secret + "\"", std::string("\"../../../../../../etc/passwd\""),
        std::string("\"/proc/self/environ\""), std::string("</dev/zero>")}) {
    const CompileOutcome outcome = Compile(CudaProgram("#include " + file + "\n"));
    ASSERT_TRUE(outcome.rejection.has_value()) << file;
    EXPECT_EQ(outcome.rejection->kind, RejectionKind::kCompile) << outcome.rejection->detail;
    EXPECT_THAT(outcome.log, AllOf(HasSubstr("cannot open source file"), Not(HasSubstr("root:")),
                                   Not(HasSubstr("s3cret"))));
  }
}

// scenario P17
TEST_F(NvrtcProgramsTest, BytesDoNotDependOnTheWorkerOrItsDirectory) {
  Program program = CudaProgram("#include \"cfg.h\"\n" + Storing("VAL"));
  program.headers = {{"cfg.h", "#define VAL sizeof(__FILE__)\n"}};
  const CompileOutcome first = Compile(program);
  auto other = CompilePool::Create(NvrtcOptions());
  ASSERT_THAT(other, IsOk());
  const auto second = (*other)->Compile(program, {});
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(first.artifact->sha256, second->artifact->sha256);
}

// scenario P17: NVRTC would name the variable by the worker's process id, as it does in libcu++.
TEST_F(NvrtcProgramsTest, BytesDoNotDependOnTheWorkersProcessId) {
  if (pool_->Select("sm_90", 0)->cuda_version < 13000) GTEST_SKIP() << "this NVRTC has no seed";
  Program program = CudaProgram(
      "namespace a { static __device__ int hidden[3]; }\n"
      "template <class T> __global__ void k(T* x) {\n"
      "  x[0] = a::hidden[x[1]]; a::hidden[x[2]] = x[3]; }\n");
  program.name_expressions = {"k<int>"};
  const CompileOutcome first = Compile(program);
  ASSERT_TRUE(first.artifact.has_value()) << first.log;
  auto other = CompilePool::Create(NvrtcOptions());
  ASSERT_THAT(other, IsOk());
  const auto second = (*other)->Compile(program, {});
  ASSERT_THAT(second, IsOk());
  ASSERT_TRUE(second->artifact.has_value()) << second->log;
  EXPECT_EQ(first.artifact->sha256, second->artifact->sha256);
}

TEST_F(NvrtcProgramsTest, TheSameCodeUnderAnotherNameIsKnownAsSuch) {
  const auto cubin = [](const std::string& name) {
    Program program = CudaProgram(
        "template <int STEP, int UNUSED> __global__ void k(float* a, long n) {\n"
        "  long i = blockIdx.x * (long)STEP + threadIdx.x; if (i < n) a[i] += 1; }\n",
        "sm_90a");
    program.name_expressions = {name};
    const CompileOutcome outcome = Compile(program);
    return outcome.artifact ? outcome.artifact->bytes : outcome.log;
  };
  const std::string first = cubin("k<256, 1>");
  const std::string twin = cubin("k<256, 22>");
  const std::string other = cubin("k<128, 1>");
  EXPECT_NE(first, twin);
  ASSERT_THAT(CubinCodeSha256(first), IsOk());
  EXPECT_EQ(*CubinCodeSha256(first), *CubinCodeSha256(twin));
  EXPECT_NE(*CubinCodeSha256(first), *CubinCodeSha256(other));
}

}  // namespace
}  // namespace hone
