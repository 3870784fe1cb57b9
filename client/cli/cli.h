// The hone command: global options, subcommands, exit codes. One file per subcommand: cmd_*.cc.
#pragma once

#include <functional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/hone/client.h"

namespace hone::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitError = 1,
  kExitUnreachable = 2,
  kExitNotFound = 3,
  kExitUsage = 64,  // as BSD's sysexits have it
};

// What every subcommand sees.
struct Environment {
  std::string endpoint;     // empty: the default
  std::string tls_ca_file;  // empty: the default
  double wait_s = 0;        // how long to wait for a daemon that is not there yet
  bool json = false;

  // Set by the subcommand that was named; run after the command line was understood.
  std::function<absl::Status()> action;

  // Fails at once when nobody listens, unless told to wait.
  absl::StatusOr<Client> Connect(bool enable_cpu_device = false) const;
};

void AddArtifact(CLI::App& app, Environment& environment);
void AddCompile(CLI::App& app, Environment& environment);
void AddDescribe(CLI::App& app, Environment& environment);
void AddCompare(CLI::App& app, Environment& environment);
void AddExplain(CLI::App& app, Environment& environment);
void AddExplainKey(CLI::App& app, Environment& environment);
void AddExport(CLI::App& app, Environment& environment);
void AddGet(CLI::App& app, Environment& environment);
void AddHeaders(CLI::App& app, Environment& environment);
void AddInvalidate(CLI::App& app, Environment& environment);
void AddLint(CLI::App& app, Environment& environment);
void AddList(CLI::App& app, Environment& environment);
void AddMisses(CLI::App& app, Environment& environment);
void AddPack(CLI::App& app, Environment& environment);
void AddPin(CLI::App& app, Environment& environment);
void AddReplay(CLI::App& app, Environment& environment);
void AddRun(CLI::App& app, Environment& environment);
void AddShow(CLI::App& app, Environment& environment);
void AddStatus(CLI::App& app, Environment& environment);
void AddTemplates(CLI::App& app, Environment& environment);
void AddTune(CLI::App& app, Environment& environment);
void AddUnpin(CLI::App& app, Environment& environment);

// Understands the command line, runs it, prints errors; returns the exit code.
int Main(int argc, const char* const* argv);

}  // namespace hone::cli
