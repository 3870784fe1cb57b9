// Pins, bits and invalidation over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PinsTest : public ::testing::Test {
 protected:
  PinsTest() {
    server_.profiler().SetTiming("XBLOCK=128 VEC=1", {1500});
    server_.profiler().SetTiming("XBLOCK=256 VEC=4", {1000});
    server_.profiler().RejectOnCheck("XBLOCK=64 VEC=4", {.kind = RejectionKind::kTimeout});
  }

  grpc::Status Tune(const std::string& request, v1::TuneFinished* finished = nullptr) {
    grpc::ClientContext context;
    v1::TuneRequest message = FromText<v1::TuneRequest>(
        "template { name: 'copy' } params { key: 'n' value { integer: 1024 } }");
    message.MergeFrom(FromText<v1::TuneRequest>(request));
    auto reader = client_->Tune(&context, message);
    v1::TuneEvent event;
    while (reader->Read(&event)) {
      if (event.has_started()) key_ = event.started().key();
      if (event.has_finished() && finished != nullptr) *finished = event.finished();
    }
    return reader->Finish();
  }
  grpc::Status Pin(const std::string& key, const std::string& config,
                   v1::PinResponse* response = nullptr) {
    grpc::ClientContext context;
    v1::PinRequest request;
    request.set_key(key);
    request.set_config(config);
    request.set_reason("agreed on");
    v1::PinResponse ignored;
    return client_->Pin(&context, request, response == nullptr ? &ignored : response);
  }
  grpc::Status Unpin(const std::string& key, v1::UnpinResponse* response) {
    grpc::ClientContext context;
    v1::UnpinRequest request;
    request.set_key(key);
    return client_->Unpin(&context, request, response);
  }
  grpc::Status Invalidate(const std::string& request, v1::InvalidateResponse* response) {
    grpc::ClientContext context;
    return client_->Invalidate(&context, FromText<v1::InvalidateRequest>(request), response);
  }
  v1::GetKernelResponse Get(const std::string& request = "") {
    grpc::ClientContext context;
    v1::GetKernelRequest message = FromText<v1::GetKernelRequest>(
        "template { name: 'copy' } params { key: 'n' value { integer: 1024 } }");
    message.MergeFrom(FromText<v1::GetKernelRequest>(request));
    v1::GetKernelResponse response;
    const grpc::Status status = client_->GetKernel(&context, message, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  v1::GetTuningResponse Show() {
    grpc::ClientContext context;
    v1::GetTuningRequest request;
    request.set_key(key_);
    v1::GetTuningResponse response;
    EXPECT_TRUE(client_->GetTuning(&context, request, &response).ok());
    return response;
  }

  TestServer server_;
  std::unique_ptr<v1::KernelService::Stub> client_ = server_.Client();
  std::string key_;
};

// scenario P23
TEST_F(PinsTest, APinShowsWhereverItsKeyDoes) {
  ASSERT_TRUE(Tune("").ok());
  Get();
  v1::PinResponse pinned;
  const grpc::Status status = Pin(key_.substr(0, 8), "XBLOCK=128 VEC=1", &pinned);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(pinned.key(), key_);
  EXPECT_EQ(pinned.pin().config(), "XBLOCK=128 VEC=1");

  const v1::GetKernelResponse served = Get();
  EXPECT_EQ(served.kernel().variants(0).config(), "XBLOCK=128 VEC=1");
  EXPECT_EQ(served.pin().reason(), "agreed on");
  EXPECT_EQ(served.kernel().generation(), pinned.pin().generation());
  EXPECT_GT(served.pin().pinned_at_unix_ms(), 0);

  v1::TuneFinished finished;
  ASSERT_TRUE(Tune("force: true", &finished).ok());
  EXPECT_EQ(finished.winner().config(), "XBLOCK=256 VEC=4");
  EXPECT_EQ(finished.pin().config(), "XBLOCK=128 VEC=1");

  const v1::TuningSummary summary = Show().summary();
  EXPECT_EQ(summary.winner().config(), "XBLOCK=128 VEC=1");
  EXPECT_EQ(summary.winner().median_ns(), 1500);
  EXPECT_EQ(summary.pin().config(), "XBLOCK=128 VEC=1");
  EXPECT_EQ(summary.unpinned_config(), "XBLOCK=256 VEC=4");

  v1::UnpinResponse unpinned;
  ASSERT_TRUE(Unpin(key_, &unpinned).ok());
  EXPECT_EQ(unpinned.was().config(), "XBLOCK=128 VEC=1");
  EXPECT_GT(unpinned.generation(), pinned.pin().generation());
  EXPECT_FALSE(Get().has_pin());
  EXPECT_FALSE(Show().summary().has_pin());
}

TEST_F(PinsTest, WithoutAConfigWhatTheMeasurementsChooseIsPinned) {
  ASSERT_TRUE(Tune("").ok());
  v1::PinResponse pinned;
  ASSERT_TRUE(Pin(key_, "XBLOCK=128 VEC=1", &pinned).ok());
  ASSERT_TRUE(Pin(key_, "", &pinned).ok());
  EXPECT_EQ(pinned.pin().config(), "XBLOCK=256 VEC=4") << "not the config that is pinned already";
}

TEST_F(PinsTest, AKeyUnderWhichNothingSurvivedHasNothingToPin) {
  for (const int xblock : {64, 128, 256}) {
    for (const int vec : {1, 4}) {
      server_.profiler().RejectOnCheck(absl::StrCat("XBLOCK=", xblock, " VEC=", vec),
                                       {.kind = RejectionKind::kTimeout});
    }
  }
  EXPECT_FALSE(Tune("").ok());
  const grpc::Status status = Pin(key_, "");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("tune it first"));
}

// A timeout says something about a moment, and the config is pinned: it answers, and says so.
TEST_F(PinsTest, APinnedConfigThatTimedOutSinceIsListedWithItsRejection) {
  ASSERT_TRUE(Tune("").ok());
  ASSERT_TRUE(Pin(key_, "XBLOCK=128 VEC=1").ok());
  Measurement rejected;
  rejected.config = *Config::Parse("XBLOCK=128 VEC=1");
  rejected.rejection = Rejection{.kind = RejectionKind::kTimeout};
  ASSERT_TRUE(server_.store().PutMeasurement(key_, rejected).ok());
  EXPECT_EQ(Show().summary().winner().config(), "XBLOCK=128 VEC=1");
  EXPECT_EQ(Show().summary().winner().rejection().kind(), "timeout");
  EXPECT_EQ(Get().kernel().variants(0).config(), "XBLOCK=128 VEC=1");
}

TEST_F(PinsTest, WatchersAreToldOfPinsOnce) {
  ASSERT_TRUE(Tune("").ok());
  grpc::ClientContext context;
  auto reader = client_->Watch(&context, {});
  v1::WatchEvent event;
  ASSERT_TRUE(reader->Read(&event));
  v1::PinResponse pinned;
  ASSERT_TRUE(Pin(key_, "XBLOCK=128 VEC=1", &pinned).ok());
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.key(), key_);
  EXPECT_EQ(event.generation(), pinned.pin().generation());
  v1::UnpinResponse unpinned;
  ASSERT_TRUE(Unpin(key_, &unpinned).ok());
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.generation(), unpinned.generation());
  context.TryCancel();
}

TEST_F(PinsTest, ErrorsNameTheFieldAndWhatWouldBeRight) {
  ASSERT_TRUE(Tune("").ok());
  const auto expect = [](const grpc::Status& status, grpc::StatusCode code, const auto& text) {
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), text);
  };
  expect(Pin("abc", ""), grpc::StatusCode::INVALID_ARGUMENT, HasSubstr("key: 'abc'"));
  expect(Pin("ffffff", ""), grpc::StatusCode::NOT_FOUND, HasSubstr("ListTunings"));
  expect(Pin(key_, "XBLOCK=x"), grpc::StatusCode::INVALID_ARGUMENT, HasSubstr("config:"));
  expect(Pin(key_, "XBLOCK=1 VEC=1"), grpc::StatusCode::FAILED_PRECONDITION,
         AllOf(HasSubstr("never measured"), HasSubstr("'XBLOCK=256 VEC=4' (1000 ns)")));
  expect(Pin(key_, "XBLOCK=64 VEC=4"), grpc::StatusCode::FAILED_PRECONDITION,
         HasSubstr("rejected: timeout"));
  v1::UnpinResponse unpinned;
  expect(Unpin(key_, &unpinned), grpc::StatusCode::FAILED_PRECONDITION, HasSubstr("not pinned"));
  grpc::ClientContext context;
  v1::PinRequest request;
  request.set_key(key_);
  request.set_reason(std::string(1001, 'r'));
  v1::PinResponse response;
  expect(client_->Pin(&context, request, &response), grpc::StatusCode::INVALID_ARGUMENT,
         AllOf(HasSubstr("reason"), HasSubstr("1000")));
  grpc::ClientContext again;
  request.set_reason("red \x1b[31mletters");
  expect(client_->Pin(&again, request, &response), grpc::StatusCode::INVALID_ARGUMENT,
         AllOf(HasSubstr("reason"), HasSubstr("0x1b at 4")));
}

TEST_F(PinsTest, SameBitsIsAnotherQueryOverTheSameMeasurements) {
  server_.profiler().SetOutputHash("XBLOCK=256 VEC=4", "other bits");
  v1::TuneFinished finished;
  ASSERT_TRUE(Tune("numerics: SAME_BITS_AS_DEFAULT", &finished).ok());
  EXPECT_EQ(finished.winner().config(), "XBLOCK=128 VEC=1");
  EXPECT_EQ(finished.kernel().variants(0).config(), "XBLOCK=128 VEC=1");
  EXPECT_EQ(finished.measured(), 5);
  EXPECT_EQ(Get("numerics: SAME_BITS_AS_DEFAULT").kernel().variants(0).config(),
            "XBLOCK=128 VEC=1");
  EXPECT_EQ(Get().kernel().variants(0).config(), "XBLOCK=256 VEC=4");
  const v1::GetTuningResponse shown = Show();
  EXPECT_EQ(shown.summary().same_bits_config(), "XBLOCK=128 VEC=1");
  EXPECT_EQ(shown.summary().winner().output_sha256(), "other bits");
  ASSERT_TRUE(Tune("", &finished).ok());
  EXPECT_EQ(finished.measured(), 0);
  EXPECT_EQ(finished.winner().config(), "XBLOCK=256 VEC=4");
}

TEST_F(PinsTest, ATuneForTheDefaultsBitsSaysWhyNothingCanHaveThem) {
  server_.profiler().SetIrreproducible("XBLOCK=64 VEC=1");
  const grpc::Status status = Tune("numerics: SAME_BITS_AS_DEFAULT");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("numerics"), HasSubstr("XBLOCK=64 VEC=1"), HasSubstr("same inputs")));
  const v1::GetTuningResponse shown = Show();
  for (const v1::MeasurementInfo& measurement : shown.measurements()) {
    EXPECT_EQ(measurement.irreproducible(), measurement.config() == "XBLOCK=64 VEC=1");
  }
  EXPECT_EQ(Get().kernel().variants(0).config(), "XBLOCK=256 VEC=4");
}

TEST_F(PinsTest, InvalidatesByTemplateDeviceDriverAndCompiler) {
  ASSERT_TRUE(Tune("").ok());
  ASSERT_TRUE(Pin(key_, "XBLOCK=128 VEC=1").ok());
  const v1::GetTuningResponse before = Show();
  const std::string driver = before.summary().winner().driver();
  const std::string build = before.summary().winner().compiler_build();
  const std::string device = before.summary().device_key().substr(0, 10);
  v1::InvalidateResponse response;
  // Six were measured or rejected; one is pinned, one was rejected before it had a build of its
  // own.
  for (const std::string& filter :
       {std::string("template_name: 'copy'"), absl::StrCat("device_key: '", device, "'"),
        absl::StrCat("driver: '", driver, "'"),
        absl::StrCat("template_name: 'copy' driver: '", driver, "'")}) {
    const grpc::Status status = Invalidate(absl::StrCat("dry_run: true ", filter), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.measurements(), 5) << filter;
    EXPECT_EQ(response.tunings(), 1);
    EXPECT_EQ(response.pins_spared(), 1);
    EXPECT_EQ(response.note(), "");
  }
  ASSERT_TRUE(
      Invalidate(absl::StrCat("dry_run: true compiler_build: '", build, "'"), &response).ok());
  EXPECT_GE(response.measurements(), 4);
  EXPECT_EQ(Show().measurements(0).stale_reason(), "");

  ASSERT_TRUE(Invalidate("template_name: 'copy' reason: 'bad cooling'", &response).ok());
  EXPECT_EQ(response.measurements(), 5);
  const v1::GetTuningResponse shown = Show();
  for (const v1::MeasurementInfo& measurement : shown.measurements()) {
    const bool pinned = measurement.config() == "XBLOCK=128 VEC=1";
    EXPECT_EQ(measurement.stale_reason().empty(), pinned) << measurement.config();
    EXPECT_THAT(measurement.stale_reason(), pinned ? HasSubstr("") : HasSubstr("bad cooling"));
  }
  EXPECT_FALSE(Get().stale()) << "the pin was spared";
  v1::UnpinResponse unpinned;
  ASSERT_TRUE(Unpin(key_, &unpinned).ok());
  EXPECT_THAT(Get().stale_reason(), HasSubstr("bad cooling"));
  ASSERT_TRUE(Invalidate("template_name: 'copy'", &response).ok());
  EXPECT_EQ(response.measurements(), 1) << "what is left: the one that was pinned";

  v1::TuneFinished finished;
  ASSERT_TRUE(Tune("", &finished).ok());
  EXPECT_EQ(finished.measured(), 5);
  EXPECT_FALSE(Get().stale());
}

TEST_F(PinsTest, InvalidateSaysWhatThereIsWhenNothingMatches) {
  ASSERT_TRUE(Tune("").ok());
  v1::InvalidateResponse response;
  ASSERT_TRUE(Invalidate("driver: '1.2.3'", &response).ok());
  EXPECT_EQ(response.measurements(), 0);
  EXPECT_THAT(response.note(),
              AllOf(HasSubstr("templates: copy"),
                    HasSubstr(absl::StrCat("drivers: ", FakeDeviceInfo().driver))));
  EXPECT_THAT(Invalidate("", &response).error_message(),
              HasSubstr("template_name, device_key, driver and compiler_build"));
  EXPECT_THAT(Invalidate("device_key: 'H200'", &response).error_message(),
              HasSubstr("device_key: 'H200'"));
  const grpc::Status no_template = Invalidate("template_name: 'copi'", &response);
  EXPECT_EQ(no_template.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(no_template.error_message(), HasSubstr("did you mean copy?"));
  const grpc::Status unknown = Invalidate("device_key: '012345678'", &response);
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.error_message(), HasSubstr(FakeDeviceInfo().fingerprint.Key()));
}

}  // namespace
}  // namespace hone
