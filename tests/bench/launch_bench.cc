// What a launch costs the host. usage: launch_bench [daemon endpoint]
//
// Without a GPU: guards, grid and packing of a plan, beside the launch by name that it replaces,
// and the whole way to a driver that does nothing. With one: launches of served kernels beside
// cuLaunchKernelEx of the same function with the same numbers, made up beforehand; sides
// interleaved, the queue drained outside the timed parts.
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/hone/client.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/cuda_launch_kernel.h"
#include "runtime/launch/cuda_launcher.h"
#include "runtime/launch/launch_plan.h"
#include "runtime/launch/plan_launcher.h"
#include "tests/bench/bench_report.h"
#include "tests/gpu/bench_gpu.h"
#include "tests/launch/recipes.h"
#include "tests/testing/allocation_counter.h"

namespace hone {
namespace {

constexpr int kThreads = 8;

double NowNs() {
  return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch() /
                             std::chrono::nanoseconds(1));
}

[[noreturn]] void Fail(absl::string_view what) {
  std::fprintf(stderr, "launch_bench: %s\n", std::string(what).c_str());
  std::exit(1);
}

// ---- The host's part alone.

constexpr int kPlanRounds = 41;
constexpr int kPlanLaunches = 20'000;
constexpr int kNamedLaunches = 1'000;

// A recipe with launches of changing sizes and addresses.
struct PlanCase {
  std::string name;
  LaunchRecipe recipe;
  std::vector<double> scalars;
};

PlanInputs InputsAt(const PlanCase& planned, int i, int64_t& size, PlanBuffer* buffers) {
  size = 4096 + 4 * (i % 61);
  for (uint64_t b = 0; b < 3; ++b) {
    buffers[b].address = (b + 1) * 0x10000000 + static_cast<uint64_t>(i % 7) * 64;
  }
  return {.sizes = &size, .buffers = buffers, .scalars = planned.scalars.data()};
}

// Of the calling thread alone: what other processes take from it does not count, the system calls
// of a lock that is waited for do.
double ThreadCpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

// Nanoseconds of one of `count` calls of work(i).
template <typename Work>
double NsOfEach(int count, const Work& work) {
  const double began = ThreadCpuNs();
  for (int i = 0; i < count; ++i) {
    if (!work(i)) Fail("a launch that must be accepted was not");
  }
  return (ThreadCpuNs() - began) / count;
}

CudaDriver IdleDriver() {
  static int handle = 0;
  CudaDriver driver;
  driver.ModuleLoadDataEx = [](CUmodule* module, const void*, unsigned, CUjit_option*, void**) {
    *module = reinterpret_cast<CUmodule>(&handle);
    return CUDA_SUCCESS;
  };
  driver.ModuleUnload = [](CUmodule) { return CUDA_SUCCESS; };
  driver.ModuleGetFunction = [](CUfunction* function, CUmodule, const char*) {
    *function = reinterpret_cast<CUfunction>(&handle);
    return CUDA_SUCCESS;
  };
  driver.LaunchKernelEx = [](const CUlaunchConfig*, CUfunction, void**, void**) {
    return CUDA_SUCCESS;
  };
  return driver;
}

absl::Status MeasurePlan(const PlanCase& planned) {
  HONE_ASSIGN_OR_RETURN(const LaunchPlan plan, LaunchPlan::Create(planned.recipe, {}));
  const CudaDriver driver = IdleDriver();
  HONE_ASSIGN_OR_RETURN(CudaModule module, CudaModule::Load(driver, "image"));
  HONE_ASSIGN_OR_RETURN(const PlanFunctions functions, PlanFunctions::Find(module, planned.recipe));
  const auto by_plan = [&](int i) {
    int64_t size = 0;
    PlanBuffer buffers[3];
    const PlanInputs inputs = InputsAt(planned, i, size, buffers);
    PlannedLaunch launch;
    return plan.Accepts(inputs) && plan.Resolve(inputs, launch);
  };
  const auto to_driver = [&](int i) {
    int64_t size = 0;
    PlanBuffer buffers[3];
    const PlanInputs inputs = InputsAt(planned, i, size, buffers);
    PlannedLaunch launch;
    return plan.Accepts(inputs) && plan.Resolve(inputs, launch) &&
           LaunchOnStream(driver, plan, functions, launch, nullptr).ok();
  };
  const auto by_name = [&](int i) {
    int64_t size = 0;
    PlanBuffer buffers[3];
    const LaunchArguments arguments =
        ArgumentsOf(plan.names(), InputsAt(planned, i, size, buffers));
    return CheckGuards(planned.recipe, arguments).ok() &&
           ResolveLaunch(planned.recipe, arguments).ok();
  };
  const int64_t before = AllocationsOfThisThread();
  NsOfEach(kPlanLaunches, to_driver);
  const int64_t allocations = AllocationsOfThisThread() - before;

  std::vector<double> plan_ns, driver_ns, name_ns, threads_ns;
  for (int round = 0; round < kPlanRounds; ++round) {
    plan_ns.push_back(NsOfEach(kPlanLaunches, by_plan));
    driver_ns.push_back(NsOfEach(kPlanLaunches, to_driver));
    name_ns.push_back(NsOfEach(kNamedLaunches, by_name));
    std::vector<double> of_thread(kThreads);
    std::vector<std::thread> threads;
    for (double& mine : of_thread) {
      threads.emplace_back([&] { mine = NsOfEach(kPlanLaunches, by_plan); });
    }
    for (std::thread& thread : threads) thread.join();
    threads_ns.push_back(Percentile(of_thread, 0.5));
  }
  PrintFigure({.figure = absl::StrCat("plan_", planned.name),
               .value = Percentile(plan_ns, 0.5),
               .unit = "ns",
               .peer = "by_name",
               .peer_value = Percentile(name_ns, 0.5)});
  PrintFigure({.figure = absl::StrCat("plan_", planned.name, "_8_threads"),
               .value = Percentile(threads_ns, 0.5),
               .unit = "ns",
               .peer = "1_thread",
               .peer_value = Percentile(plan_ns, 0.5)});
  PrintFigure({.figure = absl::StrCat("plan_", planned.name, "_to_idle_driver"),
               .value = Percentile(driver_ns, 0.5),
               .unit = "ns"});
  PrintFigure({.figure = absl::StrCat("plan_", planned.name, "_allocations"),
               .value = static_cast<double>(allocations) / kPlanLaunches,
               .unit = "per_launch"});
  return absl::OkStatus();
}

// ---- With a GPU.

constexpr int kLaunchRounds = 101;
// A stream holds 1,024 launches before the host waits for the device.
constexpr int kLaunchesOfARound = 256;

using Side = std::function<absl::Status(CUstream)>;

struct ServedCase {
  std::string template_name;
  Params params;
  std::map<std::string, int64_t> sizes;
  std::map<std::string, double> scalars;
  int64_t buffer_bytes;
};

// A kernel's inputs by position, all buffers of one size.
struct ServedInputs {
  std::vector<int64_t> sizes;
  std::vector<PlanBuffer> buffers;
  std::vector<double> scalars;

  PlanInputs get() const {
    return {.sizes = sizes.data(), .buffers = buffers.data(), .scalars = scalars.data()};
  }
};

absl::StatusOr<ServedInputs> MakeInputs(const ServedCase& served, const LaunchNames& names,
                                        const BenchGpu& gpu) {
  ServedInputs inputs;
  for (const std::string& name : names.sizes) inputs.sizes.push_back(served.sizes.at(name));
  for (const std::string& name : names.scalars) inputs.scalars.push_back(served.scalars.at(name));
  for (size_t i = 0; i < names.buffers.size(); ++i) {
    HONE_ASSIGN_OR_RETURN(const CUdeviceptr address, gpu.Allocate(served.buffer_bytes));
    const std::vector<uint32_t> words(static_cast<size_t>(served.buffer_bytes / 4),
                                      0x3C003C00u + static_cast<uint32_t>(i));
    HONE_RETURN_IF_ERROR(gpu.Upload(address, words));
    inputs.buffers.push_back({.address = address});
  }
  return inputs;
}

// The chosen variant's only kernel, ready for cuLaunchKernelEx.
class RawLaunch {
 public:
  static absl::StatusOr<RawLaunch> Create(const CudaDriver& driver, const Kernel& kernel,
                                          const PlanInputs& inputs) {
    HONE_ASSIGN_OR_RETURN(const int index, kernel.ChooseVariant(inputs));
    const Kernel::Variant& variant = kernel.variants()[static_cast<size_t>(index)];
    HONE_ASSIGN_OR_RETURN(ResolvedLaunch launch,
                          ResolveLaunch(variant.recipe, ArgumentsOf(kernel.names(), inputs)));
    if (launch.steps.size() != 1 || !launch.tensor_maps.empty()) {
      return absl::UnimplementedError("not a launch of one kernel without tensor maps");
    }
    HONE_ASSIGN_OR_RETURN(CudaModule module, CudaModule::Load(driver, variant.bytes));
    RawLaunch raw(driver, std::move(module), std::move(launch.steps[0]));
    HONE_ASSIGN_OR_RETURN(raw.function_,
                          raw.module_.Function(raw.step_.symbol, raw.step_.dynamic_shared_bytes,
                                               BlocksPerCluster(raw.step_.cluster)));
    return raw;
  }

  absl::Status operator()(CUstream stream) {
    CUlaunchConfig config = {};
    config.gridDimX = step_.grid[0];
    config.gridDimY = step_.grid[1];
    config.gridDimZ = step_.grid[2];
    config.blockDimX = step_.block[0];
    config.blockDimY = step_.block[1];
    config.blockDimZ = step_.block[2];
    config.sharedMemBytes = step_.dynamic_shared_bytes;
    config.hStream = stream;
    if (driver_->LaunchKernelEx(&config, function_, parameters_.data(), nullptr) != CUDA_SUCCESS) {
      return absl::InternalError("cuLaunchKernelEx failed");
    }
    return absl::OkStatus();
  }

 private:
  RawLaunch(const CudaDriver& driver, CudaModule module, ResolvedStep step)
      : driver_(&driver), module_(std::move(module)), step_(std::move(step)) {
    for (PackedArgument& argument : step_.arguments) parameters_.push_back(argument.bytes.data());
  }

  const CudaDriver* driver_;
  CudaModule module_;
  ResolvedStep step_;
  std::vector<void*> parameters_;  // into the heap memory of step_.arguments, which moves along
  CUfunction function_ = nullptr;
};

// Microseconds of one launch while `threads` launch on streams of their own; of each, the mean.
absl::StatusOr<double> LaunchUs(const CudaDriver& driver, CUcontext context,
                                const std::vector<CUstream>& streams, const Side& side) {
  std::vector<double> us(streams.size());
  std::vector<absl::Status> failures(streams.size());
  const auto run = [&](size_t thread) {
    driver.CtxSetCurrent(context);
    const double began = NowNs();
    for (int i = 0; i < kLaunchesOfARound && failures[thread].ok(); ++i) {
      failures[thread] = side(streams[thread]);
    }
    us[thread] = (NowNs() - began) / 1e3 / kLaunchesOfARound;
  };
  if (streams.size() == 1) {
    run(0);
  } else {
    std::vector<std::thread> threads;
    for (size_t t = 0; t < streams.size(); ++t) threads.emplace_back(run, t);
    for (std::thread& thread : threads) thread.join();
  }
  HONE_CUDA_RETURN_IF_ERROR(driver, CtxSynchronize());
  for (const absl::Status& failure : failures) HONE_RETURN_IF_ERROR(failure);
  double sum = 0;
  for (const double each : us) sum += each;
  return sum / static_cast<double>(us.size());
}

// Medians of interleaved rounds, by side.
absl::StatusOr<std::vector<double>> MeasureSides(const CudaDriver& driver, int threads,
                                                 const std::vector<Side>& sides) {
  CUcontext context = nullptr;
  HONE_CUDA_RETURN_IF_ERROR(driver, CtxGetCurrent(&context));
  std::vector<CUstream> streams(static_cast<size_t>(threads));
  for (CUstream& stream : streams) {
    HONE_CUDA_RETURN_IF_ERROR(driver, StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }
  std::vector<std::vector<double>> us(sides.size());
  for (int round = -5; round < kLaunchRounds; ++round) {  // the first are warm-up
    for (size_t i = 0; i < sides.size(); ++i) {
      const size_t side = (i + static_cast<size_t>(round + 5)) % sides.size();
      HONE_ASSIGN_OR_RETURN(const double each, LaunchUs(driver, context, streams, sides[side]));
      if (round >= 0) us[side].push_back(each);
    }
  }
  for (CUstream stream : streams) driver.StreamDestroy(stream);
  std::vector<double> medians;
  for (const std::vector<double>& of_side : us) medians.push_back(Percentile(of_side, 0.5));
  return medians;
}

// The buffers that the served kernel and the raw one write must be equal afterwards.
absl::Status CheckSame(const BenchGpu& gpu, const ServedCase& served, const ServedInputs& inputs,
                       const Side& one, const Side& other) {
  std::vector<uint32_t> results[2];
  const CUdeviceptr output = inputs.buffers[0].address;
  const std::vector<uint32_t> poison(static_cast<size_t>(served.buffer_bytes / 4), 0xABABABABu);
  for (const bool second : {false, true}) {
    results[second].resize(poison.size());
    HONE_RETURN_IF_ERROR(gpu.Upload(output, poison));
    HONE_RETURN_IF_ERROR((second ? other : one)(nullptr));
    HONE_RETURN_IF_ERROR(gpu.Download(results[second], output));
  }
  if (results[0] == results[1] && results[0] != poison) return absl::OkStatus();
  return absl::InternalError("the two launches wrote different results, or nothing");
}

absl::Status MeasureServed(const Client& client, const BenchGpu& gpu, const ServedCase& served) {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  HONE_ASSIGN_OR_RETURN(
      const Kernel kernel,
      client.GetKernel({.template_name = served.template_name, .params = served.params}));
  HONE_RETURN_IF_ERROR(kernel.Prepare());
  HONE_ASSIGN_OR_RETURN(const ServedInputs owned, MakeInputs(served, kernel.names(), gpu));
  const PlanInputs inputs = owned.get();
  const LaunchArguments arguments = ArgumentsOf(kernel.names(), inputs);
  HONE_ASSIGN_OR_RETURN(RawLaunch raw_launch, RawLaunch::Create(*driver, kernel, inputs));
  const Side raw = [&](CUstream stream) { return raw_launch(stream); };
  const Side by_position = [&](CUstream stream) { return kernel.Launch(inputs, stream); };
  const Side by_name = [&](CUstream stream) { return kernel.Launch(arguments, stream); };
  HONE_RETURN_IF_ERROR(CheckSame(gpu, served, owned, by_position, raw));
  HONE_RETURN_IF_ERROR(CheckSame(gpu, served, owned, by_name, raw));

  const int64_t before = AllocationsOfThisThread();
  HONE_RETURN_IF_ERROR(by_position(nullptr));
  const int64_t allocations = AllocationsOfThisThread() - before;
  const int64_t raw_before = AllocationsOfThisThread();
  HONE_RETURN_IF_ERROR(raw(nullptr));
  const int64_t raw_allocations = AllocationsOfThisThread() - raw_before;
  const std::string figure = absl::StrCat("launch_", served.template_name);
  for (const int threads : {1, kThreads}) {
    HONE_ASSIGN_OR_RETURN(const std::vector<double> us,
                          MeasureSides(*driver, threads, {raw, by_position, by_name}));
    const std::string suffix = threads == 1 ? "" : absl::StrCat("_", threads, "_threads");
    for (const size_t side : {1, 2}) {
      PrintFigure({.figure = absl::StrCat(figure, side == 1 ? "" : "_by_name", suffix),
                   .value = us[side],
                   .unit = "us",
                   .peer = "cuLaunchKernelEx",
                   .peer_value = us[0]});
    }
  }
  std::printf("%s: %lld calls of operator new in a launch, %lld in cuLaunchKernelEx\n",
              figure.c_str(), static_cast<long long>(allocations),
              static_cast<long long>(raw_allocations));
  return absl::OkStatus();
}

absl::Status MeasureGpu(const std::string& endpoint) {
  HONE_ASSIGN_OR_RETURN(const Client client, Client::Connect({.endpoint = endpoint}));
  HONE_ASSIGN_OR_RETURN(const BenchGpu gpu, BenchGpu::Open());
  HONE_RETURN_IF_ERROR(MeasureServed(client, gpu,
                                     {.template_name = "copy_1d",
                                      .params = {{"T", "F32"}, {"n", 4096}},
                                      .sizes = {{"n", 4096}},
                                      .scalars = {},
                                      .buffer_bytes = 4096 * 4}));
  return MeasureServed(client, gpu,
                       {.template_name = "rmsnorm",
                        .params = {{"T", "F16"}, {"rows", 8}, {"cols", 4096}},
                        .sizes = {{"rows", 8}},
                        .scalars = {{"eps", 1e-5}},
                        .buffer_bytes = 8 * 4096 * 2});
}

absl::Status Run(const std::string& endpoint) {
  HONE_RETURN_IF_ERROR(MeasurePlan({.name = "copy_1d", .recipe = CopyRecipe(), .scalars = {}}));
  HONE_RETURN_IF_ERROR(
      MeasurePlan({.name = "rmsnorm", .recipe = RmsNormRecipe(), .scalars = {1e-5}}));
  if (const auto driver = CudaDriver::Get(); !driver.ok()) {
    std::printf("launches on a stream are not measured: %s\n",
                std::string(driver.status().message()).c_str());
    return absl::OkStatus();
  }
  return MeasureGpu(endpoint);
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  hone::PrintMachine();
  const absl::Status status = hone::Run(argc > 1 ? argv[1] : "");
  if (!status.ok()) hone::Fail(status.ToString());
  return 0;
}
