#include "client/cli/problem_options.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/format.h"
#include "client/cli/params.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {

v1::Target ProblemOptions::ToTarget() const {
  v1::Target target;
  target.set_architecture(architecture);
  target.set_device_index(device);
  target.set_driver_version(driver_version);
  return target;
}

absl::StatusOr<v1::ExplainKeyRequest> ProblemOptions::ToExplainKeyRequest() const {
  v1::ExplainKeyRequest request;
  request.mutable_template_()->set_name(name);
  HONE_ASSIGN_OR_RETURN(const Params params, ParseParams(assignments));
  SetParams(params, request.mutable_params());
  *request.mutable_target() = ToTarget();
  return request;
}

std::shared_ptr<ProblemOptions> AddProblemOptions(CLI::App& command, const std::string& name,
                                                  const std::string& name_help) {
  auto options = std::make_shared<ProblemOptions>();
  command.add_option(name, options->name, name_help)->required();
  command.add_option("PARAM=VALUE", options->assignments,
                     "The template's parameters, for example T=F32 n=2^26");
  command.add_option("--arch", options->architecture,
                     "What to compile for: sm_90a, cpu; auto (the default) is the device's");
  command.add_option("--device", options->device, "Index of the daemon's device")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--driver", options->driver_version,
                  "CUDA driver that will load the binary, for example 12040 for 12.4")
      ->check(CLI::NonNegativeNumber);
  return options;
}

absl::StatusOr<std::string> TuningKeyOf(const Client& client, const ProblemOptions& problem) {
  if (problem.assignments.empty() && LooksLikeKey(problem.name)) return problem.name;
  HONE_ASSIGN_OR_RETURN(const v1::ExplainKeyRequest request, problem.ToExplainKeyRequest());
  HONE_ASSIGN_OR_RETURN(const v1::ExplainKeyResponse reply, client.ExplainKey(request));
  return reply.tuning_key();
}

absl::Status NotTuned(const absl::Status& status, const ProblemOptions& problem) {
  const bool by_key = problem.assignments.empty() && LooksLikeKey(problem.name);
  if (!absl::IsNotFound(status) || by_key) return status;
  const std::string asked = absl::StrCat(
      problem.name, " ",
      absl::StrJoin(problem.assignments, " ", [](std::string* out, const std::string& assignment) {
        *out += ShellWord(assignment);
      }));
  return absl::NotFoundError(
      absl::StrCat(asked, " is not tuned on this device; try: hone tune ", asked));
}

void AddNumericsOption(CLI::App& command, v1::Numerics* numerics) {
  static const auto& names =
      *new std::map<std::string, v1::Numerics>{{"within-tolerance", v1::WITHIN_TOLERANCE},
                                               {"same-bits-as-default", v1::SAME_BITS_AS_DEFAULT}};
  command
      .add_option(
          "--numerics", *numerics,
          "within-tolerance: the fastest right candidate; same-bits-as-default: the fastest "
          "whose outputs are bit for bit the default's where they were checked")
      ->transform(CLI::CheckedTransformer(names, CLI::ignore_case));
}

bool LooksLikeKey(const std::string& text) {
  return text.size() >= 6 && text.size() <= 64 &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace hone::cli
