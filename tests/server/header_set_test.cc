// Uploading header sets over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::HasSubstr;

class HeaderSetTest : public ::testing::Test {
 protected:
  grpc::Status Upload(const std::vector<std::string>& messages,
                      v1::RegisterHeaderSetResponse* response) {
    grpc::ClientContext context;
    auto writer = client_->RegisterHeaderSet(&context, response);
    for (const std::string& message : messages) {
      if (!writer->Write(FromText<v1::RegisterHeaderSetRequest>(message))) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  TestServer server_;
  std::unique_ptr<v1::KernelService::Stub> client_ = server_.Client();
};

TEST_F(HeaderSetTest, TheDigestDependsOnNamesAndContentsOnly) {
  v1::RegisterHeaderSetResponse one, two, other;
  const std::string a = "files { name: 'x/a.h' content: 'int a;' }";
  const std::string b = "files { name: 'x/b.h' content: 'int b;' }";
  ASSERT_TRUE(Upload({"name: 'lib' " + a, b}, &one).ok());
  ASSERT_TRUE(Upload({"name: 'other' " + b + a}, &two).ok());
  EXPECT_EQ(one.digest(), two.digest());
  EXPECT_EQ(one.size_bytes(), 2 * (5 + 6));
  ASSERT_TRUE(Upload({"name: 'lib' " + a}, &other).ok());
  EXPECT_NE(one.digest(), other.digest());
  EXPECT_EQ((*server_.store().GetHeaderSet(one.digest()))->size(), 2u);
}

TEST_F(HeaderSetTest, CompilesNameASetByNameOrDigest) {
  v1::RegisterHeaderSetResponse set;
  ASSERT_TRUE(Upload({"name: 'lib' files { name: 'a.h' content: 'int a;' }"}, &set).ok());
  for (const std::string& name : {std::string("lib"), set.digest()}) {
    grpc::ClientContext context;
    v1::CompileRequest request;
    request.set_source("#include <a.h>");
    request.add_header_sets(name);
    v1::CompileResponse response;
    ASSERT_TRUE(client_->Compile(&context, request, &response).ok());
  }
  EXPECT_EQ(server_.compiler().calls(), 1) << "both mean the same program";
  EXPECT_EQ(server_.compiler().programs()[0].header_sets, std::vector<std::string>{set.digest()});
}

TEST_F(HeaderSetTest, ListsWhatEachNameMeans) {
  v1::RegisterHeaderSetResponse old, now;
  ASSERT_TRUE(Upload({"name: 'lib' files { name: 'a.h' content: 'int a;' }"}, &old).ok());
  ASSERT_TRUE(Upload({"name: 'lib' files { name: 'a.h' content: 'int b;' }"}, &now).ok());
  grpc::ClientContext context;
  v1::ListHeaderSetsResponse list;
  ASSERT_TRUE(client_->ListHeaderSets(&context, {}, &list).ok());
  ASSERT_EQ(list.header_sets_size(), 2);
  EXPECT_EQ(list.header_sets(0).digest(), now.digest());
  EXPECT_TRUE(list.header_sets(0).current());
  EXPECT_EQ(list.header_sets(1).name(), "lib");
  EXPECT_EQ(list.header_sets(1).digest(), old.digest());
  EXPECT_FALSE(list.header_sets(1).current());
}

// scenario P16
TEST_F(HeaderSetTest, TemplatesOfTheCatalogFollowTheName) {
  v1::KernelTemplate message = CopyTemplate("follower");
  message.add_header_sets("lib");
  const std::string directory =
      JoinPath(DirectoryName(server_.socket_path()), "kernels/" + message.name());
  ASSERT_TRUE(MakeDirectories(directory).ok());
  for (const v1::SourceFile& file : message.files()) {
    ASSERT_TRUE(WriteNewFile(JoinPath(directory, file.name()), file.content()).ok());
  }
  message.clear_files();
  ASSERT_TRUE(WriteNewFile(JoinPath(directory, "template.pbtxt"), message.DebugString()).ok());
  for (const char* content : {"int a;", "int b;"}) {
    v1::RegisterHeaderSetResponse set;
    ASSERT_TRUE(
        Upload({absl::StrCat("name: 'lib' files { name: 'a.h' content: '", content, "' }")}, &set)
            .ok());
    const auto entry = server_.catalog().Find("follower", "");
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ((*entry)->kernel_template->spec().header_sets,
              std::vector<std::string>{set.digest()});
  }
}

TEST_F(HeaderSetTest, MistakesEndTheUploadWithTheFieldNamed) {
  v1::RegisterHeaderSetResponse response;
  grpc::Status status = Upload({"files { name: 'a.h' }"}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("name"));
  status = Upload({"name: 'lib' files { name: '/etc/a.h' }"}, &response);
  EXPECT_THAT(status.error_message(), HasSubstr("files[0].name"));
  status = Upload({"name: 'lib'"}, &response);
  EXPECT_THAT(status.error_message(), HasSubstr("at least one file"));
  status = Upload({"name: 'lib' files { name: 'a.h' } files { name: 'a.h' }"}, &response);
  EXPECT_THAT(status.error_message(), HasSubstr("twice"));
  status =
      Upload({"name: 'lib' files { name: 'a.h' }", "name: 'bil' files { name: 'b.h' }"}, &response);
  EXPECT_THAT(status.error_message(), HasSubstr("differs"));
}

// scenario P40
TEST(HeaderSetLimitTest, AnOverlongSetIsToldTheLimit) {
  TestServerOptions options;
  options.limits.header_set_bytes_max = 1000;
  TestServer server(options);
  auto client = server.Client();
  grpc::ClientContext context;
  v1::RegisterHeaderSetResponse response;
  auto writer = client->RegisterHeaderSet(&context, &response);
  v1::RegisterHeaderSetRequest message;
  message.set_name("lib");
  v1::SourceFile* file = message.add_files();
  file->set_name("a.h");
  file->set_content(std::string(1000, 'x'));
  writer->Write(message);
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("1000"));
}

}  // namespace
}  // namespace hone
