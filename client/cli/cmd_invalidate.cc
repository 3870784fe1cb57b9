// hone invalidate --template NAME --device KEY --driver VERSION --compiler BUILD [--dry-run]
#include <iostream>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/errors.h"
#include "client/cli/json.h"
#include "client/cli/problem_options.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

// A device may be given by its index, as elsewhere on the command line.
absl::StatusOr<std::string> DeviceKey(const Client& client, const std::string& device) {
  int index = 0;
  if (device.empty() || LooksLikeKey(device) || !absl::SimpleAtoi(device, &index)) return device;
  HONE_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, client.GetStatus());
  for (const v1::DeviceStatus& present : status.devices()) {
    if (present.index() == index && !present.device_key().empty()) return present.device_key();
  }
  return UsageError(absl::StrCat("--device: the daemon has no device ", index,
                                 "; hone status shows those it has"));
}

std::string Count(int64_t count, const std::string& one, const std::string& many) {
  return absl::StrCat(count, " ", count == 1 ? one : many);
}

absl::Status RunInvalidate(const Environment& environment, v1::InvalidateRequest request) {
  if (request.template_name().empty() && request.device_key().empty() && request.driver().empty() &&
      request.compiler_build().empty()) {
    return UsageError("give at least one of --template, --device, --driver and --compiler");
  }
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(*request.mutable_device_key(), DeviceKey(client, request.device_key()));
  HONE_ASSIGN_OR_RETURN(const v1::InvalidateResponse reply, client.Invalidate(request));
  if (environment.json) return PrintJson(reply);
  if (!reply.note().empty()) {
    std::cout << reply.note() << "\n";
    return absl::OkStatus();
  }
  std::cout << Count(reply.measurements(), "measurement", "measurements") << " of "
            << Count(reply.tunings(), "tuning", "tunings")
            << (request.dry_run()
                    ? " would be invalidated"
                    : " invalidated: kept, served as stale, measured anew by the next "
                      "tune")
            << "\n";
  if (reply.pins_spared() > 0) {
    std::cout << Count(reply.pins_spared(), "pinned config", "pinned configs") << " spared\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddInvalidate(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand(
      "invalidate", "Stop trusting stored measurements that match; the next tune takes them anew");
  command->group("Results");
  auto request = std::make_shared<v1::InvalidateRequest>();
  command->add_option("--template", *request->mutable_template_name(), "Of this template");
  command->add_option("--device", *request->mutable_device_key(),
                      "On this device: its index, or its key from `hone status`");
  command->add_option("--driver", *request->mutable_driver(),
                      "Under this driver, as `hone show` names it");
  command->add_option("--compiler", *request->mutable_compiler_build(),
                      "Built by this, for example 'nvrtc 13.0.88'");
  command->add_option("--reason", *request->mutable_reason(), "Shown with what is stale");
  auto dry_run = std::make_shared<bool>(false);
  command->add_flag("--dry-run", *dry_run, "Only count");
  command->callback([&environment, request, dry_run] {
    environment.action = [&environment, request, dry_run] {
      request->set_dry_run(*dry_run);
      return RunInvalidate(environment, *request);
    };
  });
}

}  // namespace hone::cli
