// hone replay FILE: a search strategy on a recorded space. Needs neither daemon nor device.
#include <algorithm>
#include <iostream>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/cli.h"
#include "client/cli/table.h"
#include "runtime/base/status_macros.h"
#include "runtime/tune/replay.h"

namespace hone::cli {
namespace {

struct ReplayCommandOptions {
  std::string path;
  ReplayOptions replay;
};

// [{"evaluations": 10, "mean_fraction": 0.5594}, ...]
void PrintReplayJson(const ReplayResult& result) {
  std::string text;
  for (const ReplayPoint& point : result.points) {
    absl::StrAppendFormat(&text, "%s{\"evaluations\": %d, \"mean_fraction\": %.4f}",
                          text.empty() ? "" : ", ", point.evaluations, point.mean_fraction);
  }
  std::cout << "[" << text << "]\n";
}

void PrintReplayTable(const ReplayResult& result) {
  Table table({{.title = "evaluations", .right = true},
               {.title = "mean", .right = true},
               {.title = "9 of 10", .right = true},
               {.title = "worst", .right = true}});
  for (const ReplayPoint& point : result.points) {
    table.Add({absl::StrCat(point.evaluations), absl::StrFormat("%.3f", point.mean_fraction),
               absl::StrFormat("%.3f", point.p10_fraction),
               absl::StrFormat("%.3f", point.worst_fraction)});
  }
  std::cout << table.Text()
            << absl::StrFormat(
                   "best possible time / best found; a proposal takes %.2f ms (at most "
                   "%.1f)\n",
                   result.next_ms_mean, result.next_ms_max);
}

absl::Status RunReplay(const Environment& environment, const ReplayCommandOptions& options) {
  HONE_ASSIGN_OR_RETURN(const ReplayResult result, ReplayFile(options.path, options.replay));
  environment.json ? PrintReplayJson(result) : PrintReplayTable(result);
  return absl::OkStatus();
}

}  // namespace

void AddReplay(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand(
      "replay", "Try a search strategy on a space that was measured completely (T4 results)");
  command->group("Templates");
  auto options = std::make_shared<ReplayCommandOptions>();
  command->add_option("FILE", options->path, "T4 results as JSON, plain or compressed by gzip")
      ->required();
  command->add_option("--strategy", options->replay.strategy,
                      "exhaustive, random, local or model (default: model)");
  command->add_option("--seeds", options->replay.seeds, "Runs from different seeds (default: 100)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--in-flight", options->replay.in_flight,
                   "Proposals made before the first one's result is told (default: 1)")
      ->check(CLI::PositiveNumber);
  options->replay.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  command->add_option("--threads", options->replay.threads, "Runs at a time (default: the cores)")
      ->check(CLI::PositiveNumber);
  command->callback([&environment, options] {
    environment.action = [&environment, options] { return RunReplay(environment, *options); };
  });
}

}  // namespace hone::cli
