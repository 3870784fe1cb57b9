// hone show KEY|NAME k=v...
#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/params.h"
#include "client/cli/problem_options.h"
#include "client/cli/table.h"
#include "client/cli/terminal.h"
#include "client/cli/tune_board.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

constexpr int kBarWidth = 40;

struct Split {
  std::vector<v1::MeasurementInfo> timed;  // fastest first
  std::vector<v1::MeasurementInfo> rejected;
};

Split SplitMeasurements(const v1::GetTuningResponse& reply) {
  Split split;
  for (const v1::MeasurementInfo& m : reply.measurements()) {
    (m.has_rejection() ? split.rejected : split.timed).push_back(m);
  }
  std::stable_sort(split.timed.begin(), split.timed.end(),
                   [](const auto& a, const auto& b) { return a.median_ns() < b.median_ns(); });
  return split;
}

// What one candidate's numbers do not say. Drivers have a column; the line of the winner says more.
std::string Note(const v1::MeasurementInfo& m) {
  std::vector<std::string> notes;
  if (absl::StartsWith(m.stale_reason(), "invalidated")) {
    notes.push_back(m.stale_reason());
  } else if (!m.stale_reason().empty()) {
    notes.push_back("stale");
  }
  if (m.irreproducible()) notes.push_back("other bits with every launch");
  return absl::StrJoin(notes, "; ");
}

void PrintTimed(const std::vector<v1::MeasurementInfo>& timed, const v1::TuningSummary& summary) {
  if (timed.empty()) return;
  const std::string& winner = summary.winner().config();
  const RateUnit unit = RateUnitFor(timed.front());
  const double best_ns = timed.front().median_ns();
  Table table({{"config"},
               {"speed"},
               {"median", true},
               {"spread", true},
               {UnitName(unit), true},
               {"of best", true},
               {"in pairs", true},
               {"clock", true},
               {"when"},
               {"driver"},
               {"note"}});
  for (const v1::MeasurementInfo& m : timed) {
    const double share = best_ns / m.median_ns();
    const bool twin = !m.same_work_as().empty();
    table.Add({absl::StrCat(m.config(), m.config() == winner ? " *" : "", twin ? " =" : ""),
               Bar(share, kBarWidth, ShowsUtf8()), FormatDuration(m.median_ns()),
               FormatPercent(m.spread()), FormatRate(m, unit), FormatPercent(share),
               m.paired_ratio() > 0 ? FormatPercent(1 / m.paired_ratio()) : "",
               m.clock_mhz() > 0 ? absl::StrCat(m.clock_mhz(), " MHz") : "",
               FormatTime(m.measured_at_unix_ms()), m.driver(), Note(m)});
  }
  std::cout << "\n" << table.Text();
  const auto shaken =
      std::find_if(timed.begin(), timed.end(), [](const auto& m) { return !m.unstable().empty(); });
  if (shaken != timed.end()) std::cout << "\nunstable: " << shaken->unstable();
  int others = 0;
  for (const auto& m : timed) others = std::max(others, m.other_processes());
  if (others > 0) std::cout << "\nother processes were on the device: " << others;
  const bool twins = std::any_of(timed.begin(), timed.end(),
                                 [](const auto& m) { return !m.same_work_as().empty(); });
  if (twins) std::cout << "\n= the same code and launches as another config, measured with it";
  std::cout << "\n* " << (summary.has_pin() ? "the pinned config" : "the winner");
  const auto won =
      std::find_if(timed.begin(), timed.end(), [&](const auto& m) { return m.config() == winner; });
  if (won != timed.end() && won->verified()) {
    std::cout << ", verified at " << absl::StrJoin(won->verified_sizes(), ", ");
  } else if (won != timed.end()) {
    std::cout << ", unverified: the template has no reference";
  }
  std::cout << "\n";
}

void PrintRejected(const std::vector<v1::MeasurementInfo>& rejected, bool all) {
  Table table({{"rejected"}, {"reason"}, {"log"}});
  std::vector<const v1::MeasurementInfo*> excluded;
  for (const v1::MeasurementInfo& m : rejected) {
    if (IsExcluded(m) && !all) {
      excluded.push_back(&m);
      continue;
    }
    table.Add({m.config(), RejectionText(m.rejection()), m.rejection().log_id()});
  }
  if (!table.empty()) std::cout << "\n" << table.Text();
  if (!excluded.empty()) std::cout << "\n";
  for (const std::string& line : ExclusionLines(excluded)) std::cout << line << "\n";
}

// What concerns the whole tuning.
void PrintNotes(const v1::TuningSummary& summary) {
  if (summary.has_pin()) {
    std::cout << "pinned: " << PinText(summary.pin());
    if (summary.unpinned_config() != summary.pin().config()) {
      std::cout << "; without the pin " << summary.unpinned_config() << " would be served";
    }
    std::cout << "\n";
  }
  const std::string& stale = summary.winner().stale_reason();
  if (!stale.empty()) std::cout << "stale: " << stale << "; the next tune measures again\n";
  if (!summary.same_bits_config().empty() &&
      summary.same_bits_config() != summary.winner().config()) {
    std::cout << "with the default's bits: " << summary.same_bits_config() << "\n";
  }
}

absl::Status RunShow(const Environment& environment, const ProblemOptions& problem, bool all) {
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const std::string key, TuningKeyOf(client, problem));
  const absl::StatusOr<v1::GetTuningResponse> tuning = client.GetTuning(key);
  if (!tuning.ok()) return NotTuned(tuning.status(), problem);
  const v1::GetTuningResponse& reply = *tuning;
  if (environment.json) return PrintJson(reply);
  const v1::TuningSummary& summary = reply.summary();
  std::cout << summary.template_name() << " " << FormatParams(summary.params()) << " on "
            << FormatDevice(summary.device()) << "\nkey " << summary.key() << "\n";
  PrintNotes(summary);
  const Split split = SplitMeasurements(reply);
  PrintTimed(split.timed, summary);
  PrintRejected(split.rejected, all);
  if (reply.left_out() > 0) {
    std::cout << "\n" << reply.left_out() << " more candidates are too many for one reply\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddShow(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand(
      "show", "Every candidate of one tuning as bars, and why others were rejected");
  command->group("Results");
  auto problem = AddProblemOptions(*command, "KEY|NAME",
                                   "Tuning key from `hone list`, 6 digits at least, or a template");
  auto all = std::make_shared<bool>(false);
  command->add_flag("--all", *all, "Also each point that a constraint excludes");
  command->callback([&environment, problem, all] {
    environment.action = [&environment, problem, all] {
      return RunShow(environment, *problem, *all);
    };
  });
}

}  // namespace hone::cli
