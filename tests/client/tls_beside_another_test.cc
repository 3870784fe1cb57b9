// TLS in a program that shows another OpenSSL: this one is not linked with any, and ends when what
// it shows is called.
#include <openssl/bio.h>

#include <cstdlib>

#include "client/cpp/rpc/tls_session.h"
#include "runtime/base/sanitizers.h"
#include "tests/testing/status_matchers.h"

extern "C" {
__attribute__((visibility("default"))) BIO* BIO_new(const BIO_METHOD*) { std::abort(); }
__attribute__((visibility("default"))) void ERR_new(void) { std::abort(); }
__attribute__((visibility("default"))) void ERR_clear_error(void) { std::abort(); }
}

namespace hone {
namespace {

TEST(TlsBesideAnotherTest, LibsslUsesItsOwnLibcrypto) {
#ifdef HONE_SANITIZED
  GTEST_SKIP() << "sanitizers refuse RTLD_DEEPBIND";
#endif
  const auto library = OpenSslLibrary::Get(kOpenSslLibrary);
  ASSERT_THAT(library, IsOk());
  const auto session = TlsSession::Start(
      {.library = *library, .ca_file = "system", .host = "localhost", .endpoint = "localhost:1"});
  ASSERT_THAT(session, IsOk());
  std::string hello;
  (*session)->TakeEncrypted(hello);
  EXPECT_EQ(hello.substr(0, 1), "\x16");
  // A failure fills the queue of errors.
  EXPECT_THAT((*session)->Receive(absl::string_view("\x15\x03\x03\0\x02\x02\x28", 7),
                                  [](absl::string_view) {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr("handshake")));
}

}  // namespace
}  // namespace hone
