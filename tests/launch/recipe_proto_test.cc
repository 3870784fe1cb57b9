#include "runtime/launch/recipe_proto.h"

#include "tests/launch/recipes.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::HasSubstr;
using enum absl::StatusCode;

// Uses every field.
LaunchRecipe FullRecipe() {
  LaunchRecipe recipe = CopyRecipe();
  auto& dst = std::get<RecipeBuffer>(recipe.arguments[0].kind);
  dst.may_alias = {"src"};
  dst.optional = true;
  dst.access = Access::kReadWrite;
  RecipeTensorMap map;
  map.buffer = "src";
  map.dtype = DataType::kBF16;
  map.dims = {E("64"), E("n / 64")};
  map.strides_bytes = {E("128")};
  map.box = {E("32"), E("8")};
  map.element_strides = {E("1"), E("2")};
  map.swizzle = 3;
  map.interleave = 1;
  map.l2_promotion = 2;
  map.fill_nan = true;
  recipe.arguments.push_back({"map", map});
  recipe.arguments.push_back({"eps", RecipeScalar{.type = DataType::kF32, .value = std::nullopt}});
  recipe.arguments.push_back(
      {"tmp", RecipeScratch{.bytes = E("n * 4"), .zeroed = ScratchZeroed::kOnce}});
  RecipeStep memset;
  memset.memset_argument = 5;
  memset.memset_value = 255;
  memset.memset_bytes = E("n");
  memset.when = E("n > 10");
  recipe.steps.push_back(memset);
  RecipeStep second = recipe.steps[0];
  second.programmatic_dependent_launch = true;
  second.launch.dynamic_shared_bytes = E("max(n, 1) * 16");
  second.launch.cluster[1] = E("2");
  recipe.steps.push_back(second);
  recipe.guards = {E("n % 4 == 0 || n < device.sm_count")};
  recipe.work_bytes = E("8 * n");
  recipe.work_flops = E("0");
  return recipe;
}

TEST(RecipeProtoTest, EveryFieldSurvivesARoundTrip) {
  const v1::LaunchRecipe proto = ToProto(FullRecipe());
  absl::StatusOr<LaunchRecipe> read = FromProto(proto);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(ToProto(*read).SerializeAsString(), proto.SerializeAsString());
  EXPECT_EQ(read->steps[1].memset_argument, 5);
  EXPECT_EQ(read->steps[0].memset_argument, -1);
  EXPECT_EQ(std::get<RecipeTensorMap>(read->arguments[3].kind).swizzle, 3);
  EXPECT_TRUE(std::get<RecipeTensorMap>(read->arguments[3].kind).fill_nan);
  EXPECT_FALSE(std::get<RecipeScalar>(read->arguments[4].kind).value.has_value());
  EXPECT_EQ(std::get<RecipeBuffer>(read->arguments[0].kind).access, Access::kReadWrite);
}

TEST(RecipeProtoTest, MissingAxesAreOne) {
  v1::LaunchRecipe proto = ToProto(CopyRecipe());
  proto.mutable_steps(0)->clear_block();
  proto.mutable_steps(0)->mutable_grid()->DeleteSubrange(1, 2);
  absl::StatusOr<LaunchRecipe> read = FromProto(proto);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->steps[0].launch.block[0].ToString(), "1");
  EXPECT_EQ(read->steps[0].launch.grid[2].ToString(), "1");
}

TEST(RecipeProtoTest, OperatorsFromTheFutureAreRefusedByName) {
  v1::LaunchRecipe proto = ToProto(CopyRecipe());
  proto.mutable_steps(0)->mutable_grid(0)->set_op("popcount");
  EXPECT_THAT(FromProto(proto),
              StatusIs(kInvalidArgument, HasSubstr("steps[0].grid[0]: operator 'popcount'")));
  proto.mutable_steps(0)->mutable_grid(0)->set_op("sizeof");
  EXPECT_THAT(FromProto(proto), StatusIs(kInvalidArgument, HasSubstr("operator 'sizeof'")));
  proto.mutable_steps(0)->mutable_grid(0)->set_op("");
  EXPECT_THAT(FromProto(proto), StatusIs(kInvalidArgument, HasSubstr("operator ''")));
}

TEST(RecipeProtoTest, OperandCountsAreChecked) {
  v1::Expression proto = ToProto(E("n + 1"));
  proto.mutable_operands()->RemoveLast();
  EXPECT_THAT(FromProto(proto), StatusIs(kInvalidArgument, HasSubstr("takes 2 operands, not 1")));
}

TEST(RecipeProtoTest, DeepNestingIsRefused) {
  v1::Expression proto = ToProto(E("n"));
  for (int i = 0; i < 5000; ++i) {
    v1::Expression outer;
    outer.set_op("neg");
    outer.add_operands()->Swap(&proto);
    proto.Swap(&outer);
  }
  EXPECT_THAT(FromProto(proto), StatusIs(kInvalidArgument, HasSubstr("64 levels")));
}

TEST(RecipeProtoTest, ManyNodesAreRefused) {
  v1::LaunchRecipe proto;
  for (int i = 0; i < 1000; ++i) {
    v1::Expression* guard = proto.add_guards();
    guard->set_op("min");
    for (int j = 0; j < 200; ++j) *guard->add_operands() = ToProto(E("n"));
  }
  EXPECT_THAT(FromProto(proto), StatusIs(kInvalidArgument, HasSubstr("100000 expression nodes")));
}

TEST(RecipeProtoTest, DanglingReferencesAreRefused) {
  v1::LaunchRecipe proto = ToProto(FullRecipe());
  proto.mutable_steps(0)->set_arguments(1, 6);
  EXPECT_THAT(FromProto(proto),
              StatusIs(kInvalidArgument, HasSubstr("argument 6 of 6 does not exist")));
  proto = ToProto(FullRecipe());
  proto.mutable_steps(1)->set_memset_argument(-1);
  EXPECT_THAT(FromProto(proto),
              StatusIs(kInvalidArgument, HasSubstr("steps[1].memset_argument: argument -1")));
  proto = ToProto(FullRecipe());
  proto.mutable_arguments(3)->mutable_tensor_map()->set_buffer("nothing");
  EXPECT_THAT(FromProto(proto), StatusIs(kInvalidArgument, HasSubstr("over buffer 'nothing'")));
  proto = ToProto(FullRecipe());
  proto.mutable_arguments(1)->set_name("dst");
  EXPECT_THAT(FromProto(proto), StatusIs(kInvalidArgument, HasSubstr("two are named 'dst'")));
}

TEST(RecipeProtoTest, UnknownEnumValuesAreRefused) {
  v1::LaunchRecipe proto = ToProto(CopyRecipe());
  proto.mutable_arguments(0)->mutable_buffer()->set_dtype(static_cast<v1::DataType>(99));
  EXPECT_THAT(FromProto(proto),
              StatusIs(kInvalidArgument, HasSubstr("arguments[0].dtype: data type 99")));
  proto = ToProto(CopyRecipe());
  proto.mutable_arguments(0)->mutable_buffer()->clear_access();
  EXPECT_THAT(FromProto(proto), StatusIs(kInvalidArgument, HasSubstr("access 0")));
  proto = ToProto(CopyRecipe());
  proto.mutable_arguments(0)->mutable_buffer()->set_alignment_bytes(0);
  EXPECT_THAT(FromProto(proto), StatusIs(kInvalidArgument, HasSubstr("alignment_bytes is 0")));
}

}  // namespace
}  // namespace hone
