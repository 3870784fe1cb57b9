// hone artifact SHA256 [FILE], hone artifact --log ID
#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/errors.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

struct ArtifactOptions {
  std::string hash;
  std::string file;
  bool log = false;
};

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  if (path == "-") {
    std::cout << bytes << std::flush;
    return absl::OkStatus();
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  if (!file) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be written"));
  std::cout << "wrote " << bytes.size() << " bytes to " << path << "\n";
  return absl::OkStatus();
}

void PrintInfo(const v1::ArtifactInfo& info) {
  std::cout << "sha256        " << info.sha256() << "\nformat        " << info.format()
            << "\narchitecture  " << info.architecture() << "\nsize          "
            << FormatBytes(info.size_bytes()) << "\nbuilder       " << info.builder()
            << "\nbuilt         " << FormatTime(info.built_at_unix_ms()) << "\n";
  if (info.min_driver() > 0) std::cout << "min driver    " << info.min_driver() << "\n";
  if (!info.log_id().empty()) std::cout << "log           " << info.log_id() << "\n";
  Table resources({{"symbol"},
                   {"registers", true},
                   {"static shared", true},
                   {"local", true},
                   {"max threads", true}});
  for (const v1::EntryResources& entry : info.resources()) {
    resources.Add(
        {entry.symbol(), absl::StrCat(entry.registers()), absl::StrCat(entry.static_shared_bytes()),
         absl::StrCat(entry.local_bytes()),
         entry.max_threads_per_block() > 0 ? absl::StrCat(entry.max_threads_per_block()) : ""});
  }
  if (!resources.empty()) std::cout << "\n" << resources.Text();
  Table names({{"name expression"}, {"symbol"}});
  for (const auto& [name, symbol] : info.lowered_names()) names.Add({name, symbol});
  if (!names.empty()) std::cout << "\n" << names.Text();
}

absl::Status RunLog(const Environment& environment, const Client& client, const std::string& id) {
  HONE_ASSIGN_OR_RETURN(const v1::GetLogResponse reply, client.GetLog(id));
  if (environment.json) return PrintJson(reply);
  std::cout << reply.log();
  if (reply.truncated_bytes() > 0) {
    std::cout << "\n[" << reply.truncated_bytes() << " bytes more were not kept]\n";
  }
  return absl::OkStatus();
}

absl::Status Run(const Environment& environment, const ArtifactOptions& options) {
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  if (options.log) return RunLog(environment, client, options.hash);
  HONE_ASSIGN_OR_RETURN(const FetchedArtifact artifact, client.GetArtifact(options.hash));
  if (!options.file.empty()) return WriteFile(options.file, artifact.bytes);
  if (environment.json) return PrintJson(artifact.info);
  PrintInfo(artifact.info);
  return absl::OkStatus();
}

}  // namespace

void AddArtifact(CLI::App& app, Environment& environment) {
  CLI::App* command =
      app.add_subcommand("artifact", "Facts about a binary, its bytes, or a compile log");
  command->group("Results");
  auto options = std::make_shared<ArtifactOptions>();
  command->add_option("SHA256", options->hash, "Artifact's hash; with --log, a log's id")
      ->required();
  command->add_option("FILE", options->file, "Write the bytes here; - is standard output");
  command->add_flag("--log", options->log, "Print the compile log with this id");
  command->callback([&environment, options] {
    environment.action = [&environment, options] { return Run(environment, *options); };
  });
}

}  // namespace hone::cli
