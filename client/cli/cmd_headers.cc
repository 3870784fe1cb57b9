// hone headers add NAME DIR..., hone headers list
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/header_tree.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

constexpr char kFooter[] = R"(
Example:
  hone headers add cutlass cutlass/include
  hone compile kernel.cu --arch sm_90a --header-set cutlass --option=-default-device
or, in a template.pbtxt:
  header_sets: "cutlass")";

struct AddOptions {
  std::string name;
  std::vector<std::string> directories;
  std::vector<std::string> only;
};

absl::Status RunAdd(const Environment& environment, const AddOptions& options) {
  HONE_ASSIGN_OR_RETURN(const std::vector<v1::SourceFile> files,
                        ReadHeaderTrees(options.directories, options.only));
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const v1::RegisterHeaderSetResponse reply,
                        client.RegisterHeaderSet(options.name, files));
  if (environment.json) return PrintJson(reply);
  std::cout << options.name << "  " << files.size() << (files.size() == 1 ? " file, " : " files, ")
            << FormatBytes(reply.size_bytes()) << "\n  " << reply.digest() << "\n  #include <"
            << files.front().name() << "> and so on, where the set is named: by --header-set "
            << options.name << ",\n  or by header_sets: \"" << options.name
            << "\" in a template.pbtxt\n";
  return absl::OkStatus();
}

absl::Status RunList(const Environment& environment) {
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const v1::ListHeaderSetsResponse reply, client.ListHeaderSets());
  if (environment.json) return PrintJson(reply);
  Table table({{"header set"}, {"digest"}, {"note"}});
  for (const v1::HeaderSetSummary& set : reply.header_sets()) {
    table.Add({set.name(), set.digest(), set.current() ? "" : "older: named by its digest only"});
  }
  if (table.empty()) {
    std::cout << "There is no header set; hone headers add NAME DIR registers one.\n";
  } else {
    std::cout << table.Text();
  }
  return absl::OkStatus();
}

}  // namespace

void AddHeaders(CLI::App& app, Environment& environment) {
  CLI::App* headers =
      app.add_subcommand("headers", "Header sets: libraries of headers that kernels include");
  headers->group("Templates")->require_subcommand(1)->footer(kFooter);

  CLI::App* add = headers->add_subcommand(
      "add",
      "Register the files of include directories as a header set, of at most 20,000 files\n"
      "and 64 MiB. A name that is taken means the new set from then on; the same files again\n"
      "take the new name.");
  add->fallthrough();
  auto options = std::make_shared<AddOptions>();
  add->add_option("NAME", options->name, "What kernels will call it, for example cutlass-4.2")
      ->required();
  add->add_option("DIR", options->directories,
                  "Include directory: a source includes its files by their path below it. Hidden "
                  "files and links to directories are left out")
      ->required();
  add->add_option("--only", options->only,
                  "Only files whose path matches, for example 'cute/*' or '*.hpp'; may be repeated")
      ->allow_extra_args(false);
  add->callback([&environment, options] {
    environment.action = [&environment, options] { return RunAdd(environment, *options); };
  });

  CLI::App* list = headers->add_subcommand("list", "The header sets there are, newest first");
  list->fallthrough();
  list->callback(
      [&environment] { environment.action = [&environment] { return RunList(environment); }; });
}

}  // namespace hone::cli
