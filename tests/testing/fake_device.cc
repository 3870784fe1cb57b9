#include "tests/testing/fake_device.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/device_memory.h"
#include "runtime/device/host_elements.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/fake_profiler.h"

namespace hone {
namespace {

template <typename T = char>
T* At(uint64_t address) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(address));
}

}  // namespace

class FakeDevice::Module : public LoadedModule {
 public:
  Module(std::map<std::string, std::string> entries, std::shared_ptr<int> count)
      : entries_(std::move(entries)), count_(std::move(count)) {
    ++*count_;
  }
  ~Module() override { --*count_; }

  // The name expression behind a symbol; nullptr if there is none.
  const std::string* Entry(const std::string& symbol) const {
    const auto found = entries_.find(symbol);
    return found == entries_.end() ? nullptr : &found->second;
  }

 private:
  const std::map<std::string, std::string> entries_;
  const std::shared_ptr<int> count_;
};

FakeDevice::FakeDevice(DeviceInfo info) : info_(std::move(info)) {}
FakeDevice::FakeDevice() : FakeDevice(FakeDeviceInfo()) {}
FakeDevice::~FakeDevice() = default;

void FakeDevice::SetKernel(const std::string& name, FakeKernel kernel) {
  kernels_[name] = std::move(kernel);
}

FakeKernel FakeDevice::Copy(int64_t element_bytes) {
  return [element_bytes](const FakeLaunch& launch) {
    const auto bytes = static_cast<size_t>(launch.argument<int64_t>(2) * element_bytes);
    if (bytes > 0) {
      std::memcpy(At(launch.argument<uint64_t>(0)), At(launch.argument<uint64_t>(1)), bytes);
    }
  };
}

void FakeDevice::SetTiming(const std::string& part, std::vector<double> samples_ns) {
  scripts_[part].samples_ns = std::move(samples_ns);
}

void FakeDevice::CorruptOutputFor(const std::string& part) { scripts_[part].corrupt = true; }

void FakeDevice::WriteOutOfBoundsFor(const std::string& part, int64_t offset) {
  scripts_[part].out_of_bounds = true;
  scripts_[part].offset = offset;
}

void FakeDevice::AbortFor(const std::string& part) { scripts_[part].abort = true; }
void FakeDevice::HangFor(const std::string& part) { scripts_[part].hang = true; }

void FakeDevice::RefuseLaunchFor(const std::string& part, absl::Status status) {
  scripts_[part].refuse = std::move(status);
}

FakeDevice::Script* FakeDevice::FindScript(const std::string& entry,
                                           const std::function<bool(const Script&)>& with) {
  for (auto& [part, script] : scripts_) {
    if (entry.find(part) != std::string::npos && with(script)) return &script;
  }
  return nullptr;
}

absl::Status FakeDevice::Alive() const {
  if (dead_) return absl::AbortedError("fake device: CUDA_ERROR_ILLEGAL_ADDRESS");
  return absl::OkStatus();
}

// ---- Memory -------------------------------------------------------------------------------------

absl::StatusOr<uint64_t> FakeDevice::Allocate(int64_t bytes) {
  HONE_RETURN_IF_ERROR(Alive());
  if (allocated_bytes_ + bytes > memory_bytes_) {
    return OutOfDeviceMemory("an allocation", bytes, memory_bytes_ - allocated_bytes_);
  }
  // Zero-sized allocations have an address of their own, like the device's.
  auto memory = std::make_unique<char[]>(static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(memory.get()));
  memory_[address] = {std::move(memory), bytes};
  allocated_bytes_ += bytes;
  return address;
}

void FakeDevice::Free(uint64_t address) {
  const auto found = memory_.find(address);
  if (found == memory_.end()) return;
  allocated_bytes_ -= found->second.second;
  memory_.erase(found);
}

absl::StatusOr<int64_t> FakeDevice::AvailableBytes() { return memory_bytes_ - allocated_bytes_; }

absl::Status FakeDevice::CopyToDevice(uint64_t to, const void* from, int64_t bytes) {
  HONE_RETURN_IF_ERROR(Alive());
  if (bytes > 0) std::memcpy(At(to), from, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status FakeDevice::CopyToHost(void* to, uint64_t from, int64_t bytes) {
  HONE_RETURN_IF_ERROR(Alive());
  if (bytes > 0) std::memcpy(to, At(from), static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status FakeDevice::CopyOnDevice(uint64_t to, uint64_t from, int64_t bytes) {
  return CopyToDevice(to, At(from), bytes);
}

absl::Status FakeDevice::Memset(uint64_t address, int value, int64_t bytes) {
  HONE_RETURN_IF_ERROR(Alive());
  if (bytes > 0) std::memset(At(address), value, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status FakeDevice::Fill(uint64_t address, int64_t elements, const FillSpec& spec) {
  HONE_RETURN_IF_ERROR(Alive());
  ++fills_;
  FillElements(At(address), elements, spec);
  return absl::OkStatus();
}

absl::StatusOr<CompareResult> FakeDevice::Compare(uint64_t values, uint64_t reference,
                                                  int64_t elements, DataType dtype,
                                                  const Tolerance& tolerance) {
  HONE_RETURN_IF_ERROR(Alive());
  return CompareElements(At(values), At(reference), elements, dtype, tolerance);
}

absl::StatusOr<int64_t> FakeDevice::FindByteNot(uint64_t address, int value, int64_t bytes) {
  HONE_RETURN_IF_ERROR(Alive());
  return FindByteNotInMemory(At(address), value, bytes);
}

// ---- Launches -----------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<LoadedModule>> FakeDevice::Load(const Artifact& artifact) {
  HONE_RETURN_IF_ERROR(Alive());
  std::map<std::string, std::string> entries;
  for (const std::string& entry : FakeArtifactFields(artifact.bytes, "entry")) {
    entries[FakeLoweredName(entry)] = entry;
  }
  if (entries.empty()) return absl::FailedPreconditionError("fake device: not a fake artifact");
  return std::make_unique<Module>(std::move(entries), modules_);
}

absl::Status FakeDevice::RunStep(const Module& module, const ResolvedStep& step) {
  if (step.symbol.empty()) {
    return Memset(step.memset_address, step.memset_value, static_cast<int64_t>(step.memset_bytes));
  }
  const std::string* entry = module.Entry(step.symbol);
  if (entry == nullptr) return absl::FailedPreconditionError("no symbol " + step.symbol);
  const auto kernel = kernels_.find(entry->substr(0, entry->find('<')));
  if (kernel == kernels_.end()) {
    return absl::FailedPreconditionError("no fake kernel for " + *entry);
  }
  if (const Script* script = FindScript(*entry, [](const Script& s) { return !s.refuse.ok(); })) {
    return script->refuse;
  }
  launched_.push_back(*entry);
  if (FindScript(*entry, [](const Script& s) { return s.hang; })) {
    while (true) pause();
  }
  if (FindScript(*entry, [](const Script& s) { return s.abort; })) {
    dead_ = true;
    return absl::OkStatus();
  }
  const FakeLaunch launch{*entry, &step};
  kernel->second(launch);
  if (step.arguments.empty()) return absl::OkStatus();
  char* const output = At(launch.argument<uint64_t>(0));
  if (FindScript(*entry, [](const Script& s) { return s.corrupt; })) output[0] ^= 0x40;
  if (const Script* script = FindScript(*entry, [](const Script& s) { return s.out_of_bounds; })) {
    output[script->offset] ^= 0x55;
  }
  return absl::OkStatus();
}

absl::Status FakeDevice::Launch(LoadedModule& module, const ResolvedLaunch& launch) {
  HONE_RETURN_IF_ERROR(Alive());
  for (const ResolvedStep& step : launch.steps) {
    HONE_RETURN_IF_ERROR(RunStep(static_cast<Module&>(module), step));
  }
  return absl::OkStatus();
}

absl::Status FakeDevice::Synchronize() { return Alive(); }

absl::Status FakeDevice::FlushCache() {
  ++flushes_;
  if (flush_bytes_ == 0 || flush_address_ != 0) return Alive();
  HONE_ASSIGN_OR_RETURN(flush_address_, Allocate(flush_bytes_));
  return absl::OkStatus();
}

void FakeDevice::ReleaseFlush() {
  if (flush_address_ != 0) Free(flush_address_);
  flush_address_ = 0;
}

absl::StatusOr<double> FakeDevice::TimeNs(LoadedModule& module, const ResolvedLaunch& launch) {
  HONE_RETURN_IF_ERROR(Launch(module, launch));
  HONE_RETURN_IF_ERROR(Synchronize());
  for (const ResolvedStep& step : launch.steps) {
    const std::string* entry = static_cast<Module&>(module).Entry(step.symbol);
    if (entry == nullptr) continue;
    Script* script = FindScript(*entry, [](const Script& s) { return !s.samples_ns.empty(); });
    if (script != nullptr)
      return script->samples_ns[script->next_sample++ % script->samples_ns.size()];
  }
  return 1000.0;
}

class FakeDevice::Sequence : public LaunchSequence {
 public:
  Sequence(LoadedModule* module, std::vector<ResolvedLaunch> launches)
      : module_(module), launches_(std::move(launches)) {}
  LoadedModule& module() const { return *module_; }
  const std::vector<ResolvedLaunch>& launches() const { return launches_; }

 private:
  LoadedModule* const module_;
  const std::vector<ResolvedLaunch> launches_;
};

absl::StatusOr<std::unique_ptr<LaunchSequence>> FakeDevice::MakeSequence(
    LoadedModule& module, const std::vector<ResolvedLaunch>& launches) {
  return std::make_unique<Sequence>(&module, launches);
}

absl::StatusOr<double> FakeDevice::TimeSequenceNs(LaunchSequence& sequence) {
  const auto& fake = static_cast<Sequence&>(sequence);
  double total = 0;
  for (const ResolvedLaunch& launch : fake.launches()) {
    HONE_ASSIGN_OR_RETURN(const double ns, TimeNs(fake.module(), launch));
    total += ns;
  }
  return total;
}

}  // namespace hone
