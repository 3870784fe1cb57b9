// Makes the daemon's engine: probes compilers and devices through worker processes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "runtime/store/kernel_store.h"
#include "server/config.h"
#include "server/engine.h"

namespace hone {

struct EngineOptions {
  std::string worker_program;
  std::string scratch_directory;  // for compile workers; empty: the system's
  DeviceChoice device = DeviceChoice::kAuto;
  int workers = 0;
  absl::Duration compile_timeout = absl::Seconds(60);
  absl::Duration launch_timeout = absl::Seconds(10);  // of one launch while tuning
  int64_t log_bytes_max = int64_t{256} << 10;         // of one compiler log
  MeasuringPolicy policy;
  TuneWhen tune_when = TuneWhen::kOnRequest;
  int64_t tune_memory_bytes_max = 0;  // see KernelCache::Options
  double tune_duty = 1;
};

// Blocks while workers start and answer, seconds on a slow machine. What is missing is not an
// error: the engine then says so in its warnings and refuses what needs it. `store` must outlive
// the engine.
std::unique_ptr<Engine> BuildEngine(const EngineOptions& options, KernelStore* store);

}  // namespace hone
