#include "runtime/tune/replay.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/tune/recorded_space.h"
#include "runtime/tune/search_strategy.h"

namespace hone {
namespace {

constexpr int kSeedsMax = 100'000;
constexpr int kInFlightMax = 1024;

// The recorded space with its parameters shuffled and renamed.
struct Disguise {
  SearchSpacePtr space;
  absl::flat_hash_map<Point, const RecordedSpace::Row*> rows;
};

Disguise DisguiseFor(const RecordedSpace& recorded, SearchSpace::Random& random) {
  std::vector<size_t> order(recorded.dimensions().size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<SearchSpace::Dimension> dimensions;
  for (size_t i = 0; i < order.size(); ++i) {
    dimensions.push_back(
        {.name = absl::StrCat("p", i), .values = recorded.dimensions()[order[i]].values});
  }
  Disguise disguise;
  std::vector<Point> points;
  for (const RecordedSpace::Row& row : recorded.rows()) {
    Point point;
    for (const size_t i : order) point.push_back(row.point[i]);
    disguise.rows.emplace(point, &row);
    points.push_back(std::move(point));
  }
  disguise.space = SearchSpace::Listed(std::move(dimensions), std::move(points));
  return disguise;
}

Measurement ResultOf(const RecordedSpace::Row& row, Config config) {
  Measurement measurement;
  measurement.config = std::move(config);
  if (row.rejection) {
    measurement.rejection = Rejection{.kind = *row.rejection, .detail = "recorded"};
  } else {
    measurement.samples_ns = {row.time_ns};
    Summarise(measurement);
  }
  return measurement;
}

// Of this thread.
double ProcessorMilliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

struct Run {
  std::vector<double> fractions;  // one for each of options.evaluations
  double ms_total = 0;
  double ms_max = 0;
  int64_t proposals = 0;
};

class Runner {
 public:
  Runner(const RecordedSpace& recorded, const ReplayOptions& options)
      : recorded_(recorded), options_(options), best_ns_(*recorded.best_ns()) {}

  absl::StatusOr<Run> RunSeed(uint64_t seed) const {
    SearchSpace::Random random(seed);
    const Disguise disguise = DisguiseFor(recorded_, random);
    const int64_t evaluations_max = options_.evaluations.back();
    HONE_ASSIGN_OR_RETURN(
        const auto strategy,
        MakeStrategy(options_.strategy.empty() ? "model" : options_.strategy, disguise.space, {},
                     {.evaluations_max = evaluations_max}, random()));
    Run run;
    std::deque<Measurement> waiting;
    double found_ns = 0;
    int64_t observed = 0;
    const auto next_mark = [&] { return options_.evaluations[run.fractions.size()]; };
    while (observed < evaluations_max) {
      const double begin = ProcessorMilliseconds();
      std::optional<Config> config;
      if (observed + static_cast<int64_t>(waiting.size()) < evaluations_max) {
        config = strategy->Next();
      }
      if (config) {
        const auto row = disguise.rows.find(*disguise.space->PointOf(*config));
        waiting.push_back(ResultOf(*row->second, *config));
        ++run.proposals;
      }
      if (config && static_cast<int>(waiting.size()) < options_.in_flight) continue;
      if (waiting.empty()) break;  // covered
      const Measurement result = std::move(waiting.front());
      waiting.pop_front();
      strategy->Observe(result);
      const double ms = ProcessorMilliseconds() - begin;
      run.ms_total += ms;
      run.ms_max = std::max(run.ms_max, ms);
      if (!result.rejection && (found_ns == 0 || result.median_ns < found_ns)) {
        found_ns = result.median_ns;
      }
      ++observed;
      if (observed == next_mark()) run.fractions.push_back(Fraction(found_ns));
    }
    run.fractions.resize(options_.evaluations.size(), Fraction(found_ns));
    return run;
  }

 private:
  double Fraction(double found_ns) const { return found_ns > 0 ? best_ns_ / found_ns : 0; }

  const RecordedSpace& recorded_;
  const ReplayOptions& options_;
  const double best_ns_;
};

absl::Status CheckOptions(const ReplayOptions& options) {
  if (options.seeds < 1 || options.seeds > kSeedsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("seeds: ", options.seeds, "; expected 1 to ", kSeedsMax));
  }
  if (options.in_flight < 1 || options.in_flight > kInFlightMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("in_flight: ", options.in_flight, "; expected 1 to ", kInFlightMax));
  }
  const bool ascending = std::is_sorted(options.evaluations.begin(), options.evaluations.end(),
                                        [](int64_t a, int64_t b) { return a <= b; });
  if (options.evaluations.empty() || options.evaluations.front() < 1 || !ascending) {
    return absl::InvalidArgumentError("evaluations: expected ascending numbers from 1");
  }
  return absl::OkStatus();
}

ReplayResult Summary(const ReplayOptions& options, const std::vector<Run>& runs) {
  ReplayResult result;
  double ms_total = 0;
  int64_t proposals = 0;
  for (const Run& run : runs) {
    ms_total += run.ms_total;
    proposals += run.proposals;
    result.next_ms_max = std::max(result.next_ms_max, run.ms_max);
  }
  result.next_ms_mean = proposals > 0 ? ms_total / static_cast<double>(proposals) : 0;
  for (size_t i = 0; i < options.evaluations.size(); ++i) {
    std::vector<double> fractions;
    for (const Run& run : runs) fractions.push_back(run.fractions[i]);
    std::sort(fractions.begin(), fractions.end());
    const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
    result.points.push_back({.evaluations = options.evaluations[i],
                             .mean_fraction = sum / static_cast<double>(fractions.size()),
                             .worst_fraction = fractions.front(),
                             .p10_fraction = fractions[(fractions.size() - 1) / 10]});
  }
  return result;
}

}  // namespace

absl::StatusOr<ReplayResult> ReplayFile(const std::string& path, const ReplayOptions& options) {
  HONE_RETURN_IF_ERROR(CheckOptions(options));
  HONE_ASSIGN_OR_RETURN(const RecordedSpace recorded, RecordedSpace::Load(path));
  if (!recorded.best_ns()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": every result is a rejection"));
  }
  const Runner runner(recorded, options);
  const auto seeds = static_cast<size_t>(options.seeds);
  std::vector<absl::StatusOr<Run>> runs(seeds, absl::StatusOr<Run>(Run()));
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < std::max(1, std::min(options.threads, options.seeds)); ++i) {
    threads.emplace_back([&] {
      for (size_t seed = next++; seed < seeds; seed = next++) runs[seed] = runner.RunSeed(seed);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Run> done;
  for (absl::StatusOr<Run>& run : runs) {
    HONE_RETURN_IF_ERROR(run.status());
    done.push_back(*std::move(run));
  }
  return Summary(options, done);
}

}  // namespace hone
