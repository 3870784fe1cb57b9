// hone artifact KEY|SHA256 [FILE] [--sass|--ptx], hone artifact --log ID
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/cli.h"
#include "client/cli/disassembler.h"
#include "client/cli/errors.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/problem_options.h"
#include "client/cli/reference_kernel.h"
#include "client/cli/table.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

struct ArtifactOptions {
  std::string hash;
  std::string file;
  std::string config;
  bool log = false;
  bool sass = false;
  bool ptx = false;
};

constexpr size_t kWholeHash = 64;

// An artifact, and whose candidate's it is when a tuning key was given.
struct Chosen {
  FetchedArtifact artifact;
  std::optional<v1::TuningSummary> summary;
  std::string config;
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

absl::StatusOr<Chosen> ByKey(const Client& client, const ArtifactOptions& options) {
  HONE_ASSIGN_OR_RETURN(const v1::GetTuningResponse tuning, client.GetTuning(options.hash));
  Chosen chosen;
  chosen.summary = tuning.summary();
  chosen.config = options.config.empty() ? tuning.summary().winner().config() : options.config;
  for (const v1::MeasurementInfo& m : tuning.measurements()) {
    if (m.config() != chosen.config || m.artifact_sha256().empty()) continue;
    HONE_ASSIGN_OR_RETURN(chosen.artifact, client.GetArtifact(m.artifact_sha256()));
    return chosen;
  }
  return absl::NotFoundError(absl::StrCat("key ", tuning.summary().key(),
                                          " has no timed candidate '", chosen.config, "'"));
}

absl::StatusOr<Chosen> Choose(const Client& client, const ArtifactOptions& options) {
  if (options.hash.size() < kWholeHash && LooksLikeKey(options.hash)) return ByKey(client, options);
  absl::StatusOr<FetchedArtifact> artifact = client.GetArtifact(options.hash);
  if (artifact.ok()) return Chosen{*std::move(artifact), std::nullopt, ""};
  if (!absl::IsNotFound(artifact.status()) || !LooksLikeKey(options.hash)) return artifact.status();
  absl::StatusOr<Chosen> chosen = ByKey(client, options);
  // Neither an artifact nor a key: the first is what was asked for.
  if (absl::IsNotFound(chosen.status())) return artifact.status();
  return chosen;
}

// A cubin does not hold the PTX it was made from, so the candidate is compiled again, to PTX.
absl::StatusOr<std::string> CompilePtx(const Client& client, const Chosen& chosen) {
  const v1::ArtifactInfo& info = chosen.artifact.info;
  if (!absl::StartsWith(info.architecture(), "sm_")) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no PTX for ", info.architecture(), ", only for CUDA architectures"));
  }
  if (!chosen.summary || chosen.summary->template_digest().empty()) {
    return absl::FailedPreconditionError(
        "a cubin holds no PTX; give the tuning key instead of the hash, and the candidate is "
        "compiled to PTX from its template, which must not have changed");
  }
  HONE_ASSIGN_OR_RETURN(const v1::DescribeTemplateResponse described,
                        client.DescribeTemplate("", chosen.summary->template_digest()));
  google::protobuf::Map<std::string, v1::Value> values = chosen.summary->params();
  for (absl::string_view each : absl::StrSplit(chosen.config, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> one = absl::StrSplit(each, absl::MaxSplits('=', 1));
    int64_t value = 0;
    if (absl::SimpleAtoi(one.second, &value)) values[one.first].set_integer(value);
  }
  std::vector<std::string> entries;
  for (const auto& [entry, symbol] : info.lowered_names()) entries.push_back(entry);
  HONE_ASSIGN_OR_RETURN(const v1::CompileRequest request,
                        TemplateCompile(described.template_(), values, entries,
                                        absl::StrCat("compute_", info.architecture().substr(3))));
  HONE_ASSIGN_OR_RETURN(const v1::CompileResponse compiled, client.Compile(request));
  if (compiled.artifacts_size() != 1) {
    return absl::InternalError("the daemon sent no artifact for one architecture");
  }
  if (!compiled.artifacts(0).data().empty()) return compiled.artifacts(0).data();
  HONE_ASSIGN_OR_RETURN(FetchedArtifact ptx,
                        client.GetArtifact(compiled.artifacts(0).info().sha256()));
  return std::move(ptx.bytes);
}

absl::StatusOr<std::string> Bytes(const Client& client, const Chosen& chosen,
                                  const ArtifactOptions& options) {
  if (options.sass) {
    return Disassemble(chosen.artifact.info, chosen.artifact.bytes, ToolDirectories());
  }
  if (options.ptx && chosen.artifact.info.format() != "PTX") return CompilePtx(client, chosen);
  return chosen.artifact.bytes;
}

absl::Status RunArtifact(const Environment& environment, const ArtifactOptions& options) {
  if (options.log + options.sass + options.ptx > 1) {
    return UsageError("give one of --log, --sass and --ptx");
  }
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  if (options.log) return RunLog(environment, client, options.hash);
  HONE_ASSIGN_OR_RETURN(const Chosen chosen, Choose(client, options));
  const bool text = options.sass || options.ptx;
  if (text || !options.file.empty()) {
    HONE_ASSIGN_OR_RETURN(const std::string bytes, Bytes(client, chosen, options));
    return WriteFile(options.file.empty() ? "-" : options.file, bytes);
  }
  if (environment.json) return PrintJson(chosen.artifact.info);
  PrintInfo(chosen.artifact.info);
  return absl::OkStatus();
}

}  // namespace

void AddArtifact(CLI::App& app, Environment& environment) {
  CLI::App* command =
      app.add_subcommand("artifact", "A binary: facts, bytes, SASS or PTX; or a compile log");
  command->group("Results");
  auto options = std::make_shared<ArtifactOptions>();
  command
      ->add_option(
          "KEY|SHA256", options->hash,
          "Tuning key, whose winner is meant, or an artifact's hash; with --log, a log's id")
      ->required();
  command->add_option("FILE", options->file,
                      "Write the bytes, or the text, here; - is standard output");
  command->add_option("--config", options->config,
                      "With a key: this candidate's instead of the winner's");
  command->add_flag("--sass", options->sass,
                    "Machine code as text, by nvdisasm or cuobjdump of this machine (of the CPU "
                    "device, by objdump)");
  command->add_flag("--ptx", options->ptx,
                    "PTX; of a candidate that was compiled to a cubin, from its template");
  command->add_flag("--log", options->log, "Print the compile log with this id");
  command->callback([&environment, options] {
    environment.action = [&environment, options] { return RunArtifact(environment, *options); };
  });
}

}  // namespace hone::cli
