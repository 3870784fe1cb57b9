// Certificates for tests: an authority of their own and what it issues.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "runtime/base/files.h"
#include "tests/client/tls_identity.h"

namespace hone {

class TlsAuthority {
 public:
  explicit TlsAuthority(const std::string& name = "hone test authority");

  // The file that clients trust.
  std::string ca_file() const;
  // Its certificate is for `subjects`, in OpenSSL's words ("DNS:localhost", "IP:127.0.0.1"), and
  // valid for these days, counted from now.
  TlsIdentity Issue(const std::string& subjects, int from_days = -1, int until_days = 1) const;

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

  static Key NewKey();
  // Signed by this authority; for its own certificate `extension` says that it is one.
  Certificate Sign(EVP_PKEY* subject, const std::string& name, int extension,
                   const std::string& value, int from_days, int until_days) const;

  const std::string name_;
  const Key key_;
  TemporaryDirectory directory_;
};

}  // namespace hone
