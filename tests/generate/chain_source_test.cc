#include "runtime/generate/chain_source.h"

#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::HasSubstr;

std::string SourceOf(const std::string& text) {
  const ChainNames names{.inputs = {"a", "b"}, .scalars = {"alpha"}};
  return ChainSource(Chain::Parse(text, names).value(), "f");
}

TEST(ChainSourceTest, IsAStructOverAllNamesWithWhatIsRead) {
  const std::string source = SourceOf("silu(a) * alpha");
  EXPECT_THAT(source, HasSubstr("struct chain_f {"));
  EXPECT_THAT(source, HasSubstr("reads_a = true;"));
  EXPECT_THAT(source, HasSubstr("reads_b = false;"));
  EXPECT_THAT(source, HasSubstr("reads_alpha = true;"));
  EXPECT_THAT(source, HasSubstr("Apply(float in_a, float in_b, float in_alpha)"));
  EXPECT_EQ(ChainHeaderName("f"), "chain_f.h");
}

TEST(ChainSourceTest, TheSameChainGivesTheSameText) {
  EXPECT_EQ(SourceOf("silu(a)*b"), SourceOf(" silu( (a) ) *b"));
  EXPECT_NE(SourceOf("silu(a)*b"), SourceOf("b*silu(a)"));
}

TEST(ChainSourceTest, NumbersAreFloatLiterals) {
  EXPECT_THAT(SourceOf("a*2"), HasSubstr("in_a * 2.0f;"));
  EXPECT_THAT(SourceOf("a*-0.1"), HasSubstr("in_a * (-0.100000001f);"));
  EXPECT_THAT(SourceOf("a*1e30"), HasSubstr("in_a * 1.00000002e+30f;"));
}

}  // namespace
}  // namespace hone
