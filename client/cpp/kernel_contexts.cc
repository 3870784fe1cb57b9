#include "client/cpp/kernel_contexts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/cuda_modules.h"
#include "client/cpp/kernel_state.h"
#include "client/cpp/stream_capture.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

absl::Status CheckLoadable(const CudaDriver& driver, const Kernel::Variant& variant) {
  if (IsForCpu(variant)) {
    return absl::FailedPreconditionError(
        "this kernel is for the CPU reference device, not for a CUDA stream; use LaunchOnCpu");
  }
  int version = 0;
  HONE_CUDA_RETURN_IF_ERROR(driver, DriverGetVersion(&version));
  if (version >= variant.artifact.min_driver()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the binary needs a CUDA driver of version ", variant.artifact.min_driver(),
                   " or later, this one is ", version,
                   "; ask for the kernel with target.driver_version = ", version));
}

}  // namespace

VariantPlans PlansOf(const std::vector<Kernel::Variant>& variants, const LaunchNames& names,
                     const SizeBindings& facts) {
  VariantPlans plans;
  for (const Kernel::Variant& variant : variants) {
    // What a plan does not hold, and what is not in the common order, is launched by name.
    absl::StatusOr<LaunchPlan> plan = LaunchPlan::Create(variant.recipe, facts);
    const bool usable = plan.ok() && plan->names() == names;
    plans.push_back(usable ? std::optional(*std::move(plan)) : std::nullopt);
  }
  return plans;
}

KernelContexts::KernelContexts(const std::vector<Kernel::Variant>* variants,
                               const LaunchNames* names, const VariantPlans* plans)
    : variants_(variants), names_(names), plans_(plans) {
  const MutexLock lock(&mutex_);
  tables_.push_back(std::make_unique<const Table>());
  table_.store(tables_.back().get(), std::memory_order_release);
}

KernelContexts::~KernelContexts() = default;

absl::StatusOr<KernelInContext*> KernelContexts::FindOrAdd(const CudaDriver& driver,
                                                           uint64_t context) {
  if (KernelInContext* const known = Find(context)) return known;
  auto added = std::make_unique<KernelInContext>(context, variants_->size());
  added->plans_ = plans_;
  if (plans_ == nullptr) {
    HONE_ASSIGN_OR_RETURN(added->facts_, CudaModules::Get().DeviceFacts(driver, context));
    added->own_plans_ = PlansOf(*variants_, *names_, added->facts_);
    added->plans_ = &added->own_plans_;
  }
  const MutexLock lock(&mutex_);
  if (KernelInContext* const known = Find(context)) return known;
  auto table = std::make_unique<Table>(*tables_.back());
  table->push_back(added.get());
  entries_.push_back(std::move(added));
  tables_.push_back(std::move(table));
  table_.store(tables_.back().get(), std::memory_order_release);
  return entries_.back().get();
}

absl::StatusOr<CudaModule*> KernelContexts::LoadModule(const CudaDriver& driver,
                                                       const KernelInContext& here,
                                                       size_t variant) {
  const Kernel::Variant& loaded = (*variants_)[variant];
  HONE_RETURN_IF_ERROR(CheckLoadable(driver, loaded));
  const RelaxedCapture relaxed(driver);
  HONE_ASSIGN_OR_RETURN(
      CudaModule* const module,
      CudaModules::Get().Load(driver, here.context(), loaded.artifact.sha256(), loaded.bytes));
  // Finds every kernel of the variant, so that no launch by name has to.
  HONE_RETURN_IF_ERROR(PlanFunctions::Find(*module, loaded.recipe).status());
  return module;
}

absl::StatusOr<const PlanFunctions*> KernelContexts::Load(const CudaDriver& driver,
                                                          KernelInContext& here, size_t variant) {
  if (const PlanFunctions* const known = here.functions(variant)) return known;
  HONE_ASSIGN_OR_RETURN(CudaModule* const module, LoadModule(driver, here, variant));
  HONE_ASSIGN_OR_RETURN(PlanFunctions found,
                        PlanFunctions::Find(*module, (*variants_)[variant].recipe));
  const MutexLock lock(&mutex_);
  if (const PlanFunctions* const known = here.functions(variant)) return known;
  functions_.push_back(std::make_unique<const PlanFunctions>(std::move(found)));
  here.functions_[variant].store(functions_.back().get(), std::memory_order_release);
  return functions_.back().get();
}

}  // namespace hone
