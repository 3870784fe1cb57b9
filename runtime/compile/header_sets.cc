#include "runtime/compile/header_sets.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

bool IsDigest(const std::string& text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0;
  });
}

}  // namespace

HeaderSets::HeaderSets(std::string directory, HeaderSetResolver resolver)
    : directory_(std::move(directory)), resolver_(std::move(resolver)) {}

absl::StatusOr<std::string> HeaderSets::DirectoryOf(const std::string& digest) {
  if (!IsDigest(digest)) {
    return absl::InvalidArgumentError(
        absl::StrCat("header_sets: '", digest, "' is not a digest of a header set"));
  }
  MutexLock lock(&mutex_);
  if (const auto it = directories_.find(digest); it != directories_.end()) return it->second;
  if (!resolver_) {
    return absl::NotFoundError(absl::StrCat("header_sets: '", digest, "' is not registered"));
  }
  HONE_ASSIGN_OR_RETURN(std::vector<SourceFile> files, resolver_(digest));

  const std::string path = JoinPath(directory_, digest);
  for (const SourceFile& file : files) {
    absl::Status status = CheckRelativePath(file.name);
    const std::string target = JoinPath(path, file.name);
    if (status.ok()) status = MakeDirectories(DirectoryName(target), 0700);
    if (status.ok()) status = WriteNewFile(target, file.content);
    if (status.ok()) continue;
    // Nothing half-written may be taken for the set; a later call starts over.
    RemoveTree(path).IgnoreError();
    return absl::Status(status.code(), absl::StrCat("header set ", digest, ": ", status.message()));
  }
  directories_[digest] = path;
  return path;
}

}  // namespace hone
