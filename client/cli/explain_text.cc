#include "client/cli/explain_text.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/format.h"
#include "client/cli/table.h"

namespace hone::cli {
namespace {

// Below this ratio a tunable is said not to matter: the margin within which two candidates tie.
constexpr double kMattersRatio = 1.01;

std::string FormatFigure(double value, const std::string& unit) {
  if (unit == "ns") return FormatDuration(value);
  return absl::StrCat(
      value >= 100 ? absl::StrFormat("%.0f", value) : absl::StrFormat("%.3g", value), " ", unit);
}

std::string FormatAmount(double value, const std::string& unit) {
  static const std::pair<double, const char*> kPrefixes[] = {
      {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [size, prefix] : kPrefixes) {
    if (value >= size) return absl::StrFormat("%.4g %s%s", value / size, prefix, unit);
  }
  return absl::StrFormat("%.4g %s", value, unit);
}

std::string FormatRatio(double ratio) { return absl::StrFormat("%.2fx", ratio); }

std::string FormatDistance(double ratio) {
  return absl::StrFormat("%.1f%% %s", 100 * (ratio >= 1 ? ratio - 1 : 1 - ratio),
                         ratio >= 1 ? "slower" : "faster");
}

bool IsWinner(const v1::ExplainTuningResponse& reply) {
  return reply.subject().config() == reply.summary().winner().config();
}

void AddHead(const v1::ExplainTuningResponse& reply, std::string& text) {
  const v1::TuningSummary& summary = reply.summary();
  absl::StrAppend(&text, summary.template_name(), " ", FormatParams(summary.params()), " on ",
                  FormatDevice(summary.device()), "\nkey     ", summary.key(), "\n");
  if (!reply.has_subject()) return;
  const v1::MeasurementInfo& m = reply.subject();
  absl::StrAppend(&text, IsWinner(reply) ? "winner  " : "config  ", m.config(), "  ",
                  FormatDuration(m.median_ns()), "  spread ", FormatPercent(m.spread()));
  if (m.clock_mhz() > 0) absl::StrAppend(&text, "  at ", m.clock_mhz(), " MHz");
  if (m.memory_clock_mhz() > 0) absl::StrAppend(&text, ", memory ", m.memory_clock_mhz(), " MHz");
  absl::StrAppend(&text, "\n");
}

void AddWork(const v1::ExplainTuningResponse& reply, std::string& text) {
  if (reply.work_bytes() == 0 && reply.work_flops() == 0) return;
  const v1::MeasurementInfo& m = reply.subject();
  std::vector<std::string> parts;
  if (reply.work_bytes() > 0) {
    parts.push_back(absl::StrCat(FormatAmount(static_cast<double>(reply.work_bytes()), "B"),
                                 " moved, ", FormatFigure(m.gb_per_s(), "GB/s")));
  }
  if (reply.work_flops() > 0) {
    parts.push_back(absl::StrCat(FormatAmount(static_cast<double>(reply.work_flops()), "FLOP"),
                                 " in ", reply.arithmetic(), ", ",
                                 FormatFigure(m.tflop_per_s(), "TFLOP/s")));
  }
  absl::StrAppend(&text, "work    ", absl::StrJoin(parts, "; "), "\n");
}

void AddSteps(const v1::ExplainTuningResponse& reply, std::string& text) {
  for (const v1::ExplainedStep& step : reply.steps()) {
    absl::StrAppend(&text, "launch  ", step.entry(), "\n        grid ",
                    absl::StrJoin(step.grid(), "x"), ", block ", absl::StrJoin(step.block(), "x"));
    const int64_t shared = step.dynamic_shared_bytes() + step.static_shared_bytes();
    if (shared > 0) absl::StrAppend(&text, ", shared ", FormatBytes(shared));
    if (step.registers() > 0) absl::StrAppend(&text, ", ", step.registers(), " registers");
    if (step.local_bytes() > 0) absl::StrAppend(&text, ", local ", FormatBytes(step.local_bytes()));
    absl::StrAppend(&text, "\n");
  }
}

void AddBound(const v1::ExplainTuningResponse& reply, std::string& text) {
  Table table({{"ceiling"},
               {"at most", true},
               {"reached", true},
               {"share", true},
               {"alone", true},
               {"note"}});
  for (const v1::CeilingShare& share : reply.shares()) {
    const bool is_launch = share.ceiling().unit() == "ns";
    table.Add({share.ceiling().name(),
               FormatFigure(share.ceiling().value(), share.ceiling().unit()),
               is_launch ? "" : FormatFigure(share.achieved(), share.ceiling().unit()),
               FormatPercent(share.share()), FormatDuration(share.least_ns()),
               share.of_another_instruction() ? "by another instruction" : share.ceiling().how()});
  }
  if (!table.empty()) absl::StrAppend(&text, "\n", table.Text());
  if (!reply.ceilings_missing().empty()) {
    absl::StrAppend(&text, "\nno ceilings: ", reply.ceilings_missing(), "\n");
  }
  absl::StrAppend(&text, "\nbound   ",
                  reply.bound() == "none" ? "by none of its ceilings" : reply.bound(), ": ",
                  reply.bound_reason(), "\n");
}

void AddGain(const v1::ExplainTuningResponse& reply, std::string& text) {
  const double ns = reply.subject().median_ns();
  if (reply.least_ns() > 0) {
    const double left = ns / reply.least_ns();
    absl::StrAppend(&text, "left    ");
    if (left <= kMattersRatio) {
      absl::StrAppend(&text, "nothing: it is at the ceiling\n");
    } else {
      absl::StrAppend(&text, "at most ", FormatRatio(left), ": by the ceilings this work takes ",
                      FormatDuration(reply.least_ns()), " at least\n");
    }
  }
  if (reply.has_default_config()) {
    const v1::MeasurementInfo& standing = reply.default_config();
    absl::StrAppend(&text, "default ");
    if (standing.config() == reply.subject().config()) {
      absl::StrAppend(&text, "this is the default config\n");
    } else {
      absl::StrAppend(&text, standing.config(), "  ", FormatDuration(standing.median_ns()), ", ",
                      FormatRatio(standing.median_ns() / ns), " the time\n");
    }
  }
  if (!reply.has_runner_up()) return;
  const double ratio = reply.runner_up_ratio();
  const bool noise = std::max(ratio, 1 / ratio) - 1 <= reply.noise_share();
  absl::StrAppend(
      &text, "next    ", reply.runner_up().config(), "  ",
      FormatDuration(reply.runner_up().median_ns()), ", ", FormatDistance(ratio),
      noise ? absl::StrCat(", within noise (", FormatPercent(reply.noise_share()), ")") : "", "\n");
  const std::string noisy = NoisyText(reply.subject(), reply.runner_up());
  if (!noisy.empty()) absl::StrAppend(&text, noisy, "\n");
}

// "best" and "mean" are times over the subject's.
void AddTunables(const v1::ExplainTuningResponse& reply, std::string& text) {
  if (reply.tunables().empty()) return;
  const v1::MeasurementInfo& subject = reply.subject();
  const std::string chosen = absl::StrCat(" ", subject.config(), " ");
  Table table({{"tunable"},
               {"matters", true},
               {"value", true},
               {"best", true},
               {"mean", true},
               {"timed", true},
               {"rejected", true}});
  for (const v1::TunableEffect& effect : reply.tunables()) {
    bool first = true;
    for (const v1::ValueEffect& value : effect.values()) {
      const bool is_chosen = chosen.find(absl::StrCat(" ", effect.name(), "=", value.value(),
                                                      " ")) != std::string::npos;
      std::string matters;
      if (first) matters = effect.groups() == 0 ? "?" : FormatRatio(effect.matters());
      table.Add({first ? effect.name() : "", matters,
                 absl::StrCat(is_chosen ? "* " : "", value.value()),
                 value.measured() > 0 ? FormatRatio(value.best_ratio()) : "-",
                 value.measured() > 0 ? FormatRatio(value.mean_ratio()) : "-",
                 absl::StrCat(value.measured()),
                 value.rejected() > 0 ? absl::StrCat(value.rejected()) : ""});
      first = false;
    }
  }
  absl::StrAppend(
      &text, "\n", table.Text(),
      "matters: slowest over fastest where only this tunable differs (?: it never varied alone);\n"
      "best, mean: time over this kernel's, of the fastest and of all candidates with the value\n");
}

void AddNotes(const v1::ExplainTuningResponse& reply, std::string& text) {
  const std::map<std::string, int> rejected(reply.rejected().begin(), reply.rejected().end());
  if (!rejected.empty()) {
    absl::StrAppend(&text, "\nrejected  ",
                    absl::StrJoin(rejected, ", ",
                                  [](std::string* out, const auto& kind) {
                                    absl::StrAppend(out, kind.second, " ", kind.first);
                                  }),
                    "\n");
  }
  if (!reply.notes().empty()) absl::StrAppend(&text, "\n");
  for (const std::string& note : reply.notes()) absl::StrAppend(&text, "note: ", note, "\n");
}

}  // namespace

std::string ExplainText(const v1::ExplainTuningResponse& reply) {
  std::string text;
  AddHead(reply, text);
  if (reply.has_subject()) {
    AddWork(reply, text);
    AddSteps(reply, text);
    AddBound(reply, text);
    AddGain(reply, text);
    AddTunables(reply, text);
  }
  AddNotes(reply, text);
  return text;
}

std::string CeilingsTable(const v1::DeviceCeilings& ceilings) {
  Table table({{"ceiling"}, {"at most", true}, {"how"}});
  for (const v1::Ceiling& ceiling : ceilings.ceilings()) {
    table.Add({ceiling.name(), FormatFigure(ceiling.value(), ceiling.unit()), ceiling.how()});
  }
  return table.empty() ? "" : table.Text();
}

}  // namespace hone::cli
