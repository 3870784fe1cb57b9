#include "client/cpp/rpc/tls_session.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/rpc/endpoint.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// The payload of one record.
constexpr size_t kRecordBytes = 16 << 10;
constexpr unsigned char kHttp2[] = {2, 'h', '2'};
// Every message of a server begins with a record of its handshake, or with an alert.
constexpr char kAlertRecord = 0x15;
constexpr char kHandshakeRecord = 0x16;

absl::Status ProcessExits() { return absl::CancelledError("the process exits"); }

bool IsAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> parsed;
  return inet_pton(AF_INET, host.c_str(), parsed.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), parsed.data()) == 1;
}

// Without what certificates do not have: the zone of an address, the dot of a complete name.
std::string CertifiedHost(const std::string& host) {
  std::string address = host.substr(0, host.find('%'));
  if (IsAddress(address)) return address;
  return host.size() > 1 && host.back() == '.' ? host.substr(0, host.size() - 1) : host;
}

// Takes the errors of what is called in it off the thread's queue.
class ErrorScope {
 public:
  explicit ErrorScope(const OpenSslLibrary& library) : library_(library) {
    library_.ERR_set_mark();
  }
  ~ErrorScope() { library_.ERR_pop_to_mark(); }
  ErrorScope(const ErrorScope&) = delete;
  ErrorScope& operator=(const ErrorScope&) = delete;

 private:
  const OpenSslLibrary& library_;
};

}  // namespace

void TlsSession::Deleter::operator()(SSL* ssl) const {
  if (const OpenSslUse use; use) library->SSL_free(ssl);
}

void TlsSession::Deleter::operator()(SSL_CTX* context) const {
  if (const OpenSslUse use; use) library->SSL_CTX_free(context);
}

TlsSession::TlsSession(const TlsOptions& options)
    : options_(options),
      tls_(*options.library),
      context_(nullptr, Deleter{options.library}),
      ssl_(nullptr, Deleter{options.library}) {}

TlsSession::~TlsSession() = default;

absl::StatusOr<std::unique_ptr<TlsSession>> TlsSession::Start(const TlsOptions& options) {
  const OpenSslUse use;
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<TlsSession> session, Make(options));
  const ErrorScope errors(session->tls_);
  HONE_RETURN_IF_ERROR(session->Shake());
  return session;
}

absl::Status TlsSession::Check(const TlsOptions& options) { return Make(options).status(); }

absl::StatusOr<std::unique_ptr<TlsSession>> TlsSession::Make(const TlsOptions& options) {
  const OpenSslUse use;
  if (!use) return ProcessExits();
  std::unique_ptr<TlsSession> session(new TlsSession(options));
  const ErrorScope errors(session->tls_);
  HONE_RETURN_IF_ERROR(session->MakeContext());
  HONE_RETURN_IF_ERROR(session->MakeSession());
  return session;
}

absl::Status TlsSession::MakeContext() {
  context_.reset(tls_.SSL_CTX_new(tls_.TLS_client_method()));
  SSL_CTX* const context = context_.get();
  if (context == nullptr ||
      tls_.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr) != 1 ||
      tls_.SSL_CTX_set_alpn_protos(context, kHttp2, sizeof(kHttp2)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("OpenSSL cannot be set up for TLS: ", LastError()));
  }
  // A renegotiation would have writes wait for reads.
  tls_.SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
  tls_.SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS, nullptr);
  tls_.SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  return LoadAuthorities();
}

absl::Status TlsSession::LoadAuthorities() {
  std::string why;
  if (options_.ca_file == kSystemAuthorities) {
    if (tls_.SSL_CTX_set_default_verify_paths(context_.get()) == 1) return absl::OkStatus();
    why = LastError();
  } else if (access(options_.ca_file.c_str(), R_OK) != 0) {
    why = std::strerror(errno);
  } else if (tls_.SSL_CTX_load_verify_file(context_.get(), options_.ca_file.c_str()) == 1) {
    return absl::OkStatus();
  } else {
    why = absl::StrCat("it holds no certificate in PEM form: ", LastError());
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tls_ca_file '", options_.ca_file, "': ", why,
                   "; name a file with the certificate of the daemon's authority, or say system"));
}

absl::Status TlsSession::MakeSession() {
  ssl_.reset(tls_.SSL_new(context_.get()));
  incoming_ = tls_.BIO_new(tls_.BIO_s_mem());
  outgoing_ = tls_.BIO_new(tls_.BIO_s_mem());
  SSL* const ssl = ssl_.get();
  if (ssl == nullptr || incoming_ == nullptr || outgoing_ == nullptr) {
    return absl::ResourceExhaustedError("no memory for a TLS session");
  }
  tls_.SSL_set_bio(ssl, incoming_, outgoing_);
  tls_.SSL_set_connect_state(ssl);
  X509_VERIFY_PARAM* const verified = tls_.SSL_get0_param(ssl);
  // What the file names is trusted, be it an authority that another one has certified.
  tls_.X509_VERIFY_PARAM_set_flags(verified, X509_V_FLAG_PARTIAL_CHAIN);
  tls_.X509_VERIFY_PARAM_set_hostflags(verified, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const std::string host = CertifiedHost(options_.host);
  const bool set = IsAddress(host) ? tls_.X509_VERIFY_PARAM_set1_ip_asc(verified, host.c_str()) == 1
                                   : tls_.SSL_set1_host(ssl, host.c_str()) == 1 &&
                                         tls_.SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME,
                                                       TLSEXT_NAMETYPE_host_name,
                                                       const_cast<char*>(host.c_str())) == 1;
  if (set) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("endpoint '", options_.endpoint, "': '", host,
                                                 "' is no name that TLS can ask for"));
}

absl::Status TlsSession::Shake() {
  if (tls_.SSL_do_handshake(ssl_.get()) != 1) {
    return WantsMore() ? absl::OkStatus() : HandshakeFailure();
  }
  const unsigned char* agreed = nullptr;
  unsigned int size = 0;
  tls_.SSL_get0_alpn_selected(ssl_.get(), &agreed, &size);
  if (size != sizeof(kHttp2) - 1 || std::memcmp(agreed, kHttp2 + 1, size) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("what listens at ", options_.endpoint,
                     " speaks TLS but does not agree to HTTP/2 (ALPN h2), which daemons and "
                     "proxies for gRPC do; is it the right port?"));
  }
  established_ = true;
  return absl::OkStatus();
}

absl::Status TlsSession::Receive(absl::string_view encrypted,
                                 absl::FunctionRef<void(absl::string_view)> on_plain) {
  const OpenSslUse use;
  if (!use) return ProcessExits();
  const ErrorScope errors(tls_);
  if (!std::exchange(heard_, heard_ || !encrypted.empty()) && !encrypted.empty() &&
      encrypted[0] != kHandshakeRecord && encrypted[0] != kAlertRecord) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the daemon at ", options_.endpoint,
        " does not speak TLS on this port; connect to the port where it does, or without "
        "tls_ca_file (HONE_TLS_CA_FILE) where the network between can be trusted"));
  }
  while (!encrypted.empty()) {
    const size_t portion = std::min<size_t>(encrypted.size(), INT_MAX);
    const int taken = tls_.BIO_write(incoming_, encrypted.data(), static_cast<int>(portion));
    if (taken <= 0) return absl::ResourceExhaustedError("no memory for what the daemon sent");
    encrypted.remove_prefix(static_cast<size_t>(taken));
  }
  if (!established_) {
    HONE_RETURN_IF_ERROR(Shake());
    if (!established_) return absl::OkStatus();
  }
  std::array<char, kRecordBytes> plain;
  while (true) {
    const int count = tls_.SSL_read(ssl_.get(), plain.data(), static_cast<int>(plain.size()));
    if (count > 0) {
      on_plain({plain.data(), static_cast<size_t>(count)});
      continue;
    }
    if (WantsMore()) return absl::OkStatus();
    if ((tls_.SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0 &&
        tls_.ERR_peek_last_error() == 0) {
      ended_ = true;
      return absl::OkStatus();
    }
    return absl::UnavailableError(absl::StrCat("the connection to ", options_.endpoint,
                                               " was lost: TLS failed: ", LastError()));
  }
}

absl::Status TlsSession::Send(std::string& plain) {
  const OpenSslUse use;
  if (!use) return ProcessExits();
  size_t at = 0;
  // A call within the handshake would empty the thread's error queue, which may be the host's.
  while (at < plain.size() && tls_.SSL_in_init(ssl_.get()) == 0) {
    const size_t portion = std::min<size_t>(plain.size() - at, INT_MAX);
    const int taken = tls_.SSL_write(ssl_.get(), plain.data() + at, static_cast<int>(portion));
    if (taken <= 0) {
      return absl::UnavailableError(absl::StrCat("the connection to ", options_.endpoint,
                                                 " was lost: TLS failed: ", LastError()));
    }
    at += static_cast<size_t>(taken);
  }
  plain.erase(0, at);
  return absl::OkStatus();
}

void TlsSession::TakeEncrypted(std::string& encrypted) {
  const OpenSslUse use;
  if (!use) return;
  while (const size_t pending = tls_.BIO_ctrl_pending(outgoing_)) {
    const size_t before = encrypted.size();
    const size_t portion = std::min<size_t>(pending, INT_MAX);
    encrypted.resize(before + portion);
    const int count =
        tls_.BIO_read(outgoing_, encrypted.data() + before, static_cast<int>(portion));
    encrypted.resize(before + static_cast<size_t>(std::max(count, 0)));
    if (count <= 0) return;
  }
}

void TlsSession::ForgetThread(const OpenSslLibrary& library) {
  if (const OpenSslUse use; use) library.OPENSSL_thread_stop();
}

bool TlsSession::WantsMore() const {
  // After an alert in a handshake SSL_want alone would say so, too.
  return tls_.SSL_want(ssl_.get()) == SSL_READING && tls_.ERR_peek_last_error() == 0;
}

absl::Status TlsSession::HandshakeFailure() const {
  const long verified = tls_.SSL_get_verify_result(ssl_.get());
  if (verified != X509_V_OK) return CertificateFailure(verified);
  return absl::FailedPreconditionError(absl::StrCat(
      "no TLS with the daemon at ", options_.endpoint, ": ", LastError(),
      "; hone speaks TLS 1.2 and 1.3 with HTTP/2 (ALPN h2) and shows no certificate of its own"));
}

absl::Status TlsSession::CertificateFailure(long result) const {
  std::string what;
  switch (result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      what = absl::StrCat("is not for '", CertifiedHost(options_.host),
                          "'; connect by a name that it is for, or have one issued with this name "
                          "or address as subjectAltName");
      break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      what = "or its authority's has expired; renew it, or set this machine's clock";
      break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      what = "or its authority's is not valid yet; set the clock of this machine or of its issuer";
      break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      what = options_.ca_file == kSystemAuthorities
                 ? "was issued by nobody whom this system trusts; name its authority in "
                   "tls_ca_file (HONE_TLS_CA_FILE)"
                 : absl::StrCat("was issued by nobody of tls_ca_file '", options_.ca_file,
                                "'; name the file with its authority");
      break;
    default:
      what = "cannot be trusted";
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the certificate of the daemon at ", options_.endpoint, " ", what, " (",
                   tls_.X509_verify_cert_error_string(result), ")"));
}

std::string TlsSession::LastError() const {
  const unsigned long code = tls_.ERR_peek_last_error();
  const char* const reason = tls_.ERR_reason_error_string(code);
  if (reason != nullptr) return reason;
  if (ERR_SYSTEM_ERROR(code)) return std::strerror(ERR_GET_REASON(code));
  return code == 0 ? "no reason given" : absl::StrCat("OpenSSL error ", code);
}

absl::Status TlsSession::EndedEarly(int error) const {
  return absl::UnavailableError(absl::StrCat(
      "the connection to ", options_.endpoint, " was lost within the TLS handshake: ",
      error == 0 ? "the other side closed it; is it a daemon that speaks TLS on this port?"
                 : std::strerror(error)));
}

absl::Status TlsSession::TimedOut() const {
  return absl::UnavailableError(
      absl::StrCat("what listens at ", options_.endpoint,
                   " accepts the connection but does not answer with TLS; does the daemon speak it "
                   "on this port? Look at its log"));
}

}  // namespace hone
