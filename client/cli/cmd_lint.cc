// hone lint DIR...
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/errors.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/template_directory.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

absl::StatusOr<v1::RegisterTemplateResponse> LintOne(const Client& client,
                                                     const std::string& path) {
  HONE_ASSIGN_OR_RETURN(const LocalTemplate local, ReadTemplate(path));
  v1::RegisterTemplateRequest request;
  request.set_validate_only(true);
  *request.mutable_template_() = local.message;
  absl::StatusOr<v1::RegisterTemplateResponse> reply = client.RegisterTemplate(request);
  if (absl::IsAlreadyExists(reply.status())) {
    // An edited catalog template is a good template; only registering it would need a new version.
    *request.mutable_template_() = WithDevelopmentVersion(local.message);
    reply = client.RegisterTemplate(request);
  }
  if (!reply.ok()) return InFile(Located(local, reply.status()));
  return reply;
}

absl::Status RunLint(const Environment& environment, const std::vector<std::string>& arguments) {
  std::vector<std::string> paths;
  for (const std::string& argument : arguments) {
    for (std::string& path : FindTemplates(argument)) paths.push_back(std::move(path));
  }
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  absl::Status first_error;
  for (const std::string& path : paths) {
    const absl::StatusOr<v1::RegisterTemplateResponse> reply = LintOne(client, path);
    if (!reply.ok()) {
      // The last error is reported by the caller, with the exit code.
      if (!first_error.ok()) ReportAndExitCode(first_error, std::cerr);
      first_error = reply.status();
      continue;
    }
    if (environment.json) {
      HONE_RETURN_IF_ERROR(PrintJson(*reply));
      continue;
    }
    std::cout << "ok  " << path << ": " << reply->summary().name() << " "
              << reply->summary().version() << ", " << reply->summary().tunable_points()
              << " points, digest " << ShortHash(reply->summary().digest()) << "\n";
    for (const std::string& warning : reply->warnings())
      std::cout << "    note: " << warning << "\n";
  }
  return first_error;
}

}  // namespace

void AddLint(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand(
      "lint", "Check template directories without registering or compiling anything");
  command->group("Templates");
  auto paths = std::make_shared<std::vector<std::string>>();
  command
      ->add_option(
          "DIR", *paths,
          "Directories with a template.pbtxt, such files, or directories of such directories")
      ->required();
  command->callback([&environment, paths] {
    environment.action = [&environment, paths] { return RunLint(environment, *paths); };
  });
}

}  // namespace hone::cli
