// CPU reference device of this process: its launcher and the modules loaded so far.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/base/mutex.h"
#include "runtime/launch/cpu_launcher.h"

namespace hone {

// Thread-safe. Modules are kept while the process lives.
class CpuModules {
 public:
  // The process's own.
  static CpuModules& Get();

  // Loads the module when it is new and runs the launch to its end.
  absl::Status Launch(const std::string& sha256, absl::string_view bytes,
                      const ResolvedLaunch& launch);

 private:
  CpuLauncher launcher_;
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<CpuModule>> modules_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone
