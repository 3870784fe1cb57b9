#include "client/cpp/kernel_pack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <unordered_set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/files.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/device_fingerprint_proto.h"

namespace hone {
namespace {

constexpr uint64_t kFrameBytes = kPackHeadBytes + kPackHashBytes;
// For hashing the whole file.
constexpr uint64_t kPieceBytes = 1 << 20;
constexpr size_t kSha256Digits = 64;

bool IsSha256(const std::string& text) {
  return text.size() == kSha256Digits && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

bool IsWithin(int index, int count) { return index >= 0 && index < count; }

}  // namespace

absl::Status KernelPack::Wrong(absl::StatusCode code, absl::string_view what) const {
  return absl::Status(code, absl::StrCat("kernel pack ", path_, " ", what));
}

absl::StatusOr<std::shared_ptr<const KernelPack>> KernelPack::Open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "open kernel pack", path);
  std::shared_ptr<KernelPack> pack(new KernelPack(std::move(fd), path));
  HONE_RETURN_IF_ERROR(pack->Load());
  return pack;
}

absl::Status KernelPack::Load() {
  struct stat info = {};
  if (::fstat(fd_.get(), &info) != 0) return ErrnoStatus(errno, "stat kernel pack", path_);
  if (!S_ISREG(info.st_mode)) {
    return Wrong(absl::StatusCode::kInvalidArgument, "is not a regular file");
  }
  file_bytes_ = info.st_size;
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size < kFrameBytes) {
    return Wrong(absl::StatusCode::kDataLoss,
                 absl::StrCat("has ", size, " bytes; the shortest has ", kFrameBytes));
  }
  HONE_ASSIGN_OR_RETURN(const std::string head_bytes, Read(0, kPackHeadBytes));
  const absl::StatusOr<PackHead> head = DecodePackHead(head_bytes);
  if (!head.ok()) return Wrong(head.status().code(), head.status().message());
  head_ = *head;
  // One after another, so that no sum can overflow.
  uint64_t rest = size - kFrameBytes;
  for (const uint64_t part : {head_.index_bytes, head_.contents_bytes, head_.extension_bytes}) {
    if (part > rest) {
      return Wrong(
          absl::StatusCode::kDataLoss,
          absl::StrCat("is cut short, or its head is damaged: it has ", size,
                       " bytes and should hold an index of ", head_.index_bytes, ", contents of ",
                       head_.contents_bytes, " and an extension of ", head_.extension_bytes));
    }
    rest -= part;
  }
  if (rest != 0) {
    return Wrong(absl::StatusCode::kDataLoss, absl::StrCat("has ", rest, " bytes too many"));
  }
  if (head_.index_bytes > kPackIndexBytesMax) {
    return Wrong(absl::StatusCode::kInvalidArgument,
                 absl::StrCat("has an index of ", head_.index_bytes, " bytes; at most ",
                              kPackIndexBytesMax, " are read"));
  }
  HONE_ASSIGN_OR_RETURN(const std::string index, Read(kPackHeadBytes, head_.index_bytes));
  if (PackDigest(head_bytes, index) != head_.digest) {
    return Wrong(absl::StatusCode::kDataLoss,
                 "is damaged: its head and index do not have the SHA-256 it states");
  }
  if (!index_.ParseFromString(index)) {
    return Wrong(absl::StatusCode::kInvalidArgument, "has an index that cannot be parsed");
  }
  const absl::Status checked = CheckIndex();
  return checked.ok() ? checked : Wrong(checked.code(), checked.message());
}

absl::Status KernelPack::CheckIndex() {
  const auto wrong = [](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat("has a wrong index: ", parts...));
  };
  uint64_t rest = head_.contents_bytes;
  uint64_t offset = kPackHeadBytes + head_.index_bytes;
  for (int i = 0; i < index_.contents_size(); ++i) {
    const v1::PackedContent& content = index_.contents(i);
    if (!IsSha256(content.sha256())) {
      return wrong("contents[", i, "].sha256 is not a SHA-256 in hex");
    }
    if (content.size_bytes() < 0 || static_cast<uint64_t>(content.size_bytes()) > rest ||
        static_cast<uint64_t>(content.size_bytes()) > kPackContentBytesMax) {
      return wrong("contents[", i, "].size_bytes is ", content.size_bytes(), ", where ", rest,
                   " bytes are left and a content has at most ", kPackContentBytesMax);
    }
    if (!by_sha256_.emplace(content.sha256(), i).second) {
      return wrong("contents[", i, "] is there twice: ", content.sha256());
    }
    offsets_.push_back(offset);
    offset += static_cast<uint64_t>(content.size_bytes());
    rest -= static_cast<uint64_t>(content.size_bytes());
  }
  if (rest != 0) return wrong(rest, " bytes of the contents belong to none");
  std::set<std::string> names;
  for (const v1::PackedTemplate& each : index_.templates()) {
    if (each.name().empty() || !IsSha256(each.digest())) {
      return wrong("template '", absl::CHexEscape(each.name()), "' with digest '", each.digest(),
                   "'; a name and a SHA-256 in hex are needed");
    }
    if (!names.insert(each.name()).second) return wrong("template ", each.name(), " twice");
  }
  std::set<std::string> devices;
  for (const v1::DeviceFingerprint& device : index_.devices()) {
    if (!devices.insert(FromProto(device).Canonical()).second) {
      return wrong("the device ", device.architecture(), " twice");
    }
  }
  std::unordered_set<std::string> kernels;
  for (int i = 0; i < index_.kernels_size(); ++i) {
    const v1::PackedKernel& kernel = index_.kernels(i);
    if (const absl::Status status = CheckKernel(kernel); !status.ok()) {
      return wrong("kernels[", i, "]: ", status.message());
    }
    const std::string identity = absl::StrCat(
        kernel.template_index(), "\n", kernel.device_index(), "\n", kernel.architecture(), "\n",
        static_cast<int>(kernel.numerics()), "\n", PackedParamsText(kernel.params()));
    if (!kernels.insert(identity).second) return wrong("kernels[", i, "] is there twice");
  }
  return absl::OkStatus();
}

absl::Status KernelPack::CheckKernel(const v1::PackedKernel& kernel) const {
  const auto check = [](absl::string_view field, int index, int count) {
    if (IsWithin(index, count)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", index, ", there are ", count, " of them"));
  };
  HONE_RETURN_IF_ERROR(check("template_index", kernel.template_index(), index_.templates_size()));
  HONE_RETURN_IF_ERROR(check("device_index", kernel.device_index(), index_.devices_size()));
  HONE_RETURN_IF_ERROR(check("reply_content", kernel.reply_content(), index_.contents_size()));
  if (kernel.artifact_contents().empty()) return absl::InvalidArgumentError("it has no binary");
  for (const int artifact : kernel.artifact_contents()) {
    HONE_RETURN_IF_ERROR(check("artifact_contents", artifact, index_.contents_size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> KernelPack::Read(uint64_t offset, uint64_t size) const {
  std::string bytes(size, '\0');
  for (uint64_t done = 0; done < size;) {
    const ssize_t got =
        ::pread(fd_.get(), bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read kernel pack", path_);
    if (got == 0) {
      return Wrong(absl::StatusCode::kDataLoss, "has become shorter since it was opened");
    }
    done += static_cast<uint64_t>(got);
  }
  return bytes;
}

absl::StatusOr<std::string> KernelPack::Content(int content) const {
  const v1::PackedContent& listed = index_.contents(content);
  HONE_ASSIGN_OR_RETURN(std::string bytes, Read(offsets_[static_cast<size_t>(content)],
                                                static_cast<uint64_t>(listed.size_bytes())));
  if (Sha256Hex(bytes) == listed.sha256()) return bytes;
  return Wrong(absl::StatusCode::kDataLoss, absl::StrCat("is damaged: content ", listed.sha256(),
                                                         " does not have this SHA-256"));
}

absl::StatusOr<v1::GetKernelResponse> KernelPack::Reply(int kernel) const {
  const v1::PackedKernel& packed = index_.kernels(kernel);
  HONE_ASSIGN_OR_RETURN(const std::string bytes, Content(packed.reply_content()));
  v1::GetKernelResponse reply;
  const auto contradicts = [&](absl::string_view what) {
    return Wrong(absl::StatusCode::kInvalidArgument,
                 absl::StrCat("contradicts itself: the reply of kernels[", kernel, "] ", what));
  };
  if (!reply.ParseFromString(bytes)) return contradicts("cannot be parsed");
  if (reply.kernel().variants().empty()) return contradicts("has no variant");
  if (reply.kernel().architecture() != packed.architecture()) {
    return contradicts(absl::StrCat("is for '", reply.kernel().architecture(), "', not for '",
                                    packed.architecture(), "'"));
  }
  for (const v1::KernelVariant& variant : reply.kernel().variants()) {
    const auto has = [&](int artifact) {
      return index_.contents(artifact).sha256() == variant.artifact().sha256();
    };
    if (std::none_of(packed.artifact_contents().begin(), packed.artifact_contents().end(), has)) {
      return contradicts(
          absl::StrCat("needs artifact ", variant.artifact().sha256(), ", which is not listed"));
    }
    if (variant.artifact().min_driver() > packed.min_driver()) {
      return contradicts(absl::StrCat("needs driver ", variant.artifact().min_driver(),
                                      ", which is later than min_driver"));
    }
  }
  return reply;
}

absl::StatusOr<std::string> KernelPack::Artifact(const std::string& sha256) const {
  const auto found = by_sha256_.find(sha256);
  if (found == by_sha256_.end()) {
    return Wrong(absl::StatusCode::kNotFound, absl::StrCat("has no content ", sha256));
  }
  return Content(found->second);
}

absl::Status KernelPack::Verify() const {
  Sha256 hash;
  const auto hashed = static_cast<uint64_t>(file_bytes_) - kPackHashBytes;
  for (uint64_t offset = 0; offset < hashed;) {
    HONE_ASSIGN_OR_RETURN(const std::string piece,
                          Read(offset, std::min(kPieceBytes, hashed - offset)));
    hash.Update(piece);
    offset += piece.size();
  }
  HONE_ASSIGN_OR_RETURN(const std::string stated, Read(hashed, kPackHashBytes));
  if (hash.FinishHex() != absl::BytesToHexString(stated)) {
    return Wrong(absl::StatusCode::kDataLoss,
                 "is damaged: the file does not have the SHA-256 at its end");
  }
  for (int content = 0; content < index_.contents_size(); ++content) {
    HONE_RETURN_IF_ERROR(Content(content).status());
  }
  for (int kernel = 0; kernel < index_.kernels_size(); ++kernel) {
    HONE_RETURN_IF_ERROR(Reply(kernel).status());
  }
  return absl::OkStatus();
}

}  // namespace hone
