// The client's side of TLS on one connection, apart from its socket.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/rpc/openssl_library.h"

namespace hone {

struct TlsOptions {
  const OpenSslLibrary* library = nullptr;
  // PEM file with the authorities that may have issued the daemon's certificate, or
  // kSystemAuthorities.
  std::string ca_file{};
  // What the certificate must be for: a DNS name or an address.
  std::string host{};
  std::string endpoint{};  // for texts
};

// TLS 1.2 or 1.3 with HTTP/2 agreed on (ALPN). Bytes are handed in and out, so that nothing blocks
// and no signal is raised. Not thread-safe. Send and TakeEncrypted, which run on the threads of
// callers, leave the thread's OpenSSL error queue as it was.
//
// Failures are FAILED_PRECONDITION for what a second try does not cure (a certificate that is not
// to be trusted, a peer without TLS or HTTP/2), else UNAVAILABLE; all are final for the session.
class TlsSession {
 public:
  // Reads the certificates of `ca_file`: INVALID_ARGUMENT when there are none. The first message of
  // the handshake is ready to be taken.
  static absl::StatusOr<std::unique_ptr<TlsSession>> Start(const TlsOptions& options);
  // What Start would say to these options.
  static absl::Status Check(const TlsOptions& options);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // The handshake is done: the daemon is who it should be.
  bool established() const { return established_; }
  // The peer has said that nothing more comes.
  bool ended() const { return ended_; }

  // Takes what came from the peer, in any portions, and passes on what was in it. After a failure
  // there may still be an alert to send.
  absl::Status Receive(absl::string_view encrypted,
                       absl::FunctionRef<void(absl::string_view)> on_plain);
  // Encrypts all of `plain` and empties it; leaves it for later while a message of the peer's
  // handshake is incomplete. Requires established().
  absl::Status Send(std::string& plain);
  // Appends what is to be sent to the peer.
  void TakeEncrypted(std::string& encrypted);

  // For a thread that has received and ends: frees what the library keeps for it.
  static void ForgetThread(const OpenSslLibrary& library);

  // What a connection means that ends, with this errno or 0, or falls silent before established().
  absl::Status EndedEarly(int error) const;
  absl::Status TimedOut() const;

 private:
  struct Deleter {
    const OpenSslLibrary* library = nullptr;
    void operator()(SSL* ssl) const;
    void operator()(SSL_CTX* context) const;
  };

  explicit TlsSession(const TlsOptions& options);
  static absl::StatusOr<std::unique_ptr<TlsSession>> Make(const TlsOptions& options);
  absl::Status MakeContext();
  absl::Status LoadAuthorities();
  absl::Status MakeSession();
  absl::Status Shake();
  // Nothing is wrong, the rest has not come yet.
  bool WantsMore() const;
  absl::Status HandshakeFailure() const;
  absl::Status CertificateFailure(long result) const;
  // OpenSSL's words for its last error.
  std::string LastError() const;

  const TlsOptions options_;
  const OpenSslLibrary& tls_;
  std::unique_ptr<SSL_CTX, Deleter> context_;
  std::unique_ptr<SSL, Deleter> ssl_;
  BIO* incoming_ = nullptr;  // ssl_ owns both
  BIO* outgoing_ = nullptr;
  bool heard_ = false;  // anything from the peer
  bool established_ = false;
  bool ended_ = false;
};

}  // namespace hone
