#include "client/cli/tuning_compare.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

void AddTimed(v1::GetTuningResponse& tuning, const std::string& config, double median_ns,
              const std::string& driver) {
  v1::MeasurementInfo* m = tuning.add_measurements();
  m->set_config(config);
  m->set_median_ns(median_ns);
  m->set_gb_per_s(1e6 / median_ns);
  m->set_driver(driver);
  if (tuning.summary().winner().median_ns() == 0 ||
      median_ns < tuning.summary().winner().median_ns()) {
    *tuning.mutable_summary()->mutable_winner() = *m;
  }
}

v1::GetTuningResponse Tuning(const std::string& key, const std::string& architecture,
                             const std::vector<std::pair<std::string, double>>& times,
                             const std::string& driver = "580.1") {
  v1::GetTuningResponse tuning;
  tuning.mutable_summary()->set_key(key);
  tuning.mutable_summary()->set_template_name("copy_1d");
  (*tuning.mutable_summary()->mutable_params())["n"].set_integer(64);
  tuning.mutable_summary()->mutable_device()->set_kind("cuda");
  tuning.mutable_summary()->mutable_device()->set_architecture(architecture);
  for (const auto& [config, ns] : times) AddTimed(tuning, config, ns, driver);
  v1::MeasurementInfo* rejected = tuning.add_measurements();
  rejected->set_config("A=9");
  rejected->mutable_rejection()->set_kind("compile");
  return tuning;
}

TEST(CompareTest, RatiosAndRanksAreOfTheConfigsInBoth) {
  const auto a = Tuning("aaaaaa", "sm_80", {{"A=1", 100}, {"A=2", 200}, {"A=3", 400}, {"A=4", 50}});
  const auto b = Tuning("bbbbbb", "sm_90a", {{"A=1", 80}, {"A=2", 50}, {"A=3", 200}, {"A=5", 10}});
  const TuningComparison comparison = CompareTunings(a, b);
  ASSERT_EQ(comparison.common.size(), 3u);
  EXPECT_EQ(comparison.only_a, 1);
  EXPECT_EQ(comparison.only_b, 1);
  EXPECT_EQ(comparison.common[0].config, "A=1");
  EXPECT_EQ(comparison.common[0].a_rank, 1);
  EXPECT_EQ(comparison.common[0].b_rank, 2);
  EXPECT_NEAR(comparison.mean_ratio, std::cbrt(0.8 * 0.25 * 0.5), 1e-9);
  EXPECT_NEAR(comparison.least_ratio, 0.25, 1e-9);
  EXPECT_NEAR(comparison.largest_ratio, 0.8, 1e-9);
  // Of three pairs, A=1 and A=2 changed places.
  EXPECT_NEAR(comparison.same_order_share, 2.0 / 3, 1e-9);
}

TEST(CompareTest, TheTextSaysWhereEachWinnerStandsInTheOther) {
  const auto a = Tuning("aaaaaa", "sm_80", {{"A=1", 100}, {"A=2", 200}, {"A=4", 50}});
  const auto b = Tuning("bbbbbb", "sm_90a", {{"A=1", 80}, {"A=2", 50}});
  const std::string text = CompareText(a, b);
  EXPECT_THAT(text, AllOf(HasSubstr("sm_80"), HasSubstr("sm_90a"), HasSubstr("2 configs in both"),
                          HasSubstr("A's winner was not timed in B"),
                          HasSubstr("B's winner is number 2 in A, 100.0% behind the fastest"),
                          HasSubstr("B takes 1.00x the time of A")));
  const google::protobuf::Struct json = CompareJson(a, b);
  EXPECT_EQ(json.fields().at("common").list_value().values_size(), 2);
  EXPECT_EQ(json.fields().at("a").struct_value().fields().at("winner").string_value(), "A=4");
}

TEST(CompareTest, NothingInCommonIsSaid) {
  const std::string text =
      CompareText(Tuning("aaaaaa", "sm_80", {{"A=1", 1}}), Tuning("bbbbbb", "sm_80", {{"A=2", 1}}));
  EXPECT_THAT(text, HasSubstr("0 configs in both, 1 only in A, 1 only in B"));
}

TEST(ProblemTest, EachDriverOfATuningIsARow) {
  v1::GetTuningResponse old = Tuning("aaaaaa", "sm_90a", {{"A=1", 120}, {"A=2", 110}}, "570.1");
  AddTimed(old, "A=3", 100, "580.1");
  const auto other = Tuning("bbbbbb", "sm_80", {{"A=1", 400}});
  const std::vector<v1::GetTuningResponse> tunings = {other, old};
  const std::vector<ProblemRow> rows = ProblemRows(tunings);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].best.config(), "A=3");
  EXPECT_EQ(rows[1].best.config(), "A=2");
  EXPECT_EQ(rows[1].best.driver(), "570.1");
  EXPECT_EQ(rows[2].tuning->summary().key(), "bbbbbb");
  EXPECT_THAT(ProblemText(rows), AllOf(HasSubstr("4.00x"), HasSubstr("1.10x"), HasSubstr("570.1")));
  EXPECT_EQ(ProblemJson(rows).fields().at("tunings").list_value().values_size(), 3);
}

}  // namespace
}  // namespace hone::cli
