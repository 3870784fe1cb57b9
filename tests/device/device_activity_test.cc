#include "runtime/device/device_activity.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(DeviceActivityTest, AnEmptyDeviceIsIdle) {
  EXPECT_EQ(ForeignUse({.processes = 0, .used_bytes = 4 << 20, .utilization_percent = 0}, false),
            "");
}

TEST(DeviceActivityTest, AnotherProcessCountsEvenIfItRests) {
  EXPECT_EQ(ForeignUse({.processes = 1, .used_bytes = 0, .utilization_percent = 0}, false),
            "1 other process");
  EXPECT_EQ(ForeignUse({.processes = 3}, true), "2 other processes");
}

TEST(DeviceActivityTest, OurOwnWorkerIsNobodyElse) {
  EXPECT_EQ(
      ForeignUse({.processes = 1, .used_bytes = int64_t{8} << 30, .utilization_percent = 99}, true),
      "");
}

// Inside a container NVML may list no process although some run.
TEST(DeviceActivityTest, HiddenProcessesShowByMemoryAndUtilisation) {
  EXPECT_EQ(ForeignUse({.processes = 0, .used_bytes = int64_t{600} << 20}, false),
            "600 MiB of its memory in use");
  EXPECT_EQ(ForeignUse({.processes = -1, .used_bytes = -1, .utilization_percent = 40}, false),
            "40 % busy");
}

TEST(DeviceActivityTest, WhereNothingIsToldSomebodyMightBeThere) {
  EXPECT_NE(ForeignUse({}, false), "");
}

}  // namespace
}  // namespace hone
