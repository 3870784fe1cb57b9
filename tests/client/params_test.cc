#include "client/cli/params.h"

#include "client/cli/format.h"
#include "tests/testing/status_matchers.h"

namespace hone::cli {
namespace {

using testing::HasSubstr;
using enum absl::StatusCode;

TEST(ParamsTest, IntegersHaveShortForms) {
  EXPECT_THAT(ParseInteger("4096"), IsOkAndHolds(4096));
  EXPECT_THAT(ParseInteger("2^26"), IsOkAndHolds(1 << 26));
  EXPECT_THAT(ParseInteger("2^26+1"), IsOkAndHolds((1 << 26) + 1));
  EXPECT_THAT(ParseInteger("64Ki"), IsOkAndHolds(65536));
  EXPECT_THAT(ParseInteger("3*2^20-1"), IsOkAndHolds(3 * (1 << 20) - 1));
  EXPECT_THAT(ParseInteger("1Gi"), IsOkAndHolds(1 << 30));
  EXPECT_THAT(ParseInteger("-5"), IsOkAndHolds(-5));
  EXPECT_THAT(ParseInteger("0"), IsOkAndHolds(0));
  EXPECT_THAT(ParseInteger("2^0"), IsOkAndHolds(1));
  EXPECT_THAT(ParseInteger("1^1000000000000"), IsOkAndHolds(1));
}

TEST(ParamsTest, WhatIsNoIntegerIsAUsageError) {
  for (const char* text : {"", "12x", "2^", "^2", "1.5", "2^x", "64K", "1+", "2**3", "0x10"}) {
    EXPECT_THAT(ParseInteger(text), StatusIs(kInvalidArgument, HasSubstr("is not an integer")))
        << text;
  }
  for (const char* text : {"2^63", "9223372036854775808", "8589934592Gi", "2^62+2^62"}) {
    EXPECT_THAT(ParseInteger(text), StatusIs(kInvalidArgument, HasSubstr("does not fit 64 bits")))
        << text;
  }
}

TEST(ParamsTest, ValuesAreIntegersFlagsOrText) {
  EXPECT_THAT(ParseParamValue("2^4"), IsOkAndHolds(ParamValue(int64_t{16})));
  EXPECT_THAT(ParseParamValue("true"), IsOkAndHolds(ParamValue(true)));
  EXPECT_THAT(ParseParamValue("F32"), IsOkAndHolds(ParamValue(std::string("F32"))));
  EXPECT_THAT(ParseParamValue("act::relu"), IsOkAndHolds(ParamValue(std::string("act::relu"))));
}

TEST(ParamsTest, ChainsAreTextHoweverTheyBegin) {
  for (const char* text : {"silu(a)*b", "silu(a) * b", "2*a", "-a", "-(a+b)", "1/(1+exp(-a))",
                           "1e-3*a", "where(a<=0,b,c)", "a==b"}) {
    EXPECT_THAT(ParseParamValue(text), IsOkAndHolds(ParamValue(std::string(text))));
  }
  // The first '=' ends the name.
  const absl::StatusOr<Params> params = ParseParams({"f=where(a<=0,a,b)", "n=3*2^4"});
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->at("f"), ParamValue(std::string("where(a<=0,a,b)")));
  EXPECT_EQ(params->at("n"), ParamValue(int64_t{48}));
}

TEST(ParamsTest, WordsAreQuotedForAShellWhereTheyHaveToBe) {
  EXPECT_EQ(ShellWord("n=2^26+1"), "n=2^26+1");
  EXPECT_EQ(ShellWord("f=silu(a) * b"), "'f=silu(a) * b'");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellWord(""), "''");
}

TEST(ParamsTest, ErrorsNameTheParameter) {
  EXPECT_THAT(ParseParams({"n=12x"}), StatusIs(kInvalidArgument, HasSubstr("n: '12x'")));
  EXPECT_THAT(ParseParams({"n"}), StatusIs(kInvalidArgument, HasSubstr("'n' is not name=value")));
  EXPECT_THAT(ParseParams({"=4"}), StatusIs(kInvalidArgument, HasSubstr("name=value")));
  EXPECT_THAT(ParseParams({"n=1", "n=2"}),
              StatusIs(kInvalidArgument, HasSubstr("'n' is given twice")));
}

}  // namespace
}  // namespace hone::cli
