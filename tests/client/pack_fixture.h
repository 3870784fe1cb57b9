// Packs for tests: copy kernels of GPUs that do not exist.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "client/cpp/kernel_pack.h"
#include "client/cpp/kernel_pack_writer.h"
#include "gtest/gtest.h"
#include "runtime/base/files.h"
#include "runtime/base/sha256.h"
#include "tests/client/fake_service.h"
#include "tests/testing/status_matchers.h"

namespace hone {

inline v1::DeviceFingerprint Gpu(int sm_count = 132, const std::string& architecture = "sm_90a") {
  v1::DeviceFingerprint device;
  device.set_kind("cuda");
  device.set_architecture(architecture);
  device.set_sm_count(sm_count);
  return device;
}

// T, F32 unless given, and a dynamic n.
inline v1::PackedTemplate PackedCopy(const std::string& name = "copy_1d") {
  v1::PackedTemplate packed;
  packed.set_name(name);
  packed.set_digest(Sha256Hex(name));
  (*packed.mutable_defaults())["T"].set_text("F32");
  packed.add_dynamic_sizes("n");
  return packed;
}

// The binary of a copy kernel is its name.
inline std::string CopyBinary(int64_t n, const std::string& type) {
  return "copy of " + type + " tuned for " + std::to_string(n);
}

inline v1::GetKernelResponse CopyReply(int64_t n, const std::string& type = "F32",
                                       const std::string& architecture = "sm_90a") {
  v1::GetKernelResponse reply;
  v1::TunedKernel& kernel = *reply.mutable_kernel();
  kernel.set_template_name("copy_1d");
  kernel.set_template_digest(Sha256Hex("copy_1d"));
  (*kernel.mutable_params())["T"].set_text(type);
  (*kernel.mutable_params())["n"].set_integer(n);
  kernel.set_architecture(architecture);
  kernel.set_generation(1000);
  *kernel.add_variants() = CopyVariant(CopyBinary(n, type), 16, "n % 4 == 0", false);
  *kernel.add_variants() = CopyVariant("any copy of " + type, 4, "", false);
  for (v1::KernelVariant& variant : *kernel.mutable_variants()) {
    variant.mutable_artifact()->set_min_driver(12000);
    if (architecture == "cpu") variant.mutable_artifact()->set_format("HOST_ELF");
  }
  reply.set_source(v1::TUNED);
  reply.set_exact(true);
  reply.set_key(Sha256Hex(type + std::to_string(n)));
  reply.set_answered_by_key(reply.key());
  return reply;
}

inline std::string FetchCopy(const std::string& sha256) {
  for (const char* type : {"F32", "F16"}) {
    if (sha256 == Sha256Hex("any copy of " + std::string(type))) {
      return "any copy of " + std::string(type);
    }
    for (int64_t n = 1; n <= int64_t{1} << 40; n *= 2) {
      if (sha256 == Sha256Hex(CopyBinary(n, type))) return CopyBinary(n, type);
    }
  }
  return "";
}

// A writer and where it writes. Sizes are powers of two.
class PackFixture {
 public:
  explicit PackFixture(bool allow_host_code = false)
      : directory_(*TemporaryDirectory::Create()),
        writer_({.made_at_unix_ms = 1'700'000'000'000,
                 .made_by = "honed 1",
                 .allow_host_code = allow_host_code}) {
    EXPECT_THAT(writer_.AddTemplate(PackedCopy()), IsOk());
  }

  PackFixture& Add(v1::GetKernelResponse reply, const v1::DeviceFingerprint& device = Gpu(),
                   v1::Numerics numerics = v1::WITHIN_TOLERANCE) {
    EXPECT_THAT(writer_.Add(device, numerics, std::move(reply)), IsOk());
    return *this;
  }

  KernelPackWriter& writer() { return writer_; }
  std::string path() const { return JoinPath(directory_.path(), "pack"); }
  WrittenPack Write() const {
    const auto written = writer_.Write(path(), FetchCopy);
    EXPECT_THAT(written, IsOk());
    return *written;
  }
  std::shared_ptr<const KernelPack> Open() const {
    Write();
    auto pack = KernelPack::Open(path());
    EXPECT_THAT(pack, IsOk());
    return *std::move(pack);
  }

 private:
  TemporaryDirectory directory_;
  KernelPackWriter writer_;
};

}  // namespace hone
