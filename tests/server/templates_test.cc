// Listing, describing and registering templates over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grpcpp/create_channel.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
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

// `count` headers of `bytes` each, all included by nobody.
void AddHeaders(int count, size_t bytes, v1::KernelTemplate& message) {
  for (int i = 0; i < count; ++i) {
    const std::string name = "h" + std::to_string(i) + ".h";
    message.add_headers(name);
    v1::SourceFile* file = message.add_files();
    file->set_name(name);
    file->set_content(std::string(bytes + static_cast<size_t>(i), ' '));
  }
}

// scenario P40
TEST_F(TemplatesTest, ALargeTemplateIsDescribedWithoutItsLargestFiles) {
  v1::KernelTemplate large = CopyTemplate("large");
  AddHeaders(6, 1 << 20, large);
  v1::RegisterTemplateResponse registered;
  grpc::Status status = Register(large, false, &registered);
  ASSERT_TRUE(status.ok()) << status.error_message();
  // An untuned client: it accepts 4 MiB.
  v1::DescribeTemplateResponse response;
  status = Describe("name: 'large'", &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_LT(response.ByteSizeLong(), 4u << 20);
  EXPECT_THAT(response.files_left_out(), ElementsAre("h3.h", "h4.h", "h5.h"));
  ASSERT_EQ(response.template_().files_size(), 7);
  for (const v1::SourceFile& file : response.template_().files()) {
    const bool left_out = file.name() == "h3.h" || file.name() == "h4.h" || file.name() == "h5.h";
    EXPECT_EQ(file.content().empty(), left_out) << file.name();
  }

  const auto describe_with = [&](int64_t files_bytes_max, int receive_bytes_max) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(receive_bytes_max);
    auto client = v1::KernelService::NewStub(grpc::CreateCustomChannel(
        "unix:" + server_.socket_path(), grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    v1::DescribeTemplateRequest request;
    request.mutable_template_()->set_name("large");
    request.set_files_bytes_max(files_bytes_max);
    response.Clear();
    return client->DescribeTemplate(&context, request, &response);
  };
  ASSERT_TRUE(describe_with(16 << 20, 16 << 20).ok());
  EXPECT_EQ(response.files_left_out_size(), 0);
  EXPECT_GT(response.ByteSizeLong(), 6u << 20);
  ASSERT_TRUE(describe_with(-1, 4 << 20).ok());
  EXPECT_EQ(response.files_left_out_size(), 7);
  status = describe_with(-2, 4 << 20);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("files_bytes_max"));
}

// scenario P40
TEST_F(TemplatesTest, ALongListOfTemplatesReachesAnUntunedClient) {
  v1::RegisterTemplateResponse registered;
  for (int i = 0; i < 300; ++i) {
    v1::KernelTemplate message = CopyTemplate("t" + std::to_string(i));
    message.set_description(std::string(16'000, 'd'));
    const grpc::Status status = Register(message, false, &registered);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  grpc::ClientContext context;
  v1::ListTemplatesResponse response;
  const grpc::Status status = client_->ListTemplates(&context, {}, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.templates_size(), 301);
  EXPECT_THAT(response.templates(300).description(), HasSubstr("[...]"));
}

// scenario P40
TEST_F(TemplatesTest, ATemplateThatCouldNotBeDescribedInOneReplyIsNotTaken) {
  v1::KernelTemplate message = CopyTemplate("priors");
  for (int i = 0; i < 1024; ++i) message.add_priors()->set_when(std::string(2000, ' ') + "n > 0");
  v1::RegisterTemplateResponse response;
  const grpc::Status status = Register(message, false, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("at most 1048576"));
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
