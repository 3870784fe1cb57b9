#include "server/engine_builder.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/error_info.h"
#include "runtime/compile/compile_pool.h"
#include "runtime/compile/device_target.h"
#include "runtime/device/worker_profiler.h"
#include "server/logging.h"
#include "server/tune_log.h"

namespace hone {
namespace {

// Stands where the compile pool could not be made, and says why.
class MissingCompiler : public Compiler {
 public:
  explicit MissingCompiler(const absl::Status& reason)
      : reason_(WithErrorInfo(absl::FailedPreconditionError(absl::StrCat(
                                  "compile workers could not be set up: ", reason.message())),
                              {.reason = "NO_COMPILER"})) {}

  absl::StatusOr<CompileOutcome> Compile(const Program&, const CompileOptions&) override {
    return reason_;
  }
  int parallelism() const override { return 1; }
  std::vector<CompilerInfo> Compilers() const override { return {}; }
  absl::StatusOr<CompilerInfo> Select(const std::string&, int) const override { return reason_; }

 private:
  const absl::Status reason_;
};

std::unique_ptr<Compiler> MakePool(const EngineOptions& options, KernelStore* store,
                                   std::vector<std::string>& warnings) {
  CompilePoolOptions pool_options;
  pool_options.worker_program = options.worker_program;
  pool_options.scratch_directory = options.scratch_directory;
  pool_options.parallelism = options.workers;
  pool_options.log_bytes_max = options.log_bytes_max;
  pool_options.header_sets =
      [store](const std::string& digest) -> absl::StatusOr<std::vector<SourceFile>> {
    auto files = store->GetHeaderSet(digest);
    if (!files.ok()) return files.status();
    if (files->has_value()) return **std::move(files);
    return absl::NotFoundError(absl::StrCat("there is no header set ", digest));
  };
  auto pool = CompilePool::Create(std::move(pool_options));
  if (pool.ok()) return *std::move(pool);
  warnings.push_back(absl::StrCat("no compile workers: ", pool.status().message()));
  return std::make_unique<MissingCompiler>(pool.status());
}

std::vector<DeviceInfo> ChooseDevices(const absl::StatusOr<DeviceList>& list, DeviceChoice choice,
                                      std::vector<std::string>& warnings) {
  if (choice == DeviceChoice::kNone) return {};
  if (!list.ok()) {
    warnings.push_back(absl::StrCat("devices could not be listed: ", list.status().message()));
    return {};
  }
  if (choice == DeviceChoice::kCpu) return {list->cpu};
  if (!list->detail.empty()) {
    warnings.push_back(absl::StrCat("no CUDA device: ", list->detail));
  } else if (list->cuda.empty() && choice == DeviceChoice::kCuda) {
    warnings.push_back("no CUDA device: none is visible to this process");
  }
  if (!list->cuda.empty() || choice == DeviceChoice::kCuda) return list->cuda;
  return {list->cpu};
}

// An NVRTC older than a device does not know its architecture, but one that the device runs too.
void ChooseTargets(const Compiler& compiler, std::vector<DeviceInfo>& devices,
                   std::vector<std::string>& warnings) {
  for (DeviceInfo& device : devices) {
    const std::string target = DeviceTarget(compiler, device.architecture, device.driver_version);
    if (target == device.architecture) continue;
    warnings.push_back(absl::StrCat("no NVRTC here makes ", device.architecture, " for ",
                                    device.name, "; its kernels are compiled for ", target));
    device.architecture = target;
  }
}

// What a person must know about the compilers that are there.
void CheckCompilers(Engine& engine) {
  for (const CompilerInfo& compiler : engine.pool->Compilers()) {
    if (!compiler.available) continue;
    if (compiler.sandbox == "none") {
      engine.catalog_only = true;
      engine.warnings.push_back(
          absl::StrCat(compiler.kind,
                       " runs without a sandbox (this kernel has no Landlock): only the "
                       "catalog's templates are compiled"));
    }
    // scenario P03
    const std::string version =
        absl::StrCat(compiler.cuda_version / 1000, ".", compiler.cuda_version % 1000 / 10);
    if (compiler.kind == "nvrtc" && !compiler.headers_version.empty() &&
        !absl::StartsWith(compiler.headers_version, version)) {
      engine.warnings.push_back(absl::StrCat("CUDA headers ", compiler.headers_version, " (",
                                             compiler.headers_path, ") do not belong to NVRTC ",
                                             compiler.build, " (", compiler.path, ")"));
    }
  }
}

void AddLanes(const EngineOptions& options, const std::vector<DeviceInfo>& devices,
              KernelStore* store, Engine& engine) {
  std::vector<KernelCache::DeviceLane> lanes;
  for (const DeviceInfo& device : devices) {
    auto worker = std::make_unique<WorkerProfiler>(
        WorkerProfiler::Options{.worker_program = options.worker_program,
                                .device = device,
                                .compiler = engine.compiler.get()});
    // The monitor is asked only while the engine, and so the profiler, lives.
    auto monitor = std::make_shared<LaneMonitor>(
        [lane = worker.get()] { return static_cast<int64_t>(lane->worker_pid()); });
    engine.lanes.push_back(monitor);
    lanes.push_back({device, std::make_unique<MonitoredProfiler>(std::move(worker), monitor),
                     [program = options.worker_program, device] {
                       return QueryDeviceActivity(program, device);
                     }});
  }
  engine.cache = KernelCache::Create(engine.compiler.get(), store, std::move(lanes),
                                     {.compile_timeout = options.compile_timeout,
                                      .launch_timeout = options.launch_timeout,
                                      .policy = options.policy,
                                      .tune_when = options.tune_when,
                                      .tune_memory_bytes_max = options.tune_memory_bytes_max,
                                      .tune_duty = options.tune_duty,
                                      .on_tune = LogTune});
}

}  // namespace

std::unique_ptr<Engine> BuildEngine(const EngineOptions& options, KernelStore* store) {
  const absl::Time began = absl::Now();
  auto engine = std::make_unique<Engine>();
  absl::StatusOr<DeviceList> list = absl::UnknownError("not asked");
  std::thread enumerate([&] {
    if (options.device != DeviceChoice::kNone) list = EnumerateDevices(options.worker_program);
  });
  engine->pool = MakePool(options, store, engine->warnings);
  enumerate.join();
  engine->compiler = std::make_unique<CachingCompiler>(engine->pool.get(), store);
  std::vector<DeviceInfo> devices = ChooseDevices(list, options.device, engine->warnings);
  ChooseTargets(*engine->pool, devices, engine->warnings);
  CheckCompilers(*engine);
  AddLanes(options, devices, store, *engine);

  LogEvent event("engine_ready");
  for (const DeviceInfo& device : devices) event.Add("device", device.name);
  event.Add("took_ms", absl::ToInt64Milliseconds(absl::Now() - began)).Write();
  for (const std::string& warning : engine->warnings) {
    LogEvent("warning").Add("what", warning).Write(spdlog::level::warn);
  }
  return engine;
}

}  // namespace hone
