#include "client/cpp/rpc/openssl_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hone {
namespace {

// No mutex, which a child of fork could find locked.
std::atomic<bool> process_exits{false};
std::atomic<int> openssl_users{0};
std::atomic<int> forks_under_way{0};
thread_local int uses_of_thread = 0;

void Pause() {
  const timespec pause{.tv_sec = 0, .tv_nsec = 50'000};
  nanosleep(&pause, nullptr);
}

// No use takes long; whoever waits goes on in the end, whatever happens.
void AwaitNoUse() {
  for (int i = 0; openssl_users > 0 && i < 2'000; ++i) Pause();
}

void BeforeFork() {
  ++forks_under_way;
  AwaitNoUse();
}

void AfterForkInParent() { --forks_under_way; }

void AfterForkInChild() {
  forks_under_way = 0;
  openssl_users = 0;
}

// Constructed after OpenSSL has asked for its own clean-up at exit, so that it goes before that.
struct ProcessWatch {
  ProcessWatch() { pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild); }
  ~ProcessWatch() {
    process_exits = true;
    AwaitNoUse();
  }
};

// Whether libssl's own calls may find another OpenSSL first: what a program shows without versions
// of symbols (BoringSSL among others) satisfies references to any version.
bool AnotherIsShown() {
  void* const shown = dlsym(RTLD_DEFAULT, "BIO_new");
  Dl_info where{};
  if (shown == nullptr || dladdr(shown, &where) == 0 || where.dli_fname == nullptr) return false;
  return !absl::StrContains(where.dli_fname, "libcrypto.so.3");
}

absl::StatusOr<const OpenSslLibrary*> LoadOpenSsl(const std::string& name) {
  // Its own libcrypto first, where that is needed; not always, because the flag also passes over an
  // allocator that was preloaded, and sanitizers refuse it.
  const int flags = RTLD_NOW | RTLD_LOCAL | (AnotherIsShown() ? RTLD_DEEPBIND : 0);
  void* const handle = dlopen(name.c_str(), flags);
  if (handle == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "TLS needs OpenSSL 3, and ", dlerror(),
        "; install it (Debian and Ubuntu: apt install libssl3; RHEL: dnf install openssl-libs)"));
  }
  auto library = std::make_unique<OpenSslLibrary>();
#define HONE_OPENSSL_BIND(function)                                                            \
  library->function = reinterpret_cast<decltype(library->function)>(dlsym(handle, #function)); \
  if (library->function == nullptr) {                                                          \
    dlclose(handle);                                                                           \
    return absl::FailedPreconditionError(                                                      \
        absl::StrCat("TLS needs OpenSSL 3, and ", name, " has no ", #function));               \
  }
  HONE_OPENSSL_FUNCTIONS(HONE_OPENSSL_BIND)
#undef HONE_OPENSSL_BIND
  // The first context initialises the library.
  SSL_CTX* const context = library->SSL_CTX_new(library->TLS_client_method());
  if (context == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        name, " does not start; 'openssl version' may say why, openssl.cnf is a usual cause"));
  }
  library->SSL_CTX_free(context);
  static const ProcessWatch watch;
  return library.release();
}

}  // namespace

absl::StatusOr<const OpenSslLibrary*> OpenSslLibrary::Get(const std::string& name) {
  struct Loaded {
    const std::string name;
    const OpenSslLibrary* library;
    Loaded* next;
  };
  // No mutex: another thread may hold it when the process is forked. Two that load at once make two
  // tables of one library.
  static std::atomic<Loaded*> loaded{nullptr};
  for (const Loaded* known = loaded; known != nullptr; known = known->next) {
    if (known->name == name) return known->library;
  }
  const absl::StatusOr<const OpenSslLibrary*> library = LoadOpenSsl(name);
  if (!library.ok()) return library.status();
  auto* const added = new Loaded{name, *library, loaded};
  while (!loaded.compare_exchange_weak(added->next, added)) {
  }
  return library;
}

OpenSslUse::OpenSslUse() {
  // One within another must not wait for a fork that waits for that.
  if (uses_of_thread++ > 0) return;
  while (true) {
    while (forks_under_way > 0) Pause();
    ++openssl_users;
    if (forks_under_way == 0) break;
    --openssl_users;
  }
}

OpenSslUse::~OpenSslUse() {
  if (--uses_of_thread == 0) --openssl_users;
}

OpenSslUse::operator bool() const { return !process_exits; }

}  // namespace hone
