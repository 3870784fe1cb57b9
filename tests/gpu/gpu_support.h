// What tests on a real GPU share.
#pragma once

#include <string>

#include "runtime/compile/compiler.h"
#include "runtime/kernel/program.h"
#include "runtime/launch/device_fingerprint.h"

namespace hone {

// Why there is no CUDA device to test on; empty when there is one.
std::string WhyNoGpu();

// "hone-worker" of this build.
std::string WorkerProgram();

// Compile workers of this build, made once.
Compiler& GpuCompiler();

// Device 0. REQUIRES: WhyNoGpu() is empty.
DeviceInfo GpuInfo();

// Compiles for device 0; a failure is a test failure.
Artifact CompileForGpu(Program program);

}  // namespace hone

// Skips visibly where there is no GPU.
#define HONE_SKIP_WITHOUT_GPU()                               \
  if (const std::string why = hone::WhyNoGpu(); !why.empty()) \
  GTEST_SKIP() << "no CUDA device: " << why
