// hone get NAME k=v...
#include <fstream>
#include <iostream>
#include <map>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/errors.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/params.h"
#include "client/cli/problem_options.h"
#include "client/cli/table.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

struct GetOptions {
  std::shared_ptr<ProblemOptions> problem;
  v1::Policy policy = v1::BEST_AVAILABLE;
  v1::Numerics numerics = v1::WITHIN_TOLERANCE;
  double max_wait_s = 30;
};

const std::map<std::string, v1::Policy>& Policies() {
  static const auto& policies =
      *new std::map<std::string, v1::Policy>{{"best_available", v1::BEST_AVAILABLE},
                                             {"wait_tuned", v1::WAIT_TUNED},
                                             {"no_wait", v1::NO_WAIT},
                                             {"frozen", v1::FROZEN}};
  return policies;
}

void PrintVariants(const v1::TunedKernel& kernel) {
  Table table({{"variant", true},
               {"config"},
               {"median", true},
               {"verified at"},
               {"size", true},
               {"builder"},
               {"artifact"}});
  int number = 0;
  for (const v1::KernelVariant& variant : kernel.variants()) {
    const v1::MeasurementInfo& m = variant.measurement();
    table.Add({absl::StrCat(++number), variant.config(),
               variant.has_measurement() ? FormatDuration(m.median_ns()) : "",
               absl::StrJoin(m.verified_sizes(), ", "),
               FormatBytes(variant.artifact().size_bytes()), variant.artifact().builder(),
               variant.artifact().sha256()});
  }
  std::cout << "\n" << table.Text();
}

// Why the key missed.
void PrintNearKeys(const v1::GetKernelResponse& reply) {
  for (const v1::NearKey& near : reply.nearest_keys()) {
    std::cout << "tuned       " << ShortHash(near.key()) << " " << near.problem() << " on "
              << near.architecture() << " (differs in " << absl::StrJoin(near.differs_in(), ", ")
              << ")\n";
  }
}

absl::Status RunGet(const Environment& environment, const GetOptions& options) {
  v1::GetKernelRequest request;
  request.mutable_template_()->set_name(options.problem->name);
  HONE_ASSIGN_OR_RETURN(const Params params, ParseParams(options.problem->assignments));
  SetParams(params, request.mutable_params());
  *request.mutable_target() = options.problem->ToTarget();
  request.set_policy(options.policy);
  request.set_numerics(options.numerics);
  request.set_max_wait_ms(static_cast<int32_t>(options.max_wait_s * 1000));
  request.set_inline_bytes_max(-1);
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const v1::GetKernelResponse reply, client.GetKernel(request));
  if (environment.json) return PrintJson(reply);

  const v1::TunedKernel& kernel = reply.kernel();
  std::cout << kernel.template_name() << " " << FormatParams(kernel.params()) << " for "
            << kernel.architecture() << "\nsource      " << SourceText(reply.source());
  if (reply.source() == v1::BUCKET || reply.source() == v1::NEAREST) {
    std::cout << ": tuned for " << FormatParams(reply.answered_by_params());
  }
  std::cout << "\n";
  if (!reply.key().empty()) std::cout << "key         " << reply.key() << "\n";
  PrintNearKeys(reply);
  if (!reply.answered_by_key().empty() && reply.answered_by_key() != reply.key()) {
    std::cout << "answered by " << reply.answered_by_key() << "\n";
  }
  if (kernel.generation() > 0) std::cout << "generation  " << kernel.generation() << "\n";
  if (reply.has_pin()) std::cout << "pinned      " << PinText(reply.pin()) << "\n";
  if (reply.stale()) std::cout << "stale       " << reply.stale_reason() << "\n";
  if (reply.tuning()) std::cout << "a tune of this key is running\n";
  PrintVariants(kernel);
  return absl::OkStatus();
}

}  // namespace

void AddGet(CLI::App& app, Environment& environment) {
  CLI::App* command =
      app.add_subcommand("get", "Ask for the best kernel there is, as an inference server would");
  command->group("Kernels");
  auto options = std::make_shared<GetOptions>();
  options->problem = AddProblemOptions(*command, "NAME", "Template");
  command
      ->add_option("--policy", options->policy,
                   "best_available: compile if needed; wait_tuned: tune if needed; no_wait: what "
                   "exists; frozen: never compile or tune")
      ->transform(CLI::CheckedTransformer(Policies(), CLI::ignore_case));
  AddNumericsOption(*command, &options->numerics);
  command->add_option("--max-wait", options->max_wait_s, "Seconds until an answer must come")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str();
  command->callback([&environment, options] {
    environment.action = [&environment, options] { return RunGet(environment, *options); };
  });
}

}  // namespace hone::cli
