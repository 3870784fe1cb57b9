#include "runtime/kernel/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernel/specs.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// T (F32 F16), dynamic n, static m, choice act, flag causal.
KernelTemplatePtr Rich() {
  return Made(Changed([](TemplateSpec& spec) {
    Parameter m;
    m.name = "m";
    m.min = 8;
    m.max = 4096;
    m.multiple_of = 8;
    m.default_value = int64_t{64};
    Parameter act;
    act.name = "act";
    act.kind = ParameterKind::kChoice;
    act.choices = {"relu", "ns::gelu"};
    Parameter causal;
    causal.name = "causal";
    causal.kind = ParameterKind::kFlag;
    causal.default_value = int64_t{0};
    spec.params.insert(spec.params.end(), {m, act, causal});
  }));
}

TEST(ProblemTest, FillsDefaultsAndPrintsSorted) {
  const auto made = Rich();
  const auto problem = Problem::Create(
      *made, {{"n", int64_t{10}}, {"act", std::string("relu")}, {"T", DataType::kF16}});
  ASSERT_THAT(problem, IsOk());
  EXPECT_EQ(problem->ToString(), "T=F16 act=relu causal=0 m=64 n=10");
  EXPECT_EQ(problem->dynamic_sizes(), (SizeBindings{{"n", 10}}));
  EXPECT_EQ(problem->specialised().count("n"), 0u);
  EXPECT_EQ(problem->specialised().count("m"), 1u);
}

TEST(ProblemTest, ReadsTextAsWhatTheParameterIs) {
  const auto made = Rich();
  const auto problem = Problem::Parse(*made, "T=f16 n=10 act=ns::gelu causal=true m=8");
  ASSERT_THAT(problem, IsOk());
  EXPECT_EQ(problem->ToString(), "T=F16 act=ns::gelu causal=1 m=8 n=10");
  EXPECT_THAT(Problem::Parse(*made, problem->ToString()), IsOkAndHolds(*problem));
}

TEST(ProblemTest, RefusesValuesOutsideTheDomainNamingBoth) {
  const auto made = Rich();
  const auto error = [&](const std::string& text) { return Problem::Parse(*made, text).status(); };
  EXPECT_THAT(error("n=1 act=tanh"), StatusIs(absl::StatusCode::kInvalidArgument,
                                              AllOf(HasSubstr("params.act"), HasSubstr("tanh"),
                                                    HasSubstr("relu, ns::gelu"))));
  EXPECT_THAT(
      error("n=1 act=relu T=F64"),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("F64"), HasSubstr("F32, F16"))));
  EXPECT_THAT(error("n=1 act=relu m=12"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("params.m"), HasSubstr("12"), HasSubstr("multiple of 8"))));
  EXPECT_THAT(error("n=1 act=relu m=8192"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("8 to 4096")));
  EXPECT_THAT(error("n=-1 act=relu"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at least 0")));
  EXPECT_THAT(error("n=1e6 act=relu"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1e6")));
  EXPECT_THAT(error("n=1 act=relu causal=2"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("true or false")));
}

TEST(ProblemTest, RefusesMissingUnknownAndRepeatedNames) {
  const auto made = Rich();
  EXPECT_THAT(Problem::Parse(*made, "n=1"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("params.act"), HasSubstr("not given"))));
  EXPECT_THAT(Problem::Parse(*made, "n=1 act=relu N=2"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("params.N"), HasSubstr("T, n, m, act, causal"))));
  EXPECT_THAT(Problem::Parse(*made, "n=1 n=2 act=relu"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
}

TEST(ProblemTest, AValueOfTheWrongKindIsRefused) {
  const auto made = Rich();
  EXPECT_THAT(Problem::Create(*made, {{"n", DataType::kF32}, {"act", std::string("relu")}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("params.n")));
  EXPECT_THAT(Problem::Create(*made, {{"n", int64_t{1}}, {"act", int64_t{3}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("params.act")));
}

TEST(ProblemTest, BucketedReplacesEverySizeByItsBucket) {
  const auto made = SimpleTemplate();
  EXPECT_EQ(ProblemOf(*made, "n=67108865").Bucketed(*made).ToString(), "T=F32 n=67108864");
  const Problem bucketed = ProblemOf(*made, "n=1000").Bucketed(*made);
  EXPECT_EQ(bucketed.dynamic_sizes().at("n"), 512);
  EXPECT_EQ(bucketed, ProblemOf(*made, "n=512"));
}

TEST(ProblemTest, WithSizesChangesDynamicSizesOnly) {
  const auto made = Rich();
  const Problem problem = ProblemOf(*made, "n=1 act=relu");
  const Problem other = problem.WithSizes({{"n", 7}, {"m", 8}, {"x", 1}});
  EXPECT_EQ(other.ToString(), "T=F32 act=relu causal=0 m=64 n=7");
  EXPECT_EQ(other.dynamic_sizes(), (SizeBindings{{"n", 7}}));
}

Parameter Size(BucketRule bucket, std::vector<int64_t> values = {}) {
  Parameter size;
  size.name = "n";
  size.dynamic = true;
  size.min = 0;
  size.bucket = bucket;
  size.bucket_values = std::move(values);
  return size;
}

TEST(BucketTest, PowersOfTwoRoundDown) {
  const Parameter size = Size(BucketRule::kPow2);
  EXPECT_EQ(BucketOf(size, 0), 1);
  EXPECT_EQ(BucketOf(size, 1), 1);
  EXPECT_EQ(BucketOf(size, 3), 2);
  EXPECT_EQ(BucketOf(size, 4), 4);
  EXPECT_EQ(BucketOf(size, (int64_t{1} << 62) - 1), int64_t{1} << 61);
}

// scenario P32
TEST(BucketTest, ListsRoundDownAndSizesBelowTheFirstUseTheFirst) {
  const Parameter size = Size(BucketRule::kList, {16, 256, 4096});
  EXPECT_EQ(BucketOf(size, 1), 16);
  EXPECT_EQ(BucketOf(size, 16), 16);
  EXPECT_EQ(BucketOf(size, 17), 16);
  EXPECT_EQ(BucketOf(size, 300), 256);
  EXPECT_EQ(BucketOf(size, 5000), 4096);
  std::set<int64_t> keys;
  for (int64_t n = 1; n <= 1000; ++n) keys.insert(BucketOf(size, n * 37 % 6000));
  EXPECT_EQ(keys.size(), 3u);
}

TEST(BucketTest, ExactSizesStayAsTheyAre) {
  EXPECT_EQ(BucketOf(Size(BucketRule::kExact), 12345), 12345);
}

TEST(BucketTest, ABucketIsAlwaysADeclaredSize) {
  Parameter size = Size(BucketRule::kPow2);
  size.min = 96;
  size.max = 960;
  size.multiple_of = 48;
  for (int64_t n = 96; n <= 960; n += 48) {
    const int64_t bucket = BucketOf(size, n);
    EXPECT_LE(bucket, n);
    EXPECT_GE(bucket, 96);
    EXPECT_EQ(bucket % 48, 0) << n;
  }
  EXPECT_EQ(BucketOf(size, 288), 240);  // 256, rounded down to a multiple
}

}  // namespace
}  // namespace hone
