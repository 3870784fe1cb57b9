// hone tune NAME|DIR k=v..., hone tune --from DIR
#include <iostream>
#include <memory>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/captures.h"
#include "client/cli/cli.h"
#include "client/cli/errors.h"
#include "client/cli/file_watch.h"
#include "client/cli/params.h"
#include "client/cli/problem_options.h"
#include "client/cli/template_directory.h"
#include "client/cli/tune_captured.h"
#include "client/cli/tune_view.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

// As the daemon has them (Budget).
constexpr int kEvaluationsMax = 10'000'000;
constexpr double kSecondsMax = 30 * 24 * 3600;

// CLI::Range takes "nan" for a number in it. Empty: fine.
std::string CheckSeconds(const std::string& text) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds) && seconds > 0 && seconds <= kSecondsMax) return "";
  return absl::StrCat("'", text, "' is not a number of seconds above 0 and at most ", kSecondsMax);
}

// "-1" would wrap around.
std::string CheckSeed(const std::string& text) {
  uint64_t seed = 0;
  if (!absl::StartsWith(text, "-") && absl::SimpleAtoi(text, &seed)) return "";
  return absl::StrCat("'", text, "' is not a whole number from 0 to 2^64-1");
}

struct TuneOptions {
  std::shared_ptr<ProblemOptions> problem;
  int evaluations_max = 0;
  double seconds_max = 0;
  int patience = 0;
  std::string strategy;
  double ranked_share = 0;
  uint64_t seed = 0;
  bool force = false;
  v1::Numerics numerics = v1::WITHIN_TOLERANCE;
  bool watch = false;
  std::vector<std::string> configs;
  std::string from;
  bool list = false;
};

absl::StatusOr<v1::TuneRequest> MakeTuneRequest(const TuneOptions& options) {
  v1::TuneRequest request;
  HONE_ASSIGN_OR_RETURN(const Params params, ParseParams(options.problem->assignments));
  SetParams(params, request.mutable_params());
  *request.mutable_target() = options.problem->ToTarget();
  request.mutable_budget()->set_evaluations_max(options.evaluations_max);
  request.mutable_budget()->set_seconds_max(options.seconds_max);
  request.mutable_budget()->set_patience(options.patience);
  request.set_strategy(options.strategy);
  request.set_seed(options.seed);
  request.set_ranked_share(options.ranked_share);
  request.set_force(options.force);
  request.set_numerics(options.numerics);
  for (const std::string& config : options.configs) request.add_configs(config);
  return request;
}

// One tune. `saved` is asked at every event; true ends it.
absl::Status TuneOnce(const Environment& environment, const Client& client,
                      const v1::TuneRequest& request, const std::function<bool()>& saved) {
  const std::unique_ptr<TuneView> view = MakeTuneView(environment.json);
  const absl::StatusOr<v1::TuneFinished> finished =
      client.Tune(request, [&](const v1::TuneEvent& event) {
        view->OnEvent(event);
        return !saved();
      });
  view->OnEnd(finished.ok() ? &*finished : nullptr);
  return finished.status();
}

absl::Status TuneTemplate(const Environment& environment, const Client& client,
                          v1::TuneRequest request, const LocalTemplate& local,
                          const std::function<bool()>& saved) {
  *request.mutable_inline_template() = local.message;
  absl::Status status = TuneOnce(environment, client, request, saved);
  if (absl::IsAlreadyExists(status)) {
    *request.mutable_inline_template() = WithDevelopmentVersion(local.message);
    status = TuneOnce(environment, client, request, saved);
  }
  return Located(local, status);
}

absl::Status TuneDirectory(const Environment& environment, const Client& client,
                           const v1::TuneRequest& request, const std::string& path) {
  HONE_ASSIGN_OR_RETURN(const LocalTemplate local, ReadTemplate(path));
  return TuneTemplate(environment, client, request, local, [] { return false; });
}

// Until interrupted. A template that is wrong for the moment is reported and waited for.
absl::Status WatchDirectory(const Environment& environment, const Client& client,
                            const v1::TuneRequest& request, const std::string& path) {
  std::string directory = path;
  if (absl::EndsWith(path, ".pbtxt")) {
    directory = absl::StrContains(path, '/') ? path.substr(0, path.rfind('/')) : ".";
  }
  HONE_ASSIGN_OR_RETURN(FileWatch watch, FileWatch::Create(directory));
  while (true) {
    bool saved = false;
    absl::StatusOr<LocalTemplate> local = ReadTemplate(path);
    absl::Status status = local.status();
    if (local.ok()) {
      status = TuneTemplate(environment, client, request, *local, [&] {
        saved = saved || watch.Poll();
        return saved;
      });
    }
    if (!saved) {
      if (absl::IsUnavailable(status)) return status;
      ReportAndExitCode(status, std::cerr);
      std::cerr << "waiting for a save in " << directory << " (Ctrl-C ends)\n";
      watch.Wait();
    }
    std::cerr << "saved: tuning again\n";
  }
}

absl::Status TuneFrom(const Environment& environment, const TuneOptions& options,
                      const v1::TuneRequest& request) {
  HONE_ASSIGN_OR_RETURN(const Captures captures, ReadCaptures(options.from));
  for (const std::string& note : captures.notes) std::cerr << "not read: " << note << "\n";
  if (captures.problems.empty() && !captures.notes.empty()) {
    return InFile(absl::InvalidArgumentError(
        absl::StrCat(options.from, " holds no launches that can be read")));
  }
  if (options.list || captures.problems.empty()) {
    return ListCaptures(captures, environment.json);
  }
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  return TuneCaptures(client, captures, request, environment.json,
                      [&](const v1::TuneRequest& captured) {
                        return TuneOnce(environment, client, captured, [] { return false; });
                      });
}

absl::Status RunTune(const Environment& environment, const TuneOptions& options) {
  HONE_ASSIGN_OR_RETURN(v1::TuneRequest request, MakeTuneRequest(options));
  if (!options.from.empty()) return TuneFrom(environment, options, request);
  if (options.problem->name.empty()) {
    return UsageError("NAME|DIR is required: a template, or --from with a capture directory");
  }
  const bool is_path = LooksLikePath(options.problem->name);
  if (options.watch && !is_path) {
    return UsageError(
        absl::StrCat("--watch needs a directory, for example ./", options.problem->name));
  }
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  if (options.watch) return WatchDirectory(environment, client, request, options.problem->name);
  if (is_path) return TuneDirectory(environment, client, request, options.problem->name);
  request.mutable_template_()->set_name(options.problem->name);
  return TuneOnce(environment, client, request, [] { return false; });
}

}  // namespace

void AddTune(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand(
      "tune", "Measure candidates until the best is known; show each as it comes");
  command->group("Kernels");
  auto options = std::make_shared<TuneOptions>();
  options->problem = AddProblemOptions(
      *command, "NAME|DIR", "Template, or a directory with a template.pbtxt (with a '/' in it)");
  command->add_option("--evaluations", options->evaluations_max, "Measure at most this many")
      ->check(CLI::Range(1, kEvaluationsMax));
  command->add_option("--seconds", options->seconds_max, "Stop after this time")
      ->check(CLI::Validator(CheckSeconds, "SECONDS"));
  command
      ->add_option("--patience", options->patience,
                   "Stop after this many candidates in a row without a faster one")
      ->check(CLI::Range(1, kEvaluationsMax));
  command->add_option(
      "--strategy", options->strategy,
      "exhaustive, random, local or model (default: exhaustive if the budget covers "
      "the space, else model)");
  command
      ->add_option("--ranked-share", options->ranked_share,
                   "Try only this share of the configs, best by an analytic estimate; says what "
                   "that may have cost")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", options->seed, "Of the strategy's random choices")
      ->check(CLI::Validator(CheckSeed, "UINT64"));
  command
      ->add_option("--config", options->configs,
                   "Only this one, for example 'XBLOCK=256 VEC=4'; may be repeated")
      ->allow_extra_args(false);
  AddNumericsOption(*command, &options->numerics);
  command->add_flag("--force", options->force, "Measure again what is stored already");
  command->add_flag("--watch", options->watch, "Tune again whenever a file in DIR is saved");
  CLI::Option* const from = command->add_option(
      "--from", options->from,
      "Instead of NAME: every problem that processes with HONE_CAPTURE=DIR launched, most launched "
      "first; DIR, or one file of it");
  from->type_name("DIR|FILE");
  command->get_option("NAME|DIR")->required(false);
  // A captured problem has its own.
  for (const char* other : {"NAME|DIR", "PARAM=VALUE", "--watch", "--config", "--numerics",
                            "--arch", "--device", "--driver"}) {
    from->excludes(command->get_option(other));
  }
  command->add_flag("--list", options->list, "With --from: show these problems and tune nothing")
      ->needs(from);
  command->callback([&environment, options] {
    environment.action = [&environment, options] { return RunTune(environment, *options); };
  });
}

}  // namespace hone::cli
