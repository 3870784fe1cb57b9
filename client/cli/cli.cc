#include "client/cli/cli.h"

#include <iostream>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/errors.h"
#include "client/cpp/rpc/endpoint.h"
#include "runtime/base/default_paths.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

constexpr char kDescription[] =
    "hone compiles CUDA kernel templates, tunes them on this machine's device and serves the\n"
    "fastest verified binary. This command talks to its daemon, honed.";

constexpr char kFooter[] = R"(
Try it:
  honed &                                     start the daemon (GPU if there is one, else CPU)
  hone templates                              what can be tuned
  hone tune copy_1d T=F32 n=2^24              measure every candidate; the best is kept
  hone list                                   what is kept
  hone show copy_1d T=F32 n=2^24              all candidates of one tuning, as bars
  hone explain copy_1d T=F32 n=2^24           how good its winner is, and why
  hone run copy_1d T=F32 n=2^24+1 --verify    launch the served kernel and check its output

Values: integers as 4096, 2^26, 64Ki, 3*2^20+1; data types as F32; choices as relu; true, false.
Exit codes: 0 done; 1 it failed, or what a file says is wrong (source, template); 2 no daemon
reachable; 3 not found; 64 the command line is wrong (an option, a parameter, a value), whether this
command or the daemon says so.)";

void AddGlobalOptions(CLI::App& app, Environment& environment) {
  app.add_option("-e,--endpoint", environment.endpoint,
                 "Daemon to talk to: unix:PATH or HOST:PORT (default: $HONE_ENDPOINT, else the "
                 "first socket found in $XDG_RUNTIME_DIR/hone, /run/hone, /tmp/hone-UID)");
  app.add_option("--tls-ca-file", environment.tls_ca_file,
                 "Speak TLS to HOST:PORT, with a daemon whose certificate was issued by an "
                 "authority in this PEM file; system: by one that the system trusts (default: "
                 "$HONE_TLS_CA_FILE, else plain text)");
  app.add_option("--wait", environment.wait_s, "Wait up to this many seconds for the daemon")
      ->check(CLI::Range(0.0, 86400.0));
  // The values are the two there are, so a flag inside is enough.
  app.add_option_function<std::string>(
         "-o,--output",
         [&environment](const std::string& value) { environment.json = value == "json"; },
         "table or json; json is protobuf's JSON of the daemon's reply")
      ->check(CLI::IsMember({"table", "json"}));
}

void AddSubcommands(CLI::App& app, Environment& environment) {
  AddStatus(app, environment);
  AddTemplates(app, environment);
  AddDescribe(app, environment);
  AddLint(app, environment);
  AddHeaders(app, environment);
  AddReplay(app, environment);
  AddTune(app, environment);
  AddRun(app, environment);
  AddGet(app, environment);
  AddCompile(app, environment);
  AddList(app, environment);
  AddShow(app, environment);
  AddExplain(app, environment);
  AddCompare(app, environment);
  AddPin(app, environment);
  AddUnpin(app, environment);
  AddInvalidate(app, environment);
  AddMisses(app, environment);
  AddExplainKey(app, environment);
  AddExport(app, environment);
  AddArtifact(app, environment);
  AddPack(app, environment);
}

// What is wrong, and where to read how it is right.
std::string UsageText(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> used = app.get_subcommands();
  const std::vector<std::string> extras = app.remaining();
  if (used.empty() && !extras.empty() && extras.front().front() != '-') {
    return absl::StrCat(
        "hone: unknown command '", extras.front(), "'; there are ",
        absl::StrJoin(
            app.get_subcommands([](const CLI::App*) { return true; }), ", ",
            [](std::string* out, const CLI::App* command) { *out += command->get_name(); }),
        "\n");
  }
  const std::string command =
      used.empty() ? "hone" : absl::StrCat("hone ", used.front()->get_name());
  return absl::StrCat(command, ": ", error.what(), "\nSee ", command, " --help\n");
}

}  // namespace

absl::StatusOr<Client> Environment::Connect(bool enable_cpu_device) const {
  ClientOptions options;
  options.endpoint = endpoint.empty() ? DefaultEndpoint() : endpoint;
  options.tls_ca_file = tls_ca_file;
  if (tls_ca_file.empty() && !UnixPath(options.endpoint)) options.tls_ca_file = DefaultTlsCaFile();
  options.enable_cpu_device = enable_cpu_device;
  options.capture_dir = "";  // what the command launches is not production
  // A daemon that listens may still be busy starting.
  options.connect_timeout = absl::Seconds(wait_s > 0 ? wait_s : 5);
  if (wait_s <= 0) {
    absl::Status reachable = ProbeEndpoint(options.endpoint);
    if (absl::IsInvalidArgument(reachable)) return UsageError(reachable.message());
    if (!reachable.ok()) return Unreachable(std::move(reachable));
  }
  return Client::Connect(std::move(options));
}

int Main(int argc, const char* const* argv) {
  CLI::App app(kDescription, "hone");
  Environment environment;
  app.set_version_flag("--version", "hone " HONE_VERSION, "Print the version and exit");
  AddGlobalOptions(app, environment);
  AddSubcommands(app, environment);
  app.footer(kFooter);
  app.require_subcommand(0, 1);
  app.fallthrough();
  for (CLI::App* subcommand : app.get_subcommands({})) subcommand->fallthrough();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::cerr << UsageText(app, error);
    return kExitUsage;
  }
  if (!environment.action) {
    std::cerr << app.help();
    return kExitUsage;
  }
  return ReportAndExitCode(environment.action(), std::cerr);
}

}  // namespace hone::cli
