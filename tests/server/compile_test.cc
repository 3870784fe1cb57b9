// Raw compiles over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::CompileRequest Saxpy(const std::string& more = "") {
  auto request = FromText<v1::CompileRequest>(
      "source: 'template<class T> __global__ void saxpy(T* x) {}' "
      "name_expressions: 'saxpy<float>'");
  request.MergeFrom(FromText<v1::CompileRequest>(more));
  return request;
}

class CompileTest : public ::testing::Test {
 protected:
  grpc::Status Compile(const v1::CompileRequest& request, v1::CompileResponse* response) {
    grpc::ClientContext context;
    return server_.Client()->Compile(&context, request, response);
  }
  grpc::Status Error(const v1::CompileRequest& request) {
    v1::CompileResponse response;
    return Compile(request, &response);
  }

  TestServer server_;
};

TEST_F(CompileTest, GivesOneArtifactForEachArchitecture) {
  v1::CompileResponse response;
  ASSERT_TRUE(Compile(Saxpy("architectures: 'sm_80' architectures: 'sm_90a'"), &response).ok());
  ASSERT_EQ(response.artifacts_size(), 2);
  EXPECT_EQ(response.artifacts(0).info().architecture(), "sm_80");
  EXPECT_EQ(response.artifacts(1).info().architecture(), "sm_90a");
  EXPECT_NE(response.artifacts(0).info().sha256(), response.artifacts(1).info().sha256());
  EXPECT_EQ(response.artifacts(0).info().lowered_names().count("saxpy<float>"), 1u);
  EXPECT_THAT(response.artifacts(0).data(), HasSubstr("fake-artifact"));
  EXPECT_FALSE(response.artifacts(0).cached());
}

TEST_F(CompileTest, TheSecondTimeNothingIsCompiled) {
  v1::CompileResponse response;
  ASSERT_TRUE(Compile(Saxpy(), &response).ok());
  ASSERT_TRUE(Compile(Saxpy(), &response).ok());
  EXPECT_TRUE(response.artifacts(0).cached());
  EXPECT_EQ(server_.compiler().calls(), 1);
}

TEST_F(CompileTest, WithoutAnArchitectureTheFirstDevicesIsTaken) {
  v1::CompileResponse response;
  ASSERT_TRUE(Compile(Saxpy(), &response).ok());
  EXPECT_EQ(response.artifacts(0).info().architecture(), FakeDeviceInfo().architecture);
}

// scenario P04
TEST_F(CompileTest, AutoIsTheFirstDevicesArchitecture) {
  v1::CompileResponse response;
  ASSERT_TRUE(Compile(Saxpy("architectures: 'sm_80' architectures: 'auto'"), &response).ok());
  EXPECT_EQ(response.artifacts(1).info().architecture(), FakeDeviceInfo().architecture);
  TestServer without({.devices = {}});
  grpc::ClientContext context;
  const grpc::Status status =
      without.Client()->Compile(&context, Saxpy("architectures: 'auto'"), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("holds auto"), HasSubstr("sm_90a")));
}

// scenario P40
TEST_F(CompileTest, BinariesThatTogetherWouldBeTooMuchForOneReplyAreLeftToBeFetched) {
  v1::CompileRequest request = Saxpy();
  for (int i = 80; i < 90; ++i) request.add_architectures("sm_" + std::to_string(i));
  // A fake artifact holds its options; these make each half a megabyte.
  for (int i = 0; i < 128; ++i) {
    request.add_options("-DX" + std::to_string(i) + "=" + std::string(4000, '1'));
  }
  v1::CompileResponse response;
  const grpc::Status status = Compile(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.artifacts_size(), 10);
  EXPECT_FALSE(response.artifacts(0).data().empty());
  EXPECT_TRUE(response.artifacts(9).data().empty());
  EXPECT_GT(response.artifacts(9).info().size_bytes(), 500'000);
  EXPECT_LT(response.ByteSizeLong(), 4u << 20);
}

// scenario P12
TEST_F(CompileTest, OptionsArePartOfTheKeyAndUnknownOnesAreRefusedByName) {
  v1::CompileResponse response;
  ASSERT_TRUE(Compile(Saxpy(), &response).ok());
  ASSERT_TRUE(Compile(Saxpy("options: '-default-device'"), &response).ok());
  EXPECT_FALSE(response.artifacts(0).cached());
  EXPECT_EQ(server_.compiler().calls(), 2);
  const grpc::Status status = Error(Saxpy("options: '--time=/etc/passwd'"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("--time"));
}

// scenario P05
TEST_F(CompileTest, PtxComesWithAWordOnItsDriver) {
  v1::CompileResponse response;
  ASSERT_TRUE(Compile(Saxpy("architectures: 'compute_90'"), &response).ok());
  if (response.artifacts(0).info().format() != "PTX") GTEST_SKIP() << "the fake gives no PTX";
  EXPECT_THAT(response.artifacts(0).note(), AllOf(HasSubstr("PTX only"), HasSubstr("driver")));
}

TEST_F(CompileTest, AFailedCompileCarriesReasonExcerptAndLog) {
  CompileOutcome outcome;
  outcome.rejection = Rejection{.kind = RejectionKind::kCompile, .detail = "1 error"};
  outcome.excerpt = "program.cu(1): error: expected a ;";
  outcome.log = "the full log";
  outcome.error_count = 1;
  server_.compiler().FailFor("saxpy", outcome);
  const grpc::Status status = Error(Saxpy());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(DetailIn(status).reason(), "COMPILE_FAILED");
  EXPECT_THAT(DetailIn(status).excerpt(), HasSubstr("expected a ;"));
  EXPECT_FALSE(DetailIn(status).log_id().empty());
}

// scenario P09
TEST_F(CompileTest, ATimeoutIsADeadlineAndIsTriedAgain) {
  server_.compiler().FailFor("saxpy",
                             Rejection{.kind = RejectionKind::kTimeout, .detail = "more than 5s"});
  EXPECT_EQ(Error(Saxpy()).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(Error(Saxpy()).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(server_.compiler().calls(), 2) << "a timeout is not remembered";
}

// scenario P54
TEST_F(CompileTest, AFullDiskCostsTheCachingNotTheArtifact) {
  server_.store().FailPuts(absl::ResourceExhaustedError("no room to grow hone.db: 0 bytes free"));
  v1::CompileResponse response;
  ASSERT_TRUE(Compile(Saxpy(), &response).ok());
  EXPECT_THAT(response.artifacts(0).data(), HasSubstr("fake-artifact"));
  EXPECT_THAT(response.artifacts(0).not_cached_reason(), HasSubstr("no room"));
}

// scenario P40
TEST_F(CompileTest, OverLimitSourcesAreToldTheLimit) {
  v1::CompileRequest request = Saxpy();
  request.set_source(std::string((1 << 20) + 1, 'x'));
  grpc::Status status = Error(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("source"), HasSubstr("1048577"), HasSubstr("1048576")));
  EXPECT_EQ(DetailIn(status).available(), 1 << 20);

  request = Saxpy();
  for (int i = 0; i < 9; ++i) {
    v1::SourceFile* header = request.add_headers();
    header->set_name("h" + std::to_string(i));
    header->set_content(std::string(1 << 20, 'x'));
  }
  status = Error(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("headers"), HasSubstr("header set")));

  request = Saxpy();
  request.add_headers()->set_content(std::string(17 << 20, 'x'));
  status = Error(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("16 MiB"));
}

TEST_F(CompileTest, ErrorsNameTheField) {
  const auto message = [&](const v1::CompileRequest& request) {
    const grpc::Status status = Error(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    return status.error_message();
  };
  EXPECT_THAT(message({}), HasSubstr("source"));
  EXPECT_THAT(message(Saxpy("headers { name: '../a.h' }")), HasSubstr("headers[0].name"));
  EXPECT_THAT(message(Saxpy("headers { name: 'a.h' } headers { name: 'a.h' }")),
              HasSubstr("headers[1].name"));
  EXPECT_THAT(message(Saxpy("headers { name: 'a.h' content: '\\xff' }")),
              HasSubstr("headers[0].content"));
  EXPECT_THAT(message(Saxpy("name_expressions: ''")), HasSubstr("name_expressions[1]"));
  EXPECT_THAT(message(Saxpy("driver_version: -3")), HasSubstr("driver_version"));
  v1::CompileRequest many = Saxpy();
  for (int i = 0; i < 200; ++i) many.add_name_expressions(std::string(4000, 'x'));
  EXPECT_THAT(message(many), AllOf(HasSubstr("name_expressions"), HasSubstr("at most 524288")));
  EXPECT_EQ(Error(Saxpy("header_sets: 'cutlass'")).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(CompileWithoutSandboxTest, CallersSourcesAreRefusedAndTheCatalogsAreNot) {
  TestServer server({.sandbox = false});
  auto client = server.Client();
  {
    grpc::ClientContext context;
    v1::CompileResponse response;
    const grpc::Status status = client->Compile(&context, Saxpy(), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(DetailIn(status).reason(), "NO_SANDBOX");
  }
  {
    grpc::ClientContext context;
    v1::RegisterTemplateRequest request;
    *request.mutable_template_() = CopyTemplate("mine");
    v1::RegisterTemplateResponse response;
    EXPECT_EQ(client->RegisterTemplate(&context, request, &response).error_code(),
              grpc::StatusCode::FAILED_PRECONDITION);
  }
  grpc::ClientContext context;
  v1::GetKernelResponse response;
  EXPECT_TRUE(
      client
          ->GetKernel(&context,
                      FromText<v1::GetKernelRequest>("template { name: 'copy' } "
                                                     "params { key: 'n' value { integer: 16 } }"),
                      &response)
          .ok());
}

}  // namespace
}  // namespace hone
