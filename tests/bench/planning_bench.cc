// What it costs to plan the tune of a large space: to count its valid configs, to rank and sample
// them, and to make the default strategy propose its first candidates.
//
// usage: planning_bench
#include <sys/resource.h>

#include <cstdio>

#include "absl/time/clock.h"
#include "runtime/base/files.h"
#include "runtime/tune/search_space.h"
#include "runtime/tune/search_strategy.h"
#include "tests/bench/bench_report.h"
#include "tests/testing/fake_profiler.h"
#include "tests/testing/simple_template.h"

namespace hone {
namespace {

// A matmul-like space of 26 million points, of which constraints leave about a quarter.
TemplateSpec LargeSpec() {
  TemplateSpec spec = SimpleSpec({});
  const auto add = [&spec](const char* name, std::vector<int64_t> values) {
    spec.base.tunables.push_back({.name = name,
                                  .description = {},
                                  .values = values,
                                  .default_value = values.front(),
                                  .per_architecture = {}});
  };
  add("BM", {16, 32, 64, 128, 256, 512});
  add("BN", {16, 32, 64, 128, 256, 512});
  add("BK", {16, 32, 64, 128});
  add("WM", {16, 32, 64, 128});
  add("WN", {16, 32, 64, 128});
  add("STAGES", {1, 2, 3, 4, 5, 6, 7, 8});
  add("SWIZZLE", {0, 1, 2, 3});
  add("GROUP", {1, 2, 4, 8, 16});
  add("UNROLL", {1, 2, 4, 8});
  add("SPLIT", {1, 2, 4});
  for (const char* constraint :
       {"BM % WM == 0", "BN % WN == 0", "(BM / WM) * (BN / WN) <= 16",
        "STAGES * (BM + BN) * BK * 2 <= 227 * 1024", "BK % (UNROLL * 4) == 0"}) {
    spec.base.constraints.push_back(*Expression::Parse(constraint));
  }
  return spec;
}

double PeakMegabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

int Main() {
  PrintMachine();
  const KernelTemplatePtr kernel_template = *KernelTemplate::Create(LargeSpec());
  const Problem problem = *Problem::Create(*kernel_template, {{"n", int64_t{1} << 24}});
  const DeviceInfo device = FakeDeviceInfo();
  const double before_mb = PeakMegabytes();
  const absl::Time begin = absl::Now();
  const ConfigSpace space =
      *ConfigSpace::Create(kernel_template, problem, device.architecture, device.Facts());
  const SearchSpacePtr search_space = SearchSpace::Of(space);
  const auto strategy = MakeModelGuided(search_space, {}, /*seed=*/1);
  const auto first = strategy->Next();
  const double planned_ms = absl::ToDoubleMilliseconds(absl::Now() - begin);
  const double planned_mb = PeakMegabytes() - before_mb;
  std::printf("%lld points, %s valid configs; the first proposal is %s\n",
              static_cast<long long>(space.product_size()), search_space->SizeText().c_str(),
              first ? first->ToString().c_str() : "none");
  PrintFigure(
      {.figure = "planning_valid_configs", .value = search_space->size(), .unit = "configs"});
  PrintFigure({.figure = "planning_time", .value = planned_ms, .unit = "ms"});
  PrintFigure({.figure = "planning_memory", .value = planned_mb, .unit = "MB"});
  return 0;
}

}  // namespace
}  // namespace hone

int main() { return hone::Main(); }
