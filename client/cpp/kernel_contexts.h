// A kernel in the CUDA contexts of this process: plans for their devices, and what is loaded.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/hone/kernel.h"
#include "runtime/base/mutex.h"
#include "runtime/launch/cuda_launcher.h"
#include "runtime/launch/expression.h"
#include "runtime/launch/launch_plan.h"
#include "runtime/launch/plan_launcher.h"

namespace hone {

// A plan for each variant; none for those that are launched by name only.
using VariantPlans = std::vector<std::optional<LaunchPlan>>;

// Plans that fold `facts` in and take their inputs in the order of `names`. The variants must
// outlive them unmoved.
VariantPlans PlansOf(const std::vector<Kernel::Variant>& variants, const LaunchNames& names,
                     const SizeBindings& facts);

// One context's part. Thread-safe; owned by KernelContexts.
class KernelInContext {
 public:
  KernelInContext(uint64_t context, size_t variants) : context_(context), functions_(variants) {}

  uint64_t context() const { return context_; }
  const SizeBindings& facts() const { return facts_; }
  // nullptr: this variant is launched by name only.
  const LaunchPlan* plan(size_t variant) const {
    const std::optional<LaunchPlan>& plan = (*plans_)[variant];
    return plan ? &*plan : nullptr;
  }
  // nullptr until the variant is loaded in this context.
  const PlanFunctions* functions(size_t variant) const {
    return functions_[variant].load(std::memory_order_acquire);
  }

 private:
  friend class KernelContexts;
  const uint64_t context_;
  SizeBindings facts_;  // of the device, when some expression mentions any
  VariantPlans own_plans_;
  const VariantPlans* plans_ = nullptr;  // own_plans_ or the kernel's
  std::vector<std::atomic<const PlanFunctions*>> functions_;
};

// Thread-safe. Looking a context up takes no lock, and nothing is taken away while this lives.
class KernelContexts {
 public:
  // `variants` and `plans`, those of a kernel that mentions no device facts, must outlive this
  // unmoved; `plans` nullptr: each context makes its own.
  KernelContexts(const std::vector<Kernel::Variant>* variants, const LaunchNames* names,
                 const VariantPlans* plans);
  ~KernelContexts();

  // nullptr when the kernel has not been used in this context.
  KernelInContext* Find(uint64_t context) const {
    for (KernelInContext* const entry : *table_.load(std::memory_order_acquire)) {
      if (entry->context() == context) return entry;
    }
    return nullptr;
  }
  // The same, added when new. It must be current on this thread.
  absl::StatusOr<KernelInContext*> FindOrAdd(const CudaDriver& driver, uint64_t context);

  // The variant's module and functions in the context, which is current, loaded when they are not.
  // FAILED_PRECONDITION as Kernel::Prepare says.
  absl::StatusOr<CudaModule*> LoadModule(const CudaDriver& driver, const KernelInContext& here,
                                         size_t variant);
  absl::StatusOr<const PlanFunctions*> Load(const CudaDriver& driver, KernelInContext& here,
                                            size_t variant);

 private:
  using Table = std::vector<KernelInContext*>;

  const std::vector<Kernel::Variant>* const variants_;
  const LaunchNames* const names_;
  const VariantPlans* const plans_;

  Mutex mutex_;
  std::atomic<const Table*> table_;  // the last of tables_; written under the mutex
  // Readers may still walk an older one.
  std::vector<std::unique_ptr<const Table>> tables_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<KernelInContext>> entries_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<const PlanFunctions>> functions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone
