#include "runtime/kernel/template_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/kernel/field_error.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Utf8Test, AcceptsWellFormedText) {
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8("plain"));
  EXPECT_TRUE(IsValidUtf8("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"));
  EXPECT_TRUE(IsValidUtf8(std::string("a\0b", 3)));
}

TEST(Utf8Test, RefusesOverlongSurrogatesTruncationAndBeyondTheLastCodePoint) {
  EXPECT_FALSE(IsValidUtf8("\xc0\x80"));
  EXPECT_FALSE(IsValidUtf8("\xe0\x80\x80"));
  EXPECT_FALSE(IsValidUtf8("\xed\xa0\x80"));
  EXPECT_FALSE(IsValidUtf8("\xf4\x90\x80\x80"));
  EXPECT_FALSE(IsValidUtf8("\xf0\x8f\xbf\xbf"));
  EXPECT_FALSE(IsValidUtf8("\xe2\x82"));
  EXPECT_FALSE(IsValidUtf8("\xff"));
  EXPECT_FALSE(IsValidUtf8("\x80"));
}

TEST(SubstituteTest, ReplacesEveryPlaceholder) {
  EXPECT_THAT(Substitute("copy<${T}, ${X}, ${T}>", {{"T", "float"}, {"X", "128"}}),
              IsOkAndHolds("copy<float, 128, float>"));
  EXPECT_THAT(Substitute("$ {T} $T }", {}), IsOkAndHolds("$ {T} $T }"));
  // What is put in is not looked at again.
  EXPECT_THAT(Substitute("${A}", {{"A", "${A}"}}), IsOkAndHolds("${A}"));
}

TEST(SubstituteTest, NamesWhatIsNotDeclaredOrNotClosed) {
  EXPECT_THAT(Substitute("${X}", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("${X}")));
  EXPECT_THAT(Substitute("f<${X", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("closing brace")));
  EXPECT_THAT(PlaceholdersOf("a${B}c${A}${B}"), IsOkAndHolds(ElementsAre("A", "B")));
}

TEST(FileNameTest, StaysBelowItsDirectory) {
  EXPECT_THAT(CheckFileName("f", "sub/dir/a.h"), IsOk());
  EXPECT_THAT(CheckFileName("f", "a..h"), IsOk());
  for (const char* name : {"", "/a", "../a", "a/../b", "a//b", "./a", "a/", "a\\b", "a\nb"}) {
    EXPECT_THAT(CheckFileName("f", name),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::StartsWith("f: ")))
        << name;
  }
}

TEST(FieldErrorTest, PathsTravelWithTheStatus) {
  const absl::Status status = FieldError("a.b[2]", "is wrong");
  EXPECT_EQ(status.message(), "a.b[2]: is wrong");
  EXPECT_EQ(FieldOf(status), "a.b[2]");
  EXPECT_EQ(FieldOf(absl::InternalError("x")), std::nullopt);
  EXPECT_THAT(AtField("p", absl::OkStatus()), IsOk());
  EXPECT_THAT(AtField("p", absl::NotFoundError("q")),
              StatusIs(absl::StatusCode::kNotFound, "p: q"));
}

}  // namespace
}  // namespace hone
