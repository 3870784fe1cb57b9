#include "client/cli/table.h"

#include "client/cli/format.h"
#include "client/cli/terminal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone::cli {
namespace {

using testing::ElementsAre;

TEST(TableTest, AlignsColumnsAndDropsEmptyOnes) {
  Table table({{"name"}, {"median", true}, {"note"}, {"end"}});
  table.Add({"a", "1.00 us", "", "x"});
  table.Add({"longer", "10.00 us", "", ""});
  EXPECT_THAT(table.Lines(), ElementsAre("name      median  end",  //
                                         "a        1.00 us  x",    //
                                         "longer  10.00 us"));
}

TEST(TableTest, CountsCharactersNotBytes) {
  EXPECT_EQ(DisplayWidth("██"), 2u);
  EXPECT_EQ(Truncate("abcdef", 4), "abc~");
  EXPECT_EQ(Truncate("abcd", 4), "abcd");
  EXPECT_EQ(Truncate("███", 2), "█~");
  EXPECT_EQ(Truncate("abc", 0), "");
}

TEST(FormatTest, DurationsKeepTheirUnit) {
  EXPECT_EQ(FormatDuration(12), "12.00 ns");
  EXPECT_EQ(FormatDuration(11200), "11.20 us");
  EXPECT_EQ(FormatDuration(2.5e6), "2.50 ms");
  EXPECT_EQ(FormatDuration(3e9), "3.00 s");
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(int64_t{3} << 29), "1.5 GiB");
}

TEST(FormatTest, ArithmeticKernelsAreToldInTflops) {
  EXPECT_EQ(RateUnitFor(1 << 20, 1 << 20), RateUnit::kGbPerS);
  EXPECT_EQ(RateUnitFor(1 << 20, int64_t{1} << 30), RateUnit::kTflopPerS);
  EXPECT_EQ(RateUnitFor(0, 5), RateUnit::kGbPerS);
}

TEST(BarTest, ShareOfItsWidth) {
  EXPECT_EQ(Bar(0.5, 10, false), "#####");
  EXPECT_EQ(Bar(0, 10, false), "");
  EXPECT_EQ(Bar(7, 4, false), "####");
  EXPECT_EQ(Bar(0.25, 2, true), "▌");
  EXPECT_EQ(DisplayWidth(Bar(0.99, 40, true)), 40u);
}

}  // namespace
}  // namespace hone::cli
