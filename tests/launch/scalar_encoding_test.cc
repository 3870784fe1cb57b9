#include "runtime/launch/scalar_encoding.h"

#include <cmath>
#include <limits>

#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::HasSubstr;
using enum absl::StatusCode;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ScalarEncodingTest, HalfRoundsToNearestEven) {
  EXPECT_THAT(EncodeScalar(DataType::kF16, 1.0), IsOkAndHolds(0x3C00u));
  EXPECT_THAT(EncodeScalar(DataType::kF16, -2.0), IsOkAndHolds(0xC000u));
  EXPECT_THAT(EncodeScalar(DataType::kF16, 65504.0), IsOkAndHolds(0x7BFFu));
  EXPECT_THAT(EncodeScalar(DataType::kF16, 65519.9), IsOkAndHolds(0x7BFFu));
  EXPECT_THAT(EncodeScalar(DataType::kF16, 65520.0), IsOkAndHolds(0x7C00u));
  EXPECT_THAT(EncodeScalar(DataType::kF16, -kInfinity), IsOkAndHolds(0xFC00u));
  EXPECT_THAT(EncodeScalar(DataType::kF16, 0x1p-24), IsOkAndHolds(0x0001u));  // least subnormal
  EXPECT_THAT(EncodeScalar(DataType::kF16, 0x1p-25), IsOkAndHolds(0x0000u));  // tie to even
  EXPECT_THAT(EncodeScalar(DataType::kF16, 0x1.8p-24), IsOkAndHolds(0x0002u));
  EXPECT_THAT(EncodeScalar(DataType::kF16, 2049.0), IsOkAndHolds(0x6800u));  // tie: 2048
  EXPECT_THAT(EncodeScalar(DataType::kF16, 2051.0), IsOkAndHolds(0x6802u));  // tie: 2052
  EXPECT_THAT(EncodeScalar(DataType::kF16, -0.0), IsOkAndHolds(0x8000u));
}

TEST(ScalarEncodingTest, HalfIsRoundedOnce) {
  // Through float this would first become the tie 1 + 2^-11 and then round down to even.
  EXPECT_THAT(EncodeScalar(DataType::kF16, 1.0 + 0x1p-11 + 0x1p-40), IsOkAndHolds(0x3C01u));
}

TEST(ScalarEncodingTest, BFloatAndFp8) {
  EXPECT_THAT(EncodeScalar(DataType::kBF16, 1.0), IsOkAndHolds(0x3F80u));
  EXPECT_THAT(EncodeScalar(DataType::kBF16, 1e39), IsOkAndHolds(0x7F80u));
  EXPECT_THAT(EncodeScalar(DataType::kF8E4M3, 448.0), IsOkAndHolds(0x7Eu));
  EXPECT_THAT(EncodeScalar(DataType::kF8E4M3, 1e6), IsOkAndHolds(0x7Eu));  // saturates
  EXPECT_THAT(EncodeScalar(DataType::kF8E4M3, 1.0), IsOkAndHolds(0x38u));
  EXPECT_THAT(EncodeScalar(DataType::kF8E5M2, -1e6), IsOkAndHolds(0xFBu));
  EXPECT_THAT(EncodeScalar(DataType::kF8E5M2, 1.0), IsOkAndHolds(0x3Cu));
}

TEST(ScalarEncodingTest, EveryFiniteSmallFloatSurvivesARoundTrip) {
  for (const DataType type :
       {DataType::kF16, DataType::kBF16, DataType::kF8E4M3, DataType::kF8E5M2}) {
    const uint64_t count = uint64_t{1} << (8 * SizeBytes(type));
    for (uint64_t bits = 0; bits < count; ++bits) {
      const double value = DecodeScalar(type, bits);
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(EncodeScalar(type, value).value_or(~bits), bits) << Name(type) << " " << value;
    }
  }
}

TEST(ScalarEncodingTest, NotANumberStaysOne) {
  for (const DataType type : {DataType::kF16, DataType::kBF16, DataType::kF8E4M3, DataType::kF8E5M2,
                              DataType::kF32, DataType::kF64}) {
    const absl::StatusOr<uint64_t> bits = EncodeScalar(type, std::nan(""));
    ASSERT_THAT(bits, IsOk());
    EXPECT_TRUE(std::isnan(DecodeScalar(type, *bits))) << Name(type);
  }
}

TEST(ScalarEncodingTest, IntegersMustFit) {
  EXPECT_THAT(EncodeScalar(DataType::kI8, -128), IsOkAndHolds(0x80u));
  EXPECT_THAT(EncodeScalar(DataType::kI8, 128),
              StatusIs(kOutOfRange, HasSubstr("128 is not a value of I8")));
  EXPECT_THAT(EncodeScalar(DataType::kU8, -1), StatusIs(kOutOfRange, HasSubstr("U8")));
  EXPECT_THAT(EncodeScalar(DataType::kI32, 0.5), StatusIs(kOutOfRange, HasSubstr("0.5")));
  EXPECT_THAT(EncodeScalar(DataType::kI32, std::nan("")), StatusIs(kOutOfRange, HasSubstr("nan")));
  EXPECT_THAT(EncodeScalar(DataType::kU64, 0x1p63), IsOkAndHolds(uint64_t{1} << 63));
  EXPECT_THAT(EncodeScalar(DataType::kU64, 0x1p64), StatusIs(kOutOfRange, HasSubstr("U64")));
  EXPECT_THAT(EncodeScalar(DataType::kI64, 0x1p63), StatusIs(kOutOfRange, HasSubstr("I64")));
  EXPECT_THAT(EncodeScalar(DataType::kBool, 2), StatusIs(kOutOfRange, HasSubstr("BOOL")));
  EXPECT_THAT(EncodeInteger(DataType::kI64, std::numeric_limits<int64_t>::min()),
              IsOkAndHolds(uint64_t{1} << 63));
  EXPECT_THAT(EncodeInteger(DataType::kU64, -1), StatusIs(kOutOfRange, HasSubstr("-1")));
  EXPECT_THAT(EncodeInteger(DataType::kU32, 0xFFFFFFFFll), IsOkAndHolds(0xFFFFFFFFu));
  EXPECT_THAT(EncodeInteger(DataType::kI32, -1), IsOkAndHolds(0xFFFFFFFFu));
  EXPECT_THAT(EncodeInteger(DataType::kF16, 3), IsOkAndHolds(0x4200u));
}

TEST(ScalarEncodingTest, IntegersDecode) {
  EXPECT_EQ(DecodeScalar(DataType::kI16, 0xFFFE), -2);
  EXPECT_EQ(DecodeScalar(DataType::kU16, 0xFFFE), 65534);
  EXPECT_EQ(DecodeScalar(DataType::kI32, 0xFFFFFFFF), -1);
  EXPECT_EQ(DecodeScalar(DataType::kBool, 1), 1);
}

}  // namespace
}  // namespace hone
