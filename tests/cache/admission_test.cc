// Who is served first when more is asked for than can be done, and what becomes of unwanted work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/base/error_info.h"
#include "runtime/cache/flights.h"
#include "tests/cache/kernel_cache_fixture.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A cache that compiles one thing at a time and lets four wait.
class AdmissionTest : public KernelCacheFixture {
 protected:
  AdmissionTest() {
    cache_.reset();
    cache_ = KernelCache::Create(caching_.get(), &store_, {}, {.threads = 1, .queue_max = 4});
  }
  ~AdmissionTest() override { compiler_.Unblock(); }

  // What became of one request; its name is in the order of answers, too.
  struct Asked {
    std::string name;
    Notification answered;
    absl::Status status;
    KernelCache::Leave leave;
  };

  // Every name is a template of its own.
  KernelRequest RequestFor(const std::string& name, Policy policy = Policy::kBestAvailable) {
    KernelRequest request = Request(kN, policy);
    request.kernel_template = SimpleTemplate({.body = name});
    request.target.architecture = "sm_90a";
    return request;
  }
  std::shared_ptr<Asked> Ask(const std::string& name, uint64_t client,
                             Policy policy = Policy::kBestAvailable,
                             absl::Duration max_wait = absl::Minutes(5)) {
    auto asked = std::make_shared<Asked>();
    asked->name = name;
    KernelRequest request = RequestFor(name, policy);
    request.client = client;
    request.max_wait = max_wait;
    asked->leave = cache_->Get(request, [this, asked](const absl::StatusOr<KernelAnswer>& answer) {
      asked->status = answer.status();
      if (answer.ok()) {
        MutexLock lock(&mutex_);
        order_.push_back(asked->name);
      }
      asked->answered.Notify();
    });
    return asked;
  }
  // The same, once it waits for the one thread (or was refused).
  std::shared_ptr<Asked> AskAndAwaitQueued(const std::string& name, uint64_t client) {
    const int64_t waiting = Counter("waiting_builds");
    auto asked = Ask(name, client);
    while (Counter("waiting_builds") == waiting && !asked->answered.HasBeenNotified()) {
      std::this_thread::yield();
    }
    return asked;
  }
  // Takes the one thread until the compiler is unblocked.
  std::shared_ptr<Asked> OccupyTheThread() {
    compiler_.Block();
    auto asked = Ask("1", 99);
    compiler_.WaitForBlocked(1);
    return asked;
  }
  std::vector<std::string> order() {
    MutexLock lock(&mutex_);
    return order_;
  }

  Mutex mutex_;
  std::vector<std::string> order_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(AdmissionTest, OneClientGetsHalfOfTheQueueAndIsToldWhenToComeBack) {
  const auto running = OccupyTheThread();
  const auto first = AskAndAwaitQueued("10", 1), second = AskAndAwaitQueued("11", 1);
  const auto third = AskAndAwaitQueued("12", 1);
  ASSERT_TRUE(third->answered.HasBeenNotified()) << "at once";
  EXPECT_THAT(third->status, StatusIs(absl::StatusCode::kResourceExhausted,
                                      HasSubstr("2 of them of this connection")));
  const auto info = ErrorInfoOf(third->status);
  EXPECT_EQ(info->reason, "QUEUE_FULL");
  EXPECT_GT(info->retry_after_ms, 0);
  EXPECT_EQ(Counter("refused_full"), 1);
  const auto other = AskAndAwaitQueued("20", 2);
  EXPECT_FALSE(other->answered.HasBeenNotified()) << "another client still finds room";
  compiler_.Unblock();
  for (const auto& asked : {running, first, second, other}) {
    asked->answered.WaitForNotification();
    EXPECT_THAT(asked->status, IsOk()) << asked->name;
  }
  EXPECT_THAT(order(), ElementsAre("1", "10", "20", "11")) << "clients take turns";
  EXPECT_THAT(cache_->GetBlocking(RequestFor("12")), IsOk())
      << "what was refused is served when it comes back";
}

// scenario P47
TEST_F(AdmissionTest, CallersWhoWaitGoBeforeBuildsForTheNextCall) {
  const auto running = OccupyTheThread();
  const auto no_wait = Ask("30", 1, Policy::kNoWait);
  no_wait->answered.WaitForNotification();
  EXPECT_THAT(no_wait->status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("NO_WAIT")));
  while (Counter("waiting_builds") < 1) std::this_thread::yield();
  Ask("30", 1, Policy::kNoWait)->answered.WaitForNotification();
  const auto waits = AskAndAwaitQueued("31", 2);
  EXPECT_EQ(Counter("waiting_builds"), 2) << "the build for the next call waits once";
  compiler_.Unblock();
  waits->answered.WaitForNotification();
  while (!cache_->GetBlocking(RequestFor("30", Policy::kNoWait)).ok()) std::this_thread::yield();
  const std::vector<Program> programs = compiler_.programs();
  ASSERT_EQ(programs.size(), 3u);
  EXPECT_THAT(programs[1].source, HasSubstr("31"));
  EXPECT_THAT(programs[2].source, HasSubstr("30"));
}

// scenario P41
TEST_F(AdmissionTest, QueuedWorkThatEveryoneHasLeftIsDropped) {
  const auto running = OccupyTheThread();
  const auto left = AskAndAwaitQueued("40", 1), stays = AskAndAwaitQueued("41", 2);
  const auto joined = Ask("41", 3);
  while (Counter("joined_waiters") < 1) std::this_thread::yield();
  left->leave();
  ASSERT_TRUE(left->answered.HasBeenNotified());
  EXPECT_THAT(left->status, StatusIs(absl::StatusCode::kCancelled, HasSubstr("gone")));
  EXPECT_EQ(Counter("dropped_unwanted"), 1);
  // Its place is free, without the thread having come to it. Not in the same instant: work that is
  // just being queued is taken out by whoever queues it.
  while (Counter("waiting_builds") > 1) std::this_thread::yield();
  stays->leave();
  EXPECT_EQ(Counter("dropped_unwanted"), 1) << "another caller wants it";
  compiler_.Unblock();
  joined->answered.WaitForNotification();
  EXPECT_THAT(joined->status, IsOk());
  EXPECT_EQ(compiler_.calls(), 2) << "nothing was compiled for the one who left";
  left->leave();  // once more is nothing
}

// The thread that runs the first piece of work may have queued the second before the caller's
// thread comes to say how the first is taken back.
TEST(FlightsTest, WhatIsTakenBackIsTheLatestPieceWhoeverIsFaster) {
  Flights flights;
  std::vector<std::string> unqueued;
  const auto unqueue = [&](const std::string& piece) {
    return [&unqueued, piece] { unqueued.push_back(piece); };
  };
  const auto waiter = std::make_shared<Waiter>([](const absl::StatusOr<KernelAnswer>&) {});
  ASSERT_TRUE(flights.Join("f", {}, Policy::kBestAvailable, waiter));
  const int64_t look = flights.NewStage("f");
  const int64_t build = flights.NewStage("f");
  flights.SetUnqueue("f", build, unqueue("build"));
  flights.SetUnqueue("f", look, unqueue("look"));
  EXPECT_THAT(unqueued, ElementsAre("look")) << "which finds nothing in the queue";
  flights.Leave("f", waiter);
  EXPECT_THAT(unqueued, ElementsAre("look", "build"));
  // The name flies again; what belonged to the first flight is none of its business.
  ASSERT_TRUE(flights.Join("f", {}, Policy::kBestAvailable, waiter));
  flights.SetUnqueue("f", build, unqueue("late"));
  EXPECT_THAT(unqueued, ElementsAre("look", "build", "late"));
}

// scenario P41
TEST_F(AdmissionTest, WorkThatHasBegunGoesOnWithoutItsCallers) {
  const auto running = OccupyTheThread();
  running->leave();
  EXPECT_THAT(running->status, StatusIs(absl::StatusCode::kCancelled, HasSubstr("gone")));
  const auto retry = Ask("1", 99);
  compiler_.Unblock();
  retry->answered.WaitForNotification();
  EXPECT_THAT(retry->status, IsOk());
  EXPECT_EQ(compiler_.calls(), 1) << "the retry got what its first try had begun";
  EXPECT_EQ(Counter("dropped_unwanted"), 0);
}

// scenario P41: else callers who wait for less time than the queue takes would never be served.
TEST_F(AdmissionTest, WorkOfACallerWhoWasToldToComeBackGoesOn) {
  const auto running = OccupyTheThread();
  const auto impatient = Ask("50", 1, Policy::kBestAvailable, absl::Milliseconds(20));
  impatient->answered.WaitForNotification();
  EXPECT_THAT(impatient->status,
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("the work goes on")));
  const auto again = Ask("50", 1);
  while (Counter("joined_waiters") < 1) std::this_thread::yield();
  again->leave();
  EXPECT_EQ(Counter("dropped_unwanted"), 0);
  compiler_.Unblock();
  running->answered.WaitForNotification();
  while (compiler_.calls() < 2) std::this_thread::yield();
}

TEST_F(AdmissionTest, AKnownHitHoldsUntilItsAnswerChanges) {
  Start();
  Get(kN);
  const auto hit = cache_->FindHit(Request(kN));
  ASSERT_NE(hit, nullptr);
  const int64_t before = Counter("memory_hits");
  EXPECT_TRUE(cache_->Again(*hit));
  EXPECT_EQ(Counter("memory_hits"), before + 1);
  Tune(kN);
  EXPECT_FALSE(cache_->Again(*hit)) << "a winner answers now";
  EXPECT_EQ(cache_->FindHit(Request(kN)), nullptr) << "not in memory yet";
}

}  // namespace
}  // namespace hone
