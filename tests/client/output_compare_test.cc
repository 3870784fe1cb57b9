#include "client/cli/output_compare.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone::cli {
namespace {

using testing::HasSubstr;

std::string Bytes(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

const BufferExtent kFour{.shape = {4}, .strides = {1}};

TEST(OutputCompareTest, ExactMeansBits) {
  const OutputTolerance exact{.exact = true};
  EXPECT_TRUE(
      CompareOutputs(Bytes({1, 2, 3, 4}), Bytes({1, 2, 3, 4}), kFour, DataType::kF32, exact).right);
  const OutputComparison off = CompareOutputs(Bytes({1, 2, 3, 4}), Bytes({1, 2, 3.0000002f, 4}),
                                              kFour, DataType::kF32, exact);
  EXPECT_FALSE(off.right);
  EXPECT_EQ(off.mismatches, 1);
  EXPECT_THAT(off.first_mismatch, HasSubstr("[2]: 3"));
  EXPECT_FALSE(
      CompareOutputs(Bytes({0, 0, 0, 0}), Bytes({-0.f, 0, 0, 0}), kFour, DataType::kF32, exact)
          .right);
}

TEST(OutputCompareTest, ToleranceIsAbsolutePlusRelative) {
  const OutputTolerance loose{.atol = 0.1, .rtol = 0.01};
  EXPECT_TRUE(CompareOutputs(Bytes({10.15f, 0.05f, 0, 0}), Bytes({10, 0, 0, 0}), kFour,
                             DataType::kF32, loose)
                  .right);
  EXPECT_FALSE(
      CompareOutputs(Bytes({10.25f, 0, 0, 0}), Bytes({10, 0, 0, 0}), kFour, DataType::kF32, loose)
          .right);
}

TEST(OutputCompareTest, NansMatchNansUnlessForbidden) {
  const float nan = std::nanf("");
  const std::string values = Bytes({nan, 1, 1, 1});
  OutputTolerance tolerance{.atol = 1};
  EXPECT_TRUE(CompareOutputs(values, values, kFour, DataType::kF32, tolerance).right);
  EXPECT_FALSE(CompareOutputs(values, Bytes({1, 1, 1, 1}), kFour, DataType::kF32, tolerance).right);
  tolerance.nan_forbidden = true;
  EXPECT_FALSE(CompareOutputs(values, values, kFour, DataType::kF32, tolerance).right);
}

TEST(OutputCompareTest, InfinitiesMatchThemselvesOnly) {
  const float inf = std::numeric_limits<float>::infinity();
  const OutputTolerance tolerance{.atol = 1, .rtol = 1};
  EXPECT_TRUE(
      CompareOutputs(Bytes({inf, 0, 0, 0}), Bytes({inf, 0, 0, 0}), kFour, DataType::kF32, tolerance)
          .right);
  EXPECT_FALSE(CompareOutputs(Bytes({inf, 0, 0, 0}), Bytes({-inf, 0, 0, 0}), kFour, DataType::kF32,
                              tolerance)
                   .right);
}

TEST(OutputCompareTest, WhatLiesBetweenRowsIsNotCompared) {
  const BufferExtent strided{.shape = {2, 1}, .strides = {2, 1}};
  const OutputTolerance exact{.exact = true};
  EXPECT_TRUE(
      CompareOutputs(Bytes({1, 9, 2}), Bytes({1, 8, 2}), strided, DataType::kF32, exact).right);
  EXPECT_FALSE(
      CompareOutputs(Bytes({1, 9, 3}), Bytes({1, 9, 2}), strided, DataType::kF32, exact).right);
}

TEST(OutputCompareTest, AShareMayMiss) {
  const OutputTolerance share{.mismatch_share_max = 0.25};
  EXPECT_TRUE(
      CompareOutputs(Bytes({1, 2, 3, 9}), Bytes({1, 2, 3, 4}), kFour, DataType::kF32, share).right);
  EXPECT_FALSE(
      CompareOutputs(Bytes({1, 2, 9, 9}), Bytes({1, 2, 3, 4}), kFour, DataType::kF32, share).right);
}

TEST(OutputCompareTest, NothingIsRight) {
  const BufferExtent empty{.shape = {0}, .strides = {1}};
  EXPECT_TRUE(CompareOutputs("", "", empty, DataType::kF32, {.exact = true}).right);
}

TEST(OutputToleranceTest, TheOutputsTypeMayHaveItsOwn) {
  v1::Check check;
  check.set_atol(1);
  check.set_rtol(2);
  v1::DtypeTolerance* special = check.add_by_dtype();
  special->set_dtype(v1::F16);
  special->set_atol(3);
  EXPECT_EQ(OutputTolerance::Of(check, DataType::kF32).atol, 1);
  EXPECT_EQ(OutputTolerance::Of(check, DataType::kF16).atol, 3);
  EXPECT_EQ(OutputTolerance::Of(check, DataType::kF16).rtol, 0);
}

}  // namespace
}  // namespace hone::cli
