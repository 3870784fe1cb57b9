// hone templates
#include <iostream>

#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

absl::Status RunTemplates(const Environment& environment) {
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const v1::ListTemplatesResponse reply, client.ListTemplates());
  if (environment.json) return PrintJson(reply);
  Table table({{"template"}, {"version"}, {"from"}, {"points", true}, {"description"}});
  for (const v1::TemplateSummary& summary : reply.templates()) {
    table.Add({summary.name(), summary.version(), summary.origin(),
               absl::StrCat(summary.tunable_points()), summary.description()});
  }
  if (table.empty()) {
    std::cout << "The daemon knows no template; start it with --kernels DIR.\n";
  } else {
    std::cout << table.Text() << "\nhone describe NAME shows a template's parameters.\n";
  }
  for (const v1::TemplateProblem& problem : reply.problems()) {
    std::cout << "\nnot loaded: " << problem.location() << ": " << problem.message() << "\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddTemplates(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand("templates", "The kernel templates there are");
  command->group("Templates");
  command->callback([&environment] {
    environment.action = [&environment] { return RunTemplates(environment); };
  });
}

}  // namespace hone::cli
