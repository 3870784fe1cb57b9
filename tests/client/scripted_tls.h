// TLS for a scripted server, by the OpenSSL that the test is linked with.
#pragma once

#include <openssl/ssl.h>
#include <sys/types.h>

#include <memory>

#include "absl/strings/string_view.h"
#include "tests/client/scripted_server.h"

namespace hone {

using SslContext = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using SslSession = std::unique_ptr<SSL, decltype(&SSL_free)>;

// A server's context with this identity, which agrees to options.protocol.
SslContext NewServerContext(const ScriptedTlsOptions& options);

class ScriptedTls {
 public:
  explicit ScriptedTls(const ScriptedTlsOptions& options);

  // On `fd`, which blocks.
  bool Shake(int fd);
  bool Send(absl::string_view bytes);
  ssize_t Read(char* bytes, size_t size);
  void End();

 private:
  const ScriptedTlsOptions options_;
  const SslContext context_;
  const SslSession session_;
};

}  // namespace hone
