// Listing tunings and explaining keys over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/sha256.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TuningsTest : public ::testing::Test {
 protected:
  void Tune(int64_t n) {
    grpc::ClientContext context;
    v1::TuneRequest request;
    request.mutable_template_()->set_name("copy");
    (*request.mutable_params())["n"].set_integer(n);
    auto reader = client_->Tune(&context, request);
    v1::TuneEvent event;
    while (reader->Read(&event)) {
    }
    const grpc::Status status = reader->Finish();
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  grpc::Status List(const std::string& request, v1::ListTuningsResponse* response) {
    grpc::ClientContext context;
    return client_->ListTunings(&context, FromText<v1::ListTuningsRequest>(request), response);
  }
  grpc::Status Get(const std::string& key, v1::GetTuningResponse* response) {
    grpc::ClientContext context;
    v1::GetTuningRequest request;
    request.set_key(key);
    return client_->GetTuning(&context, request, response);
  }

  TestServer server_;
  std::unique_ptr<v1::KernelService::Stub> client_ = server_.Client();
};

TEST_F(TuningsTest, ListsWhatWasTunedPageByPage) {
  for (const int64_t n : {64, 128, 256}) Tune(n);
  v1::ListTuningsResponse page;
  ASSERT_TRUE(List("page_size: 2", &page).ok());
  ASSERT_EQ(page.tunings_size(), 2);
  EXPECT_EQ(page.tunings(0).template_name(), "copy");
  EXPECT_EQ(page.tunings(0).params().at("T").text(), "F32");
  EXPECT_EQ(page.tunings(0).measured(), 6);
  EXPECT_EQ(page.tunings(0).device().architecture(), FakeDeviceInfo().fingerprint.architecture);
  EXPECT_GT(page.tunings(0).winner().gb_per_s(), 0);
  ASSERT_FALSE(page.next_page_token().empty());
  v1::ListTuningsResponse rest;
  ASSERT_TRUE(
      List(absl::StrCat("page_size: 2 page_token: '", page.next_page_token(), "'"), &rest).ok());
  EXPECT_EQ(rest.tunings_size(), 1);
  EXPECT_TRUE(rest.next_page_token().empty());
  ASSERT_TRUE(List("template_name: 'other'", &rest).ok());
  EXPECT_EQ(rest.tunings_size(), 0);
}

TEST_F(TuningsTest, AKeysBeginningIsEnough) {
  Tune(64);
  v1::ListTuningsResponse page;
  ASSERT_TRUE(List("", &page).ok());
  const std::string key = page.tunings(0).key();
  v1::GetTuningResponse tuning;
  ASSERT_TRUE(Get(key.substr(0, 6), &tuning).ok());
  EXPECT_EQ(tuning.summary().key(), key);
  EXPECT_EQ(tuning.measurements_size(), 6);
  EXPECT_GT(tuning.measurements(0).samples_ns_size(), 0);
}

// A tuning of the key with `count` measurements, every third of them rejected.
void PutTuning(const std::string& key, int count, size_t samples, KernelStore& store) {
  TuningRecord record;
  record.key = key;
  record.template_name = "copy";
  record.device = FakeDeviceInfo().fingerprint;
  record.created_at_unix_ms = 1;
  ASSERT_TRUE(store.PutTuning(record).ok());
  for (int i = 0; i < count; ++i) {
    Measurement measurement;
    measurement.config = *Config::Parse(absl::StrCat("XBLOCK=", i));
    if (i % 3 == 0) {
      measurement.rejection =
          Rejection{.kind = i % 2 == 0 ? RejectionKind::kConstraint : RejectionKind::kCompile,
                    .detail = std::string(200, 'd')};
    } else {
      measurement.samples_ns.assign(samples, 1000.0 + i);
      measurement.verified_sizes.assign(4, "n=1000");
      measurement.artifact_sha256 = std::string(64, 'a');
      Summarise(measurement);
    }
    ASSERT_TRUE(store.PutMeasurement(key, measurement).ok());
  }
}

// scenario P40
TEST_F(TuningsTest, ALargeTuneReachesAnUntunedClientWithWhatMattersMost) {
  const std::string key(64, 'a');
  ASSERT_NO_FATAL_FAILURE(PutTuning(key, 30'000, 10, server_.store()));
  v1::GetTuningResponse tuning;
  const grpc::Status status = Get(key, &tuning);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_LT(tuning.ByteSizeLong(), 4u << 20);
  EXPECT_GT(tuning.left_out(), 0);
  EXPECT_EQ(tuning.measurements_size() + tuning.left_out(), 30'000);
  // In their order still, the fastest among them.
  EXPECT_EQ(tuning.measurements(0).config(), "XBLOCK=1");
  EXPECT_EQ(tuning.measurements(1).config(), "XBLOCK=2");
  for (const v1::MeasurementInfo& measurement : tuning.measurements()) {
    EXPECT_NE(measurement.rejection().kind(), "constraint");
  }
}

// scenario P40
TEST_F(TuningsTest, APageTooLargeForAnUntunedClientIsAShorterOne) {
  for (int i = 0; i < 60; ++i) {
    const std::string key = absl::StrCat(absl::Hex(i, absl::kZeroPad4), std::string(60, 'b'));
    ASSERT_NO_FATAL_FAILURE(PutTuning(key, 2, 10'000, server_.store()));
  }
  int tunings = 0;
  int pages = 0;
  v1::ListTuningsResponse page;
  do {
    const std::string token = page.next_page_token();
    const grpc::Status status = List(absl::StrCat("page_token: '", token, "'"), &page);
    ASSERT_TRUE(status.ok()) << status.error_message();
    tunings += page.tunings_size();
    ++pages;
  } while (!page.next_page_token().empty());
  EXPECT_EQ(tunings, 60);
  EXPECT_GT(pages, 1);
}

TEST_F(TuningsTest, ErrorsNameTheField) {
  v1::ListTuningsResponse page;
  EXPECT_THAT(List("page_size: -1", &page).error_message(), HasSubstr("page_size"));
  EXPECT_THAT(List("page_size: 1001", &page).error_message(), HasSubstr("1000"));
  EXPECT_EQ(List("page_token: 'x'", &page).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::GetTuningResponse tuning;
  EXPECT_EQ(Get("abc", &tuning).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Get("zzzzzz", &tuning).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Get("abcdef", &tuning).error_code(), grpc::StatusCode::NOT_FOUND);
}

// scenario P17
TEST_F(TuningsTest, ExplainedIngredientsHashToTheKey) {
  Tune(1024);
  grpc::ClientContext context;
  v1::ExplainKeyResponse response;
  ASSERT_TRUE(client_
                  ->ExplainKey(&context,
                               FromText<v1::ExplainKeyRequest>(
                                   "template { name: 'copy' } "
                                   "params { key: 'n' value { integer: 1024 } }"),
                               &response)
                  .ok());
  const auto hash = [](const auto& lines) {
    return Sha256Hex(absl::StrCat(absl::StrJoin(lines, "\n"), "\n"));
  };
  EXPECT_EQ(hash(response.tuning_key_ingredients()), response.tuning_key());
  EXPECT_EQ(hash(response.artifact_key_ingredients()), response.artifact_key());
  EXPECT_THAT(response.state(), AllOf(HasSubstr("stored"), HasSubstr("measurements: 6")));
}

}  // namespace
}  // namespace hone
