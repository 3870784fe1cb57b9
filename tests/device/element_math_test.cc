#include "runtime/device/element_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/device/host_elements.h"

namespace hone {
namespace {

template <typename T>
std::vector<T> Filled(int64_t n, FillSpec spec) {
  std::vector<T> values(static_cast<size_t>(n));
  FillElements(values.data(), n, spec);
  return values;
}

double Mean(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

double Deviation(const std::vector<float>& values) {
  const double mean = Mean(values);
  double sum = 0;
  for (const float value : values) sum += std::pow(static_cast<double>(value) - mean, 2);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(ElementMathTest, NormalHasMeanZeroAndDeviationOne) {
  const auto values = Filled<float>(200'000, {.kind = InitKind::kNormal, .seed = 7});
  EXPECT_NEAR(Mean(values), 0, 0.01);
  EXPECT_NEAR(Deviation(values), 1, 0.01);
  const auto beyond_2 =
      std::count_if(values.begin(), values.end(), [](float value) { return std::abs(value) > 2; });
  EXPECT_NEAR(static_cast<double>(beyond_2) / 200'000, 0.0455, 0.004);
}

TEST(ElementMathTest, UniformCoversMinusOneToOne) {
  const auto values = Filled<float>(100'000, {.kind = InitKind::kUniform, .seed = 7});
  EXPECT_NEAR(Mean(values), 0, 0.01);
  EXPECT_NEAR(Deviation(values), 1 / std::sqrt(3.0), 0.01);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -1);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), 1);
}

// The exact bits are a contract between devices: a change must be meant.
TEST(ElementMathTest, ValuesDependOnSeedAndIndexOnly) {
  const auto all = Filled<float>(1000, {.kind = InitKind::kNormal, .seed = 3});
  const auto few = Filled<float>(10, {.kind = InitKind::kNormal, .seed = 3});
  EXPECT_TRUE(std::equal(few.begin(), few.end(), all.begin()));
  const auto other = Filled<float>(10, {.kind = InitKind::kNormal, .seed = 4});
  EXPECT_FALSE(std::equal(few.begin(), few.end(), other.begin()));
  EXPECT_EQ(element::Random(0, 0), 0xe220a8397b1dcdafULL);  // SplitMix64's published first output
  EXPECT_EQ(element::Random(0, 1), 0x6e789e6aa1b965f4ULL);
}

TEST(ElementMathTest, IntegersStayInTheirRange) {
  const auto values = Filled<int32_t>(
      10'000,
      {.kind = InitKind::kUniformInt, .dtype = DataType::kI32, .low = -3, .high = 4, .seed = 1});
  EXPECT_EQ(*std::min_element(values.begin(), values.end()), -3);
  EXPECT_EQ(*std::max_element(values.begin(), values.end()), 4);
  const auto index = Filled<int64_t>(
      10'000, {.kind = InitKind::kIndex, .dtype = DataType::kI64, .high = 5, .seed = 1});
  EXPECT_EQ(*std::min_element(index.begin(), index.end()), 0);
  EXPECT_EQ(*std::max_element(index.begin(), index.end()), 4);
  const auto whole = Filled<int64_t>(100, {.kind = InitKind::kUniformInt,
                                           .dtype = DataType::kI64,
                                           .low = std::numeric_limits<int64_t>::min(),
                                           .high = std::numeric_limits<int64_t>::max(),
                                           .seed = 1});
  EXPECT_TRUE(std::any_of(whole.begin(), whole.end(), [](int64_t x) { return x < 0; }));
  EXPECT_TRUE(std::any_of(whole.begin(), whole.end(), [](int64_t x) { return x > 0; }));
}

TEST(ElementMathTest, NormalBytesVaryAndNeverEqualPoison) {
  const auto bytes =
      Filled<uint8_t>(10'000, {.kind = InitKind::kNormal, .dtype = DataType::kU8, .seed = 1});
  EXPECT_EQ(*std::max_element(bytes.begin(), bytes.end()), 200);
  EXPECT_EQ(*std::min_element(bytes.begin(), bytes.end()), 0);
}

TEST(ElementMathTest, PermutationsHoldEveryIndexOnce) {
  for (const int64_t n : {1, 2, 3, 17, 1000, 4096}) {
    auto values =
        Filled<int32_t>(n, {.kind = InitKind::kPermutation, .dtype = DataType::kI32, .seed = 5});
    if (n >= 17) {
      EXPECT_FALSE(std::is_sorted(values.begin(), values.end())) << n;
    }
    std::sort(values.begin(), values.end());
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], i) << n;
  }
}

TEST(ElementMathTest, OffsetsRiseFromZeroToTheTotal) {
  for (const double skew : {0.0, 0.5, 3.0, 50.0}) {
    const auto values = Filled<int32_t>(129, {.kind = InitKind::kOffsets,
                                              .dtype = DataType::kI32,
                                              .high = 10'000,
                                              .skew = skew,
                                              .seed = 5});
    EXPECT_EQ(values.front(), 0);
    EXPECT_EQ(values.back(), 10'000);
    EXPECT_TRUE(std::is_sorted(values.begin(), values.end())) << skew;
  }
  const auto even = Filled<int32_t>(
      5, {.kind = InitKind::kOffsets, .dtype = DataType::kI32, .high = 100, .seed = 5});
  EXPECT_EQ(even, (std::vector<int32_t>{0, 25, 50, 75, 100}));
}

TEST(ElementMathTest, SmallFloatFormatsRoundToNearestEven) {
  using element::EncodeFloat;
  EXPECT_EQ(EncodeFloat(element::kTypeF16, 1.0f), 0x3c00u);
  EXPECT_EQ(EncodeFloat(element::kTypeF16, -2.0f), 0xc000u);
  EXPECT_EQ(EncodeFloat(element::kTypeF16, 65504.0f), 0x7bffu);
  EXPECT_EQ(EncodeFloat(element::kTypeF16, 65520.0f), 0x7c00u);
  EXPECT_EQ(EncodeFloat(element::kTypeF16, 1.0f + 1.0f / 2048), 0x3c00u);     // tie, even below
  EXPECT_EQ(EncodeFloat(element::kTypeF16, 1.0f + 3.0f / 2048), 0x3c02u);     // tie, even above
  EXPECT_EQ(EncodeFloat(element::kTypeF16, std::ldexp(1.0f, -24)), 0x0001u);  // least subnormal
  EXPECT_EQ(EncodeFloat(element::kTypeF16, std::ldexp(1.0f, -25)), 0x0000u);  // tie to even
  EXPECT_EQ(EncodeFloat(element::kTypeF16, std::ldexp(1.5f, -25)), 0x0001u);
  EXPECT_EQ(EncodeFloat(element::kTypeBF16, 1.0f), 0x3f80u);
  EXPECT_EQ(EncodeFloat(element::kTypeBF16, 1.0f + 1.0f / 256), 0x3f80u);
  EXPECT_EQ(EncodeFloat(element::kTypeF8E4M3, 448.0f), 0x7eu);
  EXPECT_EQ(EncodeFloat(element::kTypeF8E4M3, 1000.0f), 0x7eu);
  EXPECT_EQ(EncodeFloat(element::kTypeF8E5M2, 57344.0f), 0x7bu);
  EXPECT_EQ(EncodeFloat(element::kTypeF8E5M2, -1e9f), 0xfbu);
}

TEST(ElementMathTest, EveryFiniteSmallFloatSurvivesDecodingAndEncoding) {
  for (const int type :
       {static_cast<int>(element::kTypeF16), static_cast<int>(element::kTypeBF16),
        static_cast<int>(element::kTypeF8E4M3), static_cast<int>(element::kTypeF8E5M2)}) {
    const uint64_t end = uint64_t{1} << (8 * element::ElementBytes(type));
    for (uint64_t bits = 0; bits < end; ++bits) {
      if (element::IsNan(type, bits)) {
        EXPECT_TRUE(std::isnan(element::Decode(type, bits)));
      } else if (!element::IsInfinite(type, bits)) {
        const float value = static_cast<float>(element::Decode(type, bits));
        ASSERT_EQ(element::EncodeFloat(type, value), bits) << type;
      }
    }
  }
}

TEST(CompareElementsTest, EqualBitsMatchAndDifferencesAreLocated) {
  const std::vector<float> reference = {1, 2, 3, 4};
  std::vector<float> values = reference;
  EXPECT_EQ(CompareElements(values.data(), reference.data(), 4, DataType::kF32, {.exact = true})
                .mismatches,
            0);
  values[1] = 2.5f;
  values[3] = 4.001f;
  const CompareResult result =
      CompareElements(values.data(), reference.data(), 4, DataType::kF32, {.atol = 0.01});
  EXPECT_EQ(result.mismatches, 1);
  EXPECT_EQ(result.first_mismatch, 1);
  EXPECT_EQ(result.first_value, 2.5);
  EXPECT_EQ(result.first_reference, 2);
  EXPECT_EQ(result.max_abs_error, 0.5);
  EXPECT_EQ(result.max_rel_error, 0.25);
}

TEST(CompareElementsTest, RelativeToleranceScalesWithTheReference) {
  const std::vector<float> reference = {1000, 1};
  const std::vector<float> values = {1009, 1.02f};
  EXPECT_EQ(CompareElements(values.data(), reference.data(), 2, DataType::kF32, {.rtol = 0.01})
                .mismatches,
            1);
}

TEST(CompareElementsTest, InfinityIsOnlyRightWhereTheReferenceHasIt) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> reference = {infinity, 1, infinity};
  const std::vector<float> values = {infinity, infinity, 1};
  EXPECT_EQ(
      CompareElements(values.data(), reference.data(), 3, DataType::kF32, {.rtol = 1}).mismatches,
      2);
}

TEST(CompareElementsTest, NanMatchesNanUnlessForbiddenAndPoisonNeverDoes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float poison = element::BitsFloat(0xffffffffu);
  const std::vector<float> reference = {nan, nan, 1};
  const std::vector<float> values = {-nan, poison, nan};
  Tolerance tolerance{.atol = 1};
  const CompareResult result =
      CompareElements(values.data(), reference.data(), 3, DataType::kF32, tolerance);
  EXPECT_EQ(result.mismatches, 2);
  EXPECT_EQ(result.first_mismatch, 1);
  tolerance.nan = NanPolicy::kNanForbidden;
  EXPECT_EQ(CompareElements(values.data(), values.data(), 1, DataType::kF32, tolerance).mismatches,
            1);
}

TEST(CompareElementsTest, IntegersAreEqualOrNot) {
  const std::vector<int64_t> reference = {int64_t{1} << 60, -5};
  const std::vector<int64_t> values = {(int64_t{1} << 60) + 1, -5};
  EXPECT_EQ(CompareElements(values.data(), reference.data(), 2, DataType::kI64, {.exact = true})
                .mismatches,
            1);
}

TEST(ChecksumTest, TellsOrderAndEveryBitAndDoesNotDependOnPieces) {
  std::vector<unsigned char> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 7);
  const uint64_t whole = AddChecksum(0, bytes.data(), 1000, 0);
  EXPECT_EQ(AddChecksum(AddChecksum(0, bytes.data(), 504, 0), bytes.data() + 504, 496, 63), whole);
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 8);
  EXPECT_NE(AddChecksum(0, bytes.data(), 1000, 0), whole);
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 8);
  bytes[999] ^= 1;
  EXPECT_NE(AddChecksum(0, bytes.data(), 1000, 0), whole);
}

TEST(FindByteNotTest, FindsTheFirstOtherByte) {
  std::vector<unsigned char> bytes(100, 0xb7);
  EXPECT_EQ(FindByteNotInMemory(bytes.data(), 0xb7, 100), -1);
  bytes[99] = 0;
  EXPECT_EQ(FindByteNotInMemory(bytes.data(), 0xb7, 100), 99);
  bytes[0] = 1;
  EXPECT_EQ(FindByteNotInMemory(bytes.data(), 0xb7, 100), 0);
  EXPECT_EQ(FindByteNotInMemory(bytes.data(), 0xb7, 0), -1);
}

}  // namespace
}  // namespace hone
