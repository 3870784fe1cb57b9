#include "runtime/launch/resolve_launch.h"
#include "tests/launch/recipes.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::HasSubstr;
using enum absl::StatusCode;

TEST(CheckGuardsTest, HoldForAlignedDisjointBuffers) {
  EXPECT_THAT(CheckGuards(CopyRecipe(), CopyArguments(4096)), IsOk());
}

TEST(CheckGuardsTest, AGuardThatDoesNotHoldIsNamed) {
  LaunchRecipe recipe = CopyRecipe();
  recipe.guards = {E("n > 0"), E("n % 4 == 0")};
  EXPECT_THAT(CheckGuards(recipe, CopyArguments(4096)), IsOk());
  EXPECT_THAT(CheckGuards(recipe, CopyArguments(4097)),
              StatusIs(kFailedPrecondition, HasSubstr("guard 'n % 4 == 0' does not hold")));
}

TEST(CheckGuardsTest, AGuardThatCannotBeEvaluatedIsNamed) {
  LaunchRecipe recipe = CopyRecipe();
  recipe.guards = {E("m > 0")};
  EXPECT_THAT(CheckGuards(recipe, CopyArguments(4)),
              StatusIs(kInvalidArgument, HasSubstr("guard 'm > 0': 'm' has no value")));
}

TEST(CheckGuardsTest, APointerOffByOneElementIsRefused) {
  LaunchArguments arguments = CopyArguments(4096);
  arguments.buffers["src"].address += 4;
  EXPECT_THAT(CheckGuards(CopyRecipe(), arguments),
              StatusIs(kFailedPrecondition,
                       HasSubstr("buffer 'src' at 0x200004 is not a multiple of 16 bytes")));
}

TEST(CheckGuardsTest, OtherStridesAreRefused) {
  LaunchRecipe recipe = CopyRecipe();
  auto& src = std::get<RecipeBuffer>(recipe.arguments[1].kind);
  src.shape = {E("n"), E("8")};
  src.strides = {E("8"), E("1")};
  LaunchArguments arguments = CopyArguments(4);
  arguments.buffers["src"].strides = {8, 1};
  EXPECT_THAT(CheckGuards(recipe, arguments), IsOk());
  arguments.buffers["src"].strides = {16, 1};
  EXPECT_THAT(CheckGuards(recipe, arguments),
              StatusIs(kFailedPrecondition,
                       HasSubstr("'src' has stride 16 in dimension 0, this variant needs 8")));
  arguments.buffers["src"].strides = {8};
  EXPECT_THAT(CheckGuards(recipe, arguments),
              StatusIs(kFailedPrecondition, HasSubstr("has 1 strides")));
}

TEST(CheckGuardsTest, AStrideAlongOneElementDoesNotMatter) {
  LaunchRecipe recipe = CopyRecipe();
  auto& src = std::get<RecipeBuffer>(recipe.arguments[1].kind);
  src.shape = {E("n"), E("8")};
  src.strides = {E("8"), E("1")};
  LaunchArguments arguments = CopyArguments(1);
  arguments.buffers["src"].strides = {12345, 1};
  EXPECT_THAT(CheckGuards(recipe, arguments), IsOk());
}

TEST(CheckGuardsTest, OverlapWithAWrittenBufferIsRefused) {
  LaunchArguments arguments = CopyArguments(4096);
  arguments.buffers["src"].address = 0x100000 + 16;
  EXPECT_THAT(CheckGuards(CopyRecipe(), arguments),
              StatusIs(kFailedPrecondition, HasSubstr("'dst' and 'src' overlap")));
  // Neighbours do not overlap.
  arguments.buffers["src"].address = 0x100000 + 4096 * 4;
  EXPECT_THAT(CheckGuards(CopyRecipe(), arguments), IsOk());
}

TEST(CheckGuardsTest, ReadersMayShareMemory) {
  LaunchRecipe recipe = CopyRecipe();
  std::get<RecipeBuffer>(recipe.arguments[0].kind).access = Access::kRead;
  LaunchArguments arguments = CopyArguments(4096);
  arguments.buffers["src"].address = arguments.buffers["dst"].address;
  EXPECT_THAT(CheckGuards(recipe, arguments), IsOk());
}

TEST(CheckGuardsTest, DeclaredAliasesMayBeTheSameMemoryButNotShifted) {
  LaunchRecipe recipe = CopyRecipe();
  std::get<RecipeBuffer>(recipe.arguments[0].kind).may_alias = {"src"};
  LaunchArguments arguments = CopyArguments(4096);
  arguments.buffers["src"].address = arguments.buffers["dst"].address;
  EXPECT_THAT(CheckGuards(recipe, arguments), IsOk());
  arguments.buffers["src"].address += 16;
  EXPECT_THAT(CheckGuards(recipe, arguments),
              StatusIs(kFailedPrecondition, HasSubstr("must then begin at the same address")));
}

TEST(CheckGuardsTest, EmptyBuffersNeverOverlap) {
  LaunchArguments arguments = CopyArguments(0);
  arguments.buffers["src"].address = arguments.buffers["dst"].address;
  EXPECT_THAT(CheckGuards(CopyRecipe(), arguments), IsOk());
}

TEST(BufferSpanTest, SpansFromFirstToLastElement) {
  RecipeBuffer buffer;
  buffer.dtype = DataType::kF16;
  buffer.shape = {E("rows"), E("cols")};
  buffer.strides = {E("ld"), E("1")};
  EXPECT_THAT(BufferSpanBytes(buffer, {{"rows", 3}, {"cols", 4}, {"ld", 10}}), IsOkAndHolds(48));
  EXPECT_THAT(BufferSpanBytes(buffer, {{"rows", 0}, {"cols", 4}, {"ld", 10}}), IsOkAndHolds(0));
  EXPECT_THAT(BufferSpanBytes(buffer, {{"rows", -1}, {"cols", 4}, {"ld", 10}}),
              StatusIs(kInvalidArgument, HasSubstr("shape[0] is -1")));
  EXPECT_THAT(BufferSpanBytes(buffer, {{"rows", 1ll << 40}, {"cols", 4}, {"ld", 1ll << 40}}),
              StatusIs(kOutOfRange, HasSubstr("2^63-1")));
}

TEST(BufferSpanTest, AScalarBufferIsOneElement) {
  RecipeBuffer buffer;
  buffer.dtype = DataType::kF64;
  EXPECT_THAT(BufferSpanBytes(buffer, {}), IsOkAndHolds(8));
}

}  // namespace
}  // namespace hone
