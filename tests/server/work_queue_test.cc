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
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(queue.Submit([&] { ++ran; }).ok());
  }
  EXPECT_EQ(ran, 50);
}

TEST(WorkQueueTest, AFullQueueIsNamedWithItsBoundAndAHint) {
  WorkQueue queue("compile", 1, 1);
  Notification started, go;
  ASSERT_TRUE(queue
                  .Submit([&] {
                    started.Notify();
                    go.WaitForNotification();
                  })
                  .ok());
  started.WaitForNotification();
  ASSERT_TRUE(queue.Submit([] {}).ok());
  const absl::Status full = queue.Submit([] {});
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), ::testing::HasSubstr("compile queue is full"));
  EXPECT_GT(ErrorInfoOf(full)->retry_after_ms, 0);
  go.Notify();
}

TEST(WorkQueueTest, RefusesWorkAfterShutdown) {
  WorkQueue queue("test", 1, 1);
  queue.Shutdown();
  EXPECT_EQ(queue.Submit([] { FAIL(); }).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace hone
