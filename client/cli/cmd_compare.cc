// hone compare KEY KEY, hone compare TEMPLATE k=v...
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/errors.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/params.h"
#include "client/cli/problem_options.h"
#include "client/cli/tuning_compare.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

absl::Status CompareKeys(const Environment& environment, const Client& client,
                         const std::vector<std::string>& keys) {
  HONE_ASSIGN_OR_RETURN(const v1::GetTuningResponse a, client.GetTuning(keys[0]));
  HONE_ASSIGN_OR_RETURN(const v1::GetTuningResponse b, client.GetTuning(keys[1]));
  if (environment.json) return PrintJson(CompareJson(a, b));
  std::cout << CompareText(a, b);
  return absl::OkStatus();
}

// Whether a tuning's problem has all of these values.
bool HasParams(const v1::TuningSummary& summary, const Params& params) {
  for (const auto& [name, value] : params) {
    const auto found = summary.params().find(name);
    if (found == summary.params().end()) return false;
    if (FormatValue(found->second) != FormatValue(ToValue(value))) return false;
  }
  return true;
}

absl::Status CompareProblem(const Environment& environment, const Client& client,
                            const std::string& name, const std::vector<std::string>& assignments) {
  HONE_ASSIGN_OR_RETURN(const Params params, ParseParams(assignments));
  HONE_ASSIGN_OR_RETURN(const auto summaries, client.ListTunings(name));
  std::vector<v1::GetTuningResponse> tunings;
  for (const v1::TuningSummary& summary : summaries) {
    if (!HasParams(summary, params)) continue;
    HONE_ASSIGN_OR_RETURN(v1::GetTuningResponse tuning, client.GetTuning(summary.key()));
    tunings.push_back(std::move(tuning));
  }
  const std::vector<ProblemRow> rows = ProblemRows(tunings);
  if (rows.empty()) {
    if (assignments.empty() && LooksLikeKey(name)) {
      return UsageError("one key has nothing to be compared with; give two, or a template");
    }
    const std::string asked =
        absl::StrCat(name, assignments.empty() ? "" : " ", absl::StrJoin(assignments, " "));
    return absl::NotFoundError(
        absl::StrCat("nothing is tuned for ", asked, "; `hone list` shows what is"));
  }
  if (environment.json) return PrintJson(ProblemJson(rows));
  std::cout << ProblemText(rows);
  return absl::OkStatus();
}

absl::Status RunCompare(const Environment& environment, const std::vector<std::string>& arguments) {
  const bool keys =
      arguments.size() == 2 && LooksLikeKey(arguments[0]) && LooksLikeKey(arguments[1]);
  if (!keys && LooksLikeKey(arguments[0]) && arguments.size() > 1) {
    return UsageError("compare takes two tuning keys, or a template and its parameters");
  }
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  if (keys) return CompareKeys(environment, client, arguments);
  return CompareProblem(environment, client, arguments[0],
                        {arguments.begin() + 1, arguments.end()});
}

}  // namespace

void AddCompare(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand(
      "compare", "Two tunings side by side, or one problem over devices, drivers and dates");
  command->group("Results");
  auto arguments = std::make_shared<std::vector<std::string>>();
  command
      ->add_option("KEY|TEMPLATE", *arguments,
                   "Two tuning keys from `hone list`; or a template and those of its parameters "
                   "that must be equal")
      ->required();
  command->callback([&environment, arguments] {
    environment.action = [&environment, arguments] { return RunCompare(environment, *arguments); };
  });
}

}  // namespace hone::cli
