#include "runtime/launch/cpu_launcher.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <new>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unique_fd.h"
#include "runtime/launch/cpu_block.h"
#include "runtime/launch/cpu_elf.h"
#include "runtime/launch/cpu_host.h"

namespace hone {
namespace {

// Below this many threads a launch is over before another hardware thread has woken up.
constexpr uint64_t kThreadsWorthSharing = 2048;
// Threads per turn: enough that taking a turn costs nothing, few enough that turns even out.
constexpr uint64_t kThreadsPerTurn = 4096;
constexpr size_t kArgumentAlignment = 64;

absl::Status Refused(absl::string_view what, uint64_t value, uint64_t limit) {
  return absl::FailedPreconditionError(
      absl::StrCat("launch refused: ", what, " is ", value, ", the limit is ", limit));
}

absl::Status CheckShape(const ResolvedStep& step, int64_t static_shared_bytes) {
  const auto& [bx, by, bz] = step.block;
  const uint64_t threads = uint64_t{bx} * by * bz;
  if (threads == 0) return absl::FailedPreconditionError("launch refused: the block is empty");
  if (threads > kCpuThreadsPerBlockMax || bz > 64) {
    return bz > 64 ? Refused("block.z", bz, 64)
                   : Refused("threads per block", threads, kCpuThreadsPerBlockMax);
  }
  const uint64_t shared = step.dynamic_shared_bytes + static_cast<uint64_t>(static_shared_bytes);
  if (shared > kCpuSharedBytesPerBlockMax) {
    return Refused("shared memory in bytes per block", shared, kCpuSharedBytesPerBlockMax);
  }
  if (step.grid[1] > 65535 || step.grid[2] > 65535) {
    return Refused("grid.y or grid.z", std::max(step.grid[1], step.grid[2]), 65535);
  }
  if (step.cluster != std::array<uint32_t, 3>{1, 1, 1}) {
    return absl::FailedPreconditionError("launch refused: the CPU device has no clusters");
  }
  return absl::OkStatus();
}

// Arguments at addresses any parameter type may have.
class ArgumentBuffer {
 public:
  static absl::StatusOr<ArgumentBuffer> Pack(const ResolvedStep& step, const HoneCpuEntry& entry) {
    if (step.arguments.size() != entry.argument_count) {
      return absl::FailedPreconditionError(absl::StrCat("launch refused: ", step.symbol, " takes ",
                                                        entry.argument_count, " arguments, given ",
                                                        step.arguments.size()));
    }
    ArgumentBuffer buffer;
    std::vector<size_t> offsets;
    size_t size = 0;
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      const PackedArgument& argument = step.arguments[i];
      if (argument.tensor_map >= 0) {
        return absl::FailedPreconditionError("launch refused: the CPU device has no tensor maps");
      }
      if (argument.bytes.size() != entry.argument_bytes[i]) {
        return absl::FailedPreconditionError(
            absl::StrCat("launch refused: argument ", i, " of ", step.symbol, " has ",
                         entry.argument_bytes[i], " bytes, given ", argument.bytes.size()));
      }
      offsets.push_back(size);
      size += (argument.bytes.size() + kArgumentAlignment - 1) / kArgumentAlignment *
              kArgumentAlignment;
    }
    buffer.storage_.resize(size + kArgumentAlignment);
    std::byte* base = buffer.storage_.data();
    base += (kArgumentAlignment - reinterpret_cast<uintptr_t>(base) % kArgumentAlignment) %
            kArgumentAlignment;
    for (size_t i = 0; i < offsets.size(); ++i) {
      const auto& bytes = step.arguments[i].bytes;
      if (!bytes.empty()) std::memcpy(base + offsets[i], bytes.data(), bytes.size());
      buffer.pointers_.push_back(base + offsets[i]);
    }
    return buffer;
  }
  void* const* pointers() const { return pointers_.data(); }

 private:
  std::vector<std::byte> storage_;
  std::vector<void*> pointers_;
};

// An anonymous file holding `bytes`. Every copy of a module is its own file, or the loader would
// share one.
absl::StatusOr<UniqueFd> MemoryFile(absl::string_view bytes) {
#ifndef MFD_EXEC
  constexpr unsigned MFD_EXEC = 0x10;
#endif
  UniqueFd fd(memfd_create("hone-kernel", MFD_CLOEXEC | MFD_EXEC));
  // Kernels before 6.3 do not know the flag and do not need it.
  if (!fd.valid()) fd.Reset(memfd_create("hone-kernel", MFD_CLOEXEC));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "memfd_create");
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t written = write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (written < 0) return absl::ErrnoToStatus(errno, "writing a kernel to memory");
    done += static_cast<size_t>(written);
  }
  return fd;
}

// A path of `fd` that no earlier call gave: the loader takes two files of one path for one object,
// also after the descriptor was closed and its number used again. Bits are spelled in slashes.
std::string UniquePath(int fd) {
  static std::atomic<uint32_t> next{0};
  const uint32_t number = next.fetch_add(1);
  std::string path = "/proc/self/";
  for (int bit = 0; bit < 32; ++bit) path += (number >> bit & 1) != 0 ? "./" : "/";
  return absl::StrCat(path, "fd/", fd);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuModule>> CpuModule::Load(absl::string_view bytes) {
  HONE_ASSIGN_OR_RETURN(const CpuElfFacts facts, ReadCpuElf(bytes));
  std::unique_ptr<CpuModule> module(new CpuModule);
  module->bytes_ = std::string(bytes);
  module->static_shared_bytes_ = facts.largest_shared_bytes;
  module->has_device_variables_ = !facts.device_variables.empty();
  HONE_RETURN_IF_ERROR(module->CopyFor(0).status());
  return module;
}

CpuModule::~CpuModule() {
  for (const Copy& copy : copies_) dlclose(copy.handle);
}

absl::StatusOr<const CpuModule::Copy*> CpuModule::CopyFor(int worker) {
  while (copies_.size() <= static_cast<size_t>(worker)) {
    HONE_ASSIGN_OR_RETURN(Copy copy, LoadCopy());
    copies_.push_back(copy);
  }
  return &copies_[static_cast<size_t>(worker)];
}

absl::StatusOr<CpuModule::Copy> CpuModule::LoadCopy() const {
  HONE_ASSIGN_OR_RETURN(const UniqueFd file, MemoryFile(bytes_));
  Copy copy;
  copy.handle = dlopen(UniquePath(file.get()).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (copy.handle == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("cannot load the kernel: ", dlerror()));
  }
  copy.module = static_cast<const HoneCpuModule*>(dlsym(copy.handle, "hone_cpu_module"));
  absl::Status status;
  if (copy.module == nullptr) {
    status = absl::DataLossError("the shared object has no symbol hone_cpu_module");
  } else if (copy.module->abi_version != HONE_CPU_ABI_VERSION) {
    status = absl::FailedPreconditionError(
        absl::StrCat("the kernel was built for launcher version ", copy.module->abi_version,
                     ", this one is ", HONE_CPU_ABI_VERSION));
  } else if (static_cast<int>(copy.module->isa_level) > HostIsaLevel()) {
    status = absl::FailedPreconditionError(
        "the kernel was built for x86-64-v3 (AVX2, FMA, BMI), which this CPU lacks");
  } else if (std::any_of(copies_.begin(), copies_.end(),
                         [&](const Copy& other) { return other.module == copy.module; })) {
    status = absl::InternalError("the loader gave a kernel's first copy again");
  }
  if (!status.ok()) {
    dlclose(copy.handle);
    return status;
  }
  return copy;
}

// Helper threads and the one launch they share. The launching thread is worker 0.
struct CpuLauncher::Pool {
  explicit Pool(int count) : threads(count) {}

  struct Job {
    std::function<absl::Status(int worker)> run;
    int helpers_wanted = 0;
    int joined = 0;
    absl::Status status;  // the first error
  };

  void RunHelper() {
    MutexLock lock(&mutex);
    for (;;) {
      mutex.Await(absl::Condition(this, &Pool::HasWork));
      if (stopping) return;
      Job& current = *job;
      const int place = ++current.joined;
      ++active;
      mutex.Unlock();
      absl::Status status = current.run(place);
      mutex.Lock();
      --active;
      if (!status.ok() && current.status.ok()) current.status = std::move(status);
    }
  }
  bool HasWork() const { return stopping || (job != nullptr && job->joined < job->helpers_wanted); }
  bool Idle() const { return active == 0; }

  // Runs the job on this thread and up to `job.helpers_wanted` others.
  absl::Status Run(Job& shared) {
    if (shared.helpers_wanted == 0) return shared.run(0);
    {
      MutexLock lock(&mutex);
      while (static_cast<int>(helpers.size()) < shared.helpers_wanted) {
        helpers.emplace_back([this] { RunHelper(); });
      }
      job = &shared;
    }
    absl::Status status = shared.run(0);
    MutexLock lock(&mutex);
    job = nullptr;  // who has not joined by now is not needed
    mutex.Await(absl::Condition(this, &Pool::Idle));
    return status.ok() ? shared.status : status;
  }

  ~Pool() {
    {
      MutexLock lock(&mutex);
      stopping = true;
    }
    for (std::thread& helper : helpers) helper.join();
  }

  const int threads;
  Mutex launch_mutex;  // one launch at a time
  std::vector<std::unique_ptr<CpuBlockRunner>> runners ABSL_GUARDED_BY(launch_mutex);

  Mutex mutex;
  Job* job ABSL_GUARDED_BY(mutex) = nullptr;
  int active ABSL_GUARDED_BY(mutex) = 0;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  std::vector<std::thread> helpers;  // grows under launch_mutex
};

CpuLauncher::CpuLauncher(int threads)
    : pool_(std::make_unique<Pool>(threads > 0 ? threads : UsableHardwareThreads())) {}

CpuLauncher::~CpuLauncher() = default;

absl::Status CpuLauncher::Launch(CpuModule& module, const ResolvedLaunch& launch) {
  MutexLock lock(&pool_->launch_mutex);
  for (const ResolvedStep& step : launch.steps) {
    if (!step.symbol.empty()) {
      HONE_RETURN_IF_ERROR(LaunchStep(module, step));
    } else if (step.memset_bytes > 0) {
      std::memset(reinterpret_cast<void*>(step.memset_address), step.memset_value,
                  step.memset_bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status CpuLauncher::LaunchStep(CpuModule& module, const ResolvedStep& step) {
  HONE_RETURN_IF_ERROR(CheckShape(step, module.static_shared_bytes()));
  HONE_ASSIGN_OR_RETURN(const CpuModule::Copy* first, module.CopyFor(0));
  const auto* entry = static_cast<const HoneCpuEntry*>(dlsym(first->handle, step.symbol.c_str()));
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("the module has no kernel '", step.symbol, "'"));
  }
  HONE_ASSIGN_OR_RETURN(const ArgumentBuffer arguments, ArgumentBuffer::Pack(step, *entry));

  CpuGrid grid;
  grid.grid = {step.grid[0], step.grid[1], step.grid[2]};
  grid.block = {step.block[0], step.block[1], step.block[2]};
  grid.dynamic_shared_bytes = step.dynamic_shared_bytes;
  grid.arguments = arguments.pointers();
  grid.blocks = uint64_t{step.grid[0]} * step.grid[1] * step.grid[2];
  if (grid.blocks == 0) return absl::OkStatus();

  const uint64_t threads = uint64_t{step.block[0]} * step.block[1] * step.block[2];
  int workers = 1;
  if (!module.has_device_variables() && grid.blocks * threads >= kThreadsWorthSharing) {
    workers = static_cast<int>(std::min<uint64_t>(grid.blocks, pool_->threads));
  }
  const uint64_t even = grid.blocks / (static_cast<uint64_t>(workers) * 16);
  grid.blocks_per_turn =
      std::clamp<uint64_t>(kThreadsPerTurn / threads, 1, std::max<uint64_t>(even, 1));

  std::vector<const CpuModule::Copy*> copies;
  for (int worker = 0; worker < workers; ++worker) {
    HONE_RETURN_IF_ERROR(module.CopyFor(worker).status());
    if (pool_->runners.size() <= static_cast<size_t>(worker)) {
      pool_->runners.push_back(std::make_unique<CpuBlockRunner>());
    }
  }
  Pool::Job job;
  job.helpers_wanted = workers - 1;
  auto& runners = pool_->runners;
  job.run = [&](int worker) {
    const CpuModule::Copy& copy = module.copies_[static_cast<size_t>(worker)];
    const auto* own = static_cast<const HoneCpuEntry*>(dlsym(copy.handle, step.symbol.c_str()));
    return runners[static_cast<size_t>(worker)]->Run(grid, *copy.module, *own);
  };
  return pool_->Run(job);
}

}  // namespace hone
