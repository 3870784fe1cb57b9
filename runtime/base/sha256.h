// SHA-256 through OpenSSL: content addresses and keys.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace hone {

// 64 lower-case hex digits.
std::string Sha256Hex(absl::string_view bytes);

// Incremental form. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& Update(absl::string_view bytes);
  // Ends the hash; call once.
  std::string FinishHex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone
