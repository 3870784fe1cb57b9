#include "client/cli/generated_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace hone::cli {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using enum absl::StatusCode;

template <typename T>
std::vector<T> Generated(const InputSpec& spec, int64_t elements) {
  absl::StatusOr<std::string> bytes = GenerateInput(spec, elements);
  EXPECT_THAT(bytes, IsOk());
  EXPECT_EQ(bytes->size(), static_cast<size_t>(elements) * sizeof(T));
  std::vector<T> values(static_cast<size_t>(elements));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

TEST(GeneratedInputsTest, NormalValuesHaveMeanZeroAndDeviationOne) {
  const auto values = Generated<float>({.init = v1::Buffer::NORMAL, .seed = 1}, 100000);
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / 1e5;
  double squares = 0;
  for (const float value : values) squares += value * value;
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / 1e5), 1, 0.02);
}

TEST(GeneratedInputsTest, TheSameSeedGivesTheSameData) {
  const InputSpec spec{.init = v1::Buffer::NORMAL, .seed = 7};
  EXPECT_EQ(*GenerateInput(spec, 1000), *GenerateInput(spec, 1000));
  EXPECT_NE(*GenerateInput(spec, 1000),
            *GenerateInput({.init = v1::Buffer::NORMAL, .seed = 8}, 1000));
}

TEST(GeneratedInputsTest, IntegersStayInTheirRange) {
  const auto bytes = Generated<uint8_t>(
      {.dtype = DataType::kU8, .init = v1::Buffer::UNIFORM_INT, .low = 3, .high = 5}, 1000);
  EXPECT_THAT(bytes, Each(testing::AllOf(testing::Ge(3), testing::Le(5))));
  EXPECT_EQ(*std::min_element(bytes.begin(), bytes.end()), 3);
  EXPECT_EQ(*std::max_element(bytes.begin(), bytes.end()), 5);
  const auto index =
      Generated<int32_t>({.dtype = DataType::kI32, .init = v1::Buffer::INDEX, .high = 4}, 1000);
  EXPECT_THAT(index, Each(testing::AllOf(testing::Ge(0), testing::Lt(4))));
}

TEST(GeneratedInputsTest, Sequences) {
  EXPECT_THAT(Generated<int32_t>({.dtype = DataType::kI32, .init = v1::Buffer::IOTA}, 3),
              ElementsAre(0, 1, 2));
  auto permutation =
      Generated<int32_t>({.dtype = DataType::kI32, .init = v1::Buffer::PERMUTATION}, 100);
  EXPECT_FALSE(std::is_sorted(permutation.begin(), permutation.end()));
  std::sort(permutation.begin(), permutation.end());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(permutation[static_cast<size_t>(i)], i);
  EXPECT_THAT(
      Generated<int64_t>({.dtype = DataType::kI64, .init = v1::Buffer::OFFSETS, .high = 12}, 4),
      ElementsAre(0, 4, 8, 12));
  EXPECT_THAT(Generated<float>({.init = v1::Buffer::ZEROS}, 2), ElementsAre(0, 0));
}

TEST(GeneratedInputsTest, LongInputsRepeat) {
  const auto values = Generated<float>({.init = v1::Buffer::UNIFORM, .seed = 3}, 2'100'000);
  EXPECT_EQ(values[0], values[1'000'003]);
  EXPECT_NE(values[0], values[1'000'000]);
}

TEST(GeneratedInputsTest, WhatCannotBeMadeIsSaid) {
  EXPECT_THAT(GenerateInput({.init = v1::Buffer::CAPTURE}, 1),
              StatusIs(kUnimplemented, HasSubstr("CAPTURE")));
  EXPECT_THAT(GenerateInput({.init = v1::Buffer::UNIFORM_INT, .low = 2, .high = 1}, 1),
              StatusIs(kInvalidArgument, HasSubstr("[2, 1]")));
  EXPECT_THAT(GenerateInput({.dtype = DataType::kU8, .init = v1::Buffer::IOTA}, 300),
              StatusIs(kInvalidArgument, HasSubstr("element 256: 256 is not a value of U8")));
}

}  // namespace
}  // namespace hone::cli
