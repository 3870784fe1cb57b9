// scenario P21: many compile-load-measure-unload cycles of distinct kernels under a small limit of
// open files. Built twice: scaled down for the CPU reference device, and as a test of tests/gpu.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/sanitizers.h"
#include "tests/scenarios/daemon_process.h"
#include "tests/scenarios/one_kernel_template.h"

#ifdef HONE_SCENARIO_CUDA
#include "runtime/launch/cuda_driver.h"
#endif

namespace hone {
namespace {

#ifdef HONE_SCENARIO_CUDA
constexpr char kDevice[] = "cuda";
constexpr int kRounds = 40;
constexpr int kKernelsPerRound = 50;  // 2,000 in all
#else
constexpr char kDevice[] = "cpu";
constexpr int kRounds = 24;
constexpr int kKernelsPerRound = 10;
#endif
constexpr int kFirstCycles = 50;
constexpr int kFileLimit = 256;

// What one process has.
struct Use {
  int64_t files = 0;
  int64_t resident_bytes = 0;
};

Use UseOf(int64_t pid) {
  Use use;
  const std::string directory = absl::StrCat("/proc/", pid);
  const auto files = ListDirectory(directory + "/fd");
  EXPECT_TRUE(files.ok()) << files.status();
  use.files = files.ok() ? static_cast<int64_t>(files->size()) : 0;
  const std::vector<std::string> pages =
      absl::StrSplit(ReadKernelFile(directory + "/statm").value_or(""), ' ');
  int64_t resident = 0;
  if (pages.size() > 1 && absl::SimpleAtoi(pages[1], &resident)) {
    use.resident_bytes = resident * sysconf(_SC_PAGESIZE);
  }
  return use;
}

// Of device 0; -1 where there is none.
int64_t FreeDeviceBytes() {
#ifdef HONE_SCENARIO_CUDA
  const auto driver = CudaDriver::Get();
  if (!driver.ok()) return -1;
  CUdevice device = 0;
  CUcontext context = nullptr;
  size_t free_bytes = 0, total_bytes = 0;
  if ((*driver)->DeviceGet(&device, 0) != CUDA_SUCCESS ||
      (*driver)->DevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
      (*driver)->CtxSetCurrent(context) != CUDA_SUCCESS ||
      (*driver)->MemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS) {
    return -1;
  }
  return static_cast<int64_t>(free_bytes);
#else
  return -1;
#endif
}

// Kernels that differ in a constant no optimiser removes, and write the same.
v1::KernelTemplate CycleTemplate(int round) {
  std::vector<int64_t> values;
  for (int i = 0; i < kKernelsPerRound; ++i) values.push_back(round * kKernelsPerRound + i);
  v1::KernelTemplate message = OneKernelTemplate(
      {.kernel = "cycle",
       .tunable = "V",
       .values = values,
       .source = absl::StrCat(
           "// round ", round, "\n",
           "template <int V> __global__ void cycle(float* y, long long n) {\n"
           "  const long long i = blockIdx.x * 64ll + threadIdx.x;\n"
           "  if (i < n) y[i] = n == (1ll << 40) + V ? static_cast<float>(V) : 7.0f;\n}\n"
           "__global__ void cycle_reference(float* y, long long n) {\n"
           "  const long long i = blockIdx.x * 64ll + threadIdx.x;\n"
           "  if (i < n) y[i] = 7.0f;\n}\n")});
  message.set_version(absl::StrCat(round));
  return message;
}

TEST(CyclesTest, NothingIsLeftOfAThousandCandidates) {
  const TemporaryDirectory directory = *TemporaryDirectory::Create("/tmp", "hone");
  // Compile workers run at idle priority, so a busy machine makes them slow.
  auto started = DaemonProcess::Start(directory.path(),
                                      {.arguments = {"--compile-timeout", "5m", "--workers", "4"},
                                       .device = kDevice,
                                       .file_limit = kFileLimit});
  ASSERT_TRUE(started.ok()) << started.status();
  DaemonProcess& daemon = **started;
  const v1::GetStatusResponse status = daemon.WaitForEngine();
  if (status.devices_size() == 0) {
    GTEST_SKIP() << "no " << kDevice << " device: " << absl::StrJoin(status.warnings(), "; ");
  }
  const auto client = daemon.Client();
  Use daemon_first, worker_first;
  int64_t free_first = 0, worker = 0;
  int cycles = 0;
  for (int round = 0; round < kRounds; ++round) {
    v1::TuneRequest request;
    *request.mutable_inline_template() = CycleTemplate(round);
    (*request.mutable_params())["n"].set_integer(1024);
    request.set_strategy("exhaustive");
    grpc::ClientContext context;
    auto reader = client->Tune(&context, request);
    v1::TuneEvent event;
    v1::TuneFinished finished;
    while (reader->Read(&event)) {
      if (event.has_finished()) finished = event.finished();
    }
    const grpc::Status ended = reader->Finish();
    ASSERT_TRUE(ended.ok()) << "round " << round << ": " << ended.error_message() << "\n"
                            << daemon.Log();
    ASSERT_EQ(finished.measured(), kKernelsPerRound) << "round " << round << "\n" << daemon.Log();
    cycles += kKernelsPerRound;
    const bool first = cycles >= kFirstCycles && cycles - kKernelsPerRound < kFirstCycles;
    if (!first && round != kRounds - 1) continue;

    const v1::GetStatusResponse now = daemon.Status();
    ASSERT_EQ(now.devices_size(), 1);
    const int64_t pid = now.devices(0).worker_pid();
    ASSERT_GT(pid, 0) << "the measuring worker waits a while for more";
    const Use daemon_use = UseOf(daemon.pid());
    const Use worker_use = UseOf(pid);
    const int64_t free_bytes = FreeDeviceBytes();
    if (first) {
      worker = pid;
      daemon_first = daemon_use;
      worker_first = worker_use;
      free_first = free_bytes;
      continue;
    }
    EXPECT_EQ(pid, worker) << "one worker did it all";
    EXPECT_LE(daemon_use.files, daemon_first.files + 8);
    EXPECT_LE(worker_use.files, worker_first.files + 4);
    EXPECT_LE(free_first - free_bytes, int64_t{32} << 20) << "device memory";
#ifndef HONE_SANITIZED
    // Shadow memory and quarantines grow by design.
    EXPECT_LE(daemon_use.resident_bytes - daemon_first.resident_bytes, int64_t{16} << 20);
    EXPECT_LE(worker_use.resident_bytes - worker_first.resident_bytes, int64_t{16} << 20);
#endif
    std::printf(
        "%d cycles: daemon %lld -> %lld files, %.1f -> %.1f MiB; worker %lld -> %lld "
        "files, %.1f -> %.1f MiB\n",
        cycles, static_cast<long long>(daemon_first.files),
        static_cast<long long>(daemon_use.files),
        static_cast<double>(daemon_first.resident_bytes) / (1 << 20),
        static_cast<double>(daemon_use.resident_bytes) / (1 << 20),
        static_cast<long long>(worker_first.files), static_cast<long long>(worker_use.files),
        static_cast<double>(worker_first.resident_bytes) / (1 << 20),
        static_cast<double>(worker_use.resident_bytes) / (1 << 20));
  }
}

}  // namespace
}  // namespace hone
