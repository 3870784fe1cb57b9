#include "runtime/base/clocks.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(DeadlineTest, NeverDoesNotPassAndWaitsForEver) {
  EXPECT_FALSE(Deadline::Never().passed());
  EXPECT_EQ(Deadline::Never().remaining_poll_ms(), -1);
  EXPECT_EQ(Deadline::In(absl::InfiniteDuration()).remaining(), absl::InfiniteDuration());
}

TEST(DeadlineTest, PastAndNegativeDurationsHavePassed) {
  EXPECT_TRUE(Deadline::In(absl::ZeroDuration()).passed());
  EXPECT_TRUE(Deadline::In(-absl::Seconds(5)).passed());
  EXPECT_EQ(Deadline::In(-absl::Seconds(5)).remaining(), absl::ZeroDuration());
  EXPECT_EQ(Deadline::In(-absl::InfiniteDuration()).remaining_poll_ms(), 0);
}

TEST(DeadlineTest, PollTimeIsRoundedUpSoThatWaitsDoNotSpin) {
  EXPECT_GE(Deadline::In(absl::Microseconds(900)).remaining_poll_ms(), 0);
  const int poll_ms = Deadline::In(absl::Seconds(5)).remaining_poll_ms();
  EXPECT_GT(poll_ms, 4000);
  EXPECT_LE(poll_ms, 5000);
}

}  // namespace
}  // namespace hone
