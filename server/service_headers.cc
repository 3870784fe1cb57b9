// Header sets: CUTLASS, a team's own, registered once and named by digest.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error_info.h"
#include "runtime/base/files.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"
#include "server/errors.h"
#include "server/handlers.h"

namespace hone {
namespace {

constexpr size_t kNameBytesMax = 128;
// CUTLASS has about 800; a set of more is a mistake.
constexpr size_t kFilesMax = 20'000;

// Names and contents, lengths included so that no two sets run together; sorted, so that the order
// of sending does not matter.
std::string DigestOf(const std::vector<SourceFile>& sorted_files) {
  Sha256 hash;
  hash.Update("hone header set v1\n");
  for (const SourceFile& file : sorted_files) {
    hash.Update(absl::StrCat(file.name.size(), ":", file.name, ":", file.content.size(), ":"));
    hash.Update(file.content);
  }
  return hash.FinishHex();
}

}  // namespace

absl::Status HeaderSetUpload::Add(v1::RegisterHeaderSetRequest message) {
  if (std::exchange(first_, false)) {
    name_ = message.name();
    if (name_.empty() || name_.size() > kNameBytesMax) {
      return InvalidField("name", absl::StrCat("has ", name_.size(),
                                               " bytes; the first message must "
                                               "carry a name of 1 to ",
                                               kNameBytesMax, " bytes"));
    }
  } else if (!message.name().empty() && message.name() != name_) {
    return InvalidField(
        "name", absl::StrCat("'", BoundedUtf8(message.name(), 80),
                             "' differs from the first message's '", BoundedUtf8(name_, 80), "'"));
  }
  for (v1::SourceFile& file : *message.mutable_files()) {
    const std::string field = absl::StrCat("files[", files_.size(), "]");
    if (absl::Status status = CheckRelativePath(file.name()); !status.ok()) {
      return InvalidField(absl::StrCat(field, ".name"), status.message());
    }
    bytes_ += static_cast<int64_t>(file.name().size() + file.content().size());
    if (bytes_ > limits_.header_set_bytes_max || files_.size() >= kFilesMax) {
      return WithErrorInfo(
          absl::ResourceExhaustedError(absl::StrCat(
              "files: the set has more than ", limits_.header_set_bytes_max, " bytes or ",
              kFilesMax, " files, which a header set may have; leave out what no kernel includes")),
          {.reason = "REQUEST_TOO_LARGE",
           .needed = bytes_,
           .available = limits_.header_set_bytes_max});
    }
    files_.push_back({file.name(), std::move(*file.mutable_content())});
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::RegisterHeaderSetResponse> HeaderSetUpload::Store(KernelStore& store) {
  if (files_.empty()) return InvalidField("files", "is empty; a header set has at least one file");
  std::sort(files_.begin(), files_.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(files_.begin(), files_.end(),
                         [](const SourceFile& a, const SourceFile& b) { return a.name == b.name; });
  if (twice != files_.end()) {
    return InvalidField("files", absl::StrCat("'", twice->name, "' is given twice"));
  }
  v1::RegisterHeaderSetResponse response;
  response.set_digest(DigestOf(files_));
  response.set_size_bytes(bytes_);
  HONE_RETURN_IF_ERROR(store.PutHeaderSet(response.digest(), name_, files_));
  return response;
}

void ListHeaderSets(ServiceContext& context,
                    CallPtr<v1::ListHeaderSetsRequest, v1::ListHeaderSetsResponse> call) {
  RunLookup(context, call, [&context, call] {
    const auto sets = context.store->ListHeaderSets();
    if (!sets.ok()) return call->Fail(sets.status());
    v1::ListHeaderSetsResponse response;
    std::set<std::string> names;
    for (const StoredHeaderSet& set : *sets) {
      v1::HeaderSetSummary* summary = response.add_header_sets();
      summary->set_name(set.name);
      summary->set_digest(set.digest);
      summary->set_current(names.insert(set.name).second);
    }
    call->Reply(response);
  });
}

}  // namespace hone
