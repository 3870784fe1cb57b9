// hone misses
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/cli.h"
#include "client/cli/errors.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

struct MissesOptions {
  std::string template_name;
  std::string since = "24h";
  int limit = 100;
};

absl::StatusOr<int64_t> SecondsIn(const std::string& text) {
  absl::Duration since;
  if (!absl::ParseDuration(text, &since) || since < absl::Seconds(1) ||
      since > absl::Hours(24 * 3650)) {
    return UsageError(
        absl::StrCat("--since: '", text, "' is not a duration from 1s to 87600h, for example 24h"));
  }
  return absl::ToInt64Seconds(since);
}

absl::Status RunMisses(const Environment& environment, const MissesOptions& options) {
  v1::ListMissesRequest request;
  HONE_ASSIGN_OR_RETURN(const int64_t since_s, SecondsIn(options.since));
  request.set_since_s(since_s);
  request.set_template_name(options.template_name);
  request.set_limit(options.limit);
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const v1::ListMissesResponse reply, client.ListMisses(request));
  if (environment.json) return PrintJson(reply);
  Table table({{"key"},
               {"template"},
               {"params"},
               {"architecture"},
               {"policy"},
               {"count", true},
               {"last seen"}});
  for (const v1::UntunedKey& miss : reply.misses()) {
    table.Add({ShortHash(miss.key()), miss.template_name(), miss.problem(), miss.architecture(),
               PolicyText(miss.policy()), absl::StrCat(miss.count()),
               FormatTime(miss.last_at_unix_ms())});
  }
  if (table.empty()) {
    std::cout << "Nothing untuned was asked for within " << options.since << "\n";
  } else {
    std::cout << table.Text();
  }
  return absl::OkStatus();
}

}  // namespace

void AddMisses(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand(
      "misses", "What was asked for and is not tuned: defaults and neighbours answered");
  command->group("Results");
  auto options = std::make_shared<MissesOptions>();
  command->add_option("--since", options->since, "Last seen within this time")
      ->type_name("DURATION")
      ->capture_default_str();
  command->add_option("--template", options->template_name, "Only of this template")
      ->type_name("NAME");
  command->add_option("--limit", options->limit, "At most this many, most frequent first")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->callback([&environment, options] {
    environment.action = [&environment, options] { return RunMisses(environment, *options); };
  });
}

}  // namespace hone::cli
