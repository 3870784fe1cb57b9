// Listing tunings and explaining keys over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/notification.h"
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

// A tuning of the key with `count` measurements, every third of them rejected.
void PutTuning(const std::string& key, int count, size_t samples, KernelStore& store,
               const std::string& template_name = "copy") {
  TuningRecord record;
  record.key = key;
  record.template_name = template_name;
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
}

TEST_F(TuningsTest, ATemplateThatNobodyKnowsIsNotFoundAndOneWithoutTuningsIsEmpty) {
  v1::ListTuningsResponse page;
  ASSERT_TRUE(List("template_name: 'copy'", &page).ok());
  EXPECT_EQ(page.tunings_size(), 0);
  const grpc::Status unknown = List("template_name: 'copi'", &page);
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.error_message(), AllOf(HasSubstr("template_name"), HasSubstr("\"copi\""),
                                             HasSubstr("did you mean copy?")));
  // One that is gone and was tuned once is listed still, and meant by what looks like it.
  ASSERT_NO_FATAL_FAILURE(PutTuning(std::string(64, 'd'), 2, 10, server_.store(), "departed"));
  ASSERT_TRUE(List("template_name: 'departed'", &page).ok());
  EXPECT_EQ(page.tunings_size(), 1);
  EXPECT_THAT(List("template_name: 'deparded'", &page).error_message(),
              HasSubstr("did you mean departed?"));
}

// scenario P41
TEST_F(TuningsTest, AllAgreeOnWhatAnInterruptedTuneLeft) {
  Notification third, go_on;
  int checks = 0;
  server_.profiler().SetTiming("XBLOCK=64 VEC=1", {2000});
  server_.profiler().OnCheck([&](const ProfileCandidate&) {
    if (++checks != 3) return;
    third.Notify();
    go_on.WaitForNotification();
  });
  grpc::ClientContext context;
  auto reader = client_->Tune(
      &context, FromText<v1::TuneRequest>(
                    "template { name: 'copy' } params { key: 'n' value { integer: 64 } }"));
  third.WaitForNotification();
  context.TryCancel();
  v1::TuneEvent event;
  while (reader->Read(&event)) {
  }
  reader->Finish();
  while (server_.context().streams.count() > 0) std::this_thread::yield();
  go_on.Notify();
  // The lane is free again when the next tune on it has begun.
  server_.profiler().OnCheck(nullptr);
  ASSERT_NO_FATAL_FAILURE(Tune(4096));

  v1::ListTuningsResponse page;
  ASSERT_TRUE(List("", &page).ok());
  ASSERT_EQ(page.tunings_size(), 2);
  const bool first = page.tunings(0).params().at("n").integer() == 64;
  const v1::TuningSummary& listed = page.tunings(first ? 0 : 1);
  EXPECT_EQ(server_.store().GetWinner(listed.key(), "", Numerics::kWithinTolerance)->has_value(),
            false);
  const std::string winner = listed.winner().config();
  EXPECT_NE(winner, "");
  v1::GetTuningResponse shown;
  ASSERT_TRUE(Get(listed.key(), &shown).ok());
  EXPECT_EQ(shown.summary().winner().config(), winner);
  {
    grpc::ClientContext call;
    v1::GetKernelResponse served;
    ASSERT_TRUE(client_
                    ->GetKernel(&call,
                                FromText<v1::GetKernelRequest>(
                                    "template { name: 'copy' } params { key: 'n' value { integer: "
                                    "64 } }"),
                                &served)
                    .ok());
    EXPECT_EQ(served.source(), v1::TUNED);
    EXPECT_EQ(served.kernel().variants(0).config(), winner);
  }
  {
    grpc::ClientContext call;
    v1::ExplainTuningResponse explained;
    v1::ExplainTuningRequest request;
    request.set_key(listed.key());
    ASSERT_TRUE(client_->ExplainTuning(&call, request, &explained).ok());
    EXPECT_EQ(explained.subject().config(), winner);
  }
  {
    grpc::ClientContext call;
    v1::ListMissesResponse misses;
    ASSERT_TRUE(client_->ListMisses(&call, {}, &misses).ok());
    EXPECT_EQ(misses.misses_size(), 0);
  }
  grpc::ClientContext call;
  v1::PinRequest pin;
  pin.set_key(listed.key());
  v1::PinResponse pinned;
  const grpc::Status status = client_->Pin(&call, pin, &pinned);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(pinned.pin().config(), winner);
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

TEST_F(TuningsTest, ExplainsWhichTuneWouldAnswerASize) {
  const auto explain = [&](int64_t n, v1::Numerics numerics = v1::WITHIN_TOLERANCE) {
    grpc::ClientContext context;
    v1::ExplainKeyRequest request;
    request.mutable_template_()->set_name("copy");
    (*request.mutable_params())["n"].set_integer(n);
    request.set_numerics(numerics);
    v1::ExplainKeyResponse response;
    EXPECT_TRUE(client_->ExplainKey(&context, request, &response).ok());
    return response;
  };
  const v1::ExplainKeyResponse before = explain(1500);
  EXPECT_EQ(before.bucket_params().at("n").integer(), 1024);
  EXPECT_EQ(before.bucket_key(), explain(1024).tuning_key());
  EXPECT_NE(before.bucket_key(), before.tuning_key());
  EXPECT_FALSE(before.bucket_tuned());
  Tune(1024);
  EXPECT_TRUE(explain(1500).bucket_tuned());
  EXPECT_FALSE(explain(2048).bucket_tuned());
  // What is measured by hand only is no tune that ran to its end.
  PutTuning(explain(4096).tuning_key(), 3, 1, server_.store());
  EXPECT_FALSE(explain(4096).bucket_tuned());
}

}  // namespace
}  // namespace hone
