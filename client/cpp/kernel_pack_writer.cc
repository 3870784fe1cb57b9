#include "client/cpp/kernel_pack_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/kernel_pack_format.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/device_fingerprint_proto.h"

namespace hone {
namespace {

constexpr absl::string_view kHostCode = "HOST_ELF";

// The index as it grows, with the bytes of those contents that are at hand.
class IndexBuilder {
 public:
  int AddTemplate(const v1::PackedTemplate& packed) {
    *index_.add_templates() = packed;
    return index_.templates_size() - 1;
  }
  int AddDevice(const v1::DeviceFingerprint& device) {
    *index_.add_devices() = device;
    return index_.devices_size() - 1;
  }
  // Equal contents are there once.
  int AddContent(const std::string& sha256, int64_t size_bytes) {
    const auto [found, added] = contents_.emplace(sha256, index_.contents_size());
    if (added) {
      v1::PackedContent* const content = index_.add_contents();
      content->set_sha256(sha256);
      content->set_size_bytes(size_bytes);
      contents_bytes_ += static_cast<uint64_t>(size_bytes);
    }
    return found->second;
  }
  int AddBytes(std::string bytes) {
    std::string sha256 = Sha256Hex(bytes);
    const int content = AddContent(sha256, static_cast<int64_t>(bytes.size()));
    bytes_.emplace(std::move(sha256), std::move(bytes));
    return content;
  }

  v1::KernelPackIndex& index() { return index_; }
  uint64_t contents_bytes() const { return contents_bytes_; }
  // nullptr: an artifact, to be fetched.
  const std::string* Bytes(const std::string& sha256) const {
    const auto found = bytes_.find(sha256);
    return found == bytes_.end() ? nullptr : &found->second;
  }
  int64_t fetched() const { return index_.contents_size() - static_cast<int64_t>(bytes_.size()); }

 private:
  v1::KernelPackIndex index_;
  std::map<std::string, int> contents_;
  std::map<std::string, std::string> bytes_;
  uint64_t contents_bytes_ = 0;
};

// A file and the hash of what was written to it.
class HashedFile {
 public:
  explicit HashedFile(AtomicFile file) : file_(std::move(file)) {}

  absl::Status Write(absl::string_view bytes) {
    hash_.Update(bytes);
    size_bytes_ += static_cast<int64_t>(bytes.size());
    return file_.Write(bytes);
  }
  absl::StatusOr<int64_t> Finish() {
    const std::string hash = absl::HexStringToBytes(hash_.FinishHex());
    HONE_RETURN_IF_ERROR(file_.Write(hash));
    HONE_RETURN_IF_ERROR(file_.Commit());
    return size_bytes_ + static_cast<int64_t>(hash.size());
  }

 private:
  AtomicFile file_;
  Sha256 hash_;
  int64_t size_bytes_ = 0;
};

void AddKernel(IndexBuilder& builder, int template_index, int device_index, v1::Numerics numerics,
               const v1::GetKernelResponse& reply) {
  v1::PackedKernel& packed = *builder.index().add_kernels();
  packed.set_template_index(template_index);
  packed.set_device_index(device_index);
  *packed.mutable_params() = reply.kernel().params();
  packed.set_numerics(numerics);
  packed.set_architecture(reply.kernel().architecture());
  packed.set_reply_content(builder.AddBytes(DeterministicBytes(reply)));
  for (const v1::KernelVariant& variant : reply.kernel().variants()) {
    const v1::ArtifactInfo& artifact = variant.artifact();
    packed.set_min_driver(std::max(packed.min_driver(), artifact.min_driver()));
    const int content = builder.AddContent(artifact.sha256(), artifact.size_bytes());
    const auto& listed = packed.artifact_contents();
    if (std::find(listed.begin(), listed.end(), content) == listed.end()) {
      packed.add_artifact_contents(content);
    }
  }
}

}  // namespace

absl::Status KernelPackWriter::AddTemplate(const v1::PackedTemplate& packed) {
  const auto [found, added] = templates_.emplace(packed.name(), packed);
  if (added || found->second.digest() == packed.digest()) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("template ", packed.name(), " is there with digest ",
                                               found->second.digest(), ", not ", packed.digest()));
}

absl::Status KernelPackWriter::Add(const v1::DeviceFingerprint& device, v1::Numerics numerics,
                                   v1::GetKernelResponse reply) {
  v1::TunedKernel& kernel = *reply.mutable_kernel();
  const auto packed = templates_.find(kernel.template_name());
  if (packed == templates_.end() || packed->second.digest() != kernel.template_digest()) {
    return absl::InvalidArgumentError(absl::StrCat("template ", kernel.template_name(),
                                                   " with digest ", kernel.template_digest(),
                                                   " was not added"));
  }
  if (kernel.variants().empty()) return absl::InvalidArgumentError("the reply has no variant");
  for (v1::KernelVariant& variant : *kernel.mutable_variants()) {
    if (variant.artifact().format() == kHostCode && !options_.allow_host_code) {
      return absl::FailedPreconditionError(
          "a kernel of the CPU reference device; packs carry no host code");
    }
    variant.clear_artifact_bytes();
  }
  reply.set_tuning(false);
  reply.clear_nearest_keys();
  const std::string device_key = FromProto(device).Canonical();
  std::string identity =
      absl::StrCat(kernel.template_name(), "\n", PackedParamsText(kernel.params()), "\n",
                   device_key, "\n", kernel.architecture(), "\n", static_cast<int>(numerics));
  devices_.emplace(device_key, device);
  const bool added = kernels_
                         .emplace(std::move(identity), Added{kernel.template_name(), device_key,
                                                             numerics, std::move(reply)})
                         .second;
  if (added) return absl::OkStatus();
  return absl::AlreadyExistsError("the same kernel for the same device is there");
}

absl::StatusOr<WrittenPack> KernelPackWriter::Write(const std::string& path,
                                                    const Fetch& fetch) const {
  IndexBuilder builder;
  builder.index().mutable_origin()->set_made_at_unix_ms(options_.made_at_unix_ms);
  builder.index().mutable_origin()->set_made_by(options_.made_by);
  std::map<std::string, int> devices;
  for (const auto& [key, device] : devices_) devices[key] = builder.AddDevice(device);
  std::map<std::string, int> templates;  // those that have kernels, which come in their order
  for (const auto& [identity, added] : kernels_) {
    const std::string& name = added.template_name;
    if (templates.count(name) == 0) templates[name] = builder.AddTemplate(templates_.at(name));
    AddKernel(builder, templates[name], devices.at(added.device), added.numerics, added.reply);
  }
  const std::string index = DeterministicBytes(builder.index());
  if (index.size() > kPackIndexBytesMax) {
    return absl::ResourceExhaustedError(absl::StrCat("the index of ", kernels_.size(),
                                                     " kernels has ", index.size(),
                                                     " bytes; at most ", kPackIndexBytesMax));
  }
  const std::string head = EncodePackHead({.contents_bytes = builder.contents_bytes()}, index);
  HONE_ASSIGN_OR_RETURN(AtomicFile atomic, AtomicFile::Create(path));
  HashedFile file(std::move(atomic));
  HONE_RETURN_IF_ERROR(file.Write(head));
  HONE_RETURN_IF_ERROR(file.Write(index));
  for (const v1::PackedContent& content : builder.index().contents()) {
    if (const std::string* const bytes = builder.Bytes(content.sha256())) {
      HONE_RETURN_IF_ERROR(file.Write(*bytes));
      continue;
    }
    HONE_ASSIGN_OR_RETURN(const std::string bytes, fetch(content.sha256()));
    if (Sha256Hex(bytes) != content.sha256() ||
        bytes.size() != static_cast<size_t>(content.size_bytes())) {
      return absl::DataLossError(absl::StrCat("artifact ", content.sha256(), ": the ", bytes.size(),
                                              " bytes received are not those that were asked for"));
    }
    HONE_RETURN_IF_ERROR(file.Write(bytes));
  }
  HONE_ASSIGN_OR_RETURN(const int64_t file_bytes, file.Finish());
  return WrittenPack{.digest = PackDigest(head, index),
                     .file_bytes = file_bytes,
                     .kernels = static_cast<int64_t>(kernels_.size()),
                     .artifacts = builder.fetched()};
}

}  // namespace hone
