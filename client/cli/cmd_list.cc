// hone list [NAME]
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "client/cli/tune_board.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

// What the row's numbers do not say.
std::string Note(const v1::TuningSummary& tuning) {
  std::vector<std::string> notes;
  if (tuning.has_pin()) {
    const bool answers = tuning.pin().config() == tuning.winner().config();
    notes.push_back(answers ? "pinned"
                            : absl::StrCat("pinned to ", tuning.pin().config(),
                                           ", which does not answer here"));
  }
  if (tuning.winner().has_rejection()) {
    notes.push_back(absl::StrCat("rejected since: ", RejectionText(tuning.winner().rejection())));
  }
  const std::string& stale = tuning.winner().stale_reason();
  if (!stale.empty()) notes.push_back(absl::StrCat("stale: ", stale));
  return absl::StrJoin(notes, "; ");
}

std::vector<std::string> Row(const v1::TuningSummary& tuning) {
  const v1::MeasurementInfo& winner = tuning.winner();
  const bool timed = winner.median_ns() > 0;
  const RateUnit unit = RateUnitFor(winner);
  return {ShortHash(tuning.key()),
          tuning.template_name(),
          FormatParams(tuning.params()),
          FormatDeviceShort(tuning.device()),
          tuning.has_winner() ? winner.config() : "(none yet)",
          timed ? FormatDuration(winner.median_ns()) : "",
          timed ? absl::StrCat(FormatRate(winner, unit), " ", UnitName(unit)) : "",
          timed ? (winner.verified() ? "yes" : "no") : "",
          absl::StrCat(tuning.measured()),
          absl::StrCat(tuning.rejected()),
          FormatTime(tuning.tuned_at_unix_ms()),
          Note(tuning)};
}

absl::Status RunList(const Environment& environment, const std::string& name, int limit) {
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const std::vector<v1::TuningSummary> tunings,
                        client.ListTunings(name, limit));
  if (environment.json) {
    v1::ListTuningsResponse reply;
    for (const v1::TuningSummary& tuning : tunings) *reply.add_tunings() = tuning;
    return PrintJson(reply);
  }
  Table table({{"key"},
               {"template"},
               {"params"},
               {"device"},
               {"winner"},
               {"median", true},
               {"rate", true},
               {"verified"},
               {"measured", true},
               {"rejected", true},
               {"when"},
               {"note"}});
  for (const v1::TuningSummary& tuning : tunings) table.Add(Row(tuning));
  if (table.empty()) {
    std::cout << "Nothing " << (name.empty() ? "" : absl::StrCat("of ", name, " "))
              << "is tuned yet; try: hone tune copy_1d T=F32 n=2^24\n";
  } else {
    std::cout << table.Text();
  }
  return absl::OkStatus();
}

}  // namespace

void AddList(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand("list", "What is tuned: keys, winners, times");
  command->group("Results");
  struct Options {
    std::string name;
    int limit = 1000;
  };
  auto options = std::make_shared<Options>();
  command->add_option("NAME", options->name, "Only of this template");
  command->add_option("--limit", options->limit, "At most this many, newest first")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([&environment, options] {
    environment.action = [&environment, options] {
      return RunList(environment, options->name, options->limit);
    };
  });
}

}  // namespace hone::cli
