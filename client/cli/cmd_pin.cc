// hone pin KEY [CONFIG], hone unpin KEY
#include <iostream>
#include <memory>

#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

struct PinOptions {
  std::string key;
  std::vector<std::string> config;
  std::string reason;
};

absl::Status RunPin(const Environment& environment, const PinOptions& options) {
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(
      const v1::PinResponse reply,
      client.Pin(options.key, absl::StrJoin(options.config, " "), options.reason));
  if (environment.json) return PrintJson(reply);
  std::cout << ShortHash(reply.key()) << " is answered with " << reply.pin().config()
            << " until it is unpinned (generation " << reply.pin().generation() << ")\n";
  return absl::OkStatus();
}

absl::Status RunUnpin(const Environment& environment, const std::string& key) {
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const v1::UnpinResponse reply, client.Unpin(key));
  if (environment.json) return PrintJson(reply);
  std::cout << ShortHash(reply.key()) << " is answered by its measurements again; it was pinned to "
            << PinText(reply.was()) << " (generation " << reply.generation() << ")\n";
  return absl::OkStatus();
}

}  // namespace

void AddPin(CLI::App& app, Environment& environment) {
  CLI::App* command =
      app.add_subcommand("pin", "Serve this config for a tuned problem, whatever later tunes find");
  command->group("Results");
  auto options = std::make_shared<PinOptions>();
  command->add_option("KEY", options->key, "Tuning key from `hone list`, 6 digits at least")
      ->required();
  command->add_option("CONFIG", options->config,
                      "A measured config, for example XBLOCK=256 VEC=4 (default: the winner)");
  command->add_option("--reason", options->reason, "For those who find the pin later");
  command->callback([&environment, options] {
    environment.action = [&environment, options] { return RunPin(environment, *options); };
  });
}

void AddUnpin(CLI::App& app, Environment& environment) {
  CLI::App* command =
      app.add_subcommand("unpin", "Let the measurements of a pinned problem decide again");
  command->group("Results");
  auto key = std::make_shared<std::string>();
  command->add_option("KEY", *key, "Tuning key from `hone list`, 6 digits at least")->required();
  command->callback([&environment, key] {
    environment.action = [&environment, key] { return RunUnpin(environment, *key); };
  });
}

}  // namespace hone::cli
