// hone explain KEY|NAME k=v...
#include <iostream>
#include <memory>
#include <string>

#include "client/cli/cli.h"
#include "client/cli/explain_text.h"
#include "client/cli/json.h"
#include "client/cli/problem_options.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

absl::Status RunExplain(const Environment& environment, const ProblemOptions& problem,
                        const std::string& config) {
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const std::string key, TuningKeyOf(client, problem));
  const absl::StatusOr<v1::ExplainTuningResponse> reply = client.ExplainTuning(key, config);
  if (!reply.ok()) return config.empty() ? NotTuned(reply.status(), problem) : reply.status();
  if (environment.json) return PrintJson(*reply);
  std::cout << ExplainText(*reply);
  return absl::OkStatus();
}

}  // namespace

void AddExplain(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand(
      "explain", "How good a tuned kernel is: its ceiling, what each tunable did, what is left");
  command->group("Results");
  auto problem = AddProblemOptions(*command, "KEY|NAME",
                                   "Tuning key from `hone list`, 6 digits at least, or a template");
  auto config = std::make_shared<std::string>();
  command->add_option("--config", *config,
                      "Explain the fastest candidate with these values instead of the winner, for "
                      "example 'ORDER=1'");
  command->callback([&environment, problem, config] {
    environment.action = [&environment, problem, config] {
      return RunExplain(environment, *problem, *config);
    };
  });
}

}  // namespace hone::cli
