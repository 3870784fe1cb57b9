#include "client/cpp/cpu_modules.h"

#include <utility>

#include "runtime/base/status_macros.h"

namespace hone {

CpuModules& CpuModules::Get() {
  static auto& modules = *new CpuModules();
  return modules;
}

absl::Status CpuModules::Launch(const std::string& sha256, absl::string_view bytes,
                                const ResolvedLaunch& launch) {
  CpuModule* module = nullptr;
  {
    const MutexLock lock(&mutex_);
    std::unique_ptr<CpuModule>& slot = modules_[sha256];
    if (slot == nullptr) {
      absl::StatusOr<std::unique_ptr<CpuModule>> loaded = CpuModule::Load(bytes);
      if (!loaded.ok()) {
        modules_.erase(sha256);
        return loaded.status();
      }
      slot = *std::move(loaded);
    }
    module = slot.get();
  }
  return launcher_.Launch(*module, launch);
}

}  // namespace hone
