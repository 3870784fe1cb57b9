#include "runtime/launch/resolve_launch.h"

#include <cstring>

#include "tests/launch/recipes.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using enum absl::StatusCode;

template <typename T>
T As(const PackedArgument& argument) {
  EXPECT_EQ(argument.bytes.size(), sizeof(T));
  T value{};
  std::memcpy(&value, argument.bytes.data(), std::min(sizeof(T), argument.bytes.size()));
  return value;
}

// One kernel with one scalar of `type` that is given per launch as "s".
LaunchRecipe ScalarRecipe(DataType type) {
  LaunchRecipe recipe;
  recipe.arguments = {{"s", RecipeScalar{.type = type, .value = std::nullopt}}};
  RecipeStep step;
  step.symbol = "k";
  step.arguments = {0};
  recipe.steps = {step};
  return recipe;
}

absl::StatusOr<PackedArgument> PackScalar(DataType type, double value) {
  LaunchArguments arguments;
  arguments.scalars["s"] = value;
  absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(ScalarRecipe(type), arguments);
  if (!launch.ok()) return launch.status();
  return launch->steps[0].arguments[0];
}

TEST(ResolveLaunchTest, EvaluatesTheGridForTheTrueSize) {
  absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(CopyRecipe(), CopyArguments((1 << 26) + 1));
  ASSERT_THAT(launch, IsOk());
  ASSERT_THAT(launch->steps, SizeIs(1));
  const ResolvedStep& step = launch->steps[0];
  EXPECT_THAT(step.grid, ElementsAre(65537u, 1u, 1u));
  EXPECT_THAT(step.block, ElementsAre(256u, 1u, 1u));
  EXPECT_THAT(step.cluster, ElementsAre(1u, 1u, 1u));
  ASSERT_THAT(step.arguments, SizeIs(3));
  EXPECT_EQ(As<uint64_t>(step.arguments[0]), 0x100000u);
  EXPECT_EQ(As<uint64_t>(step.arguments[1]), 0x200000u);
  EXPECT_EQ(As<int64_t>(step.arguments[2]), (1 << 26) + 1);
}

TEST(ResolveLaunchTest, AnEmptyGridIsNothingToLaunch) {
  LaunchArguments arguments = CopyArguments(0);
  arguments.buffers["dst"].address = 0;
  absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(CopyRecipe(), arguments);
  ASSERT_THAT(launch, IsOk());
  EXPECT_THAT(launch->steps, IsEmpty());
}

TEST(ResolveLaunchTest, AGridNoDeviceTakesIsOutOfRange) {
  EXPECT_THAT(ResolveLaunch(CopyRecipe(), CopyArguments(int64_t{1} << 42)),
              StatusIs(kOutOfRange, HasSubstr("step 0: grid_x is 4294967296, it must be 0 to "
                                              "2147483647")));
  LaunchRecipe recipe = CopyRecipe();
  recipe.steps[0].launch.grid[1] = E("n");
  EXPECT_THAT(ResolveLaunch(recipe, CopyArguments(65536)),
              StatusIs(kOutOfRange, HasSubstr("grid_y is 65536")));
}

TEST(ResolveLaunchTest, ABlockNoDeviceTakesIsOutOfRange) {
  LaunchRecipe recipe = CopyRecipe();
  recipe.steps[0].launch.block = {E("512"), E("4"), E("1")};
  EXPECT_THAT(ResolveLaunch(recipe, CopyArguments(1)),
              StatusIs(kOutOfRange, HasSubstr("threads per block is 2048")));
  recipe.steps[0].launch.block = {E("0"), E("1"), E("1")};
  EXPECT_THAT(ResolveLaunch(recipe, CopyArguments(1)),
              StatusIs(kOutOfRange, HasSubstr("block_x is 0")));
}

TEST(ResolveLaunchTest, ClustersMustDivideTheGrid) {
  LaunchRecipe recipe = CopyRecipe();
  recipe.steps[0].launch.cluster[0] = E("2");
  EXPECT_THAT(ResolveLaunch(recipe, CopyArguments(2048)), IsOk());
  EXPECT_THAT(ResolveLaunch(recipe, CopyArguments(3000)),
              StatusIs(kOutOfRange, HasSubstr("grid_x is 3, not a multiple of cluster_x 2")));
  recipe.steps[0].launch.cluster = {E("8"), E("4"), E("1")};
  recipe.steps[0].launch.grid = {E("8"), E("4"), E("1")};
  EXPECT_THAT(ResolveLaunch(recipe, CopyArguments(1)),
              StatusIs(kOutOfRange, HasSubstr("blocks per cluster is 32")));
}

TEST(ResolveLaunchTest, SharedMemoryBeyondTheDriversFieldIsOutOfRange) {
  LaunchRecipe recipe = CopyRecipe();
  recipe.steps[0].launch.dynamic_shared_bytes = E("n * 4");
  absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(recipe, CopyArguments(1024));
  ASSERT_THAT(launch, IsOk());
  EXPECT_EQ(launch->steps[0].dynamic_shared_bytes, 4096u);
  // More than any device has is still a number: the device's limit is checked where it is known.
  EXPECT_THAT(ResolveLaunch(recipe, CopyArguments(100000)), IsOk());
  EXPECT_THAT(ResolveLaunch(recipe, CopyArguments(int64_t{1} << 30)),
              StatusIs(kOutOfRange, HasSubstr("dynamic_shared_bytes is 4294967296")));
}

TEST(ResolveLaunchTest, MissingArgumentsAreNamed) {
  LaunchArguments arguments = CopyArguments(16);
  arguments.buffers.erase("src");
  EXPECT_THAT(ResolveLaunch(CopyRecipe(), arguments),
              StatusIs(kInvalidArgument,
                       HasSubstr("buffer 'src' is missing or null; 64 bytes are needed")));
  EXPECT_THAT(ResolveLaunch(ScalarRecipe(DataType::kF32), {}),
              StatusIs(kInvalidArgument, HasSubstr("scalar 's' is missing")));
  EXPECT_THAT(ResolveLaunch(CopyRecipe(), LaunchArguments{}),
              StatusIs(kInvalidArgument, HasSubstr("'n' has no value")));
}

TEST(ResolveLaunchTest, OptionalBuffersMayBeNull) {
  LaunchRecipe recipe = CopyRecipe();
  std::get<RecipeBuffer>(recipe.arguments[1].kind).optional = true;
  LaunchArguments arguments = CopyArguments(16);
  arguments.buffers.erase("src");
  absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(recipe, arguments);
  ASSERT_THAT(launch, IsOk());
  EXPECT_EQ(As<uint64_t>(launch->steps[0].arguments[1]), 0u);
}

TEST(ResolveLaunchTest, AShapeOtherThanTheSizesIsRefused) {
  LaunchArguments arguments = CopyArguments(16);
  arguments.buffers["src"].shape = {16};
  EXPECT_THAT(ResolveLaunch(CopyRecipe(), arguments), IsOk());
  arguments.buffers["src"].shape = {17};
  EXPECT_THAT(ResolveLaunch(CopyRecipe(), arguments),
              StatusIs(kInvalidArgument, HasSubstr("'src' has shape [17], these sizes need [16]")));
}

TEST(ResolveLaunchTest, ScalarsArePackedInTheirType) {
  EXPECT_EQ(As<uint16_t>(*PackScalar(DataType::kF16, 1.5)), 0x3E00);
  EXPECT_EQ(As<uint16_t>(*PackScalar(DataType::kBF16, 1.5)), 0x3FC0);
  EXPECT_EQ(As<uint8_t>(*PackScalar(DataType::kF8E4M3, 1.5)), 0x3C);
  EXPECT_EQ(As<uint8_t>(*PackScalar(DataType::kF8E5M2, 1.5)), 0x3E);
  EXPECT_EQ(As<float>(*PackScalar(DataType::kF32, 1e-6)), 1e-6f);
  EXPECT_EQ(As<double>(*PackScalar(DataType::kF64, 0.1)), 0.1);
  EXPECT_EQ(As<int32_t>(*PackScalar(DataType::kI32, -3)), -3);
  EXPECT_EQ(As<uint8_t>(*PackScalar(DataType::kBool, 1)), 1);
}

TEST(ResolveLaunchTest, ScalarsThatDoNotFitAreRefused) {
  EXPECT_THAT(
      PackScalar(DataType::kI32, 0x1p40),
      StatusIs(kInvalidArgument, HasSubstr("scalar 's': 1099511627776 is not a value of I32")));
  LaunchRecipe recipe = CopyRecipe();
  recipe.arguments[2].kind = ComputedScalar(DataType::kI32, "n");
  EXPECT_THAT(
      ResolveLaunch(recipe, CopyArguments(int64_t{1} << 31)),
      StatusIs(kInvalidArgument, HasSubstr("scalar 'n': 2147483648 is not a value of I32")));
}

TEST(ResolveLaunchTest, ExpressionsMayUseIntegralScalarsAndDeviceFacts) {
  LaunchRecipe recipe = ScalarRecipe(DataType::kI32);
  recipe.steps[0].launch.grid[0] = E("min(s, 2 * device.sm_count)");
  LaunchArguments arguments;
  arguments.scalars["s"] = 7;
  arguments.sizes["device.sm_count"] = 3;
  absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(recipe, arguments);
  ASSERT_THAT(launch, IsOk());
  EXPECT_EQ(launch->steps[0].grid[0], 6u);
}

TEST(ResolveLaunchTest, StepsWhoseConditionIsFalseAreLeftOut) {
  LaunchRecipe recipe = CopyRecipe();
  recipe.steps.push_back(recipe.steps[0]);
  recipe.steps[1].symbol = "tail";
  recipe.steps[1].when = E("n % 1024 != 0");
  EXPECT_THAT(ResolveLaunch(recipe, CopyArguments(2048))->steps, SizeIs(1));
  EXPECT_THAT(ResolveLaunch(recipe, CopyArguments(2049))->steps, SizeIs(2));
}

TEST(ResolveLaunchTest, MemsetsCoverTheWholeArgumentUnlessTheySay) {
  LaunchRecipe recipe = CopyRecipe();
  RecipeStep memset;
  memset.memset_argument = 0;
  memset.memset_value = 0xAB;
  recipe.steps.insert(recipe.steps.begin(), memset);
  absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(recipe, CopyArguments(100));
  ASSERT_THAT(launch, IsOk());
  EXPECT_TRUE(launch->steps[0].symbol.empty());
  EXPECT_EQ(launch->steps[0].memset_address, 0x100000u);
  EXPECT_EQ(launch->steps[0].memset_bytes, 400u);
  EXPECT_EQ(launch->steps[0].memset_value, 0xAB);

  recipe.steps[0].memset_bytes = E("n");
  EXPECT_EQ(ResolveLaunch(recipe, CopyArguments(100))->steps[0].memset_bytes, 100u);
  recipe.steps[0].memset_bytes = E("n * 5");
  EXPECT_THAT(ResolveLaunch(recipe, CopyArguments(100)),
              StatusIs(kOutOfRange, HasSubstr("memset.bytes is 500, 'dst' has 400")));
}

TEST(ResolveLaunchTest, ScratchZeroedAtEveryLaunchComesFirst) {
  LaunchRecipe recipe = CopyRecipe();
  recipe.arguments.push_back(
      {"partial", RecipeScratch{.bytes = E("n * 8"), .zeroed = ScratchZeroed::kEveryLaunch}});
  recipe.steps[0].arguments.push_back(3);
  LaunchArguments arguments = CopyArguments(16);
  EXPECT_THAT(ResolveLaunch(recipe, arguments),
              StatusIs(kInvalidArgument, HasSubstr("scratch 'partial' is missing or null")));
  arguments.scratch["partial"] = 0x300000;
  absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(recipe, arguments);
  ASSERT_THAT(launch, IsOk());
  ASSERT_THAT(launch->steps, SizeIs(2));
  EXPECT_EQ(launch->steps[0].memset_address, 0x300000u);
  EXPECT_EQ(launch->steps[0].memset_bytes, 128u);
  EXPECT_EQ(As<uint64_t>(launch->steps[1].arguments[3]), 0x300000u);
}

TEST(ResolveLaunchTest, DependentLaunchNeedsAKernelBeforeItInTheRecipe) {
  LaunchRecipe recipe = CopyRecipe();
  recipe.steps[0].programmatic_dependent_launch = true;
  recipe.steps.push_back(recipe.steps[0]);
  absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(recipe, CopyArguments(16));
  ASSERT_THAT(launch, IsOk());
  EXPECT_FALSE(launch->steps[0].programmatic_dependent_launch);
  EXPECT_TRUE(launch->steps[1].programmatic_dependent_launch);
}

LaunchRecipe TensorMapRecipe() {
  LaunchRecipe recipe = CopyRecipe();
  RecipeTensorMap map;
  map.buffer = "src";
  map.dtype = DataType::kF32;
  map.dims = {E("64"), E("n / 64")};
  map.strides_bytes = {E("64 * 4")};
  map.box = {E("32"), E("8")};
  recipe.arguments.push_back({"src_map", map});
  recipe.steps[0].arguments = {0, 3};
  recipe.steps.push_back(recipe.steps[0]);
  return recipe;
}

TEST(ResolveLaunchTest, TensorMapsAreEvaluatedOnce) {
  const LaunchRecipe recipe = TensorMapRecipe();
  absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(recipe, CopyArguments(4096));
  ASSERT_THAT(launch, IsOk());
  ASSERT_THAT(launch->tensor_maps, SizeIs(1));
  const ResolvedTensorMap& map = launch->tensor_maps[0];
  EXPECT_EQ(map.address, 0x200000u);
  EXPECT_THAT(map.dims, ElementsAre(64u, 64u));
  EXPECT_THAT(map.strides_bytes, ElementsAre(256u));
  EXPECT_THAT(map.box, ElementsAre(32u, 8u));
  EXPECT_THAT(map.element_strides, ElementsAre(1u, 1u));
  for (const ResolvedStep& step : launch->steps) {
    EXPECT_EQ(step.arguments[1].tensor_map, 0);
    EXPECT_THAT(step.arguments[1].bytes, SizeIs(128));
    EXPECT_EQ(step.arguments[0].tensor_map, -1);
  }
}

TEST(ResolveLaunchTest, IllShapedTensorMapsAreRefused) {
  LaunchRecipe recipe = TensorMapRecipe();
  auto& map = std::get<RecipeTensorMap>(recipe.arguments[3].kind);
  map.strides_bytes.clear();
  EXPECT_THAT(ResolveLaunch(recipe, CopyArguments(4096)),
              StatusIs(kInvalidArgument, HasSubstr("tensor map 'src_map': 2 dims need 1")));
  map.strides_bytes = {E("256")};
  map.box = {E("512"), E("1")};
  EXPECT_THAT(ResolveLaunch(recipe, CopyArguments(4096)),
              StatusIs(kOutOfRange, HasSubstr("box[0] is 512, it must be 1 to 256")));
}

}  // namespace
}  // namespace hone
