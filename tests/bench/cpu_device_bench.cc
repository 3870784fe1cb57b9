// What a thread of a block costs on the CPU reference device: as a plain call, and as a fiber that
// meets a barrier. The peer of the plain call is the same loop written by hand.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cpu/host_compiler.h"
#include "runtime/launch/cpu_launcher.h"
#include "tests/bench/bench_report.h"

namespace hone {
namespace {

constexpr char kSource[] = R"(
  template <int N> __global__ void add(float* data) {
    data[blockIdx.x * N + threadIdx.x] += 1.0f;
  }
  template <int N> __global__ void add_by_hand(float* data, int blocks) {
    for (int b = 0; b < blocks; ++b) {
      for (int t = 0; t < N; ++t) {
        data[b * N + t] += 1.0f;
        asm volatile("");  // one element at a time, as a thread does it
      }
    }
  }
  template <int N> __global__ void add_after_barrier(float* data) {
    __syncthreads();
    data[blockIdx.x * N + threadIdx.x] += 1.0f;
  }
)";
constexpr uint32_t kThreads = 256;
constexpr uint32_t kBlocks = 256;

template <typename T>
PackedArgument Pack(T value) {
  PackedArgument packed;
  packed.bytes.resize(sizeof value);
  std::memcpy(packed.bytes.data(), &value, sizeof value);
  return packed;
}

// One hardware thread, so that the figures are costs and not speeds.
class CpuLaunch {
 public:
  explicit CpuLaunch(const std::string& expression) : data_(kThreads * kBlocks), launcher_(1) {
    static const std::unique_ptr<Compiler> compiler = HostCompiler::Create({}).value();
    Program program;
    program.name = "cost.cu";
    program.source = kSource;
    program.name_expressions = {expression};
    program.architecture = "cpu";
    const CompileOutcome outcome = compiler->Compile(program, {}).value();
    module_ = CpuModule::Load(outcome.artifact.value().bytes).value();
    ResolvedStep step;
    step.symbol = outcome.artifact->lowered_names.at(expression);
    step.grid = {kBlocks, 1, 1};
    step.block = {kThreads, 1, 1};
    step.arguments = {Pack(data_.data())};
    launch_.steps = {step};
  }
  ResolvedStep& step() { return launch_.steps.front(); }
  void Run() {
    if (!launcher_.Launch(*module_, launch_).ok()) std::abort();
  }

 private:
  std::vector<float> data_;
  CpuLauncher launcher_;
  std::unique_ptr<CpuModule> module_;
  ResolvedLaunch launch_;
};

void Measure(benchmark::State& state, CpuLaunch& launch) {
  for (auto _ : state) launch.Run();
  state.counters["thread"] =
      benchmark::Counter(kThreads * kBlocks, benchmark::Counter::kIsIterationInvariantRate |
                                                 benchmark::Counter::kInvert);
}

void PlainThread(benchmark::State& state) {
  static CpuLaunch launch("add<256>");
  Measure(state, launch);
}
void LoopByHand(benchmark::State& state) {
  static CpuLaunch launch("add_by_hand<256>");
  launch.step().grid = {1, 1, 1};
  launch.step().block = {1, 1, 1};
  launch.step().arguments.resize(1);
  launch.step().arguments.push_back(Pack(static_cast<int>(kBlocks)));
  Measure(state, launch);
}
void FiberThread(benchmark::State& state) {
  static CpuLaunch launch("add_after_barrier<256>");
  Measure(state, launch);
}
BENCHMARK(PlainThread)->Repetitions(9);
BENCHMARK(LoopByHand)->Repetitions(9);
BENCHMARK(FiberThread)->Repetitions(9);

// Remembers the median of each benchmark in ns a thread.
class MedianReporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Aggregate || run.aggregate_name != "median") continue;
      medians_ns[run.run_name.function_name] = run.counters.at("thread").value * 1e9;
    }
  }
  std::map<std::string, double> medians_ns;
};

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  // Both sides of a ratio in turns, so that they see the same machine.
  char interleave[] = "--benchmark_enable_random_interleaving=true";
  std::vector<char*> arguments(argv, argv + argc);
  arguments.push_back(interleave);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  hone::PrintMachine();
  hone::MedianReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  const auto& medians = reporter.medians_ns;
  if (medians.count("PlainThread") == 0 || medians.count("LoopByHand") == 0 ||
      medians.count("FiberThread") == 0) {
    return 0;  // a filter left something out
  }
  hone::PrintFigure({"cpu_device_plain_thread", medians.at("PlainThread"), "ns", "loop_by_hand",
                     medians.at("LoopByHand")});
  hone::PrintFigure({"cpu_device_barrier_thread", medians.at("FiberThread"), "ns"});
}
