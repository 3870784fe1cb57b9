// hone explain-key NAME k=v...
#include <iostream>
#include <memory>

#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/problem_options.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

void PrintKey(const std::string& title, const std::string& key,
              const google::protobuf::RepeatedPtrField<std::string>& ingredients) {
  if (key.empty()) return;
  std::cout << title << " " << key << "\n";
  for (const std::string& ingredient : ingredients) std::cout << "  " << ingredient << "\n";
  std::cout << "\n";
}

absl::Status RunExplainKey(const Environment& environment, const ProblemOptions& problem) {
  HONE_ASSIGN_OR_RETURN(const v1::ExplainKeyRequest request, problem.ToExplainKeyRequest());
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const v1::ExplainKeyResponse reply, client.ExplainKey(request));
  if (environment.json) return PrintJson(reply);
  PrintKey("tuning key", reply.tuning_key(), reply.tuning_key_ingredients());
  PrintKey("artifact key (default config)", reply.artifact_key(), reply.artifact_key_ingredients());
  std::cout << reply.state() << "\n";
  if (!reply.bucket_key().empty()) {
    std::cout << "bucket: " << FormatParams(reply.bucket_params()) << ", tuning key "
              << ShortHash(reply.bucket_key()) << (reply.bucket_tuned() ? ", tuned" : ", not tuned")
              << "\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddExplainKey(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand(
      "explain-key", "What a request's keys are made of and what is stored under them");
  command->group("Results");
  auto problem = AddProblemOptions(*command, "NAME", "Template");
  command->callback([&environment, problem] {
    environment.action = [&environment, problem] { return RunExplainKey(environment, *problem); };
  });
}

}  // namespace hone::cli
