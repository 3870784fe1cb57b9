// A Compiler in front of another: the store first, one flight per artifact key.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/compile/compiler.h"
#include "runtime/kernel/keys.h"
#include "runtime/store/kernel_store.h"

namespace hone {

// Thread-safe. However many callers ask for one key at once, one compile runs, as urgent as the
// most urgent of them; a caller's timeout does not end it for the others. Failures are not stored:
// the source's own errors are cheap to find again, and a timeout says something about a moment. A
// store that cannot be written does not cost the caller the artifact;
// CompileOutcome::not_cached_reason says why.
class CachingCompiler : public Compiler {
 public:
  // Both must outlive this object.
  CachingCompiler(Compiler* inner, KernelStore* store);
  ~CachingCompiler() override;

  absl::StatusOr<CompileOutcome> Compile(const Program& program,
                                         const CompileOptions& options) override;
  int parallelism() const override { return inner_->parallelism(); }
  std::vector<CompilerInfo> Compilers() const override { return inner_->Compilers(); }
  absl::StatusOr<CompilerInfo> Select(const std::string& architecture,
                                      int driver_version) const override {
    return inner_->Select(architecture, driver_version);
  }

  struct Stored {
    Artifact artifact;
    // Made with the headers of the compiler at hand; its builder may still be another.
    bool current = true;
  };
  // The stored artifact for a program, without compiling. Where no compiler for it is at hand, or
  // with `any_build` if the one at hand has made none, it is the one made last, whoever made it, if
  // the driver takes it. Nullopt if there is none; without `any_build` and without a compiler, what
  // keeps that from being at hand.
  absl::StatusOr<std::optional<Stored>> Lookup(const Program& program, int driver_version,
                                               bool any_build = false);
  absl::StatusOr<Key> KeyFor(const Program& program, int driver_version) const;

  int64_t compiles() const { return compiles_; }
  int64_t store_hits() const { return store_hits_; }
  int64_t joined() const { return joined_; }
  int64_t corruptions() const { return corruptions_; }

 private:
  struct Flight;
  absl::StatusOr<std::optional<Artifact>> LookupKey(const Key& key);
  absl::StatusOr<CompileOutcome> LookupOrCompile(const Key& key, const std::string& builder,
                                                 const Program& program,
                                                 const CompileOptions& options);

  Compiler* const inner_;
  KernelStore* const store_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Flight>> flights_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int64_t> compiles_{0}, store_hits_{0}, joined_{0}, corruptions_{0};
};

}  // namespace hone
