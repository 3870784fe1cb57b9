#include "runtime/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/base/status_macros.h"
#include "runtime/cuda/cuda_devices.h"
#include "runtime/cuda/nvml.h"
#include "runtime/cuda/support_kernels.h"
#include "runtime/device/device_memory.h"
#include "runtime/launch/cuda_driver.h"
#include "runtime/launch/cuda_launcher.h"

namespace hone {
namespace {

// Left to the driver and to others when asked what is available.
constexpr int64_t kMemoryReserve = 32 << 20;
// How long the stream is kept busy while the host enqueues: an event, every step's launch, a graph.
constexpr int64_t kEventNs = 5'000;
constexpr int64_t kStepNs = 5'000;
constexpr int64_t kGraphNs = 50'000;
// Asking NVML for the processes takes longer than some kernels.
constexpr absl::Duration kCensusInterval = absl::Milliseconds(250);

class CudaLoadedModule : public LoadedModule {
 public:
  explicit CudaLoadedModule(CudaModule module) : module_(std::move(module)) {}
  CudaModule& module() { return module_; }

 private:
  CudaModule module_;
};

// A graph of launches, one after the other.
class CudaSequence : public LaunchSequence {
 public:
  CudaSequence(const CudaDriver& driver, CUgraphExec graph) : driver_(driver), graph_(graph) {}
  ~CudaSequence() override { driver_.GraphExecDestroy(graph_); }
  CUgraphExec graph() const { return graph_; }

 private:
  const CudaDriver& driver_;
  const CUgraphExec graph_;
};

class CudaDevice : public Device {
 public:
  static absl::StatusOr<std::unique_ptr<Device>> Create(const CudaDriver& driver, int index,
                                                        const Artifact& support);
  ~CudaDevice() override;

  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<uint64_t> Allocate(int64_t bytes) override;
  void Free(uint64_t address) override;
  absl::StatusOr<int64_t> AvailableBytes() override;
  absl::Status CopyToDevice(uint64_t to, const void* from, int64_t bytes) override;
  absl::Status CopyToHost(void* to, uint64_t from, int64_t bytes) override;
  absl::Status CopyOnDevice(uint64_t to, uint64_t from, int64_t bytes) override;
  absl::Status Memset(uint64_t address, int value, int64_t bytes) override;
  absl::Status Fill(uint64_t address, int64_t elements, const FillSpec& spec) override;
  absl::StatusOr<CompareResult> Compare(uint64_t values, uint64_t reference, int64_t elements,
                                        DataType dtype, const Tolerance& tolerance) override;
  absl::StatusOr<int64_t> FindByteNot(uint64_t address, int value, int64_t bytes) override;
  absl::StatusOr<std::vector<int64_t>> FindByteNotIn(const std::vector<ByteRange>& ranges) override;
  absl::StatusOr<uint64_t> Checksum(uint64_t address, int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<LoadedModule>> Load(const Artifact& artifact) override;
  absl::Status Launch(LoadedModule& module, const ResolvedLaunch& launch) override;
  absl::Status Synchronize() override;
  absl::Status FlushCache() override;
  int64_t flush_bytes() const override;
  void ReleaseFlush() override;
  absl::StatusOr<double> TimeNs(LoadedModule& module, const ResolvedLaunch& launch) override;
  absl::StatusOr<double> TimeCopyNs(uint64_t to, uint64_t from, int64_t bytes) override;
  bool makes_sequences() const override { return true; }
  absl::StatusOr<std::unique_ptr<LaunchSequence>> MakeSequence(
      LoadedModule& module, const std::vector<ResolvedLaunch>& launches) override;
  absl::StatusOr<double> TimeSequenceNs(LaunchSequence& sequence) override;
  DeviceCondition Condition() override;

 private:
  CudaDevice(const CudaDriver& driver, DeviceInfo info) : driver_(driver), info_(std::move(info)) {}
  absl::Status Start(const Artifact& support);
  int OtherProcesses();
  // The time between two events around what `enqueue` puts on the stream, which is kept busy for
  // `busy_ns` before, so that the host is done by then.
  template <typename Enqueue>
  absl::StatusOr<double> TimeBetweenEvents(int64_t busy_ns, Enqueue enqueue);

  const CudaDriver& driver_;
  const DeviceInfo info_;
  std::unique_ptr<Nvml> nvml_ = Nvml::Open();
  std::string pci_bus_id_;
  CUdevice device_ = 0;
  bool retained_ = false;
  CUstream stream_ = nullptr;
  CUevent begin_ = nullptr;
  CUevent end_ = nullptr;
  std::optional<SupportKernels> support_;
  CUdeviceptr flush_ = 0;
  absl::Time next_census_ = absl::InfinitePast();
  int other_processes_ = -1;
};

absl::StatusOr<std::unique_ptr<Device>> CudaDevice::Create(const CudaDriver& driver, int index,
                                                           const Artifact& support) {
  HONE_RETURN_IF_ERROR(MayMeasureOn(driver, index));
  HONE_ASSIGN_OR_RETURN(DeviceInfo info, IdentifyCudaDevice(driver, index));
  auto device = std::unique_ptr<CudaDevice>(new CudaDevice(driver, std::move(info)));
  HONE_RETURN_IF_ERROR(device->Start(support));
  return device;
}

// The process is ours alone, so its primary context is a context of our own.
absl::Status CudaDevice::Start(const Artifact& support) {
  HONE_CUDA_RETURN_IF_ERROR(driver_, DeviceGet(&device_, info_.index));
  std::array<char, 64> bus_id{};
  HONE_CUDA_RETURN_IF_ERROR(driver_, DeviceGetPCIBusId(bus_id.data(), bus_id.size(), device_));
  pci_bus_id_ = bus_id.data();
  CUcontext context = nullptr;
  HONE_CUDA_RETURN_IF_ERROR(driver_, DevicePrimaryCtxRetain(&context, device_));
  retained_ = true;
  HONE_CUDA_RETURN_IF_ERROR(driver_, CtxSetCurrent(context));
  HONE_CUDA_RETURN_IF_ERROR(driver_, StreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  HONE_CUDA_RETURN_IF_ERROR(driver_, EventCreate(&begin_, CU_EVENT_DEFAULT));
  HONE_CUDA_RETURN_IF_ERROR(driver_, EventCreate(&end_, CU_EVENT_DEFAULT));
  auto kernels = SupportKernels::Load(driver_, support, stream_, info_.fingerprint.sm_count);
  HONE_RETURN_IF_ERROR(kernels.status());
  support_.emplace(*std::move(kernels));
  return absl::OkStatus();
}

CudaDevice::~CudaDevice() {
  // Best effort throughout: on a dead context every call fails, and the process ends soon.
  ReleaseFlush();
  support_.reset();
  if (begin_ != nullptr) driver_.EventDestroy(begin_);
  if (end_ != nullptr) driver_.EventDestroy(end_);
  if (stream_ != nullptr) driver_.StreamDestroy(stream_);
  if (retained_) driver_.DevicePrimaryCtxRelease(device_);
}

// ---- Memory -------------------------------------------------------------------------------------

absl::StatusOr<uint64_t> CudaDevice::Allocate(int64_t bytes) {
  CUdeviceptr address = 0;
  // cuMemAlloc refuses zero bytes.
  const CUresult result =
      driver_.MemAlloc(&address, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    HONE_ASSIGN_OR_RETURN(const int64_t available, AvailableBytes());
    return OutOfDeviceMemory("an allocation", bytes, available);
  }
  if (result != CUDA_SUCCESS) return driver_.ToStatus(result, "cuMemAlloc");
  return address;
}

void CudaDevice::Free(uint64_t address) { driver_.MemFree(address); }

absl::StatusOr<int64_t> CudaDevice::AvailableBytes() {
  size_t free = 0, total = 0;
  HONE_CUDA_RETURN_IF_ERROR(driver_, MemGetInfo(&free, &total));
  return std::max<int64_t>(0, static_cast<int64_t>(free) - kMemoryReserve);
}

absl::Status CudaDevice::CopyToDevice(uint64_t to, const void* from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  HONE_CUDA_RETURN_IF_ERROR(driver_,
                            MemcpyHtoDAsync(to, from, static_cast<size_t>(bytes), stream_));
  return Synchronize();
}

absl::Status CudaDevice::CopyToHost(void* to, uint64_t from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  HONE_CUDA_RETURN_IF_ERROR(driver_,
                            MemcpyDtoHAsync(to, from, static_cast<size_t>(bytes), stream_));
  return Synchronize();
}

absl::Status CudaDevice::CopyOnDevice(uint64_t to, uint64_t from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  HONE_CUDA_RETURN_IF_ERROR(driver_,
                            MemcpyDtoDAsync(to, from, static_cast<size_t>(bytes), stream_));
  return absl::OkStatus();
}

absl::Status CudaDevice::Memset(uint64_t address, int value, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  HONE_CUDA_RETURN_IF_ERROR(driver_, MemsetD8Async(address, static_cast<unsigned char>(value),
                                                   static_cast<size_t>(bytes), stream_));
  return absl::OkStatus();
}

absl::Status CudaDevice::Fill(uint64_t address, int64_t elements, const FillSpec& spec) {
  return support_->Fill(address, elements, spec);
}

absl::StatusOr<CompareResult> CudaDevice::Compare(uint64_t values, uint64_t reference,
                                                  int64_t elements, DataType dtype,
                                                  const Tolerance& tolerance) {
  return support_->Compare(values, reference, elements, dtype, tolerance);
}

absl::StatusOr<int64_t> CudaDevice::FindByteNot(uint64_t address, int value, int64_t bytes) {
  HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> found,
                        support_->FindByteNotIn({{address, bytes, value}}));
  return found[0];
}

absl::StatusOr<std::vector<int64_t>> CudaDevice::FindByteNotIn(
    const std::vector<ByteRange>& ranges) {
  return support_->FindByteNotIn(ranges);
}

absl::StatusOr<uint64_t> CudaDevice::Checksum(uint64_t address, int64_t bytes) {
  return support_->Checksum(address, bytes);
}

// ---- Launches and time --------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<LoadedModule>> CudaDevice::Load(const Artifact& artifact) {
  if (artifact.format == ArtifactFormat::kHostElf) {
    return absl::FailedPreconditionError(
        absl::StrCat("a ", Name(artifact.format), " artifact does not load on a CUDA device"));
  }
  HONE_ASSIGN_OR_RETURN(CudaModule module, CudaModule::Load(driver_, artifact.bytes));
  return std::make_unique<CudaLoadedModule>(std::move(module));
}

absl::Status CudaDevice::Launch(LoadedModule& module, const ResolvedLaunch& launch) {
  return LaunchOnStream(driver_, static_cast<CudaLoadedModule&>(module).module(), launch, stream_);
}

absl::Status CudaDevice::Synchronize() {
  HONE_CUDA_RETURN_IF_ERROR(driver_, StreamSynchronize(stream_));
  return absl::OkStatus();
}

int64_t CudaDevice::flush_bytes() const { return 2 * info_.fingerprint.l2_bytes; }

absl::Status CudaDevice::FlushCache() {
  if (flush_bytes() == 0) return absl::OkStatus();
  if (flush_ == 0) {
    HONE_ASSIGN_OR_RETURN(flush_, Allocate(flush_bytes()));
  }
  return Memset(flush_, 0, flush_bytes());
}

void CudaDevice::ReleaseFlush() {
  if (flush_ != 0) driver_.MemFree(flush_);
  flush_ = 0;
}

template <typename Enqueue>
absl::StatusOr<double> CudaDevice::TimeBetweenEvents(int64_t busy_ns, Enqueue enqueue) {
  HONE_RETURN_IF_ERROR(support_->Pause(busy_ns));
  HONE_CUDA_RETURN_IF_ERROR(driver_, EventRecord(begin_, stream_));
  HONE_RETURN_IF_ERROR(enqueue());
  HONE_CUDA_RETURN_IF_ERROR(driver_, EventRecord(end_, stream_));
  HONE_CUDA_RETURN_IF_ERROR(driver_, EventSynchronize(end_));
  float elapsed_ms = 0;
  HONE_CUDA_RETURN_IF_ERROR(driver_, EventElapsedTime(&elapsed_ms, begin_, end_));
  return static_cast<double>(elapsed_ms) * 1e6;
}

absl::StatusOr<double> CudaDevice::TimeNs(LoadedModule& module, const ResolvedLaunch& launch) {
  const auto steps = static_cast<int64_t>(launch.steps.size());
  return TimeBetweenEvents(kEventNs + kStepNs * steps, [&] { return Launch(module, launch); });
}

absl::StatusOr<double> CudaDevice::TimeCopyNs(uint64_t to, uint64_t from, int64_t bytes) {
  return TimeBetweenEvents(kEventNs + kStepNs, [&] { return CopyOnDevice(to, from, bytes); });
}

absl::StatusOr<std::unique_ptr<LaunchSequence>> CudaDevice::MakeSequence(
    LoadedModule& module, const std::vector<ResolvedLaunch>& launches) {
  HONE_CUDA_RETURN_IF_ERROR(driver_,
                            StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  absl::Status status;
  for (const ResolvedLaunch& launch : launches) {
    status = Launch(module, launch);
    if (!status.ok()) break;
  }
  CUgraph graph = nullptr;
  const CUresult ended = driver_.StreamEndCapture(stream_, &graph);
  if (status.ok()) status = driver_.ToStatus(ended, "cuStreamEndCapture");
  CUgraphExec executable = nullptr;
  if (status.ok()) {
    status = driver_.ToStatus(driver_.GraphInstantiateWithFlags(&executable, graph, 0),
                              "cuGraphInstantiateWithFlags");
  }
  if (graph != nullptr) driver_.GraphDestroy(graph);
  HONE_RETURN_IF_ERROR(status);
  return std::make_unique<CudaSequence>(driver_, executable);
}

absl::StatusOr<double> CudaDevice::TimeSequenceNs(LaunchSequence& sequence) {
  return TimeBetweenEvents(kEventNs + kGraphNs, [&]() -> absl::Status {
    HONE_CUDA_RETURN_IF_ERROR(driver_,
                              GraphLaunch(static_cast<CudaSequence&>(sequence).graph(), stream_));
    return absl::OkStatus();
  });
}

DeviceCondition CudaDevice::Condition() {
  if (nvml_ == nullptr) return {};
  return {.clock_mhz = nvml_->SmClockMhz(pci_bus_id_),
          .memory_clock_mhz = nvml_->MemoryClockMhz(pci_bus_id_),
          .slowed_down = nvml_->SlowedDown(pci_bus_id_),
          .other_processes = OtherProcesses()};
}

int CudaDevice::OtherProcesses() {
  const absl::Time now = absl::Now();
  if (now >= next_census_) {
    next_census_ = now + kCensusInterval;
    other_processes_ = std::max(nvml_->Activity(pci_bus_id_).processes - 1, -1);
  }
  return other_processes_;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int index, const Artifact& support) {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* const driver, CudaDriver::Get());
  return CudaDevice::Create(*driver, index, support);
}

}  // namespace hone
