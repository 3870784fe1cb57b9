// Watch over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/testing/test_server.h"

namespace hone {
namespace {

class WatchTest : public ::testing::Test {
 protected:
  std::string Tune(int64_t n, bool force = false) {
    grpc::ClientContext context;
    v1::TuneRequest request;
    request.mutable_template_()->set_name("copy");
    (*request.mutable_params())["n"].set_integer(n);
    request.set_force(force);
    auto reader = client_->Tune(&context, request);
    v1::TuneEvent event;
    std::string key;
    while (reader->Read(&event)) {
      if (event.has_started()) key = event.started().key();
    }
    EXPECT_TRUE(reader->Finish().ok());
    return key;
  }

  TestServer server_;
  std::unique_ptr<v1::KernelService::Stub> client_ = server_.Client();
};

TEST_F(WatchTest, TellsThePresentGenerationsThenNewOnes) {
  const std::string first = Tune(64);
  grpc::ClientContext context;
  auto reader = client_->Watch(&context, {});
  v1::WatchEvent event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.key(), first);
  EXPECT_EQ(event.template_name(), "copy");
  const uint64_t before = event.generation();
  const std::string second = Tune(128);
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.key(), second);
  EXPECT_GT(event.generation(), before);
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(WatchTest, OtherTemplatesAreLeftOut) {
  v1::RegisterTemplateRequest registration;
  *registration.mutable_template_() = CopyTemplate("mine");
  v1::RegisterTemplateResponse registered;
  grpc::ClientContext register_context;
  ASSERT_TRUE(client_->RegisterTemplate(&register_context, registration, &registered).ok());
  Tune(64);
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_template_name("mine");
  auto reader = client_->Watch(&context, request);
  // The first event that this client sees is one of its own template.
  grpc::ClientContext tune_context;
  v1::TuneRequest tune;
  tune.mutable_template_()->set_name("mine");
  (*tune.mutable_params())["n"].set_integer(64);
  auto tuning = client_->Tune(&tune_context, tune);
  v1::TuneEvent tune_event;
  while (tuning->Read(&tune_event)) {
  }
  ASSERT_TRUE(tuning->Finish().ok());
  v1::WatchEvent event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.template_name(), "mine");
  context.TryCancel();
}

TEST_F(WatchTest, ATemplateThatNobodyKnowsIsNotFound) {
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_template_name("copi");
  auto reader = client_->Watch(&context, request);
  v1::WatchEvent event;
  EXPECT_FALSE(reader->Read(&event));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("did you mean copy?"));
}

TEST_F(WatchTest, DrainingEndsTheStreamAtOnce) {
  grpc::ClientContext context;
  const std::string key = Tune(64);
  auto reader = client_->Watch(&context, {});
  v1::WatchEvent event;
  ASSERT_TRUE(reader->Read(&event));
  std::thread drain([&] { server_.server().Drain(absl::Seconds(30)); });
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  drain.join();
}

}  // namespace
}  // namespace hone
