#include "tests/client/scripted_tls.h"

#include <openssl/pem.h>
#include <signal.h>

#include <cstdlib>
#include <string>

namespace hone {
namespace {

void Need(bool good) {
  if (!good) std::abort();
}

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

Bio Reading(const std::string& pem) {
  return {BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free};
}

int Select(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
           const unsigned char* offered, unsigned int offered_size, void* wanted) {
  const auto& protocol = *static_cast<const std::string*>(wanted);
  const std::string list = static_cast<char>(protocol.size()) + protocol;
  // It points into what the client has offered.
  const int found = SSL_select_next_proto(
      const_cast<unsigned char**>(chosen), chosen_size, offered, offered_size,
      reinterpret_cast<const unsigned char*>(list.data()), static_cast<unsigned>(list.size()));
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

SslContext NewServerContext(const ScriptedTlsOptions& options) {
  SslContext context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  const Bio certificate_pem = Reading(options.identity.certificate);
  const Bio key_pem = Reading(options.identity.key);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(certificate_pem.get(), nullptr, nullptr, nullptr), &X509_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(key_pem.get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  Need(SSL_CTX_use_certificate(context.get(), certificate.get()) == 1 &&
       SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1);
  if (options.version_max != 0) {
    SSL_CTX_set_security_level(context.get(), 0);  // Debian's default refuses to serve old versions
    Need(SSL_CTX_set_max_proto_version(context.get(), options.version_max) == 1);
    Need(SSL_CTX_set_min_proto_version(context.get(), 0) == 1);
  }
  if (!options.protocol.empty()) {
    SSL_CTX_set_alpn_select_cb(context.get(), Select, const_cast<std::string*>(&options.protocol));
  }
  return context;
}

ScriptedTls::ScriptedTls(const ScriptedTlsOptions& options)
    : options_(options),
      context_(NewServerContext(options_)),
      session_(SSL_new(context_.get()), &SSL_free) {}

bool ScriptedTls::Shake(int fd) {
  // OpenSSL writes to sockets as to files; a client that has hung up is no reason to die.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  return SSL_set_fd(session_.get(), fd) == 1 && SSL_accept(session_.get()) == 1;
}

bool ScriptedTls::Send(absl::string_view bytes) {
  return SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
}

ssize_t ScriptedTls::Read(char* bytes, size_t size) {
  return SSL_read(session_.get(), bytes, static_cast<int>(size));
}

void ScriptedTls::End() { SSL_shutdown(session_.get()); }

}  // namespace hone
