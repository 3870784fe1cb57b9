#include "runtime/launch/cpu_block.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

constexpr size_t kSharedMappingBytes = (kCpuSharedBytesPerBlockMax + 4095) / 4096 * 4096;
constexpr size_t kSharedGuardBytes = 1 << 20;

const char* BarrierName(uint32_t kind) {
  switch (kind) {
    case kHoneCpuSyncThreadsCount:
      return "__syncthreads_count";
    case kHoneCpuSyncThreadsAnd:
      return "__syncthreads_and";
    case kHoneCpuSyncThreadsOr:
      return "__syncthreads_or";
    default:
      return "__syncthreads";
  }
}

const char* OperationName(uint32_t kind) {
  switch (kind) {
    case kHoneCpuSyncWarp:
      return "__syncwarp";
    case kHoneCpuShuffle:
      return "a shuffle";
    case kHoneCpuBallot:
      return "a vote";
    case kHoneCpuMatchAny:
    case kHoneCpuMatchAll:
      return "a match";
    case kHoneCpuActiveMask:
      return "__activemask";
    default:
      return "a warp reduction";
  }
}

std::string SiteName(HoneCpuSite site) { return absl::StrCat(site.file, ":", site.line); }

bool SameSite(HoneCpuSite a, HoneCpuSite b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

template <typename Combine>
uint32_t Fold(const HoneCpuWarpOperation* operations, uint32_t lanes, Combine combine) {
  uint32_t result = 0;
  bool first = true;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const uint32_t value = static_cast<uint32_t>(operations[std::countr_zero(rest)].value);
    result = first ? value : combine(result, value);
    first = false;
  }
  return result;
}

uint32_t Reduce(uint32_t kind, const HoneCpuWarpOperation* operations, uint32_t lanes) {
  using Signed = int32_t;
  switch (kind) {
    case kHoneCpuReduceAdd:
      return Fold(operations, lanes, [](uint32_t a, uint32_t b) { return a + b; });
    case kHoneCpuReduceMinS:
      return Fold(operations, lanes,
                  [](uint32_t a, uint32_t b) { return Signed(a) < Signed(b) ? a : b; });
    case kHoneCpuReduceMaxS:
      return Fold(operations, lanes,
                  [](uint32_t a, uint32_t b) { return Signed(a) < Signed(b) ? b : a; });
    case kHoneCpuReduceMinU:
      return Fold(operations, lanes, [](uint32_t a, uint32_t b) { return std::min(a, b); });
    case kHoneCpuReduceMaxU:
      return Fold(operations, lanes, [](uint32_t a, uint32_t b) { return std::max(a, b); });
    case kHoneCpuReduceAnd:
      return Fold(operations, lanes, [](uint32_t a, uint32_t b) { return a & b; });
    case kHoneCpuReduceOr:
      return Fold(operations, lanes, [](uint32_t a, uint32_t b) { return a | b; });
    default:
      return Fold(operations, lanes, [](uint32_t a, uint32_t b) { return a ^ b; });
  }
}

}  // namespace

CpuBlockRunner::~CpuBlockRunner() {
  if (shared_ != nullptr) munmap(shared_, kSharedMappingBytes + kSharedGuardBytes);
}

uint32_t CpuBlockRunner::OnBarrier(void* worker, uint32_t kind, uint32_t predicate,
                                   HoneCpuSite site) {
  return static_cast<CpuBlockRunner*>(worker)->Barrier(kind, predicate, site);
}

uint64_t CpuBlockRunner::OnWarp(void* worker, const HoneCpuWarpOperation* operation) {
  return static_cast<CpuBlockRunner*>(worker)->Warp(*operation);
}

void CpuBlockRunner::OnTrap(void* worker, const char* message, HoneCpuSite site) {
  CpuBlockRunner* self = static_cast<CpuBlockRunner*>(worker);
  const HoneCpuIndex block = self->module_.block();
  const HoneCpuIndex thread = self->module_.thread();
  self->status_ = absl::AbortedError(
      absl::StrCat(message, " at ", SiteName(site), " in block (", block.x, ", ", block.y, ", ",
                   block.z, "), thread (", thread.x, ", ", thread.y, ", ", thread.z, ")"));
  self->Abandon();
}

absl::Status CpuBlockRunner::Prepare() {
  threads_ = grid_->block.x * grid_->block.y * grid_->block.z;
  HONE_RETURN_IF_ERROR(fibers_.Reserve(kCpuThreadsPerBlockMax + 1));
  if (shared_ == nullptr) {
    void* mapping = mmap(nullptr, kSharedMappingBytes + kSharedGuardBytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED ||
        mprotect(mapping, kSharedMappingBytes, PROT_READ | PROT_WRITE) != 0) {
      return absl::ResourceExhaustedError("cannot map a block's shared memory");
    }
    shared_ = static_cast<char*>(mapping);
    started_.resize(kCpuThreadsPerBlockMax);
    operations_.resize(kCpuThreadsPerBlockMax);
    results_.resize(kCpuThreadsPerBlockMax);
  }
  // At the end of the mapping: an access past it faults. Poisoned, so that a kernel that reads what
  // it never wrote does not happen to find zeros.
  const uint32_t bytes = (grid_->dynamic_shared_bytes + 127) / 128 * 128;
  char* dynamic_shared = shared_ + kSharedMappingBytes - bytes;
  std::memset(dynamic_shared, 0xff, bytes);
  const HoneCpuLaunch launch{grid_->grid, grid_->block, dynamic_shared, grid_->dynamic_shared_bytes,
                             HoneCpuRuntime{this, &OnBarrier, &OnWarp, &OnTrap}};
  module_.set_launch(&launch);
  return absl::OkStatus();
}

absl::Status CpuBlockRunner::Run(CpuGrid& grid, const HoneCpuModule& module,
                                 const HoneCpuEntry& entry) {
  grid_ = &grid;
  module_ = module;
  entry_ = entry;
  status_ = absl::OkStatus();
  in_fibers_ = false;
  if (absl::Status prepared = Prepare(); !prepared.ok()) {
    grid.failed = true;
    return prepared;
  }
  fibers_.Enter(host_);
  root_ = &fibers_.Start(0, &RootMain, this);
  fibers_.Switch(host_, *root_);
  if (!status_.ok()) fibers_.ForgetSuspended();
  return status_;
}

HONE_NO_TSAN void CpuBlockRunner::RootMain(void* self) {
  CpuBlockRunner* runner = static_cast<CpuBlockRunner*>(self);
  runner->RunBlocks();
  runner->fibers_.Leave(runner->host_);
}

void CpuBlockRunner::RunBlocks() {
  const HoneCpuIndex grid = grid_->grid;
  while (!grid_->failed.load(std::memory_order_relaxed)) {
    const uint64_t first =
        grid_->next_block.fetch_add(grid_->blocks_per_turn, std::memory_order_relaxed);
    if (first >= grid_->blocks) return;
    const uint64_t end = std::min(first + grid_->blocks_per_turn, grid_->blocks);
    HoneCpuIndex index{static_cast<uint32_t>(first % grid.x),
                       static_cast<uint32_t>(first / grid.x % grid.y),
                       static_cast<uint32_t>(first / grid.x / grid.y)};
    for (uint64_t block = first; block < end; ++block) {
      module_.set_block(index);
      RunBlock();
      if (++index.x < grid.x) continue;
      index.x = 0;
      if (++index.y < grid.y) continue;
      index.y = 0;
      ++index.z;
    }
  }
}

void CpuBlockRunner::RunBlock() {
  const HoneCpuIndex block = grid_->block;
  module_.set_row_end(block.x);
  for (uint32_t z = 0; z < block.z; ++z) {
    for (uint32_t y = 0; y < block.y; ++y) {
      module_.set_thread({0, y, z});
      entry_.row(grid_->arguments, 0);
      if (!in_fibers_) continue;
      FinishBlock();
      in_fibers_ = false;
      return;
    }
  }
}

void CpuBlockRunner::BeginFibers() {
  const HoneCpuIndex thread = module_.thread();
  running_ = thread.x + grid_->block.x * (thread.y + grid_->block.y * thread.z);
  root_thread_ = running_;
  in_fibers_ = true;
  module_.set_row_end(0);  // the root's loop ends after its thread
  live_ = threads_ - running_;
  ready_warps_ = 0;
  barrier_.arrived = 0;
  const uint32_t warps = (threads_ + 31) / 32;
  for (uint32_t warp = 0; warp < warps; ++warp) {
    const uint32_t count = std::min(threads_ - warp * 32, 32u);
    uint32_t lanes = count == 32 ? ~0u : (1u << count) - 1;
    if (warp * 32 + 31 < running_) lanes = 0;
    if (warp == running_ / 32) lanes &= ~0u << running_ % 32;
    warps_[warp] = {.live = lanes, .ready = lanes};
    if (lanes != 0) ready_warps_ |= 1u << warp;
  }
  WarpState& warp = warps_[running_ / 32];
  warp.ready &= ~(1u << running_ % 32);
  if (warp.ready == 0) ready_warps_ &= ~(1u << running_ / 32);
  std::fill(started_.begin(), started_.begin() + threads_, nullptr);
  started_[running_] = root_;
}

HONE_NO_TSAN void CpuBlockRunner::ThreadMain(void* self) {
  CpuBlockRunner* runner = static_cast<CpuBlockRunner*>(self);
  runner->entry_.row(runner->grid_->arguments, runner->module_.thread().x);
  runner->ThreadEnds();
  Fiber* next = runner->live_ == 0 ? runner->root_ : runner->NextFiber();
  runner->fibers_.Leave(*next);
}

void CpuBlockRunner::FinishBlock() {
  ThreadEnds();
  // The last fiber to end switches back here.
  if (live_ > 0) fibers_.Switch(*root_, *NextFiber());
}

void CpuBlockRunner::ThreadEnds() {
  WarpState& warp = warps_[running_ / 32];
  warp.live &= ~(1u << running_ % 32);
  --live_;
  if (live_ == 0) return;
  ReleaseBarrierIfComplete();
  if (warp.at_operation != 0) CompleteOperations(running_ / 32);
}

void CpuBlockRunner::Wait() {
  Fiber* self = started_[running_];
  Fiber* next = NextFiber();
  if (next != self) fibers_.Switch(*self, *next);
}

// Lanes of the running warp go first: they are what this warp's operations wait for.
Fiber* CpuBlockRunner::NextFiber() {
  uint32_t warp = running_ / 32;
  if (warps_[warp].ready == 0 && warps_[warp].at_operation != 0) CompleteActiveMask(warp);
  if (warps_[warp].ready == 0) {
    if (ready_warps_ == 0) {
      status_ = absl::FailedPreconditionError(DescribeDeadlock());
      Abandon();
    }
    const uint32_t above = ready_warps_ & (~0u << warp);
    warp = static_cast<uint32_t>(std::countr_zero(above != 0 ? above : ready_warps_));
  }
  WarpState& state = warps_[warp];
  const uint32_t lane = static_cast<uint32_t>(std::countr_zero(state.ready));
  state.ready &= state.ready - 1;
  if (state.ready == 0) ready_warps_ &= ~(1u << warp);
  running_ = warp * 32 + lane;
  module_.set_thread(IndexOf(running_));
  if (started_[running_] == nullptr) {
    started_[running_] = &fibers_.Start(static_cast<int>(running_) + 1, &ThreadMain, this);
  }
  return started_[running_];
}

void CpuBlockRunner::MakeReady(uint32_t warp, uint32_t lanes) {
  warps_[warp].ready |= lanes;
  if (warps_[warp].ready != 0) ready_warps_ |= 1u << warp;
}

uint32_t CpuBlockRunner::Barrier(uint32_t kind, uint32_t predicate, HoneCpuSite site) {
  if (!in_fibers_) BeginFibers();
  if (barrier_.arrived == 0) {
    // The result stays: threads of the barrier before may not have read it yet.
    barrier_.kind = kind;
    barrier_.predicates = 0;
    barrier_.site = site;
    barrier_.first_thread = running_;
  } else if (kind != barrier_.kind || !SameSite(site, barrier_.site)) {
    status_ = absl::FailedPreconditionError(absl::StrCat(
        "mismatched barriers: thread ", ThreadName(running_), " waits at ", BarrierName(kind),
        " in ", SiteName(site), " while thread ", ThreadName(barrier_.first_thread), " waits at ",
        BarrierName(barrier_.kind), " in ", SiteName(barrier_.site)));
    Abandon();
  }
  ++barrier_.arrived;
  barrier_.predicates += predicate;
  warps_[running_ / 32].at_barrier |= 1u << running_ % 32;
  ReleaseBarrierIfComplete();
  Wait();
  return barrier_.result;
}

void CpuBlockRunner::ReleaseBarrierIfComplete() {
  if (barrier_.arrived == 0 || barrier_.arrived != live_) return;
  switch (barrier_.kind) {
    case kHoneCpuSyncThreadsAnd:
      barrier_.result = barrier_.predicates == barrier_.arrived;
      break;
    case kHoneCpuSyncThreadsOr:
      barrier_.result = barrier_.predicates != 0;
      break;
    default:
      barrier_.result = barrier_.predicates;
  }
  barrier_.arrived = 0;
  for (uint32_t warp = 0; warp * 32 < threads_; ++warp) {
    MakeReady(warp, warps_[warp].at_barrier);
    warps_[warp].at_barrier = 0;
  }
}

uint64_t CpuBlockRunner::Warp(const HoneCpuWarpOperation& operation) {
  if (!in_fibers_) BeginFibers();
  const uint32_t warp = running_ / 32;
  const uint32_t self = 1u << running_ % 32;
  const uint32_t thread = running_;
  if ((operation.mask & self) == 0) {
    status_ = absl::FailedPreconditionError(
        absl::StrCat("thread ", ThreadName(running_), " calls ", OperationName(operation.kind),
                     " in ", SiteName(operation.site), " with mask 0x", absl::Hex(operation.mask),
                     ", which leaves out its own lane ", running_ % 32));
    Abandon();
  }
  operations_[thread] = operation;
  warps_[warp].at_operation |= self;
  if (operation.kind != kHoneCpuActiveMask) {
    const uint32_t lanes = operation.mask & warps_[warp].live;
    if ((warps_[warp].at_operation & lanes) == lanes) CompleteOperation(warp, lanes);
  }
  Wait();
  return results_[thread];
}

// Called when a lane ended: operations that waited for it may be complete now.
void CpuBlockRunner::CompleteOperations(uint32_t warp) {
  for (uint32_t rest = warps_[warp].at_operation; rest != 0;) {
    const HoneCpuWarpOperation& operation = operations_[warp * 32 + std::countr_zero(rest)];
    const uint32_t lanes = operation.mask & warps_[warp].live;
    rest &= rest - 1;
    if (operation.kind == kHoneCpuActiveMask) continue;
    if ((warps_[warp].at_operation & lanes) == lanes) CompleteOperation(warp, lanes);
  }
}

// All `lanes` wait; they go on if they wait for the same thing.
void CpuBlockRunner::CompleteOperation(uint32_t warp, uint32_t lanes) {
  const HoneCpuWarpOperation* operations = &operations_[warp * 32];
  const HoneCpuWarpOperation& first = operations[std::countr_zero(lanes)];
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const HoneCpuWarpOperation& other = operations[std::countr_zero(rest)];
    if (other.kind != first.kind || other.mask != first.mask) return;
  }
  const bool reduces = first.kind >= kHoneCpuReduceAdd && first.kind <= kHoneCpuReduceXor;
  const uint64_t reduced = reduces ? Reduce(first.kind, operations, lanes) : 0;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const uint32_t lane = static_cast<uint32_t>(std::countr_zero(rest));
    results_[warp * 32 + lane] = reduces ? reduced : ResultFor(warp, lane, lanes);
  }
  warps_[warp].at_operation &= ~lanes;
  MakeReady(warp, lanes);
}

uint64_t CpuBlockRunner::ResultFor(uint32_t warp, uint32_t lane, uint32_t lanes) {
  const HoneCpuWarpOperation* operations = &operations_[warp * 32];
  const HoneCpuWarpOperation& operation = operations[lane];
  uint64_t result = 0;
  switch (operation.kind) {
    case kHoneCpuShuffle:
      if ((lanes >> operation.lane & 1) == 0) {
        status_ = absl::FailedPreconditionError(absl::StrCat(
            "thread ", ThreadName(warp * 32 + lane), " shuffles from lane ", operation.lane, " in ",
            SiteName(operation.site), ", which takes no part: mask 0x", absl::Hex(operation.mask),
            ", lanes present 0x", absl::Hex(warps_[warp].live)));
        Abandon();
      }
      return operations[operation.lane].value;
    case kHoneCpuBallot:
    case kHoneCpuMatchAny:
    case kHoneCpuMatchAll:
      for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const uint32_t other = static_cast<uint32_t>(std::countr_zero(rest));
        const bool set = operation.kind == kHoneCpuBallot
                             ? operations[other].value != 0
                             : operations[other].value == operation.value;
        if (set) result |= uint64_t{1} << other;
      }
      return operation.kind == kHoneCpuMatchAll && result != lanes ? 0 : result;
    default:
      return 0;
  }
}

// No lane of the warp can run: those that ask who is active are the active ones, by site.
void CpuBlockRunner::CompleteActiveMask(uint32_t warp) {
  const HoneCpuWarpOperation* operations = &operations_[warp * 32];
  uint32_t lanes = 0;
  HoneCpuSite site{};
  for (uint32_t rest = warps_[warp].at_operation; rest != 0; rest &= rest - 1) {
    const uint32_t lane = static_cast<uint32_t>(std::countr_zero(rest));
    if (operations[lane].kind != kHoneCpuActiveMask) continue;
    if (lanes == 0) site = operations[lane].site;
    if (SameSite(site, operations[lane].site)) lanes |= 1u << lane;
  }
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    results_[warp * 32 + static_cast<uint32_t>(std::countr_zero(rest))] = lanes;
  }
  warps_[warp].at_operation &= ~lanes;
  if (lanes != 0) MakeReady(warp, lanes);
}

std::string CpuBlockRunner::DescribeDeadlock() const {
  std::string text = "threads wait for ever:";
  if (barrier_.arrived != 0) {
    absl::StrAppend(&text, " ", barrier_.arrived, " of ", live_, " at ", BarrierName(barrier_.kind),
                    " in ", SiteName(barrier_.site), ";");
  }
  for (uint32_t warp = 0; warp * 32 < threads_; ++warp) {
    if (warps_[warp].at_operation == 0) continue;
    const uint32_t thread =
        warp * 32 + static_cast<uint32_t>(std::countr_zero(warps_[warp].at_operation));
    const HoneCpuWarpOperation& operation = operations_[thread];
    absl::StrAppend(&text, " thread ", ThreadName(thread), " in ", OperationName(operation.kind),
                    " in ", SiteName(operation.site), " for lanes 0x", absl::Hex(operation.mask),
                    " while 0x", absl::Hex(warps_[warp].at_operation), " are there");
    break;  // one is enough to find the place
  }
  return text;
}

void CpuBlockRunner::Abandon() {
  grid_->failed = true;
  fibers_.Leave(host_);
}

HoneCpuIndex CpuBlockRunner::IndexOf(uint32_t thread) const {
  const HoneCpuIndex block = grid_->block;
  if (block.y == 1 && block.z == 1) return {thread, 0, 0};
  const uint32_t row = thread / block.x;
  return {thread % block.x, row % block.y, row / block.y};
}

std::string CpuBlockRunner::ThreadName(uint32_t thread) const {
  const HoneCpuIndex index = IndexOf(thread);
  return absl::StrCat("(", index.x, ", ", index.y, ", ", index.z, ")");
}

}  // namespace hone
