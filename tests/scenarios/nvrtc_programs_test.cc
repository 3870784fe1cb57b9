// What programs mean: headers, options, architectures, names.
#include "tests/scenarios/nvrtc_fixture.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// scenario P01
TEST_F(NvrtcScenarioTest, ATemplateMayIncludeStandardHeadersAndAMissingOneIsItsOwnError) {
  const std::string standard =
      "#include <cstdint>\n#include <type_traits>\n"
      "static_assert(std::is_same<std::uint32_t, unsigned int>::value, \"\");\n";
  ASSERT_TRUE(Register(FillTemplate("standard", standard, "std::uint32_t{7}", "7")).ok());
  v1::GetKernelResponse response;
  grpc::Status status = Get("standard", "", &response);
  ASSERT_TRUE(status.ok()) << status.error_message() << "\n" << DetailIn(status).excerpt();
  EXPECT_EQ(response.kernel().variants(0).artifact().format(), "CUBIN");

  ASSERT_TRUE(Register(FillTemplate("missing", "\n#include <no_such_header>\n", "1", "1")).ok());
  status = Get("missing", "", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("fill.cu(2)"), HasSubstr("no_such_header")));
  EXPECT_EQ(DetailIn(status).reason(), "COMPILE_FAILED");
  EXPECT_THAT(Log(DetailIn(status).log_id()).log(),
              AllOf(HasSubstr("searched for headers, in this order: "), HasSubstr("include")));
  // The failure left nothing that could be served.
  EXPECT_THAT(Explain("missing").state(), HasSubstr("not stored"));
  EXPECT_EQ(Get("missing", "policy: FROZEN", &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

// scenario P02
TEST_F(NvrtcScenarioTest, TheFirstIncludeDirectoryWinsAndTheKeysSayWhy) {
  v1::CompileRequest request = Source("#include \"cfg.h\"\n" + Storing("VAL"));
  AddHeader("dirA/cfg.h", "#define VAL 1\n", request);
  AddHeader("dirB/cfg.h", "#define VAL 2\n", request);
  for (const char* option : {"-I", "dirA", "-I", "dirB"}) request.add_options(option);
  EXPECT_EQ(Sha256Of(request), Sha256Of(Source(Storing("1"))));
  request.mutable_options()->SwapElements(1, 3);
  const v1::CompiledArtifact swapped = Compiled(request);
  EXPECT_FALSE(swapped.cached());
  EXPECT_EQ(swapped.info().sha256(), Sha256Of(Source(Storing("2"))));

  // As templates: run, and their keys explained.
  v1::KernelTemplate a_first = FillTemplate("a_first", "#include \"cfg.h\"\n", "VAL", "1.0f");
  for (const char* directory : {"dirA", "dirB"}) {
    a_first.add_headers(absl::StrCat(directory, "/cfg.h"));
    a_first.add_options(absl::StrCat("-I", directory));
    v1::SourceFile* file = a_first.add_files();
    file->set_name(absl::StrCat(directory, "/cfg.h"));
    file->set_content(absl::StrCat("#define VAL ", directory == std::string("dirA") ? 1 : 2, "\n"));
  }
  v1::KernelTemplate b_first = a_first;
  b_first.set_name("b_first");
  b_first.mutable_options()->SwapElements(0, 1);
  std::string& source = *b_first.mutable_files(0)->mutable_content();
  source.replace(source.find("1.0f"), 4, "2.0f");
  for (const v1::KernelTemplate& message : {a_first, b_first}) {
    const grpc::Status status = Register(message);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_TRUE(VerifiedOnCpu(message.name())) << message.name();
  }
  const v1::ExplainKeyResponse a = Explain("a_first");
  const v1::ExplainKeyResponse b = Explain("b_first");
  EXPECT_NE(a.artifact_key(), b.artifact_key());
  EXPECT_THAT(a.artifact_key_ingredients(), Contains(StartsWith("header[0]=dirA/cfg.h ")));
  EXPECT_THAT(a.artifact_key_ingredients(), Contains(StartsWith("header[1]=dirB/cfg.h ")));
  EXPECT_THAT(a.artifact_key_ingredients(), Contains("option[0]=--include-path=dirA"));
  EXPECT_THAT(b.artifact_key_ingredients(), Contains("option[0]=--include-path=dirB"));
}

// scenario P04
TEST_F(NvrtcScenarioTest, ArchitecturesAreNamedWithTheListAndMeanWhatTheySay) {
  const std::string source =
      "extern \"C\" __global__ void k() { asm volatile(\"setmaxnreg.inc.sync.aligned.u32 240;\"); "
      "}\n";
  for (const char* architecture : {"sm_999", "sm_35"}) {
    const grpc::Status status = Error(Source(source, architecture));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), AllOf(HasSubstr(architecture), HasSubstr("sm_90a")));
  }
  const grpc::Status plain = Error(Source(source, "sm_90"));
  EXPECT_EQ(plain.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(DetailIn(plain).reason(), "COMPILE_FAILED");
  EXPECT_THAT(Log(DetailIn(plain).log_id()).log(), HasSubstr("setmaxnreg"));
  EXPECT_EQ(Compiled(Source(source, "sm_90a")).info().architecture(), "sm_90a");
  // This daemon's device is the CPU.
  v1::CompileRequest request = Source("__global__ void k(int* a) { a[0] = 1; }\n", "auto");
  request.add_name_expressions("k");
  EXPECT_EQ(Compiled(request).info().architecture(), "cpu");
}

// scenario P07
TEST_F(NvrtcScenarioTest, InstancesOfANamespacedTemplateKeepTheirNamesOverARestart) {
  v1::CompileRequest request = Source(
      "#include <cuda_fp16.h>\nnamespace a { namespace b {\n"
      "template <class T, int N> __global__ void axpy(T* x) { x[N] = x[0]; }\n} }\n");
  request.add_name_expressions("a::b::axpy<float, 128>");
  request.add_name_expressions("a::b::axpy<__half,2>");
  const v1::CompiledArtifact first = Compiled(request);
  const auto names = first.info().lowered_names();
  ASSERT_EQ(names.size(), 2u);
  for (const auto& [expression, symbol] : names) EXPECT_THAT(symbol, StartsWith("_ZN1a1b4axpyI"));
  EXPECT_NE(names.at("a::b::axpy<float, 128>"), names.at("a::b::axpy<__half,2>"));

  daemon_->Kill();
  ASSERT_NO_FATAL_FAILURE(Restart({}));
  const v1::CompiledArtifact again = Compiled(request);
  EXPECT_TRUE(again.cached());
  EXPECT_EQ(again.info().sha256(), first.info().sha256());
  for (const auto& [expression, symbol] : names) {
    EXPECT_EQ(again.info().lowered_names().at(expression), symbol);
    EXPECT_THAT(again.data(), HasSubstr(symbol)) << "the binary's own table of names";
  }
  EXPECT_EQ(Counter("compiles"), 0);
}

// scenario P12
TEST_F(NvrtcScenarioTest, UnannotatedFunctionsNeedTheOptionThatTheErrorNames) {
  v1::CompileRequest request = Source("int helper() { return 4; }\n" + Storing("helper()"));
  v1::CompileRequest with = request;
  with.add_options("-default-device");
  EXPECT_THAT(Error(request).error_message(), HasSubstr("-default-device"));
  EXPECT_FALSE(Compiled(with).cached());
  EXPECT_TRUE(Compiled(with).cached());
  EXPECT_EQ(DetailIn(Error(request)).reason(), "COMPILE_FAILED") << "not answered by the other";
  request.add_options("--no-such-option");
  const grpc::Status unknown = Error(request);
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(unknown.error_message(), HasSubstr("'--no-such-option' is not allowed"));
}

// scenario P16
TEST_F(NvrtcScenarioTest, AHeaderBehindAHeaderIsPartOfTheBinary) {
  const auto with = [](int constant, const std::string& define) {
    v1::CompileRequest request = Source("#include \"a.h\"\n" + Storing("VALUE + X"));
    AddHeader("a.h", "#include \"b.h\"\n", request);
    AddHeader("b.h", absl::StrCat("#define VALUE ", constant, "\n"), request);
    request.add_options(define);
    return request;
  };
  const v1::CompiledArtifact first = Compiled(with(10, "-DX=1"));
  const v1::CompiledArtifact edited = Compiled(with(20, "-DX=1"));
  const v1::CompiledArtifact defined = Compiled(with(20, "-DX=2"));
  for (const v1::CompiledArtifact& artifact : {first, edited, defined}) {
    EXPECT_FALSE(artifact.cached());
  }
  EXPECT_EQ(first.info().sha256(), Sha256Of(Source(Storing("11"))));
  EXPECT_EQ(edited.info().sha256(), Sha256Of(Source(Storing("21"))));
  EXPECT_EQ(defined.info().sha256(), Sha256Of(Source(Storing("22"))));
  const v1::CompiledArtifact reverted = Compiled(with(10, "-DX=1"));
  EXPECT_TRUE(reverted.cached());
  EXPECT_EQ(reverted.info().sha256(), first.info().sha256());
}

}  // namespace
}  // namespace hone
