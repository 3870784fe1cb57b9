// How near the best configs each search strategy comes on recorded spaces, and what a proposal
// costs.
//
// usage: search_bench [--seeds=N] [--strategies=model,local,random] [--in-flight=N]
//                     [--evaluations=10,25,50,100,200,400] FILE...
//   FILE   results in the T4 format, plain or compressed by gzip
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/files.h"
#include "runtime/tune/replay.h"
#include "tests/bench/bench_report.h"

namespace hone {
namespace {

struct Arguments {
  std::vector<std::string> strategies = {"model", "local", "random"};
  ReplayOptions replay;
  std::vector<std::string> files;
};

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    absl::string_view text = argv[i];
    bool known = true;
    if (absl::ConsumePrefix(&text, "--seeds=")) {
      known = absl::SimpleAtoi(text, &arguments.replay.seeds);
    } else if (absl::ConsumePrefix(&text, "--in-flight=")) {
      known = absl::SimpleAtoi(text, &arguments.replay.in_flight);
    } else if (absl::ConsumePrefix(&text, "--evaluations=")) {
      arguments.replay.evaluations.clear();
      for (const absl::string_view part : absl::StrSplit(text, ',')) {
        known = known && absl::SimpleAtoi(part, &arguments.replay.evaluations.emplace_back());
      }
    } else if (absl::ConsumePrefix(&text, "--strategies=")) {
      arguments.strategies = absl::StrSplit(text, ',');
    } else {
      known = !absl::StartsWith(text, "--");
      arguments.files.push_back(std::string(text));
    }
    if (!known) {
      std::fprintf(stderr, "cannot understand %s\n", argv[i]);
      std::exit(64);
    }
  }
  return arguments;
}

// "convolution_milo_A100_T4" of a path.
std::string NameOf(const std::string& path) {
  const std::string base = BaseName(path);
  return base.substr(0, base.find('.'));
}

void PrintRow(const std::string& file, const std::string& strategy, const ReplayResult& result) {
  std::printf("%-28s %-10s", file.c_str(), strategy.c_str());
  for (const ReplayPoint& point : result.points) std::printf("  %.3f", point.mean_fraction);
  std::printf("  %6.2f %6.1f\n", result.next_ms_mean, result.next_ms_max);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  Arguments arguments = Parse(argc, argv);
  arguments.replay.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  PrintMachine();
  std::printf(
      "best possible / best found, mean of %d seeds, after so many evaluations; ms a proposal\n",
      arguments.replay.seeds);
  std::printf("%-28s %-10s", "", "");
  for (const int64_t evaluations : arguments.replay.evaluations) {
    std::printf("  %5d", static_cast<int>(evaluations));
  }
  std::printf("  %6s %6s\n", "mean", "max");
  std::vector<Figure> figures;
  for (const std::string& file : arguments.files) {
    std::vector<ReplayResult> results;
    for (const std::string& strategy : arguments.strategies) {
      arguments.replay.strategy = strategy;
      auto result = ReplayFile(file, arguments.replay);
      if (!result.ok()) {
        std::fprintf(stderr, "%s\n", std::string(result.status().message()).c_str());
        return 1;
      }
      PrintRow(NameOf(file), strategy, *result);
      results.push_back(*std::move(result));
    }
    for (size_t i = 0; i < results.front().points.size(); ++i) {
      const ReplayPoint& point = results.front().points[i];
      Figure figure{.figure = absl::StrCat("replay_", NameOf(file), "_", point.evaluations),
                    .value = point.mean_fraction,
                    .unit = "of best"};
      if (results.size() > 1) {
        figure.peer = arguments.strategies.back();
        figure.peer_value = results.back().points[i].mean_fraction;
      }
      figures.push_back(figure);
    }
    figures.push_back({.figure = absl::StrCat("proposal_", NameOf(file)),
                       .value = results.front().next_ms_mean,
                       .unit = "ms"});
  }
  for (const Figure& figure : figures) PrintFigure(figure);
  return 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) { return hone::Main(argc, argv); }
