// A file of kernels with their binaries; its layout is told in proto/hone/v1/kernel_pack.proto.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/kernel_pack_format.h"
#include "hone/v1/kernel_pack.pb.h"
#include "runtime/base/unique_fd.h"

namespace hone {

// Immutable; thread-safe without a lock, so that a forked child may go on using its parent's.
//
// The index is read, checked against the pack's digest and held in memory; contents are read when
// they are asked for and checked against the SHA-256 that the index has for them. The file stays
// open: one that takes its name later changes nothing here. One that is written in place can only
// make errors.
//
// Errors name the file. DATA_LOSS: it is cut short or its bytes are not those that were written.
// INVALID_ARGUMENT: it is no pack, or its index contradicts itself. FAILED_PRECONDITION: only a
// newer hone can read it.
class KernelPack {
 public:
  static absl::StatusOr<std::shared_ptr<const KernelPack>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  // In hex; equal for equal packs.
  const std::string& digest() const { return head_.digest; }
  int64_t file_bytes() const { return file_bytes_; }
  // Indices in it are within bounds.
  const v1::KernelPackIndex& index() const { return index_; }

  // What the daemon answered, of index().kernels(kernel). Its variants' binaries are among that
  // kernel's artifact_contents.
  absl::StatusOr<v1::GetKernelResponse> Reply(int kernel) const;
  // A content's bytes by their SHA-256 in hex; NOT_FOUND.
  absl::StatusOr<std::string> Artifact(const std::string& sha256) const;

  // Reads the whole file against the hash at its end, and every reply.
  absl::Status Verify() const;

 private:
  KernelPack(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  absl::Status Load();
  absl::Status CheckIndex();
  absl::Status CheckKernel(const v1::PackedKernel& kernel) const;
  absl::StatusOr<std::string> Read(uint64_t offset, uint64_t size) const;
  absl::StatusOr<std::string> Content(int content) const;
  absl::Status Wrong(absl::StatusCode code, absl::string_view what) const;

  const UniqueFd fd_;
  const std::string path_;
  int64_t file_bytes_ = 0;
  PackHead head_;
  v1::KernelPackIndex index_;
  std::vector<uint64_t> offsets_;  // in the file, of contents
  std::unordered_map<std::string, int> by_sha256_;
};

}  // namespace hone
