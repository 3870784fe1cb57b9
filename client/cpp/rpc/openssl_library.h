// OpenSSL 3 as a table of function pointers, bound with dlopen when TLS is first asked for: one
// build serves hosts with and without OpenSSL, and those that carry another one.
#pragma once

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <string>

#include "absl/status/statusor.h"

namespace hone {

// The soname of Debian 12 and later, Ubuntu 22.04 and later, RHEL 9 and later.
inline constexpr char kOpenSslLibrary[] = "libssl.so.3";

// X(function): member, exported symbol and declaration have one name. Those of libcrypto are found
// through libssl, which needs it.
#define HONE_OPENSSL_FUNCTIONS(X)     \
  X(TLS_client_method)                \
  X(SSL_CTX_new)                      \
  X(SSL_CTX_free)                     \
  X(SSL_CTX_ctrl)                     \
  X(SSL_CTX_set_options)              \
  X(SSL_CTX_load_verify_file)         \
  X(SSL_CTX_set_default_verify_paths) \
  X(SSL_CTX_set_alpn_protos)          \
  X(SSL_CTX_set_verify)               \
  X(SSL_new)                          \
  X(SSL_free)                         \
  X(SSL_ctrl)                         \
  X(SSL_set_bio)                      \
  X(SSL_set_connect_state)            \
  X(SSL_set1_host)                    \
  X(SSL_get0_param)                   \
  X(SSL_do_handshake)                 \
  X(SSL_in_init)                      \
  X(SSL_read)                         \
  X(SSL_write)                        \
  X(SSL_want)                         \
  X(SSL_get_shutdown)                 \
  X(SSL_get_verify_result)            \
  X(SSL_get0_alpn_selected)           \
  X(BIO_new)                          \
  X(BIO_s_mem)                        \
  X(BIO_read)                         \
  X(BIO_write)                        \
  X(BIO_ctrl_pending)                 \
  X(X509_VERIFY_PARAM_set_flags)      \
  X(X509_VERIFY_PARAM_set_hostflags)  \
  X(X509_VERIFY_PARAM_set1_ip_asc)    \
  X(X509_verify_cert_error_string)    \
  X(ERR_set_mark)                     \
  X(ERR_pop_to_mark)                  \
  X(ERR_peek_last_error)              \
  X(ERR_reason_error_string)          \
  X(OPENSSL_thread_stop)

// Immutable once made; thread-safe.
struct OpenSslLibrary {
  // The library of this name, which is looked for as dlopen does. FAILED_PRECONDITION with the
  // loader's text and what to install when it is absent, with the symbol when it is not OpenSSL 3.
  // Found once and never unloaded; a failure is tried again.
  static absl::StatusOr<const OpenSslLibrary*> Get(const std::string& name);

#define HONE_OPENSSL_MEMBER(function) decltype(&::function) function = nullptr;
  HONE_OPENSSL_FUNCTIONS(HONE_OPENSSL_MEMBER)
#undef HONE_OPENSSL_MEMBER
};

// Held around all use of the library, for short. When a process exits, OpenSSL takes itself apart
// while threads still run; from then on it is not to be touched, not even to free what is its own.
// A fork waits for uses under way, so that no lock of OpenSSL's is held in the child by a thread
// that is not there (those that the host holds are the host's).
class OpenSslUse {
 public:
  OpenSslUse();
  ~OpenSslUse();
  OpenSslUse(const OpenSslUse&) = delete;
  OpenSslUse& operator=(const OpenSslUse&) = delete;

  // False: the process exits.
  explicit operator bool() const;
};

}  // namespace hone
