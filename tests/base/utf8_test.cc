#include "runtime/base/utf8.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(Utf8Test, AcceptsEveryLengthOfSequence) {
  EXPECT_TRUE(IsValidUtf8("plain"));
  EXPECT_TRUE(IsValidUtf8("\xc2\xb5s \xe2\x86\x92 \xf0\x9f\x94\xa7"));
  EXPECT_TRUE(IsValidUtf8(""));
}

TEST(Utf8Test, RefusesOverlongSurrogateTruncatedAndTooLarge) {
  EXPECT_FALSE(IsValidUtf8("\xc0\xaf"));
  EXPECT_FALSE(IsValidUtf8("\xe0\x80\xaf"));
  EXPECT_FALSE(IsValidUtf8("\xed\xa0\x80"));
  EXPECT_FALSE(IsValidUtf8("\xe2\x86"));
  EXPECT_FALSE(IsValidUtf8("\xf4\x90\x80\x80"));
  EXPECT_FALSE(IsValidUtf8("\xff"));
}

TEST(Utf8Test, ReplacesOnlyTheBytesThatAreWrong) {
  EXPECT_EQ(ReplaceInvalidUtf8("a\xff\xc2\xb5\xe2z"), "a?\xc2\xb5?z");
}

}  // namespace
}  // namespace hone
