#include "tests/client/tls_authority.h"

#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/string_view.h"

namespace hone {
namespace {

constexpr long kDaySeconds = 24 * 60 * 60;

void Require(bool good) {
  if (!good) std::abort();
}

template <class Write>
std::string Pem(const Write& write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), &BIO_free);
  Require(write(bio.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}

std::string Pem(X509* certificate) {
  return Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

void SetName(X509_NAME* name, const std::string& text) {
  Require(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                     reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1,
                                     0) == 1);
}

}  // namespace

TlsAuthority::Key TlsAuthority::NewKey() {
  Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  Require(key != nullptr);
  return key;
}

TlsAuthority::TlsAuthority(const std::string& name) : name_(name), key_(NewKey()) {
  absl::StatusOr<TemporaryDirectory> directory = TemporaryDirectory::Create("/tmp", "hone");
  Require(directory.ok());
  directory_ = *std::move(directory);
  const Certificate own =
      Sign(key_.get(), name_, NID_basic_constraints, "critical,CA:TRUE", -1000, 1000);
  Require(WriteFileAtomic(ca_file(), Pem(own.get())).ok());
}

std::string TlsAuthority::ca_file() const { return JoinPath(directory_.path(), "ca.pem"); }

TlsAuthority::Certificate TlsAuthority::Sign(EVP_PKEY* subject, const std::string& name,
                                             int extension, const std::string& value, int from_days,
                                             int until_days) const {
  Certificate certificate(X509_new(), &X509_free);
  X509* const x509 = certificate.get();
  uint32_t serial = 0;
  Require(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)) == 1);
  Require(X509_set_version(x509, X509_VERSION_3) == 1 &&
          ASN1_INTEGER_set(X509_get_serialNumber(x509), serial & 0x7fffffff) == 1 &&
          X509_gmtime_adj(X509_getm_notBefore(x509), from_days * kDaySeconds) != nullptr &&
          X509_gmtime_adj(X509_getm_notAfter(x509), until_days * kDaySeconds) != nullptr &&
          X509_set_pubkey(x509, subject) == 1);
  SetName(X509_get_subject_name(x509), name);
  SetName(X509_get_issuer_name(x509), name_);
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> made(
      X509V3_EXT_conf_nid(nullptr, nullptr, extension, value.c_str()), &X509_EXTENSION_free);
  Require(made != nullptr && X509_add_ext(x509, made.get(), -1) == 1 &&
          X509_sign(x509, key_.get(), EVP_sha256()) > 0);
  return certificate;
}

TlsIdentity TlsAuthority::Issue(const std::string& subjects, int from_days, int until_days) const {
  const Key key = NewKey();
  const Certificate certificate =
      Sign(key.get(), "hone test daemon", NID_subject_alt_name, subjects, from_days, until_days);
  return {.certificate = Pem(certificate.get()),
          .key = Pem([&](BIO* bio) {
            return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace hone
