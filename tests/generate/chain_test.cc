// The language of operator chains: meaning, canonical text, and errors that point at a column.
#include "runtime/generate/chain.h"

#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using enum absl::StatusCode;

const ChainNames& Names() {
  static const auto* const names =
      new ChainNames{.inputs = {"a", "b", "c", "d"}, .scalars = {"alpha", "beta"}};
  return *names;
}

std::string Canonical(const std::string& text) {
  const absl::StatusOr<Chain> chain = Chain::Parse(text, Names());
  return chain.ok() ? chain->text() : std::string(chain.status().message());
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Chain> chain = Chain::Parse(text, Names());
  if (chain.ok()) return "parsed as " + chain->text();
  EXPECT_EQ(chain.status().code(), kInvalidArgument);
  return std::string(chain.status().message());
}

TEST(ChainTest, SpacesParenthesesAndSpellingsOfNumbersDoNotMatter) {
  for (const char* text : {"silu(a)*b", "silu( a ) * b", "(silu((a)))*(b)", "\tsilu(a)*b "}) {
    EXPECT_EQ(Canonical(text), "silu(a)*b") << text;
  }
  for (const char* text : {"a*0.5", "a * .5", "a*5e-1", "a*0.50000"}) {
    EXPECT_EQ(Canonical(text), "a*0.5") << text;
  }
  EXPECT_EQ(Canonical("a+100000.0"), "a+1e5");
  EXPECT_EQ(Canonical("a+0.1"), "a+0.1");
  EXPECT_EQ(Canonical("a+0.00001"), "a+1e-5");
  EXPECT_EQ(Canonical("a*(-2)"), "a*-2");
  EXPECT_EQ(Canonical("a - -2"), "a--2");
}

TEST(ChainTest, OperatorsBindAsInArithmetic) {
  EXPECT_EQ(Canonical("a+b*c"), "a+b*c");
  EXPECT_EQ(Canonical("(a+b)*c"), "(a+b)*c");
  EXPECT_EQ(Canonical("a-b-c"), "a-b-c");
  EXPECT_EQ(Canonical("a-(b-c)"), "a-(b-c)");
  EXPECT_EQ(Canonical("(a-b)-c"), "a-b-c");
  EXPECT_EQ(Canonical("a/(b*c)"), "a/(b*c)");
  EXPECT_EQ(Canonical("a/b*c"), "a/b*c");
  EXPECT_EQ(Canonical("-(a*b)"), "-(a*b)");
  EXPECT_EQ(Canonical("-a*b"), "-a*b");
  EXPECT_EQ(Canonical("a*-b"), "a*-b");
  EXPECT_EQ(Canonical("--a"), "--a");
  EXPECT_EQ(Canonical("where(a<0,a*alpha,a)"), "where(a<0,a*alpha,a)");
}

TEST(ChainTest, CanonicalTextParsesToItself) {
  for (const char* text :
       {"a", "clamp(a, -1, 1.5e3)", "where(max(a,b) >= -0.25, a/(b-c), -(-d))", "a-(b+(c-d))",
        "min(a*b, sqrt(abs(c)))", "gelu_tanh(a+alpha)*beta", "1e-30*a + 3.4e38*b", "-0*a"}) {
    const std::string once = Canonical(text);
    EXPECT_THAT(once, testing::Not(StartsWith("column"))) << text;
    EXPECT_EQ(Canonical(once), once) << text;
  }
}

TEST(ChainTest, OperandsKeepTheirOrder) {
  EXPECT_NE(Canonical("a+b"), Canonical("b+a"));
  EXPECT_NE(Canonical("a+b+c"), Canonical("a+(b+c)"));
}

TEST(ChainTest, SharedPartsAreComputedOnce) {
  const Chain chain = Chain::Parse("silu(a+b)*(a+b)", Names()).value();
  EXPECT_EQ(chain.operations(), 3);
  EXPECT_EQ(chain.text(), "silu(a+b)*(a+b)");
}

TEST(ChainTest, KnowsWhatItReads) {
  const Chain chain = Chain::Parse("a*beta + c", Names()).value();
  EXPECT_TRUE(chain.ReadsInput(0));
  EXPECT_FALSE(chain.ReadsInput(1));
  EXPECT_TRUE(chain.Uses("c"));
  EXPECT_FALSE(chain.Uses("d"));
  EXPECT_FALSE(chain.Uses("alpha"));
  EXPECT_TRUE(chain.Uses("beta"));
  EXPECT_FALSE(chain.Uses("unknown"));
}

TEST(ChainTest, ErrorsPointAtTheColumn) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("column 1: expected a value, found the end"));
  EXPECT_THAT(ErrorOf("a +"), HasSubstr("column 4: expected a value, found the end"));
  EXPECT_THAT(ErrorOf("a b"), HasSubstr("column 3: expected an operator or the end, found \"b\""));
  EXPECT_THAT(ErrorOf("a * e"),
              HasSubstr("column 5: \"e\" is unknown; there are inputs a, b, c, d"));
  EXPECT_THAT(ErrorOf("swish(a)"), HasSubstr("column 1: no function \"swish\"; there are abs"));
  EXPECT_THAT(ErrorOf("a + silu"), HasSubstr("column 5: silu needs its operands in parentheses"));
  EXPECT_THAT(ErrorOf("max(a)"), HasSubstr("column 6: max takes 2 operands"));
  EXPECT_THAT(ErrorOf("exp(a, b)"), HasSubstr("column 6: exp takes 1 operand"));
  EXPECT_THAT(ErrorOf("clamp(a,b,c,d)"), HasSubstr("column 12: clamp takes 3 operands"));
  EXPECT_THAT(ErrorOf("(a+b"), HasSubstr("column 5: expected \")\", found the end"));
  EXPECT_THAT(ErrorOf("a)"), HasSubstr("column 2"));
  EXPECT_THAT(ErrorOf("a + 1e99"), HasSubstr("column 5: a number beyond the range of F32"));
  EXPECT_THAT(ErrorOf("2x*a"), HasSubstr("column 1: not a number"));
  EXPECT_THAT(ErrorOf("a*1.2.3"), HasSubstr("column 3: not a number"));
  EXPECT_THAT(ErrorOf("a*1e"), HasSubstr("column 3: not a number"));
  EXPECT_THAT(ErrorOf("a*."), HasSubstr("column 3: not a number"));
  EXPECT_THAT(ErrorOf("a % b"), HasSubstr("column 3: '%' has no meaning here"));
  EXPECT_THAT(ErrorOf("a = b"), HasSubstr("column 3: '=' has no meaning here"));
  EXPECT_THAT(ErrorOf("1 + 2*alpha"), HasSubstr("column 1: reads none of the inputs a, b, c, d"));
}

TEST(ChainTest, ConditionsAndValuesAreTwoTypes) {
  EXPECT_THAT(ErrorOf("a < b"), HasSubstr("column 1: a condition where a value is expected"));
  EXPECT_THAT(ErrorOf("a + (b < c)"), HasSubstr("column 5: a condition where a value"));
  EXPECT_THAT(ErrorOf("-(b < c)"), HasSubstr("column 1: a condition where a value"));
  EXPECT_THAT(ErrorOf("where(a, b, c)"),
              HasSubstr("column 7: a value where a condition like a < 0"));
  EXPECT_THAT(ErrorOf("where(a < b < c, a, b)"),
              HasSubstr("column 13: expected \",\", found \"<\""));
  EXPECT_EQ(Canonical("where((a < b), a, b)"), "where(a<b,a,b)");
}

// Rounding in single precision would flip such a comparison for some elements, and a right kernel
// would be rejected.
TEST(ChainTest, ComputedValuesAreNotCompared) {
  EXPECT_THAT(ErrorOf("where(a*b < 0, a, b)"), HasSubstr("column 7: a computed value"));
  EXPECT_THAT(ErrorOf("where(0 < a+b, a, b)"), HasSubstr("column 11: a computed value"));
  EXPECT_EQ(Canonical("where(abs(a) < max(b, alpha), a, b)"), "where(abs(a)<max(b,alpha),a,b)");
  EXPECT_EQ(Canonical("where(where(a<0,a,b) < 0, a, b)"), "where(where(a<0,a,b)<0,a,b)");
}

TEST(ChainTest, HostileTextIsRefusedQuickly) {
  EXPECT_THAT(ErrorOf(std::string(5000, 'a')), HasSubstr("column 4097: longer than 4096 bytes"));
  EXPECT_THAT(ErrorOf(std::string(1000, '(') + "a" + std::string(1000, ')')),
              HasSubstr("column 65: nested more than 64 deep"));
  EXPECT_THAT(ErrorOf(std::string(1000, '-') + "a"), HasSubstr("nested more than 64 deep"));
  std::string sum = "a";
  for (int i = 1; i < 400; ++i) sum += "+" + std::to_string(i);
  EXPECT_THAT(ErrorOf(sum), HasSubstr("more than 256 operators and operands"));
  std::string exps = "a";
  for (int i = 0; i < 100; ++i) exps = "exp(" + exps + ")";
  EXPECT_THAT(ErrorOf(exps), HasSubstr("nested more than 64 deep"));
  // ".1" is printed as "0.1", so this fits only as it is written.
  std::string points = "a";
  while (points.size() + 3 < 4090) points += "+.1";
  EXPECT_THAT(ErrorOf(points),
              testing::AnyOf(HasSubstr("longer than 4096"), HasSubstr("more than 256")));
}

TEST(ChainTest, NothingOfCppGetsThrough) {
  for (const char* text : {"a); asm(\"trap;",
                           "a;b",
                           "a\"",
                           "a'",
                           "a//b",
                           "a/*b*/",
                           "a#b",
                           "a\\b",
                           "a[0]",
                           "a{}",
                           "a::b",
                           "a->b",
                           "a.b",
                           "a&b",
                           "a|b",
                           "a?b:c",
                           "a\nb",
                           "__syncthreads()",
                           "printf(a)",
                           "${a}",
                           "a,b",
                           "0x10*a",
                           "1.0f*a",
                           "nan*a",
                           "inf*a",
                           "a!b",
                           "a\x01"}) {
    EXPECT_THAT(ErrorOf(text), StartsWith("column ")) << text;
  }
  // Bytes that are no ASCII are shown as numbers: errors stay valid UTF-8.
  EXPECT_THAT(ErrorOf("a + \xc3\x28"), HasSubstr("column 5: byte 0xc3 has no meaning here"));
  EXPECT_THAT(ErrorOf(std::string("a\0b", 3)), HasSubstr("column 2: byte 0x00"));
}

}  // namespace
}  // namespace hone
