// Kernels through the real daemon: compile, tune, keep, serve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <set>

#include "google/protobuf/text_format.h"
#include "tests/scenarios/daemon_process.h"

namespace hone {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

template <class Message>
Message FromText(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

class DaemonKernelsTest : public ::testing::Test {
 protected:
  DaemonKernelsTest() : directory_(*TemporaryDirectory::Create("/tmp", "hone")) { Restart(); }

  void Restart() {
    daemon_.reset();
    auto started = DaemonProcess::Start(directory_.path());
    ASSERT_TRUE(started.ok()) << started.status();
    daemon_ = *std::move(started);
  }

  // Three candidates keep it short: compiles dominate.
  v1::TuneFinished TuneCopy() {
    v1::TuneFinished finished;
    grpc::ClientContext context;
    auto client = daemon_->Client();
    auto reader = client->Tune(
        &context, FromText<v1::TuneRequest>(
                      "template { name: 'copy_1d' } params { key: 'T' value { text: 'F32' } } "
                      "params { key: 'n' value { integer: 65536 } } "
                      "configs: 'XBLOCK=256 VEC=1 ITEMS=4 CACHE=0 BLOCKS_PER_SM=0 STAGES=0' "
                      "configs: 'XBLOCK=256 VEC=4 ITEMS=1 CACHE=0 BLOCKS_PER_SM=0 STAGES=0' "
                      "configs: 'XBLOCK=64 VEC=4 ITEMS=4 CACHE=0 BLOCKS_PER_SM=0 STAGES=0'"));
    v1::TuneEvent event;
    while (reader->Read(&event)) {
      if (event.has_finished()) finished = event.finished();
    }
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message() << "\n" << daemon_->Log();
    return finished;
  }

  grpc::Status Get(const std::string& more, v1::GetKernelResponse* response) {
    grpc::ClientContext context;
    auto request = FromText<v1::GetKernelRequest>(
        "template { name: 'copy_1d' } params { key: 'T' value { text: 'F32' } } "
        "params { key: 'n' value { integer: 65536 } }");
    request.MergeFrom(FromText<v1::GetKernelRequest>(more));
    return daemon_->Client()->GetKernel(&context, request, response);
  }

  TemporaryDirectory directory_;
  std::unique_ptr<DaemonProcess> daemon_;
};

// Scenario accept 2 (P30): what was tuned survives the hardest end.
TEST_F(DaemonKernelsTest, AfterKillMinusNineTheStoreAnswersWithoutWork) {
  const v1::TuneFinished tuned = TuneCopy();
  EXPECT_TRUE(tuned.winner().verified());
  EXPECT_EQ(tuned.measured(), 3);
  EXPECT_GT(tuned.winner().gb_per_s(), 0);
  v1::GetKernelResponse before;
  ASSERT_TRUE(Get("", &before).ok());
  daemon_->Kill();
  Restart();

  v1::GetKernelResponse after;
  const grpc::Status status = Get("", &after);
  ASSERT_TRUE(status.ok()) << status.error_message() << "\n" << daemon_->Log();
  EXPECT_THAT(after.source(), AnyOf(v1::TUNED, v1::BUCKET));
  EXPECT_EQ(after.kernel().variants(0).config(), tuned.winner().config());
  EXPECT_EQ(after.kernel().variants(0).artifact().sha256(),
            before.kernel().variants(0).artifact().sha256());
  EXPECT_EQ(after.kernel().generation(), before.kernel().generation());
  EXPECT_FALSE(after.kernel().variants(0).measurement().verified_sizes().empty());
  const v1::GetStatusResponse state = daemon_->Status();
  EXPECT_EQ(state.counters().at("compiles"), 0);
  EXPECT_EQ(state.counters().at("measurements"), 0);
  EXPECT_EQ(state.counters().at("store_hits"), 1);

  ASSERT_TRUE(Get("", &after).ok());
  EXPECT_EQ(daemon_->Status().counters().at("memory_hits"), 1) << "the second is a hit";
  EXPECT_EQ(TuneCopy().measured(), 0) << "the same tune again measures nothing";
}

// scenario P23
TEST_F(DaemonKernelsTest, APinSurvivesAKillAndIsSparedByAnInvalidation) {
  const v1::TuneFinished tuned = TuneCopy();
  const std::string chosen = tuned.runner_up().config();
  v1::GetKernelResponse served;
  ASSERT_TRUE(Get("", &served).ok());
  {
    grpc::ClientContext context;
    v1::PinRequest request;
    request.set_key(served.key());
    request.set_config(chosen);
    v1::PinResponse response;
    const grpc::Status status = daemon_->Client()->Pin(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  daemon_->Kill();
  Restart();
  ASSERT_TRUE(Get("policy: FROZEN", &served).ok());
  EXPECT_EQ(served.kernel().variants(0).config(), chosen);
  EXPECT_EQ(served.pin().config(), chosen);

  daemon_->WaitForEngine();
  grpc::ClientContext context;
  v1::InvalidateResponse invalidated;
  const grpc::Status status = daemon_->Client()->Invalidate(
      &context, FromText<v1::InvalidateRequest>("template_name: 'copy_1d' driver: 'cpu'"),
      &invalidated);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_GE(invalidated.measurements(), 2);
  EXPECT_EQ(invalidated.pins_spared(), 1);
  const v1::TuneFinished again = TuneCopy();
  EXPECT_GE(again.measured(), 2) << "what was invalidated, and the incumbent beside it";
  EXPECT_EQ(again.pin().config(), chosen);
  ASSERT_TRUE(Get("", &served).ok());
  EXPECT_EQ(served.kernel().variants(0).config(), chosen);
}

// Scenario accept 7: a machine without a driver compiles for any architecture and tunes for none.
TEST_F(DaemonKernelsTest, WithoutADriverACubinIsServedAndATuneRefused) {
  const v1::GetStatusResponse state = daemon_->WaitForEngine();
  bool nvrtc = false;
  for (const auto& compiler : state.compilers()) {
    nvrtc |= compiler.kind() == "nvrtc" && compiler.available();
  }
  if (!nvrtc) GTEST_SKIP() << "NVRTC is not installed";
  v1::GetKernelResponse response;
  const grpc::Status status = Get("target { architecture: 'sm_90a' }", &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.kernel().variants(0).artifact().format(), "CUBIN");
  EXPECT_THAT(response.kernel().variants(0).artifact_bytes().substr(1, 3), "ELF");
  EXPECT_THAT(response.kernel().variants(0).artifact().builder(), HasSubstr("nvrtc"));

  grpc::ClientContext context;
  auto client = daemon_->Client();
  auto reader = client->Tune(
      &context, FromText<v1::TuneRequest>("template { name: 'copy_1d' } "
                                          "params { key: 'n' value { integer: 65536 } } "
                                          "target { architecture: 'sm_90a' }"));
  v1::TuneEvent event;
  while (reader->Read(&event)) {
  }
  const grpc::Status refused = reader->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr("sm_90a"));
}

TEST_F(DaemonKernelsTest, TheWholeCatalogIsListedWithoutProblems) {
  grpc::ClientContext context;
  v1::ListTemplatesResponse response;
  ASSERT_TRUE(daemon_->Client()->ListTemplates(&context, {}, &response).ok());
  for (const auto& problem : response.problems()) {
    ADD_FAILURE() << problem.location() << ": " << problem.message();
  }
  std::set<std::string> names;
  for (const auto& entry : response.templates()) names.insert(entry.name());
  EXPECT_THAT(names, testing::Contains("copy_1d"));
}

// scenario P53: a tune under way ends at its next candidate, and what it measured is kept.
TEST_F(DaemonKernelsTest, SigtermDuringATuneCommitsWhatWasMeasured) {
  grpc::ClientContext context;
  auto client = daemon_->Client();
  auto reader = client->Tune(
      &context, FromText<v1::TuneRequest>("template { name: 'copy_1d' } "
                                          "params { key: 'n' value { integer: 1048576 } }"));
  v1::TuneEvent event;
  std::string key;
  while (reader->Read(&event) && !event.has_candidate()) {
    if (event.has_started()) key = event.started().key();
  }
  ASSERT_THAT(key, Not(IsEmpty())) << daemon_->Log();
  daemon_->Signal(SIGTERM);
  while (reader->Read(&event)) {
  }
  reader->Finish();
  const auto ended = daemon_->Wait();
  ASSERT_TRUE(ended.has_value()) << daemon_->Log();
  EXPECT_EQ(ended->code, 0) << daemon_->Log();
  Restart();
  grpc::ClientContext get_context;
  v1::GetTuningRequest request;
  request.set_key(key);
  v1::GetTuningResponse tuning;
  ASSERT_TRUE(daemon_->Client()->GetTuning(&get_context, request, &tuning).ok());
  EXPECT_GE(tuning.measurements_size(), 1);
}

}  // namespace
}  // namespace hone
