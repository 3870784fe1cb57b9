#include "runtime/tune/unseen_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/tune/synthetic_space.h"

namespace hone {
namespace {

TEST(UnseenPointsTest, DrawsAreUniformAmongWhatIsLeft) {
  const SearchSpacePtr space = ProductSpace({{"A", {1, 2, 3, 4, 5}}, {"B", {1, 2}}});
  for (const size_t taken : {2u, 7u}) {  // before and after half the space is taken
    std::map<Point, int> drawn;
    for (uint64_t seed = 0; seed < 3000; ++seed) {
      UnseenPoints unseen(space, {}, seed);
      for (size_t i = 0; i < taken; ++i) unseen.Take(space->points()->At(static_cast<int64_t>(i)));
      ++drawn[*unseen.DrawRandom()];
    }
    EXPECT_EQ(drawn.size(), 10 - taken);
    const double expected = 3000.0 / static_cast<double>(10 - taken);
    for (const auto& [point, count] : drawn) EXPECT_NEAR(count, expected, 5 * std::sqrt(expected));
  }
}

TEST(UnseenPointsTest, EverythingIsTakenOnce) {
  const SearchSpacePtr space = ProductSpace({{"A", {1, 2, 3, 4, 5}}, {"B", {1, 2, 3}}});
  UnseenPoints unseen(space, {*Config::Parse("A=2 B=2")}, 1);
  EXPECT_EQ(space->ConfigAt(*unseen.TakeSeed()).ToString(), "A=2 B=2");
  EXPECT_EQ(unseen.TakeSeed(), std::nullopt);
  EXPECT_FALSE(unseen.Take(*space->PointOf(*Config::Parse("A=2 B=2"))));
  int64_t taken = 1;
  while (unseen.TakeRandom()) ++taken;
  EXPECT_EQ(taken, 15);
  EXPECT_EQ(unseen.taken(), 15);
  EXPECT_EQ(unseen.DrawRandom(), std::nullopt);
}

}  // namespace
}  // namespace hone
