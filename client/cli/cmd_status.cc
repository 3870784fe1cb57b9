// hone status
#include <iostream>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/explain_text.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

void PrintDevices(const v1::GetStatusResponse& status) {
  Table table({{"device", true},
               {"name"},
               {"fingerprint"},
               {"device key"},
               {"driver"},
               {"state"},
               {"detail"}});
  for (const v1::DeviceStatus& device : status.devices()) {
    table.Add({absl::StrCat(device.index()), device.name(), FormatDevice(device.fingerprint()),
               ShortHash(device.device_key()), device.driver(), device.state(), device.detail()});
  }
  if (!table.empty()) std::cout << "\n" << table.Text();
  for (const v1::DeviceStatus& device : status.devices()) {
    if (!device.has_ceilings()) continue;
    std::cout << "\ndevice " << device.index() << " measured "
              << FormatTime(device.ceilings().measured_at_unix_ms()) << "\n"
              << CeilingsTable(device.ceilings());
  }
}

void PrintCompilers(const v1::GetStatusResponse& status) {
  Table table({{"compiler"}, {"build"}, {"available"}, {"path"}, {"detail"}});
  for (const v1::CompilerStatus& compiler : status.compilers()) {
    table.Add({compiler.kind(), compiler.build(), compiler.available() ? "yes" : "no",
               compiler.path(), compiler.detail()});
  }
  if (!table.empty()) std::cout << "\n" << table.Text();
}

void PrintCounters(const v1::GetStatusResponse& status) {
  Table table({{"counter"}, {"since start", true}});
  const std::map<std::string, int64_t> sorted(status.counters().begin(), status.counters().end());
  for (const auto& [name, count] : sorted) {
    if (count != 0) table.Add({name, absl::StrCat(count)});
  }
  if (!table.empty()) std::cout << "\n" << table.Text();
}

absl::Status RunStatus(const Environment& environment) {
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, client.GetStatus());
  if (environment.json) return PrintJson(status);
  std::cout << "honed " << status.version() << " (API " << status.api_version() << "), pid "
            << status.pid() << ", up " << FormatDuration(status.uptime_s() * 1e9) << "\n"
            << "endpoint  " << client.endpoint() << "\n"
            << "store     " << status.store_path() << ", " << FormatBytes(status.store_bytes())
            << (status.store_bytes_max() > 0
                    ? absl::StrCat(" of at most ", FormatBytes(status.store_bytes_max()))
                    : "")
            << "\n"
            << "kernels   " << status.kernels_path() << "\n"
            << "you are   " << status.caller_role() << "\n";
  PrintDevices(status);
  PrintCompilers(status);
  PrintCounters(status);
  for (const std::string& warning : status.warnings())
    std::cout << "\nwarning: " << warning << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddStatus(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand("status", "How the daemon is: devices, compilers, store");
  command->group("Daemon");
  command->callback(
      [&environment] { environment.action = [&environment] { return RunStatus(environment); }; });
}

}  // namespace hone::cli
