// The templates this daemon knows: those of the catalog directory and those registered by callers.
//
// A catalog directory holds one directory for each template, of the template's name:
// template.pbtxt, the files it names and perhaps a README.md. A directory that cannot be loaded is
// a problem in the list and does not stop the others. Registered templates are kept in the store
// and survive restarts. A name resolves in the catalog first, then in the caller's namespace, where
// the newest registration counts; a digest finds any template ever loaded or registered.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hone/v1/kernel_template.pb.h"
#include "runtime/base/mutex.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/store/kernel_store.h"

namespace hone {

enum class TemplateOrigin { kCatalog, kRegistered };
// "catalog", "registered".
std::string Name(TemplateOrigin origin);

// Immutable once in the catalog.
struct CatalogEntry {
  KernelTemplatePtr kernel_template;
  // As its author wrote it, with the contents of all files in `files`.
  v1::KernelTemplate message;
  TemplateOrigin origin = TemplateOrigin::kCatalog;
  std::string readme;
  int64_t tunable_points = 0;  // of the base template's product; saturates at 2^62
  int64_t registered_at_unix_ms = 0;
};
using CatalogEntryPtr = std::shared_ptr<const CatalogEntry>;

struct CatalogProblem {
  std::string location;  // "kernels/foo/template.pbtxt:12:5 steps[0].launch.grid_x"
  std::string message;
};

struct RegisterOptions {
  bool validate_only = false;  // nothing is stored and nothing can be found afterwards
  // A template sent along with a tune, perhaps edited since the last one: the same name and version
  // may stand for several of them, and a store that fails is a warning.
  bool inline_template = false;
  // Where the name is registered; callers of one daemon that share names share it.
  std::string name_space = {};
};

struct RegisterResult {
  CatalogEntryPtr entry;
  bool already_registered = false;  // under this name and version, or as the catalog's own
  std::vector<std::string> warnings;
};

// Thread-safe. Look-ups take a short lock and no disk.
class Catalog {
 public:
  // Loads the store's registered templates and, unless `directory` is empty, the catalog. Neither a
  // bad template nor an unreadable directory or store is an error: they are Problems(). `store`
  // must outlive this object and may be nullptr (nothing is kept, header sets are unknown).
  static std::unique_ptr<Catalog> Create(std::string directory, KernelStore* store);

  // By digest when `digest` is not empty (in full; `name`, if given, must then be its name), else
  // by name. NOT_FOUND names the nearest names there are.
  absl::StatusOr<CatalogEntryPtr> Find(const std::string& name, const std::string& digest,
                                       const std::string& name_space = "") const;

  // Of all templates in all namespaces, in no order, possibly twice.
  std::vector<std::string> Names() const;
  // The catalog's templates by name, then the registered ones by name, newest first.
  std::vector<CatalogEntryPtr> List() const;
  std::vector<CatalogProblem> Problems() const;

  // Checks `message` and keeps it. INVALID_ARGUMENT names the field; ALREADY_EXISTS: another
  // template has this name and version, in the catalog or in the namespace; RESOURCE_EXHAUSTED: too
  // many are registered. Errors of the store are passed on, and nothing is registered then.
  absl::StatusOr<RegisterResult> Register(const v1::KernelTemplate& message,
                                          const RegisterOptions& options);

  // Reads the catalog directory again: after a header set was registered, which templates may name,
  // or on request. Templates of the earlier reading stay reachable by digest.
  void Reload();

  const std::string& directory() const { return directory_; }

 private:
  // A name's owner: namespace and name.
  using Owner = std::pair<std::string, std::string>;
  struct Registration {
    CatalogEntryPtr entry;
    bool inline_template = false;
  };

  Catalog(std::string directory, KernelStore* store);
  void LoadRegistered();
  void AddStored(const StoredTemplate& stored);
  absl::StatusOr<std::string> ResolveHeaderSet(const std::string& name_or_digest) const;
  absl::StatusOr<CatalogEntryPtr> MakeEntry(v1::KernelTemplate message, TemplateOrigin origin,
                                            std::string readme, int64_t at_unix_ms) const;
  std::string NearestNames(const std::string& name, const std::string& name_space) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The entry that `kernel_template` repeats, nullptr if none, ALREADY_EXISTS if it contradicts
  // one.
  absl::StatusOr<CatalogEntryPtr> Existing(const KernelTemplate& kernel_template,
                                           const RegisterOptions& options) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoom(const v1::KernelTemplate& message) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(const Owner& owner, CatalogEntryPtr entry, bool inline_template)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Every place where the template will be registered, for the store.
  std::string OriginOf(const std::string& digest, const std::string& name,
                       const RegisterOptions& options) const;
  absl::Status Store(const CatalogEntry& entry, const RegisterOptions& options);

  const std::string directory_;
  KernelStore* const store_;

  Mutex register_mutex_;  // one registration or reading at a time: disk is used without mutex_

  mutable Mutex mutex_;
  std::map<std::string, CatalogEntryPtr> catalog_ ABSL_GUARDED_BY(mutex_);         // by name
  std::map<Owner, std::vector<Registration>> registered_ ABSL_GUARDED_BY(mutex_);  // oldest first
  std::map<std::string, CatalogEntryPtr> by_digest_ ABSL_GUARDED_BY(mutex_);
  int64_t registered_count_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t registered_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<CatalogProblem> catalog_problems_ ABSL_GUARDED_BY(mutex_);
  std::vector<CatalogProblem> store_problems_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone
