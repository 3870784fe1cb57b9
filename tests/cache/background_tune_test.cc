// When tunes run that nobody waits for, and how they keep out of the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "runtime/base/mutex.h"
#include "runtime/base/notification.h"
#include "runtime/cache/kernel_cache.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/fake_profiler.h"
#include "tests/testing/in_memory_store.h"
#include "tests/testing/simple_template.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::HasSubstr;

constexpr int64_t kTunedN = int64_t{1} << 20;

class BackgroundTuneTest : public testing::Test {
 protected:
  void Start(KernelCache::Options options) {
    // The lane looks again whenever it has a moment.
    options.activity_interval = absl::ZeroDuration();
    auto profiler = std::make_unique<FakeProfiler>();
    profiler_ = profiler.get();
    std::vector<KernelCache::DeviceLane> lanes;
    lanes.push_back({.info = FakeDeviceInfo(), .profiler = std::move(profiler), .activity = [this] {
                       ++looks_;
                       return absl::StatusOr<DeviceActivity>(
                           DeviceActivity{.processes = processes_});
                     }});
    cache_ = KernelCache::Create(&caching_, &store_, std::move(lanes), options);
    cache_->Watch("", Numerics::kWithinTolerance,
                  [this](const std::string&, const std::string&, uint64_t) {
                    MutexLock lock(&mutex_);
                    ++generations_;
                  });
  }
  KernelRequest Request(Policy policy = Policy::kBestAvailable) const {
    KernelRequest request;
    request.kernel_template = template_;
    request.values = {{"n", kTunedN}};
    request.policy = policy;
    return request;
  }
  AnswerSource Get(Policy policy = Policy::kBestAvailable) {
    const auto answer = cache_->GetBlocking(Request(policy));
    EXPECT_THAT(answer, IsOk());
    return answer.ok() ? answer->source : AnswerSource::kNearest;
  }
  void AwaitWinner() {
    MutexLock lock(&mutex_);
    const auto any = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return generations_ > 0; };
    mutex_.Await(absl::Condition(&any));
  }
  void AwaitCounter(const std::string& name, int64_t value) {
    while (cache_->Counters().at(name) < value) absl::SleepFor(absl::Milliseconds(1));
  }
  void AwaitLooks(int more) {
    const int wanted = looks_ + more;
    while (looks_ < wanted) absl::SleepFor(absl::Milliseconds(1));
  }

  FakeCompiler compiler_;
  InMemoryStore store_;
  CachingCompiler caching_{&compiler_, &store_};
  KernelTemplatePtr template_ = SimpleTemplate();
  std::atomic<int> processes_{0};  // on the device, ours included
  std::atomic<int> looks_{0};
  Mutex mutex_;
  int generations_ ABSL_GUARDED_BY(mutex_) = 0;
  FakeProfiler* profiler_ = nullptr;  // the cache's
  std::unique_ptr<KernelCache> cache_;
};

TEST_F(BackgroundTuneTest, ByDefaultAMissLeavesTheDeviceAlone) {
  Start({});
  EXPECT_EQ(Get(), AnswerSource::kDefault);
  cache_->Shutdown();
  EXPECT_EQ(profiler_->begins(), 0);
  EXPECT_EQ(looks_, 0);
}

TEST_F(BackgroundTuneTest, AlwaysTunesWhatMissed) {
  Start({.tune_when = TuneWhen::kAlways});
  Get();  // the default, unless the tune is faster
  AwaitWinner();
  EXPECT_EQ(Get(), AnswerSource::kTuned);
  EXPECT_EQ(cache_->Counters().at("background_tunes"), 1);
}

TEST_F(BackgroundTuneTest, FrozenRequestsLeadToNoTune) {
  Start({.tune_when = TuneWhen::kAlways});
  EXPECT_THAT(cache_->GetBlocking(Request(Policy::kFrozen)),
              StatusIs(absl::StatusCode::kNotFound, testing::_));
  cache_->Shutdown();
  EXPECT_EQ(profiler_->begins(), 0);
}

TEST_F(BackgroundTuneTest, IdleWaitsUntilNobodyElseUsesTheDevice) {
  processes_ = 1;
  Start({.tune_when = TuneWhen::kIdle});
  EXPECT_EQ(Get(), AnswerSource::kDefault);
  AwaitLooks(3);
  EXPECT_EQ(profiler_->begins(), 0);
  processes_ = 0;
  AwaitWinner();
  EXPECT_EQ(Get(), AnswerSource::kTuned);
}

TEST_F(BackgroundTuneTest, ATuneNobodyWaitsForStopsWhenSomebodyComesAndGoesOnLater) {
  Start({.tune_when = TuneWhen::kIdle});
  std::atomic<bool> interrupted{false};
  profiler_->OnCheck([&](const ProfileCandidate&) {
    // From the third candidate on, until the lane has let go.
    if (profiler_->checks() == 2 && !interrupted) processes_ = 2;
  });
  Get();
  AwaitCounter("interrupted_tunes", 1);
  interrupted = true;
  while (profiler_->releases() == 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(profiler_->loaded(), 0);
  const int before = profiler_->checks();
  EXPECT_LT(before, 6);
  processes_ = 0;
  AwaitWinner();
  EXPECT_EQ(Get(), AnswerSource::kTuned);
  // All six; those measured before the interruption race again, because no winner was chosen.
  EXPECT_LE(profiler_->checks(), 6 + before);
}

TEST_F(BackgroundTuneTest, WhoAsksForATuneThatWasPutOffGetsItAtOnce) {
  processes_ = 1;
  Start({.tune_when = TuneWhen::kIdle});
  EXPECT_EQ(Get(), AnswerSource::kDefault);
  AwaitLooks(1);
  bool joined = false;
  const auto run = cache_->Tune(template_, {{"n", kTunedN}}, {}, {}, &joined);
  ASSERT_THAT(run, IsOk());
  EXPECT_TRUE(joined);
  Notification finished;
  (*run)->Subscribe([&](const TuneRun::Event& event) {
    if (event.kind == TuneRun::Event::Kind::kFinished) finished.Notify();
  });
  finished.WaitForNotification();
  EXPECT_EQ(Get(), AnswerSource::kTuned);
  EXPECT_EQ(cache_->Counters().at("background_tunes"), 0);
}

TEST_F(BackgroundTuneTest, SwitchedOffItRefusesToTuneAndStillServes) {
  Start({.tune_when = TuneWhen::kNever});
  bool joined = false;
  const auto run = cache_->Tune(template_, {{"n", kTunedN}}, {}, {}, &joined);
  EXPECT_THAT(run, StatusIs(absl::StatusCode::kFailedPrecondition, testing::_));
  EXPECT_THAT(run.status().message(), HasSubstr("tune-when"));
  EXPECT_EQ(Get(Policy::kWaitTuned), AnswerSource::kDefault);
  EXPECT_EQ(profiler_->begins(), 0);
}

// scenario P29
TEST_F(BackgroundTuneTest, ATuneMayTakeNoMoreMemoryThanItsCap) {
  Start({.tune_when = TuneWhen::kAlways, .tune_memory_bytes_max = 123456789});
  std::atomic<int64_t> bytes_max{0};
  profiler_->OnBegin([&](const ProfileProblem& problem) { bytes_max = problem.memory_bytes_max; });
  Get();
  AwaitWinner();
  EXPECT_EQ(bytes_max, 123456789);
  cache_->Shutdown();
}

}  // namespace
}  // namespace hone
