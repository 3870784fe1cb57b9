// Listing, describing and registering templates over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TemplatesTest : public ::testing::Test {
 protected:
  grpc::Status Register(const v1::KernelTemplate& message, bool validate_only,
                        v1::RegisterTemplateResponse* response) {
    grpc::ClientContext context;
    v1::RegisterTemplateRequest request;
    *request.mutable_template_() = message;
    request.set_validate_only(validate_only);
    return client_->RegisterTemplate(&context, request, response);
  }
  grpc::Status Describe(const std::string& ref, v1::DescribeTemplateResponse* response) {
    grpc::ClientContext context;
    v1::DescribeTemplateRequest request;
    *request.mutable_template_() = FromText<v1::TemplateRef>(ref);
    return client_->DescribeTemplate(&context, request, response);
  }

  TestServer server_;
  std::unique_ptr<v1::KernelService::Stub> client_ = server_.Client();
};

TEST_F(TemplatesTest, ListsTheCatalog) {
  grpc::ClientContext context;
  v1::ListTemplatesResponse response;
  ASSERT_TRUE(client_->ListTemplates(&context, {}, &response).ok());
  ASSERT_EQ(response.templates_size(), 1);
  EXPECT_EQ(response.templates(0).name(), "copy");
  EXPECT_EQ(response.templates(0).origin(), "catalog");
  EXPECT_EQ(response.templates(0).tunable_points(), 6);
  EXPECT_EQ(response.problems_size(), 0);
}

TEST_F(TemplatesTest, DescribesByNameAndByDigest) {
  v1::DescribeTemplateResponse by_name, by_digest;
  ASSERT_TRUE(Describe("name: 'copy'", &by_name).ok());
  EXPECT_EQ(by_name.template_().tunables_size(), 2);
  ASSERT_TRUE(Describe("digest: '" + by_name.summary().digest() + "'", &by_digest).ok());
  EXPECT_EQ(by_digest.summary().name(), "copy");
}

TEST_F(TemplatesTest, RegisteredTemplatesAreServed) {
  v1::RegisterTemplateResponse response;
  const grpc::Status status = Register(CopyTemplate("mine"), false, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.summary().origin(), "registered");
  EXPECT_FALSE(response.already_registered());
  ASSERT_TRUE(Register(CopyTemplate("mine"), false, &response).ok());
  EXPECT_TRUE(response.already_registered());

  grpc::ClientContext context;
  v1::GetKernelResponse kernel;
  ASSERT_TRUE(
      client_
          ->GetKernel(&context,
                      FromText<v1::GetKernelRequest>("template { name: 'mine' } "
                                                     "params { key: 'n' value { integer: 16 } }"),
                      &kernel)
          .ok());
  EXPECT_EQ(kernel.kernel().template_digest(), response.summary().digest());
}

TEST_F(TemplatesTest, ANameAndVersionNeverChangeMeaning) {
  v1::RegisterTemplateResponse response;
  ASSERT_TRUE(Register(CopyTemplate("mine"), false, &response).ok());
  v1::KernelTemplate other = CopyTemplate("mine");
  other.mutable_tunables(0)->add_values(512);
  const grpc::Status status = Register(other, false, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_THAT(status.error_message(), HasSubstr("mine"));
}

TEST_F(TemplatesTest, ValidatingStoresNothing) {
  v1::RegisterTemplateResponse response;
  ASSERT_TRUE(Register(CopyTemplate("mine"), true, &response).ok());
  EXPECT_FALSE(server_.catalog().Find("mine", "").ok());
  EXPECT_EQ(server_.store().counters().template_puts, 0);
}

TEST_F(TemplatesTest, MistakesAreNamedByField) {
  v1::KernelTemplate broken = CopyTemplate("mine");
  broken.mutable_steps(0)->mutable_launch()->set_grid_x("ceil_div(n, ");
  v1::RegisterTemplateResponse response;
  const grpc::Status status = Register(broken, false, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("steps[0].launch.grid_x"));
}

TEST_F(TemplatesTest, UnknownTemplatesAreAnsweredWithTheNearest) {
  v1::DescribeTemplateResponse response;
  const grpc::Status status = Describe("name: 'coppy'", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("coppy"), HasSubstr("copy")));
  EXPECT_EQ(Describe("", &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(TemplatesTest, AMissingTemplateIsSaidSo) {
  grpc::ClientContext context;
  v1::RegisterTemplateResponse response;
  const grpc::Status status = client_->RegisterTemplate(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("template"));
}

}  // namespace
}  // namespace hone
