#include "client/cli/tuning_compare.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/format.h"
#include "client/cli/table.h"

namespace hone::cli {
namespace {

// Two configs closer than this may change places by noise alone.
constexpr double kClearlyApart = 0.02;
// Pairs are counted among this many of the fastest; their number grows with the square.
constexpr size_t kOrderedMax = 1000;
constexpr size_t kMovedMax = 10;

using Timed = std::map<std::string, double>;

Timed TimedConfigs(const v1::GetTuningResponse& tuning) {
  Timed timed;
  for (const v1::MeasurementInfo& m : tuning.measurements()) {
    if (!m.has_rejection() && m.median_ns() > 0) timed[m.config()] = m.median_ns();
  }
  return timed;
}

// -1, 0 or 1; 0: too close to tell.
int ClearOrder(double a, double b) {
  if (std::abs(a / b - 1) <= kClearlyApart) return 0;
  return a < b ? -1 : 1;
}

double SameOrderShare(const std::vector<CommonConfig>& common) {
  int64_t same = 0, all = 0;
  const size_t count = std::min(common.size(), kOrderedMax);
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = i + 1; j < count; ++j) {
      const int in_a = ClearOrder(common[i].a_ns, common[j].a_ns);
      const int in_b = ClearOrder(common[i].b_ns, common[j].b_ns);
      if (in_a == 0 || in_b == 0) continue;
      ++all;
      same += in_a == in_b ? 1 : 0;
    }
  }
  return all == 0 ? 1 : static_cast<double>(same) / static_cast<double>(all);
}

const CommonConfig* FindCommon(const TuningComparison& comparison, const std::string& config) {
  for (const CommonConfig& common : comparison.common) {
    if (common.config == config) return &common;
  }
  return nullptr;
}

std::string RatioText(double ratio) { return absl::StrFormat("%.2fx", ratio); }

std::string DescribeSide(const v1::TuningSummary& summary) {
  return absl::StrCat(summary.template_name(), " ", FormatParams(summary.params()), " on ",
                      FormatDevice(summary.device()), ", driver ",
                      summary.winner().driver().empty() ? "-" : summary.winner().driver(), ", ",
                      FormatTime(summary.tuned_at_unix_ms()), "  key ", ShortHash(summary.key()));
}

std::string WinnerElsewhere(const TuningComparison& comparison, const std::string& config,
                            bool winner_of_a) {
  const CommonConfig* common = FindCommon(comparison, config);
  const char* const other = winner_of_a ? "B" : "A";
  if (common == nullptr) return absl::StrCat("was not timed in ", other);
  const int rank = winner_of_a ? common->b_rank : common->a_rank;
  double best_ns = 0;
  for (const CommonConfig& each : comparison.common) {
    const double ns = winner_of_a ? each.b_ns : each.a_ns;
    if (best_ns == 0 || ns < best_ns) best_ns = ns;
  }
  const double ns = winner_of_a ? common->b_ns : common->a_ns;
  return absl::StrCat("is number ", rank, " in ", other, ", ", FormatPercent(ns / best_ns - 1),
                      " behind the fastest there");
}

std::vector<CommonConfig> MostMoved(const TuningComparison& comparison) {
  std::vector<CommonConfig> moved = comparison.common;
  std::erase_if(moved, [](const CommonConfig& c) { return c.a_rank == c.b_rank; });
  std::stable_sort(moved.begin(), moved.end(), [](const auto& x, const auto& y) {
    return std::abs(x.a_rank - x.b_rank) > std::abs(y.a_rank - y.b_rank);
  });
  if (moved.size() > kMovedMax) moved.resize(kMovedMax);
  return moved;
}

google::protobuf::Value NumberField(double value) {
  google::protobuf::Value proto;
  proto.set_number_value(value);
  return proto;
}

google::protobuf::Value TextField(const std::string& value) {
  google::protobuf::Value proto;
  proto.set_string_value(value);
  return proto;
}

google::protobuf::Value Side(const v1::GetTuningResponse& tuning) {
  google::protobuf::Value proto;
  auto& fields = *proto.mutable_struct_value()->mutable_fields();
  fields["key"] = TextField(tuning.summary().key());
  fields["template_name"] = TextField(tuning.summary().template_name());
  fields["params"] = TextField(FormatParams(tuning.summary().params()));
  fields["device"] = TextField(FormatDevice(tuning.summary().device()));
  fields["device_key"] = TextField(tuning.summary().device_key());
  fields["driver"] = TextField(tuning.summary().winner().driver());
  fields["winner"] = TextField(tuning.summary().winner().config());
  fields["median_ns"] = NumberField(tuning.summary().winner().median_ns());
  return proto;
}

}  // namespace

TuningComparison CompareTunings(const v1::GetTuningResponse& a, const v1::GetTuningResponse& b) {
  TuningComparison comparison;
  const Timed in_a = TimedConfigs(a), in_b = TimedConfigs(b);
  double logs = 0;
  for (const auto& [config, a_ns] : in_a) {
    const auto found = in_b.find(config);
    if (found == in_b.end()) {
      ++comparison.only_a;
      continue;
    }
    const double ratio = found->second / a_ns;
    logs += std::log(ratio);
    const bool first = comparison.common.empty();
    comparison.least_ratio = first ? ratio : std::min(comparison.least_ratio, ratio);
    comparison.largest_ratio = std::max(comparison.largest_ratio, ratio);
    comparison.common.push_back({.config = config, .a_ns = a_ns, .b_ns = found->second});
  }
  std::vector<CommonConfig>& common = comparison.common;
  comparison.only_b = static_cast<int>(in_b.size() - common.size());
  if (common.empty()) return comparison;
  comparison.mean_ratio = std::exp(logs / static_cast<double>(common.size()));
  std::stable_sort(common.begin(), common.end(),
                   [](const auto& x, const auto& y) { return x.b_ns < y.b_ns; });
  for (size_t i = 0; i < common.size(); ++i) common[i].b_rank = static_cast<int>(i) + 1;
  std::stable_sort(common.begin(), common.end(),
                   [](const auto& x, const auto& y) { return x.a_ns < y.a_ns; });
  for (size_t i = 0; i < common.size(); ++i) common[i].a_rank = static_cast<int>(i) + 1;
  comparison.same_order_share = SameOrderShare(common);
  return comparison;
}

std::string CompareText(const v1::GetTuningResponse& a, const v1::GetTuningResponse& b) {
  const TuningComparison comparison = CompareTunings(a, b);
  const v1::MeasurementInfo& winner_a = a.summary().winner();
  const v1::MeasurementInfo& winner_b = b.summary().winner();
  std::string text =
      absl::StrCat("A  ", DescribeSide(a.summary()), "\nB  ", DescribeSide(b.summary()), "\n\n");
  const RateUnit unit = RateUnitFor(winner_a);
  Table winners({{""}, {"winner"}, {"median", true}, {UnitName(unit), true}, {"spread", true}});
  winners.Add({"A", winner_a.config(), FormatDuration(winner_a.median_ns()),
               FormatRate(winner_a, unit), FormatPercent(winner_a.spread())});
  winners.Add({"B", winner_b.config(), FormatDuration(winner_b.median_ns()),
               FormatRate(winner_b, unit), FormatPercent(winner_b.spread())});
  absl::StrAppend(&text, winners.Text());
  if (winner_a.median_ns() > 0 && winner_b.median_ns() > 0) {
    absl::StrAppend(&text, "B takes ", RatioText(winner_b.median_ns() / winner_a.median_ns()),
                    " the time of A\n");
  }
  absl::StrAppend(&text, "\n", comparison.common.size(), " configs in both, ", comparison.only_a,
                  " only in A, ", comparison.only_b, " only in B\n");
  if (comparison.common.empty()) return text;
  absl::StrAppend(&text, "B over A: ", RatioText(comparison.mean_ratio), " in the geometric mean, ",
                  RatioText(comparison.least_ratio), " to ", RatioText(comparison.largest_ratio),
                  "\nsame order in ", FormatPercent(comparison.same_order_share),
                  " of the pairs that are clearly apart in both\n");
  if (winner_a.config() == winner_b.config()) {
    absl::StrAppend(&text, "both have the same winner\n");
  } else {
    absl::StrAppend(&text, "A's winner ", WinnerElsewhere(comparison, winner_a.config(), true),
                    "\nB's winner ", WinnerElsewhere(comparison, winner_b.config(), false), "\n");
  }
  Table moved(
      {{"changed places most"}, {"A", true}, {"", true}, {"B", true}, {"", true}, {"B/A", true}});
  for (const CommonConfig& c : MostMoved(comparison)) {
    moved.Add({c.config, FormatDuration(c.a_ns), absl::StrCat("#", c.a_rank),
               FormatDuration(c.b_ns), absl::StrCat("#", c.b_rank), RatioText(c.b_ns / c.a_ns)});
  }
  if (!moved.empty()) absl::StrAppend(&text, "\n", moved.Text());
  return text;
}

google::protobuf::Struct CompareJson(const v1::GetTuningResponse& a,
                                     const v1::GetTuningResponse& b) {
  const TuningComparison comparison = CompareTunings(a, b);
  google::protobuf::Struct proto;
  auto& fields = *proto.mutable_fields();
  fields["a"] = Side(a);
  fields["b"] = Side(b);
  fields["only_a"] = NumberField(comparison.only_a);
  fields["only_b"] = NumberField(comparison.only_b);
  fields["mean_ratio"] = NumberField(comparison.mean_ratio);
  fields["least_ratio"] = NumberField(comparison.least_ratio);
  fields["largest_ratio"] = NumberField(comparison.largest_ratio);
  fields["same_order_share"] = NumberField(comparison.same_order_share);
  auto* common = fields["common"].mutable_list_value();
  for (const CommonConfig& c : comparison.common) {
    auto& one = *common->add_values()->mutable_struct_value()->mutable_fields();
    one["config"] = TextField(c.config);
    one["a_ns"] = NumberField(c.a_ns);
    one["b_ns"] = NumberField(c.b_ns);
    one["a_rank"] = NumberField(c.a_rank);
    one["b_rank"] = NumberField(c.b_rank);
  }
  return proto;
}

std::vector<ProblemRow> ProblemRows(const std::vector<v1::GetTuningResponse>& tunings) {
  std::vector<ProblemRow> rows;
  for (const v1::GetTuningResponse& tuning : tunings) {
    std::map<std::string, v1::MeasurementInfo> best;  // by driver
    for (const v1::MeasurementInfo& m : tuning.measurements()) {
      if (m.has_rejection() || m.median_ns() <= 0) continue;
      v1::MeasurementInfo& slot = best[m.driver()];
      const bool is_winner = m.config() == tuning.summary().winner().config();
      const bool has_winner = slot.config() == tuning.summary().winner().config();
      if (is_winner ||
          (!has_winner && (slot.median_ns() == 0 || m.median_ns() < slot.median_ns()))) {
        slot = m;
      }
    }
    for (auto& [driver, measurement] : best) rows.push_back({&tuning, std::move(measurement)});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const ProblemRow& x, const ProblemRow& y) {
    const std::string of_x = FormatParams(x.tuning->summary().params());
    const std::string of_y = FormatParams(y.tuning->summary().params());
    if (of_x != of_y) return of_x < of_y;
    return x.best.median_ns() < y.best.median_ns();
  });
  return rows;
}

std::string ProblemText(const std::vector<ProblemRow>& rows) {
  if (rows.empty()) return "";
  const RateUnit unit = RateUnitFor(rows.front().best);
  Table table({{"problem"},
               {"device"},
               {"driver"},
               {"timed"},
               {"config"},
               {"median", true},
               {UnitName(unit), true},
               {"time", true},
               {"key"}});
  std::string problem;
  double fastest_ns = 0;
  for (const ProblemRow& row : rows) {
    const v1::TuningSummary& summary = row.tuning->summary();
    const std::string params = FormatParams(summary.params());
    if (params != problem || fastest_ns == 0) fastest_ns = row.best.median_ns();
    table.Add({params == problem ? "" : params, FormatDevice(summary.device()), row.best.driver(),
               FormatTime(row.best.measured_at_unix_ms()), row.best.config(),
               FormatDuration(row.best.median_ns()), FormatRate(row.best, unit),
               RatioText(row.best.median_ns() / fastest_ns), ShortHash(summary.key())});
    problem = params;
  }
  return table.Text();
}

google::protobuf::Struct ProblemJson(const std::vector<ProblemRow>& rows) {
  google::protobuf::Struct proto;
  auto* list = (*proto.mutable_fields())["tunings"].mutable_list_value();
  for (const ProblemRow& row : rows) {
    google::protobuf::Value side = Side(*row.tuning);
    auto& fields = *side.mutable_struct_value()->mutable_fields();
    fields["driver"] = TextField(row.best.driver());
    fields["config"] = TextField(row.best.config());
    fields["median_ns"] = NumberField(row.best.median_ns());
    fields["measured_at_unix_ms"] =
        NumberField(static_cast<double>(row.best.measured_at_unix_ms()));
    *list->add_values() = std::move(side);
  }
  return proto;
}

}  // namespace hone::cli
