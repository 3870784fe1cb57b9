// ListMisses over gRPC, and what an untuned answer says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MissesTest : public ::testing::Test {
 protected:
  v1::GetKernelResponse Get(int64_t n, const std::string& more = "") {
    grpc::ClientContext context;
    auto request = FromText<v1::GetKernelRequest>(absl::StrCat(
        "template { name: 'copy' } params { key: 'n' value { integer: ", n, " } } ", more));
    v1::GetKernelResponse response;
    const grpc::Status status = server_.Client()->GetKernel(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  grpc::Status List(const std::string& request, v1::ListMissesResponse* response) {
    grpc::ClientContext context;
    return server_.Client()->ListMisses(&context, FromText<v1::ListMissesRequest>(request),
                                        response);
  }
  int64_t Counter(const std::string& name) {
    grpc::ClientContext context;
    v1::GetStatusResponse status;
    EXPECT_TRUE(server_.Client()->GetStatus(&context, {}, &status).ok());
    return status.counters().at(name);
  }

  TestServer server_;
};

// scenario P35
TEST_F(MissesTest, ADefaultSaysWhichKeyMissedAndWhatIsTunedNearby) {
  Get(4096, "policy: WAIT_TUNED");
  Get(64, "policy: WAIT_TUNED");
  const v1::GetKernelResponse answer =
      Get(5000, "params { key: 'T' value { text: 'F16' } } policy: BEST_AVAILABLE");
  EXPECT_EQ(answer.source(), v1::DEFAULT);
  EXPECT_EQ(answer.key().size(), 64u);
  EXPECT_FALSE(answer.exact());
  EXPECT_EQ(answer.bucket_params().at("n").integer(), 4096);
  ASSERT_EQ(answer.nearest_keys_size(), 2);
  EXPECT_THAT(answer.nearest_keys(0).differs_in(), ElementsAre("param.T", "param.n"));
  EXPECT_EQ(Counter("untuned"), 1);

  v1::ListMissesResponse misses;
  ASSERT_TRUE(List("", &misses).ok());
  ASSERT_EQ(misses.misses_size(), 1);
  EXPECT_EQ(misses.misses(0).key(), answer.key());
  EXPECT_EQ(misses.misses(0).problem(), "T=F16 n=5000");
  EXPECT_EQ(misses.misses(0).policy(), v1::BEST_AVAILABLE);
  EXPECT_EQ(misses.misses(0).count(), 1);
  EXPECT_GT(misses.misses(0).last_at_unix_ms(), 0);
  EXPECT_NE(misses.misses(0).bucket_key(), misses.misses(0).key());
}

// scenario P32
TEST_F(MissesTest, ABucketsAnswerNamesTheBucketAndIsNotExact) {
  const v1::GetKernelResponse bucket = Get(5000, "policy: WAIT_TUNED");
  EXPECT_EQ(bucket.source(), v1::BUCKET);
  EXPECT_FALSE(bucket.exact());
  EXPECT_EQ(bucket.bucket_params().at("n").integer(), 4096);
  EXPECT_EQ(bucket.answered_by_params().at("n").integer(), 4096);
  EXPECT_EQ(bucket.kernel().params().at("n").integer(), 5000);
  EXPECT_EQ(bucket.nearest_keys_size(), 0);
  const v1::GetKernelResponse exact = Get(4096);
  EXPECT_EQ(exact.source(), v1::TUNED);
  EXPECT_TRUE(exact.exact());
}

// scenario P35
TEST_F(MissesTest, ListsByTemplateTimeAndNumber) {
  for (int i = 0; i < 3; ++i) Get(1000);
  Get(64);
  v1::ListMissesResponse misses;
  ASSERT_TRUE(List("limit: 1", &misses).ok());
  ASSERT_EQ(misses.misses_size(), 1);
  EXPECT_EQ(misses.misses(0).count(), 3) << "the most frequent, hits included";
  ASSERT_TRUE(List("template_name: 'copy' since_s: 60", &misses).ok());
  EXPECT_EQ(misses.misses_size(), 2);
  const grpc::Status unknown = List("template_name: 'softmax'", &misses);
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.error_message(), HasSubstr("\"softmax\""));
}

TEST_F(MissesTest, ATemplateWithoutMissesIsNoError) {
  v1::ListMissesResponse misses;
  ASSERT_TRUE(List("template_name: 'copy'", &misses).ok());
  EXPECT_EQ(misses.misses_size(), 0);
}

TEST_F(MissesTest, ErrorsNameFieldValueAndWhatIsRight) {
  v1::ListMissesResponse misses;
  const grpc::Status since = List("since_s: -5", &misses);
  EXPECT_EQ(since.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(since.error_message(), AllOf(HasSubstr("since_s"), HasSubstr("-5")));
  const grpc::Status limit = List("limit: 1001", &misses);
  EXPECT_EQ(limit.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(limit.error_message(), AllOf(HasSubstr("limit"), HasSubstr("1000")));
}

// scenario P18
TEST_F(MissesTest, StatusTellsTheBoundAndWhatItCost) {
  Get(1000);
  const int64_t bound = *server_.store().SizeBytes() + 100;  // not enough for a second one
  server_.store().SetBytesMax(bound);
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}) {
    Get(1000, absl::StrCat("target { architecture: '", arch, "' }"));
  }
  grpc::ClientContext context;
  v1::GetStatusResponse status;
  ASSERT_TRUE(server_.Client()->GetStatus(&context, {}, &status).ok());
  EXPECT_EQ(status.store_bytes_max(), bound);
  EXPECT_GT(status.counters().at("evictions"), 0);
  EXPECT_GT(status.counters().at("evicted_bytes"), 0);
  EXPECT_LE(status.store_bytes(), bound);
}

}  // namespace
}  // namespace hone
