// Makes kernel packs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hone/v1/kernel_pack.pb.h"

namespace hone {

struct KernelPackOptions {
  int64_t made_at_unix_ms = 0;
  std::string made_by{};  // "honed 0.1.0"
  // Takes kernels of the CPU reference device, too. Packs for others never carry host code: it runs
  // with all rights of the process that loads it.
  bool allow_host_code = false;
};

struct WrittenPack {
  std::string digest;  // in hex
  int64_t file_bytes = 0;
  int64_t kernels = 0;
  int64_t artifacts = 0;
};

// Collects answers of one daemon and writes them. Equal answers make equal files, in whatever order
// they are added. Not thread-safe.
class KernelPackWriter {
 public:
  explicit KernelPackWriter(KernelPackOptions options) : options_(std::move(options)) {}

  // ALREADY_EXISTS for another template of the same name.
  absl::Status AddTemplate(const v1::PackedTemplate& packed);

  // What was answered to a request for this device. Bytes that came with the reply are dropped, as
  // is what is true only for a moment. INVALID_ARGUMENT: not of an added template, or no variant.
  // FAILED_PRECONDITION: host code. ALREADY_EXISTS: the same template, params, device and numerics
  // are there.
  absl::Status Add(const v1::DeviceFingerprint& device, v1::Numerics numerics,
                   v1::GetKernelResponse reply);

  bool empty() const { return kernels_.empty(); }

  // An artifact's bytes by their SHA-256 in hex.
  using Fetch = std::function<absl::StatusOr<std::string>(const std::string& sha256)>;
  // Replaces `path` by a pack of everything added, or leaves it as it is. Asks for each artifact
  // once and holds one at a time. DATA_LOSS when one is not what its hash says.
  absl::StatusOr<WrittenPack> Write(const std::string& path, const Fetch& fetch) const;

 private:
  struct Added {
    std::string template_name;
    std::string device;  // canonical
    v1::Numerics numerics;
    v1::GetKernelResponse reply;
  };

  const KernelPackOptions options_;
  std::map<std::string, v1::PackedTemplate> templates_;
  std::map<std::string, v1::DeviceFingerprint> devices_;
  std::map<std::string, Added> kernels_;  // by identity, which gives their order
};

}  // namespace hone
