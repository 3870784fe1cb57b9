#include "server/work_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "runtime/base/error_info.h"
#include "runtime/base/notification.h"

namespace hone {
namespace {

TEST(WorkQueueTest, RunsEverythingBeforeItEnds) {
  std::atomic<int> ran{0};
  {
    WorkQueue queue("test", 2, 100);
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(queue.Submit(1, [&] { ++ran; }).ok());
  }
  EXPECT_EQ(ran, 50);
}

TEST(WorkQueueTest, AFullQueueIsNamedWithItsBoundAndAHint) {
  WorkQueue queue("compiles", 1, 1);
  Notification started, go;
  ASSERT_TRUE(queue
                  .Submit(1,
                          [&] {
                            started.Notify();
                            go.WaitForNotification();
                          })
                  .ok());
  started.WaitForNotification();
  ASSERT_TRUE(queue.Submit(1, [] {}).ok());
  const absl::Status full = queue.Submit(1, [] {});
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), ::testing::HasSubstr("waiting compiles holds 1"));
  EXPECT_GT(ErrorInfoOf(full)->retry_after_ms, 0);
  go.Notify();
}

TEST(WorkQueueTest, OneClientLeavesRoomForTheNext) {
  WorkQueue queue("compiles", 1, 4);
  Notification started, go;
  ASSERT_TRUE(queue
                  .Submit(1,
                          [&] {
                            started.Notify();
                            go.WaitForNotification();
                          })
                  .ok());
  started.WaitForNotification();
  while (queue.Submit(1, [] {}).ok()) {
  }
  EXPECT_TRUE(queue.Submit(2, [] {}).ok());
  go.Notify();
}

TEST(WorkQueueTest, RefusesWorkAfterShutdown) {
  WorkQueue queue("test", 1, 1);
  queue.Shutdown();
  EXPECT_EQ(queue.Submit(1, [] { FAIL(); }).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace hone
