#include "server/catalog.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/base/error_info.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/config_space.h"
#include "runtime/kernel/field_error.h"
#include "runtime/kernel/template_warnings.h"
#include "server/nearest_names.h"
#include "server/template_convert.h"
#include "server/template_directory.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

// Registered templates stay in memory; a caller that registers without end must not fill it.
constexpr int64_t kRegisteredMax = 10'000;
constexpr int64_t kRegisteredBytesMax = int64_t{512} << 20;
// A damaged row is dropped by the store and reported; each try meets one at most.
constexpr int kDamagedRowsMax = 100;

// As for a catalog's template.pbtxt: what is no file's content must fit every reply.
constexpr int64_t kMessageTextBytesMax = 1 << 20;

constexpr absl::string_view kRegistered = "registered";
constexpr absl::string_view kInline = "inline";

// What the store keeps of where a template is registered, a line for each: "registered NAMESPACE",
// "inline NAMESPACE".
std::string OriginLine(const std::string& name_space, bool inline_template) {
  return absl::StrCat(inline_template ? kInline : kRegistered, name_space.empty() ? "" : " ",
                      name_space);
}

std::vector<RegisterOptions> ParseOrigin(absl::string_view origin) {
  std::vector<RegisterOptions> registrations;
  for (absl::string_view line : absl::StrSplit(origin, '\n')) {
    RegisterOptions options;
    options.inline_template = absl::ConsumePrefix(&line, kInline);
    if (!options.inline_template && !absl::ConsumePrefix(&line, kRegistered)) continue;
    absl::ConsumePrefix(&line, " ");
    options.name_space = std::string(line);
    registrations.push_back(std::move(options));
  }
  return registrations;
}

// Directories below `root` that hold a template.pbtxt, sorted.
absl::StatusOr<std::vector<std::string>> TemplateDirectories(const std::string& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;  // what cannot be looked at has no template
    if (name[0] == '.' || !fs::is_directory(it->path(), ignored)) continue;
    if (fs::exists(fs::symlink_status(it->path() / "template.pbtxt", ignored))) {
      names.push_back(name);
    }
  }
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read the catalog ", root, ": ", error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The template's directory may be a link, but not out of the catalog.
absl::Status CheckBelow(const std::string& root, const std::string& directory) {
  std::error_code error;
  const fs::path real_root = fs::canonical(root, error);
  if (error) return absl::FailedPreconditionError(absl::StrCat(root, ": ", error.message()));
  const fs::path real = fs::canonical(directory, error);
  if (error) return absl::FailedPreconditionError(absl::StrCat(directory, ": ", error.message()));
  if (absl::StartsWith(real.string(), real_root.string() + "/")) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(directory, " is a link out of the catalog, to ", real.string()));
}

absl::Status CheckTextSize(const v1::KernelTemplate& message) {
  auto bytes = static_cast<int64_t>(message.ByteSizeLong());
  for (const v1::SourceFile& file : message.files()) {
    bytes -= static_cast<int64_t>(file.content().size());
  }
  if (bytes <= kMessageTextBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("template: ", bytes,
                                                 " bytes without its files' contents; at most ",
                                                 kMessageTextBytesMax, " (1 MiB)"));
}

// The template as it is kept: header sets by digest, so that it means the same when it is read
// back, whatever is registered under their names by then.
std::string Encode(const CatalogEntry& entry) {
  v1::KernelTemplate message = entry.message;
  message.clear_header_sets();
  for (const std::string& digest : entry.kernel_template->spec().header_sets) {
    message.add_header_sets(digest);
  }
  return message.SerializeAsString();
}

}  // namespace

std::string Name(TemplateOrigin origin) {
  return origin == TemplateOrigin::kCatalog ? "catalog" : "registered";
}

Catalog::Catalog(std::string directory, KernelStore* store)
    : directory_(std::move(directory)), store_(store) {}

std::unique_ptr<Catalog> Catalog::Create(std::string directory, KernelStore* store) {
  std::unique_ptr<Catalog> catalog(new Catalog(std::move(directory), store));
  catalog->LoadRegistered();
  catalog->Reload();
  return catalog;
}

absl::StatusOr<std::string> Catalog::ResolveHeaderSet(const std::string& name_or_digest) const {
  std::optional<std::string> digest;
  if (store_ != nullptr) {
    HONE_ASSIGN_OR_RETURN(digest, store_->FindHeaderSet(name_or_digest));
  }
  if (digest.has_value()) return *std::move(digest);
  return absl::NotFoundError(absl::StrCat("header set \"", name_or_digest,
                                          "\" is not registered with this daemon; register it with "
                                          "hone headers add"));
}

absl::StatusOr<CatalogEntryPtr> Catalog::MakeEntry(v1::KernelTemplate message,
                                                   TemplateOrigin origin, std::string readme,
                                                   int64_t at_unix_ms) const {
  HONE_ASSIGN_OR_RETURN(TemplateSpec spec, ToTemplateSpec(message, [this](const std::string& set) {
                          return ResolveHeaderSet(set);
                        }));
  auto entry = std::make_shared<CatalogEntry>();
  HONE_ASSIGN_OR_RETURN(entry->kernel_template, KernelTemplate::Create(std::move(spec)));
  entry->message = std::move(message);
  entry->origin = origin;
  entry->readme = std::move(readme);
  entry->tunable_points = ProductSize(entry->kernel_template->spec().base.tunables);
  entry->registered_at_unix_ms = at_unix_ms;
  return entry;
}

void Catalog::Reload() {
  if (directory_.empty()) return;
  MutexLock one_at_a_time(&register_mutex_);
  std::map<std::string, CatalogEntryPtr> found;
  std::vector<CatalogProblem> problems;
  const absl::StatusOr<std::vector<std::string>> names = TemplateDirectories(directory_);
  if (!names.ok()) problems.push_back({directory_, std::string(names.status().message())});
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    TemplateDirectory read;
    const std::string path = absl::StrCat(directory_, "/", name);
    absl::Status status = CheckBelow(directory_, path);
    if (status.ok()) status = ReadTemplateDirectory(path, read);
    if (read.pbtxt_path.empty()) read.pbtxt_path = path;
    if (status.ok() && read.message.name() != name) {
      status = FieldError("name", absl::StrCat("\"", read.message.name(), "\" is not the name of ",
                                               "its directory, ", name));
    }
    if (status.ok()) {
      auto entry = MakeEntry(read.message, TemplateOrigin::kCatalog, read.readme, 0);
      status = entry.status();
      if (entry.ok()) found[name] = *std::move(entry);
    }
    if (!status.ok()) {
      problems.push_back({LocateProblem(read, status), std::string(status.message())});
    }
  }
  MutexLock lock(&mutex_);
  for (const auto& [name, entry] : found) by_digest_[entry->kernel_template->digest()] = entry;
  catalog_ = std::move(found);
  catalog_problems_ = std::move(problems);
}

void Catalog::LoadRegistered() {
  if (store_ == nullptr) return;
  MutexLock one_at_a_time(&register_mutex_);
  absl::StatusOr<std::vector<StoredTemplate>> stored = store_->ListTemplates();
  std::vector<CatalogProblem> damaged;
  for (int i = 0; i < kDamagedRowsMax && absl::IsDataLoss(stored.status()); ++i) {
    damaged.push_back({"store", std::string(stored.status().message())});
    stored = store_->ListTemplates();
  }
  if (!stored.ok()) damaged.push_back({"store", std::string(stored.status().message())});
  {
    MutexLock lock(&mutex_);
    store_problems_ = std::move(damaged);
  }
  if (!stored.ok()) return;
  for (const StoredTemplate& row : *stored) AddStored(row);
}

void Catalog::AddStored(const StoredTemplate& stored) {
  const auto problem = [&](absl::string_view message) {
    MutexLock lock(&mutex_);
    store_problems_.push_back(
        {absl::StrCat("registered template ", stored.name, " ", stored.digest.substr(0, 12)),
         std::string(message)});
  };
  v1::KernelTemplate message;
  if (!message.ParseFromString(stored.encoded)) return problem("does not parse");
  const absl::StatusOr<CatalogEntryPtr> entry =
      MakeEntry(std::move(message), TemplateOrigin::kRegistered, "", stored.registered_at_unix_ms);
  if (!entry.ok()) return problem(entry.status().message());
  MutexLock lock(&mutex_);
  by_digest_.emplace((*entry)->kernel_template->digest(), *entry);
  for (const RegisterOptions& options : ParseOrigin(stored.origin)) {
    Add({options.name_space, stored.name}, *entry, options.inline_template);
  }
}

void Catalog::Add(const Owner& owner, CatalogEntryPtr entry, bool inline_template) {
  ++registered_count_;
  registered_bytes_ += static_cast<int64_t>(entry->message.ByteSizeLong());
  by_digest_.emplace(entry->kernel_template->digest(), entry);
  registered_[owner].push_back({std::move(entry), inline_template});
}

absl::Status Catalog::CheckRoom(const v1::KernelTemplate& message) const {
  if (registered_count_ >= kRegisteredMax) {
    return WithErrorInfo(absl::ResourceExhaustedError(
                             absl::StrCat(registered_count_, " templates are registered, and ",
                                          kRegisteredMax, " is the most this daemon keeps")),
                         {.reason = "TOO_MANY_TEMPLATES",
                          .needed = registered_count_ + 1,
                          .available = kRegisteredMax});
  }
  const auto needed = static_cast<int64_t>(message.ByteSizeLong());
  const int64_t available = kRegisteredBytesMax - registered_bytes_;
  if (needed <= available) return absl::OkStatus();
  return WithErrorInfo(absl::ResourceExhaustedError(absl::StrCat(
                           "registered templates take ", registered_bytes_, " of ",
                           kRegisteredBytesMax, " bytes; this one ", "needs ", needed)),
                       {.reason = "TOO_MANY_TEMPLATES", .needed = needed, .available = available});
}

absl::StatusOr<CatalogEntryPtr> Catalog::Existing(const KernelTemplate& kernel_template,
                                                  const RegisterOptions& options) const {
  const std::string& version = kernel_template.spec().version;
  const auto same = [&](const CatalogEntryPtr& entry) {
    return entry->kernel_template->digest() == kernel_template.digest();
  };
  const auto contradicts = [&](const CatalogEntryPtr& entry) {
    return !options.inline_template && entry->kernel_template->spec().version == version &&
           !same(entry);
  };
  std::vector<CatalogEntryPtr> candidates;
  if (const auto it = catalog_.find(kernel_template.name()); it != catalog_.end()) {
    candidates.push_back(it->second);
  }
  if (const auto it = registered_.find({options.name_space, kernel_template.name()});
      it != registered_.end()) {
    for (const Registration& registration : it->second) {
      // What was only sent along with a tune claims no version.
      if (options.inline_template || !registration.inline_template) {
        candidates.push_back(registration.entry);
      }
    }
  }
  for (const CatalogEntryPtr& entry : candidates) {
    if (same(entry)) return entry;
  }
  for (const CatalogEntryPtr& entry : candidates) {
    if (!contradicts(entry)) continue;
    return absl::AlreadyExistsError(absl::StrCat(
        "another template is ", Name(entry->origin), " as ", kernel_template.name(), " version \"",
        version, "\" (digest ", entry->kernel_template->digest().substr(0, 12), ", this one ",
        kernel_template.digest().substr(0, 12), "); give it another version"));
  }
  return nullptr;
}

std::string Catalog::OriginOf(const std::string& digest, const std::string& name,
                              const RegisterOptions& options) const {
  std::vector<std::string> lines;
  MutexLock lock(&mutex_);
  for (const auto& [owner, registrations] : registered_) {
    // Registering what was only sent along before takes the place of that.
    if (owner.second != name || owner.first == options.name_space) continue;
    for (const Registration& registration : registrations) {
      if (registration.entry->kernel_template->digest() != digest) continue;
      lines.push_back(OriginLine(owner.first, registration.inline_template));
    }
  }
  lines.push_back(OriginLine(options.name_space, options.inline_template));
  return absl::StrJoin(lines, "\n");
}

absl::Status Catalog::Store(const CatalogEntry& entry, const RegisterOptions& options) {
  if (store_ == nullptr) return absl::OkStatus();
  StoredTemplate stored;
  stored.digest = entry.kernel_template->digest();
  stored.name = entry.kernel_template->name();
  stored.version = entry.kernel_template->spec().version;
  stored.encoded = Encode(entry);
  stored.origin = OriginOf(stored.digest, stored.name, options);
  stored.registered_at_unix_ms = entry.registered_at_unix_ms;
  return store_->PutTemplate(stored);
}

absl::StatusOr<RegisterResult> Catalog::Register(const v1::KernelTemplate& message,
                                                 const RegisterOptions& options) {
  HONE_RETURN_IF_ERROR(CheckTextSize(message));
  RegisterResult result;
  HONE_ASSIGN_OR_RETURN(result.entry, MakeEntry(message, TemplateOrigin::kRegistered, "",
                                                absl::ToUnixMillis(absl::Now())));
  const KernelTemplate& made = *result.entry->kernel_template;
  if (!options.inline_template) result.warnings = TemplateWarnings(result.entry->kernel_template);
  MutexLock one_at_a_time(&register_mutex_);
  {
    MutexLock lock(&mutex_);
    HONE_ASSIGN_OR_RETURN(const CatalogEntryPtr existing, Existing(made, options));
    if (existing != nullptr) {
      result.entry = existing;
      result.already_registered = true;
      return result;
    }
    if (!options.validate_only) HONE_RETURN_IF_ERROR(CheckRoom(message));
  }
  if (options.validate_only) return result;
  if (const absl::Status stored = Store(*result.entry, options); !stored.ok()) {
    if (!options.inline_template) return stored;
    result.warnings.push_back(absl::StrCat("not kept over a restart: ", stored.message()));
  }
  MutexLock lock(&mutex_);
  Add({options.name_space, made.name()}, result.entry, options.inline_template);
  return result;
}

std::string Catalog::NearestNames(const std::string& name, const std::string& name_space) const {
  std::vector<std::string> known;
  for (const auto& [known_name, entry] : catalog_) known.push_back(known_name);
  for (const auto& [owner, registrations] : registered_) {
    if (owner.first == name_space) known.push_back(owner.second);
  }
  return Suggestion(name, known);
}

std::vector<std::string> Catalog::Names() const {
  MutexLock lock(&mutex_);
  std::vector<std::string> names;
  for (const auto& [name, entry] : catalog_) names.push_back(name);
  for (const auto& [owner, registrations] : registered_) names.push_back(owner.second);
  return names;
}

absl::StatusOr<CatalogEntryPtr> Catalog::Find(const std::string& name, const std::string& digest,
                                              const std::string& name_space) const {
  MutexLock lock(&mutex_);
  if (!digest.empty()) {
    const auto it = by_digest_.find(digest);
    if (it == by_digest_.end()) {
      return absl::NotFoundError(absl::StrCat("no template with digest \"", digest, "\""));
    }
    if (!name.empty() && it->second->kernel_template->name() != name) {
      return absl::NotFoundError(absl::StrCat("the template with digest ", digest, " is ",
                                              it->second->kernel_template->name(), ", not ", name));
    }
    return it->second;
  }
  if (name.empty()) return absl::InvalidArgumentError("template: neither name nor digest is given");
  if (const auto it = catalog_.find(name); it != catalog_.end()) return it->second;
  if (const auto it = registered_.find({name_space, name}); it != registered_.end()) {
    return it->second.back().entry;
  }
  return absl::NotFoundError(
      absl::StrCat("no template \"", name, "\"; ", NearestNames(name, name_space)));
}

std::vector<CatalogEntryPtr> Catalog::List() const {
  MutexLock lock(&mutex_);
  std::vector<CatalogEntryPtr> entries;
  for (const auto& [name, entry] : catalog_) entries.push_back(entry);
  std::set<std::string> seen;
  for (const auto& [owner, registrations] : registered_) {
    for (auto it = registrations.rbegin(); it != registrations.rend(); ++it) {
      if (seen.insert(it->entry->kernel_template->digest()).second) entries.push_back(it->entry);
    }
  }
  return entries;
}

std::vector<CatalogProblem> Catalog::Problems() const {
  MutexLock lock(&mutex_);
  std::vector<CatalogProblem> problems = catalog_problems_;
  problems.insert(problems.end(), store_problems_.begin(), store_problems_.end());
  return problems;
}

}  // namespace hone
