// hone pack export FILE [TEMPLATE...], hone pack show FILE
#include <cstdlib>
#include <iostream>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/cli.h"
#include "client/cli/errors.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/pack_export.h"
#include "client/cli/table.h"
#include "client/cpp/kernel_pack.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

constexpr char kPackFooter[] = R"(
Example:
  hone pack export kernels.hone
  HONE_PACK=kernels.hone python3 server.py     launches from the pack while no daemon can be reached)";

// As reproducible builds have it, so that two exports of the same kernels are the same file.
int64_t MadeAtUnixMs() {
  const char* const epoch = std::getenv("SOURCE_DATE_EPOCH");
  int64_t seconds = 0;
  if (epoch != nullptr && absl::SimpleAtoi(epoch, &seconds)) return seconds * 1000;
  return absl::ToUnixMillis(absl::Now());
}

absl::Status RunPackExport(const Environment& environment, const std::string& path,
                           PackExportOptions options) {
  // Said before the daemon is asked for everything.
  if (!IsDirectory(DirectoryName(path))) {
    return UsageError(absl::StrCat("FILE ", path, ": there is no directory ", DirectoryName(path)));
  }
  options.made_at_unix_ms = MadeAtUnixMs();
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const v1::PackExport report, ExportPack(client, path, options));
  if (environment.json) return PrintJson(report);
  std::cout << path << "  " << report.kernels()
            << (report.kernels() == 1 ? " kernel, " : " kernels, ") << report.artifacts()
            << (report.artifacts() == 1 ? " binary, " : " binaries, ")
            << FormatBytes(report.file_bytes()) << "\n  " << report.digest() << "\n";
  if (report.left_out().empty()) return absl::OkStatus();
  Table table({{"left out"}, {"template"}, {"params"}, {"why"}});
  for (const v1::PackLeftOut& each : report.left_out()) {
    table.Add(
        {ShortHash(each.key()), each.template_name(), FormatParams(each.params()), each.reason()});
  }
  std::cout << "\n" << table.Text();
  return absl::OkStatus();
}

std::vector<std::string> PackRow(const v1::KernelPackIndex& index, const v1::PackedKernel& kernel,
                                 const v1::GetKernelResponse& reply) {
  const v1::KernelVariant& first = reply.kernel().variants(0);
  int64_t bytes = 0;
  for (const int artifact : kernel.artifact_contents()) {
    bytes += index.contents(artifact).size_bytes();
  }
  std::string note;
  if (reply.has_pin()) note = "pinned";
  if (reply.stale()) {
    absl::StrAppend(&note, note.empty() ? "" : "; ", "stale: ", reply.stale_reason());
  }
  return {ShortHash(reply.key()),
          reply.kernel().template_name(),
          FormatParams(kernel.params()),
          FormatDeviceShort(index.devices(kernel.device_index())),
          kernel.numerics() == v1::SAME_BITS_AS_DEFAULT ? "same bits" : "",
          first.config(),
          first.has_measurement() ? FormatDuration(first.measurement().median_ns()) : "",
          FormatBytes(bytes),
          note};
}

absl::Status RunPackShow(const Environment& environment, const std::string& path) {
  const auto opened = KernelPack::Open(path);
  if (!opened.ok()) return InFile(opened.status());
  const KernelPack& pack = **opened;
  HONE_RETURN_IF_ERROR(InFile(pack.Verify()));
  v1::PackListing listing;
  listing.set_path(path);
  listing.set_digest(pack.digest());
  listing.set_file_bytes(pack.file_bytes());
  *listing.mutable_index() = pack.index();
  for (int i = 0; i < pack.index().kernels_size(); ++i) {
    HONE_ASSIGN_OR_RETURN(*listing.add_replies(), pack.Reply(i));
  }
  if (environment.json) return PrintJson(listing);
  const v1::KernelPackIndex& index = pack.index();
  std::cout << path << "  " << index.kernels_size()
            << (index.kernels_size() == 1 ? " kernel, " : " kernels, ")
            << FormatBytes(pack.file_bytes()) << ", verified\n  " << pack.digest() << "\n  made by "
            << index.origin().made_by() << ", " << FormatTime(index.origin().made_at_unix_ms())
            << "\n\n";
  Table table({{"key"},
               {"template"},
               {"params"},
               {"device"},
               {"numerics"},
               {"config"},
               {"median", true},
               {"binaries", true},
               {"note"}});
  for (int i = 0; i < index.kernels_size(); ++i) {
    table.Add(PackRow(index, index.kernels(i), listing.replies(i)));
  }
  std::cout << table.Text();
  return absl::OkStatus();
}

}  // namespace

void AddPack(CLI::App& app, Environment& environment) {
  CLI::App* pack = app.add_subcommand(
      "pack", "Kernel packs: tuned kernels in one file, for clients without a daemon");
  pack->group("Results")->require_subcommand(1)->footer(kPackFooter);

  CLI::App* write = pack->add_subcommand(
      "export",
      "Write the winners of what is tuned, with their binaries, into one file. Nothing is\n"
      "compiled or measured. What is stale, and what is of the CPU reference device, is left out\n"
      "and named.");
  write->fallthrough();
  struct ExportOptions {
    std::string file;
    PackExportOptions pack;
  };
  auto options = std::make_shared<ExportOptions>();
  write->add_option("FILE", options->file, "Replaced when the new pack is complete")->required();
  write->add_option("TEMPLATE", options->pack.templates, "Only of these templates");
  write->add_flag("--stale", options->pack.stale,
                  "Also kernels whose timing or binary is of another driver or compiler build");
  write->callback([&environment, options] {
    environment.action = [&environment, options] {
      return RunPackExport(environment, options->file, options->pack);
    };
  });

  CLI::App* show = pack->add_subcommand(
      "show", "Verify a pack, every byte of it, and list its kernels. Needs no daemon.");
  show->fallthrough();
  auto file = std::make_shared<std::string>();
  show->add_option("FILE", *file, "A pack")->required();
  show->callback([&environment, file] {
    environment.action = [&environment, file] { return RunPackShow(environment, *file); };
  });
}

}  // namespace hone::cli
