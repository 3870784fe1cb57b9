#include "tests/gpu/gpu_support.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/compile/compile_pool.h"
#include "runtime/cuda/cuda_devices.h"

namespace hone {

std::string WhyNoGpu() {
  const auto devices = EnumerateCudaDevices();
  if (!devices.ok()) return std::string(devices.status().message());
  return devices->empty() ? "the driver lists none" : "";
}

std::string WorkerProgram() {
  const char* const bin = std::getenv("HONE_BIN");
  return absl::StrCat(bin == nullptr ? "" : bin, "/hone-worker");
}

Compiler& GpuCompiler() {
  static CompilePool* const pool = [] {
    CompilePoolOptions options;
    options.worker_program = WorkerProgram();
    options.host = false;
    auto created = CompilePool::Create(options);
    EXPECT_TRUE(created.ok()) << created.status();
    return created->release();
  }();
  return *pool;
}

DeviceInfo GpuInfo() { return EnumerateCudaDevices()->front(); }

Artifact CompileForGpu(Program program) {
  program.architecture = GpuInfo().architecture;
  const auto outcome = GpuCompiler().Compile(program, {});
  if (!outcome.ok() || !outcome->artifact) {
    ADD_FAILURE() << outcome.status() << (outcome.ok() ? outcome->log : "");
    return Artifact();
  }
  return *outcome->artifact;
}

}  // namespace hone
