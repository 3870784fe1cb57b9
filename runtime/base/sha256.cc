#include "runtime/base/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <cstdlib>

#include "absl/strings/escaping.h"

namespace hone {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  // OpenSSL fails here only when out of memory or when SHA-256 is not compiled in; no content
  // address can be trusted then.
  if (state_->context == nullptr ||
      EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1) {
    std::abort();
  }
}

Sha256::~Sha256() = default;

Sha256& Sha256::Update(absl::string_view bytes) {
  if (EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) != 1) std::abort();
  return *this;
}

std::string Sha256::FinishHex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_DigestFinal_ex(state_->context, digest.data(), &size) != 1) std::abort();
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

std::string Sha256Hex(absl::string_view bytes) { return Sha256().Update(bytes).FinishHex(); }

}  // namespace hone
