#include "runtime/compile/compile_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kInteractive = CompilePriority::kInteractive;
constexpr auto kTune = CompilePriority::kTune;
constexpr auto kWarm = CompilePriority::kWarm;

void AwaitWaiting(const CompileQueue& queue, int count) {
  while (queue.waiting() < count) std::this_thread::yield();
}

// scenario P51
TEST(CompileQueueTest, HigherPriorityGoesFirstThenOrderOfArrival) {
  CompileQueue queue(1, 100);
  ASSERT_THAT(queue.Acquire(kTune), IsOk());
  Mutex mutex;
  std::vector<std::string> order;
  std::vector<std::thread> threads;
  const auto start = [&](CompilePriority priority, const std::string& name) {
    const int waiting = queue.waiting();
    threads.emplace_back([&, priority, name] {
      ASSERT_THAT(queue.Acquire(priority), IsOk());
      {
        MutexLock lock(&mutex);
        order.push_back(name);
      }
      queue.Release(priority);
    });
    AwaitWaiting(queue, waiting + 1);
  };
  start(kWarm, "warm");
  start(kTune, "tune 1");
  start(kTune, "tune 2");
  start(kInteractive, "interactive");
  queue.Release(kTune);
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(order, ElementsAre("interactive", "tune 1", "tune 2", "warm"));
}

TEST(CompileQueueTest, WhatSomebodyUrgentJoinsMovesUp) {
  CompileQueue queue(1, 100);
  ASSERT_THAT(queue.Acquire(kTune), IsOk());
  CompileUrgency urgency(kWarm);
  Mutex mutex;
  std::vector<std::string> order;
  std::vector<std::thread> threads;
  const auto start = [&](CompilePriority priority, CompileUrgency* joined,
                         const std::string& name) {
    const int waiting = queue.waiting();
    threads.emplace_back([&, priority, joined, name] {
      const auto acquired = queue.Acquire(priority, joined);
      ASSERT_THAT(acquired, IsOk());
      {
        MutexLock lock(&mutex);
        order.push_back(name);
      }
      if (joined != nullptr) {
        EXPECT_EQ(*acquired, kInteractive);
      }
      queue.Release(*acquired);
    });
    AwaitWaiting(queue, waiting + 1);
  };
  start(kWarm, &urgency, "joined");
  start(kTune, nullptr, "tune");
  urgency.Raise(kInteractive);
  urgency.Raise(kTune);  // never lowers it
  queue.Release(kTune);
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(order, ElementsAre("joined", "tune"));
}

TEST(CompileQueueTest, ASlotKeptFromWarmUpIsGivenToWarmUpThatBecameUrgent) {
  CompileQueue queue(2, 100);
  ASSERT_THAT(queue.Acquire(kWarm), IsOk());
  CompileUrgency urgency(kWarm);
  std::thread second([&] { EXPECT_THAT(queue.Acquire(kWarm, &urgency), IsOk()); });
  AwaitWaiting(queue, 1);
  urgency.Raise(kInteractive);
  second.join();
  EXPECT_EQ(queue.running(), 2);
}

TEST(CompileQueueTest, WarmUpLeavesOneSlotFree) {
  CompileQueue queue(2, 100);
  ASSERT_THAT(queue.Acquire(kWarm), IsOk());
  std::thread second([&] { EXPECT_THAT(queue.Acquire(kWarm), IsOk()); });
  AwaitWaiting(queue, 1);
  EXPECT_EQ(queue.running(), 1);
  ASSERT_THAT(queue.Acquire(kInteractive), IsOk());
  queue.Release(kWarm);
  second.join();
  EXPECT_EQ(queue.running(), 2);
}

TEST(CompileQueueTest, AFullQueueRefusesWithTheLimitButNotThoseOfHigherPriority) {
  CompileQueue queue(1, 1);
  ASSERT_THAT(queue.Acquire(kTune), IsOk());
  std::thread warm([&] {
    EXPECT_THAT(queue.Acquire(kWarm), IsOk());
    queue.Release(kWarm);
  });
  AwaitWaiting(queue, 1);
  EXPECT_THAT(queue.Acquire(kWarm),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the limit is 1")));
  std::thread interactive([&] {
    EXPECT_THAT(queue.Acquire(kInteractive), IsOk());
    queue.Release(kInteractive);
  });
  AwaitWaiting(queue, 2);
  queue.Release(kTune);
  warm.join();
  interactive.join();
}

// scenario P53
TEST(CompileQueueTest, ClosingAnswersEveryoneWhoWaits) {
  CompileQueue queue(1, 100);
  ASSERT_THAT(queue.Acquire(kTune), IsOk());
  std::thread waiting([&] {
    EXPECT_THAT(queue.Acquire(kInteractive),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("shutting down")));
  });
  AwaitWaiting(queue, 1);
  queue.Close();
  waiting.join();
  EXPECT_EQ(queue.Acquire(kTune).status().code(), absl::StatusCode::kUnavailable);
  queue.Release(kTune);
  queue.AwaitIdle();
}

}  // namespace
}  // namespace hone
