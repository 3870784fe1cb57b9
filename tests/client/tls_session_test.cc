// TLS by itself, between a client's and a server's session in memory.
#include "client/cpp/rpc/tls_session.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/client/scripted_tls.h"
#include "tests/client/tls_authority.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using enum absl::StatusCode;

// The server's end; what goes over the wire is moved by hand.
class ServerInMemory {
 public:
  explicit ServerInMemory(ScriptedTlsOptions options)
      : options_(std::move(options)),
        context_(NewServerContext(options_)),
        session_(SSL_new(context_.get()), &SSL_free) {
    SSL_set_bio(session_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(session_.get());
  }

  SSL* session() { return session_.get(); }
  // Appends what it understands to `received` and returns its answer.
  std::string Take(const std::string& encrypted) {
    BIO_write(SSL_get_rbio(session()), encrypted.data(), static_cast<int>(encrypted.size()));
    while (true) {
      const int count = SSL_read(session(), plain_.data(), static_cast<int>(plain_.size()));
      if (count <= 0) return Answer();
      received.append(plain_.data(), static_cast<size_t>(count));
    }
  }
  std::string Encrypt(const std::string& plain) {
    SSL_write(session(), plain.data(), static_cast<int>(plain.size()));
    return Answer();
  }

  std::string received;

 private:
  std::string Answer() {
    std::string encrypted(BIO_ctrl_pending(SSL_get_wbio(session())), '\0');
    BIO_read(SSL_get_wbio(session()), encrypted.data(), static_cast<int>(encrypted.size()));
    return encrypted;
  }

  const ScriptedTlsOptions options_;
  const SslContext context_;
  const SslSession session_;
  std::array<char, 16 << 10> plain_;
};

class TlsSessionTest : public testing::Test {
 protected:
  TlsOptions Options(const std::string& host = "daemon.example") const {
    return {.library = *OpenSslLibrary::Get(kOpenSslLibrary),
            .ca_file = authority_.ca_file(),
            .host = host,
            .endpoint = host + ":7433"};
  }

  // Moves bytes both ways, `portion` at a time, until nobody has anything to say.
  absl::Status Exchange(TlsSession& client, ServerInMemory& server, size_t portion) {
    std::string to_client;
    while (true) {
      std::string to_server;
      client.TakeEncrypted(to_server);
      if (to_server.empty() && to_client.empty()) return absl::OkStatus();
      for (size_t at = 0; at < to_server.size(); at += portion) {
        to_client += server.Take(to_server.substr(at, portion));
      }
      for (size_t at = 0; at < to_client.size(); at += portion) {
        absl::Status received =
            client.Receive(absl::string_view(to_client).substr(at, portion),
                           [&](absl::string_view plain) { absl::StrAppend(&received_, plain); });
        if (!received.ok()) return received;
      }
      to_client.clear();
    }
  }

  absl::Status Shake(const TlsOptions& options, const ScriptedTlsOptions& server_options) {
    const auto client = TlsSession::Start(options);
    if (!client.ok()) return client.status();
    ServerInMemory server(server_options);
    absl::Status shaken = Exchange(**client, server, 1 << 20);
    EXPECT_EQ(shaken.ok(), (*client)->established());
    return shaken;
  }

  const TlsAuthority authority_;
  const TlsIdentity identity_ = authority_.Issue("DNS:daemon.example,IP:10.1.2.3,IP:::1");
  std::string received_;
};

TEST_F(TlsSessionTest, MessagesArriveInWhateverPortionsTheyCome) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    for (const size_t portion : {size_t{1}, size_t{7}, size_t{1000}, size_t{1} << 20}) {
      const auto client = TlsSession::Start(Options());
      ASSERT_THAT(client, IsOk());
      ServerInMemory server({.identity = identity_, .version_max = version});
      ASSERT_THAT(Exchange(**client, server, portion), IsOk());
      ASSERT_TRUE((*client)->established());
      EXPECT_EQ(SSL_version(server.session()), version);

      const std::string request(40'000, 'q');
      std::string sent = request;
      ASSERT_THAT((*client)->Send(sent), IsOk());
      EXPECT_EQ(sent, "");
      ASSERT_THAT(Exchange(**client, server, portion), IsOk());
      EXPECT_EQ(server.received, request);

      received_.clear();
      const std::string reply(40'000, 'r');
      const std::string encrypted = server.Encrypt(reply);
      for (size_t at = 0; at < encrypted.size(); at += portion) {
        ASSERT_THAT((*client)->Receive(
                        absl::string_view(encrypted).substr(at, portion),
                        [&](absl::string_view plain) { absl::StrAppend(&received_, plain); }),
                    IsOk());
      }
      EXPECT_EQ(received_, reply);
    }
  }
}

// The server's tickets and new keys come after the handshake, in the middle of everything.
TEST_F(TlsSessionTest, WhatIsSentWithinAMessageOfTheServersWaitsForItsEnd) {
  const auto client = TlsSession::Start(Options());
  ASSERT_THAT(client, IsOk());
  ServerInMemory server({.identity = identity_});
  ASSERT_THAT(Exchange(**client, server, 1 << 20), IsOk());
  ASSERT_EQ(SSL_key_update(server.session(), SSL_KEY_UPDATE_REQUESTED), 1);
  const std::string encrypted = server.Encrypt("reply");
  const auto keep = [&](absl::string_view plain) { absl::StrAppend(&received_, plain); };
  std::string sent = "request";
  for (const char byte : encrypted) {
    ASSERT_THAT((*client)->Receive(absl::string_view(&byte, 1), keep), IsOk());
    ASSERT_THAT((*client)->Send(sent), IsOk());
  }
  EXPECT_EQ(received_, "reply");
  EXPECT_EQ(sent, "");
  ASSERT_THAT(Exchange(**client, server, 1), IsOk());
  EXPECT_EQ(server.received, "request");
}

TEST_F(TlsSessionTest, TheHostIsCheckedByNameOrAddress) {
  for (const char* host : {"daemon.example", "DAEMON.example.", "10.1.2.3", "::1", "::1%lo"}) {
    EXPECT_THAT(Shake(Options(host), {.identity = identity_}), IsOk()) << host;
  }
  for (const char* host : {"other.example", "example", "10.1.2.4", "::2"}) {
    EXPECT_THAT(Shake(Options(host), {.identity = identity_}),
                StatusIs(kFailedPrecondition,
                         AllOf(HasSubstr(std::string("is not for '") + host), HasSubstr(host),
                               HasSubstr(std::string("the daemon at ") + host + ":7433"))))
        << host;
  }
}

TEST_F(TlsSessionTest, TheNameIsToldToTheServer) {
  const auto client = TlsSession::Start(Options());
  ASSERT_THAT(client, IsOk());
  ServerInMemory server({.identity = identity_});
  ASSERT_THAT(Exchange(**client, server, 1 << 20), IsOk());
  EXPECT_STREQ(SSL_get_servername(server.session(), TLSEXT_NAMETYPE_host_name), "daemon.example");
}

TEST_F(TlsSessionTest, CertificatesOfTheWrongTimeOrAuthorityAreRefused) {
  EXPECT_THAT(Shake(Options(), {.identity = authority_.Issue("DNS:daemon.example", -10, -2)}),
              StatusIs(kFailedPrecondition, HasSubstr("has expired")));
  EXPECT_THAT(Shake(Options(), {.identity = authority_.Issue("DNS:daemon.example", 2, 10)}),
              StatusIs(kFailedPrecondition, HasSubstr("not valid yet")));
  const TlsAuthority other("another authority");
  EXPECT_THAT(Shake(Options(), {.identity = other.Issue("DNS:daemon.example")}),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("issued by nobody"), HasSubstr(authority_.ca_file()))));
  TlsOptions system = Options();
  system.ca_file = "system";
  EXPECT_THAT(Shake(system, {.identity = identity_}),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("whom this system trusts"), HasSubstr("tls_ca_file"))));
}

TEST_F(TlsSessionTest, OldVersionsAndOtherProtocolsAreRefused) {
  EXPECT_THAT(Shake(Options(), {.identity = identity_, .version_max = TLS1_1_VERSION}),
              StatusIs(kFailedPrecondition, HasSubstr("TLS 1.2")));
  EXPECT_THAT(Shake(Options(), {.identity = identity_, .protocol = ""}),
              StatusIs(kFailedPrecondition, HasSubstr("does not agree to HTTP/2")));
  EXPECT_THAT(Shake(Options(), {.identity = identity_, .protocol = "http/1.1"}),
              StatusIs(kFailedPrecondition, HasSubstr("ALPN h2")));
}

TEST_F(TlsSessionTest, APeerThatDoesNotSpeakTlsIsKnownByItsFirstByte) {
  const auto client = TlsSession::Start(Options());
  ASSERT_THAT(client, IsOk());
  EXPECT_THAT((*client)->Receive(absl::string_view("\0", 1), [](absl::string_view) {}),
              StatusIs(kFailedPrecondition, HasSubstr("does not speak TLS on this port")));
}

TEST_F(TlsSessionTest, DamagedRecordsEndTheSession) {
  const auto client = TlsSession::Start(Options());
  ASSERT_THAT(client, IsOk());
  ServerInMemory server({.identity = identity_});
  ASSERT_THAT(Exchange(**client, server, 1 << 20), IsOk());
  std::string encrypted = server.Encrypt("reply");
  encrypted[encrypted.size() / 2] ^= 1;
  EXPECT_THAT((*client)->Receive(encrypted,
                                 [&](absl::string_view plain) { received_ = std::string(plain); }),
              StatusIs(kUnavailable, AllOf(HasSubstr("was lost"), HasSubstr("TLS failed"))));
  EXPECT_EQ(received_, "");
}

// Those of the thread that calls may be the host's.
TEST_F(TlsSessionTest, SendingLeavesTheThreadsErrorsAlone) {
  const auto client = TlsSession::Start(Options());
  ASSERT_THAT(client, IsOk());
  ServerInMemory server({.identity = identity_});
  ASSERT_THAT(Exchange(**client, server, 1 << 20), IsOk());
  ERR_clear_error();
  ERR_put_error(ERR_LIB_USER, 0, 7, "host.c", 1);
  std::string sent = "request";
  EXPECT_THAT((*client)->Send(sent), IsOk());
  std::string encrypted;
  (*client)->TakeEncrypted(encrypted);
  EXPECT_EQ(ERR_GET_REASON(ERR_peek_error()), 7);
  ERR_clear_error();
}

TEST_F(TlsSessionTest, AFileWithoutCertificatesIsNamed) {
  TlsOptions options = Options();
  options.ca_file = "/nowhere/ca.pem";
  EXPECT_THAT(TlsSession::Check(options),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("/nowhere/ca.pem"),
                                               HasSubstr("No such file or directory"))));
  options.ca_file = "/dev/null";
  EXPECT_THAT(TlsSession::Check(options),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("/dev/null"), HasSubstr("PEM"))));
  options.ca_file = authority_.ca_file();
  EXPECT_THAT(TlsSession::Check(options), IsOk());
}

TEST(OpenSslLibraryTest, WhatIsMissingIsNamedWithItsCure) {
  EXPECT_THAT(OpenSslLibrary::Get("libhone-no-such-ssl.so.3"),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("libhone-no-such-ssl.so.3"), HasSubstr("apt install"))));
  EXPECT_THAT(OpenSslLibrary::Get("libm.so.6"),
              StatusIs(kFailedPrecondition, AllOf(HasSubstr("libm.so.6 has no TLS_client_method"),
                                                  HasSubstr("OpenSSL 3"))));
  const auto library = OpenSslLibrary::Get(kOpenSslLibrary);
  ASSERT_THAT(library, IsOk());
  EXPECT_EQ(*OpenSslLibrary::Get(kOpenSslLibrary), *library);
}

}  // namespace
}  // namespace hone
