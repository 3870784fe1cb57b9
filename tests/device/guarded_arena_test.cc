#include "runtime/device/guarded_arena.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_device.h"

namespace hone {
namespace {

class GuardedArenaTest : public testing::Test {
 protected:
  void Place(const std::vector<GuardedBuffer>& buffers) {
    const absl::Status status = arena_.Place(buffers);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::optional<GuardDamage> Damage() {
    const auto damage = arena_.FindDamage();
    EXPECT_TRUE(damage.ok());
    return damage.ok() ? *damage : std::nullopt;
  }

  FakeDevice device_;
  DeviceMemory memory_{&device_, 0};
  GuardedArena arena_{&memory_};
};

TEST_F(GuardedArenaTest, BuffersLieAtTheAskedAlignmentAndNotAtAHigherOne) {
  Place({{"page", 100, 0, 0xff}, {"a4", 10, 4, 1}, {"a16", 10, 16, 2}, {"a12", 5, 12, 3}});
  EXPECT_EQ(arena_.address("page") % 4096, 0u);
  EXPECT_EQ(arena_.address("a4") % 8, 4u);
  EXPECT_EQ(arena_.address("a16") % 32, 16u);
  EXPECT_EQ(arena_.address("a12") % 24, 12u);
}

TEST_F(GuardedArenaTest, WritesInsideBuffersAreNoDamage) {
  Place({{"a", 100, 4, 7}, {"empty", 0, 4, 7}, {"b", 9, 1, 8}});
  ASSERT_TRUE(device_.Memset(arena_.address("a"), 0, 100).ok());
  ASSERT_TRUE(device_.Memset(arena_.address("b"), 0, 9).ok());
  EXPECT_FALSE(Damage());
}

TEST_F(GuardedArenaTest, EveryByteAroundABufferIsWatched) {
  Place({{"a", 100, 4, 7}, {"b", 9, 1, 8}});
  const struct {
    const char* name;
    int64_t offset;
  } cases[] = {{"a", -1},
               {"a", -GuardedArena::kGuardBytes},
               {"a", 100},
               {"a", 100 + GuardedArena::kGuardBytes - 1},
               {"b", -1},
               {"b", 9},
               {"b", 9 + GuardedArena::kGuardBytes - 1}};
  for (const auto& [name, offset] : cases) {
    ASSERT_TRUE(arena_.WriteGuards().ok());
    const uint64_t address = arena_.address(name) + static_cast<uint64_t>(offset);
    ASSERT_TRUE(device_.Memset(address, 0x33, 1).ok());
    const auto damage = Damage();
    ASSERT_TRUE(damage) << name << offset;
    EXPECT_EQ(damage->name, name);
    EXPECT_EQ(damage->offset, offset);
  }
}

TEST_F(GuardedArenaTest, ASmallerLayoutReusesTheAllocation) {
  Place({{"a", 1 << 20, 0, 7}});
  const int64_t bytes = device_.allocated_bytes();
  Place({{"a", 1 << 10, 4, 7}});
  EXPECT_EQ(device_.allocated_bytes(), bytes);
  EXPECT_EQ(device_.allocations(), 1);
  EXPECT_FALSE(Damage());
}

}  // namespace
}  // namespace hone
