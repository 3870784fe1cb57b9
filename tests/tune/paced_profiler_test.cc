#include "runtime/tune/paced_profiler.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_profiler.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

// Asked while it rests whether the tune was cancelled; never ending without that.
TEST(PacedProfilerTest, RestsAfterEveryUseUntilTheTuneIsCancelled) {
  FakeProfiler profiler;
  int asked = 0;
  PacedProfiler paced(profiler, 1e-12, [&] { return ++asked % 2 == 0; });
  ASSERT_THAT(paced.Begin({}), IsOk());
  EXPECT_EQ(asked, 2);
  ASSERT_THAT(paced.Check({.id = 1}), IsOk());
  EXPECT_EQ(asked, 4);
  ASSERT_THAT(paced.Sample(1, 1), IsOk());
  EXPECT_EQ(asked, 6);
  EXPECT_EQ(profiler.samples(), 1);
}

TEST(PacedProfilerTest, WithTheWholeTimeItNeverRests) {
  FakeProfiler profiler;
  PacedProfiler paced(profiler, 1, [] {
    ADD_FAILURE() << "rests";
    return true;
  });
  ASSERT_THAT(paced.Begin({}), IsOk());
  ASSERT_THAT(paced.Check({.id = 1}), IsOk());
  ASSERT_THAT(paced.Sample(1, 1), IsOk());
}

}  // namespace
}  // namespace hone
