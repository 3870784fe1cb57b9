// A tune that is killed again and again, and one whose template grows: through the real daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "google/protobuf/text_format.h"
#include "tests/scenarios/daemon_process.h"

namespace hone {
namespace {

using ::testing::IsSubsetOf;

template <class Message>
Message FromText(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

constexpr char kTune[] =
    "template { name: 'copy_1d' } params { key: 'T' value { text: 'F32' } } "
    "params { key: 'n' value { integer: 4096 } }";

class ResumeTest : public ::testing::Test {
 protected:
  ResumeTest() : directory_(*TemporaryDirectory::Create("/tmp", "hone")) {}

  void Start(const std::string& kernels = "") {
    daemon_.reset();
    auto started = DaemonProcess::Start(
        directory_.path(), {.arguments = {"--compile-timeout", "5m"}, .kernels = kernels});
    ASSERT_TRUE(started.ok()) << started.status();
    daemon_ = *std::move(started);
  }

  // What one run of the tune said before its end.
  struct Run {
    v1::TuneStarted started;
    std::vector<std::string>
        timed;  // configs in the order of their first time, constraints left out
    std::optional<v1::TuneFinished> finished;
  };
  // Follows the tune; after `events` timed or rejected candidates and then `delay`, the daemon is
  // killed. `events` < 0: never.
  Run Tune(int events, absl::Duration delay) {
    Run run;
    grpc::ClientContext context;
    auto client = daemon_->Client();
    auto reader = client->Tune(&context, FromText<v1::TuneRequest>(kTune));
    std::thread killer;
    v1::TuneEvent event;
    std::set<std::string> seen;
    while (reader->Read(&event)) {
      if (event.has_started()) run.started = event.started();
      if (event.has_finished()) run.finished = event.finished();
      if (event.has_candidate() && event.candidate().rejection().kind() != "constraint" &&
          seen.insert(event.candidate().config()).second) {
        run.timed.push_back(event.candidate().config());
      }
      const bool due = events >= 0 && run.started.candidates() > 0 &&
                       static_cast<int>(run.timed.size()) >= events;
      if (due && !killer.joinable()) {
        killer = std::thread([this, delay] {
          // Where in the next candidate's life the kill falls.
          absl::SleepFor(delay);
          daemon_->Signal(SIGKILL);
        });
      }
    }
    const grpc::Status status = reader->Finish();
    if (killer.joinable()) {
      killer.join();
      daemon_->Wait();
    } else {
      EXPECT_TRUE(status.ok()) << status.error_message() << "\n" << daemon_->Log();
    }
    return run;
  }

  // Configs that have a time or a rejection of their own in the store.
  std::map<std::string, v1::MeasurementInfo> Stored(const std::string& key) {
    grpc::ClientContext context;
    v1::GetTuningRequest request;
    request.set_key(key);
    v1::GetTuningResponse tuning;
    const grpc::Status status = daemon_->Client()->GetTuning(&context, request, &tuning);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::map<std::string, v1::MeasurementInfo> stored;
    for (const v1::MeasurementInfo& measurement : tuning.measurements()) {
      if (measurement.rejection().kind() == "constraint") continue;
      stored[measurement.config()] = measurement;
    }
    return stored;
  }
  static std::set<std::string> Names(const std::map<std::string, v1::MeasurementInfo>& stored) {
    std::set<std::string> names;
    for (const auto& [config, measurement] : stored) names.insert(config);
    return names;
  }

  TemporaryDirectory directory_;
  std::unique_ptr<DaemonProcess> daemon_;
};

// scenario P30: at every resume nothing stored is measured again before all that is missing has
// been, and nothing that was told is lost.
TEST_F(ResumeTest, ATuneKilledTwelveTimesMeasuresEveryCandidateOnce) {
  std::mt19937 random(20261130);  // a fixed seed: a failure can be repeated
  std::string key;
  int64_t candidates = 0;
  std::set<std::string> before;
  int64_t measured = 0;
  int kills = 0;
  for (int kill = 0; kill < 12; ++kill) {
    SCOPED_TRACE(absl::StrCat("kill ", kill));
    ASSERT_NO_FATAL_FAILURE(Start());
    daemon_->WaitForEngine();
    const int events = static_cast<int>(random() % 3);
    const Run run = Tune(events, absl::Milliseconds(random() % 400));
    if (run.finished.has_value() || run.started.key().empty()) {
      // It came to its end, or the caller was told nothing; something may have been stored.
      if (key.empty()) continue;
      ASSERT_NO_FATAL_FAILURE(Start());
      const std::set<std::string> untold = Names(Stored(key));
      EXPECT_THAT(before, IsSubsetOf(untold));
      measured += static_cast<int64_t>(untold.size() - before.size());
      before = untold;
      continue;
    }
    ++kills;
    key = run.started.key();
    if (candidates == 0) candidates = run.started.candidates();
    EXPECT_EQ(run.started.candidates(), candidates);
    EXPECT_EQ(run.started.already_measured(), static_cast<int64_t>(before.size()));
    std::set<std::string> fresh;
    for (const std::string& config : run.timed) {
      const bool again = before.count(config) > 0;
      EXPECT_TRUE(!again || before.size() + fresh.size() == static_cast<size_t>(candidates))
          << config << " was stored and is measured again while others are missing";
      if (!again) fresh.insert(config);
    }
    ASSERT_NO_FATAL_FAILURE(Start());
    const std::set<std::string> after = Names(Stored(key));
    EXPECT_THAT(before, IsSubsetOf(after));
    EXPECT_THAT(fresh, IsSubsetOf(after)) << "what a caller was told is stored";
    measured += static_cast<int64_t>(after.size() - before.size());
    before = after;
  }
  EXPECT_GE(kills, 10) << "fell into a running tune";
  ASSERT_NO_FATAL_FAILURE(Start());
  const Run last = Tune(-1, absl::ZeroDuration());
  ASSERT_TRUE(last.finished.has_value()) << daemon_->Log();
  EXPECT_EQ(last.started.key(), key);
  EXPECT_EQ(last.started.already_measured(), static_cast<int64_t>(before.size()));
  const auto all = Stored(key);
  EXPECT_EQ(static_cast<int64_t>(all.size()), candidates);
  measured += static_cast<int64_t>(all.size() - before.size());
  EXPECT_EQ(measured, candidates) << "each was measured in one run";

  // The winner is one of the fastest, checked, and what is served.
  ASSERT_EQ(all.count(last.finished->winner().config()), 1u);
  EXPECT_TRUE(last.finished->winner().verified());
  double fastest_ns = last.finished->winner().median_ns();
  for (const auto& [config, measurement] : all) {
    if (!measurement.has_rejection()) fastest_ns = std::min(fastest_ns, measurement.median_ns());
  }
  EXPECT_LE(last.finished->winner().median_ns(), 1.5 * fastest_ns);
  grpc::ClientContext context;
  v1::GetKernelResponse served;
  ASSERT_TRUE(
      daemon_->Client()->GetKernel(&context, FromText<v1::GetKernelRequest>(kTune), &served).ok());
  EXPECT_EQ(served.source(), v1::TUNED);
  EXPECT_EQ(served.kernel().variants(0).config(), last.finished->winner().config());
  const Run again = Tune(-1, absl::ZeroDuration());
  EXPECT_EQ(again.finished->measured(), 0);
  EXPECT_EQ(again.finished->reused(), candidates);
}

TEST_F(ResumeTest, AnAddedValueMeasuresItsPointsAndTheIncumbent) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const Run first = Tune(-1, absl::ZeroDuration());
  ASSERT_TRUE(first.finished.has_value()) << daemon_->Log();

  // The same template with one more block size for the CPU.
  const std::string catalog = JoinPath(directory_.path(), "kernels");
  const std::string copy = JoinPath(catalog, "copy_1d");
  ASSERT_TRUE(MakeDirectories(copy).ok());
  const std::string kernels = std::getenv("HONE_KERNELS");
  std::filesystem::copy(JoinPath(kernels, "include"), JoinPath(catalog, "include"));
  const std::string original = JoinPath(kernels, "copy_1d");
  for (const char* name : {"template.pbtxt", "copy_1d.cu"}) {
    const auto text = ReadFile(JoinPath(original, name));
    ASSERT_TRUE(text.ok()) << text.status();
    const std::string wider =
        absl::StrReplaceAll(*text, {{"[64, 256, 1024]", "[64, 128, 256, 1024]"}});
    EXPECT_EQ(wider != *text, name == std::string("template.pbtxt"));
    ASSERT_TRUE(WriteNewFile(JoinPath(copy, name), wider).ok());
  }
  ASSERT_NO_FATAL_FAILURE(Start(catalog));
  const Run second = Tune(-1, absl::ZeroDuration());
  ASSERT_TRUE(second.finished.has_value()) << daemon_->Log();
  EXPECT_EQ(second.started.key(), first.started.key()) << "timings do not depend on the list";
  const int64_t added = second.started.candidates() - first.started.candidates();
  EXPECT_GT(added, 0);
  EXPECT_EQ(second.finished->reused(), first.started.candidates());
  int64_t fresh = 0;
  for (const std::string& config : second.timed) {
    const bool is_new = config.find("XBLOCK=128 ") != std::string::npos;
    fresh += is_new ? 1 : 0;
    EXPECT_TRUE(is_new || config == first.finished->winner().config()) << config;
  }
  EXPECT_EQ(fresh, added);
}

}  // namespace
}  // namespace hone
