// A serving process with a pack, while its daemon comes and goes: the C ABI against a real daemon
// on the CPU reference device.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/c/hone.h"
#include "client/cli/cli.h"
#include "client/cli/pack_export.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/sanitizers.h"
#include "tests/scenarios/daemon_process.h"
#include "tests/testing/forking.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kTuned = 4096;

struct FreeHandle {
  void operator()(hone_error* error) const { hone_error_free(error); }
  void operator()(hone_client* client) const { hone_client_close(client); }
};
using ErrorPtr = std::unique_ptr<hone_error, FreeHandle>;
using ClientPtr = std::unique_ptr<hone_client, FreeHandle>;

std::string TextOf(const ErrorPtr& error) { return hone_error_message(error.get()); }

class PackOnDaemonTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    absl::StatusOr<TemporaryDirectory> directory = TemporaryDirectory::Create();
    ASSERT_THAT(directory, IsOk());
    directory_ = new TemporaryDirectory(*std::move(directory));
    StartDaemon();
    ASSERT_EQ(Hone({"tune", "copy_1d", "T=F32", "n=4096", "--config",
                    "XBLOCK=256 VEC=1 ITEMS=4 CACHE=0 BLOCKS_PER_SM=0 STAGES=0", "--config",
                    "XBLOCK=256 VEC=4 ITEMS=1 CACHE=0 BLOCKS_PER_SM=0 STAGES=0"}),
              cli::kExitOk);
    Export(pack());
  }
  static void TearDownTestSuite() {
    delete daemon_;
    delete directory_;
  }
  void SetUp() override {
    if (daemon_ == nullptr) StartDaemon();
  }

  static void StartDaemon() {
    absl::StatusOr<std::unique_ptr<DaemonProcess>> daemon =
        DaemonProcess::Start(directory_->path(), {.arguments = {"--compile-timeout", "5m"}});
    ASSERT_THAT(daemon, IsOk());
    daemon_ = daemon->release();
    daemon_->WaitForEngine();
  }
  static void StopDaemon() {
    daemon_->Kill();
    daemon_->Wait();
    delete std::exchange(daemon_, nullptr);
  }

  static std::string Endpoint() { return "unix:" + JoinPath(directory_->path(), "s"); }
  static std::string pack() { return JoinPath(directory_->path(), "pack"); }

  static int Hone(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"hone", "--endpoint", Endpoint()});
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = cli::Main(static_cast<int>(argv.size()), argv.data());
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }
  static void Export(const std::string& path) {
    const auto client = Client::Connect({.endpoint = Endpoint()});
    ASSERT_THAT(client, IsOk());
    const auto report = cli::ExportPack(*client, path, {.allow_host_code = true});
    ASSERT_THAT(report, IsOk());
    EXPECT_GE(report->kernels(), 1) << report->ShortDebugString();
  }

  static ErrorPtr TryOpen(const char* pack_path, hone_client** client, bool cpu = true) {
    const std::string endpoint = Endpoint();
    hone_client_options options{};
    options.struct_bytes = sizeof(options);
    options.endpoint = endpoint.c_str();
    // Nobody waits that long for a daemon that is not there.
    options.connect_timeout_ms = 600'000;
    options.enable_cpu_device = cpu ? 1 : 0;
    options.pack_path = pack_path;
    return ErrorPtr(hone_client_open(&options, client));
  }
  static ClientPtr Open(bool cpu = true) {
    hone_client* client = nullptr;
    const ErrorPtr error = TryOpen(pack().c_str(), &client, cpu);
    EXPECT_EQ(error, nullptr) << TextOf(error);
    return ClientPtr(client);
  }
  static hone_request* Request(hone_client* client, int64_t n, const char* type = "F32") {
    const std::vector<hone_param> params = {hone_text("T", type), hone_size("n", n)};
    hone_request_options options = HONE_REQUEST_OPTIONS("copy_1d", params.data(), params.size());
    options.architecture = "cpu";
    options.max_wait_ms = 600'000;
    hone_request* request = nullptr;
    const ErrorPtr error(hone_request_create(client, &options, &request));
    EXPECT_EQ(error, nullptr) << TextOf(error);
    return request;
  }
  static const hone_kernel* Prepared(hone_request* request) {
    const hone_kernel* kernel = nullptr;
    const ErrorPtr error(hone_prepare(request, &kernel));
    EXPECT_EQ(error, nullptr) << TextOf(error);
    return kernel;
  }
  static bool Copies(const hone_kernel* kernel, int64_t n) {
    std::vector<float> from(static_cast<size_t>(n)), to(from.size());
    std::iota(from.begin(), from.end(), 1.0f);
    std::vector<hone_buffer> buffers(2);
    buffers[0].address = to.data();
    buffers[1].address = from.data();
    hone_arguments arguments{};
    arguments.sizes = &n;
    arguments.buffers = buffers.data();
    const ErrorPtr error(hone_launch_on_cpu(kernel, &arguments));
    return error == nullptr && from == to;
  }

  static TemporaryDirectory* directory_;
  static DaemonProcess* daemon_;
  static std::string out_;
  static std::string err_;
};

TemporaryDirectory* PackOnDaemonTest::directory_ = nullptr;
DaemonProcess* PackOnDaemonTest::daemon_ = nullptr;
std::string PackOnDaemonTest::out_;
std::string PackOnDaemonTest::err_;

// scenario P45
TEST_F(PackOnDaemonTest, WithoutTheDaemonKernelsComeFromThePackUntilItIsBack) {
  StopDaemon();
  const ClientPtr client = Open();
  const absl::Time began = absl::Now();
  hone_request* const request = Request(client.get(), kTuned);
  const hone_kernel* const packed = Prepared(request);
  ASSERT_NE(packed, nullptr);
  EXPECT_EQ(hone_kernel_is_from_pack(packed), 1);
  EXPECT_STREQ(hone_kernel_source(packed), "TUNED");
  EXPECT_EQ(hone_kernel_generation(packed), 0u);
  EXPECT_EQ(hone_latest_generation(client.get()), 0u);
  for (const int64_t n : {kTuned, int64_t{0}, int64_t{1}, int64_t{1025}, int64_t{5001}}) {
    EXPECT_TRUE(Copies(packed, n)) << n;
  }
  const hone_kernel* const nearest = Prepared(Request(client.get(), 5001));
  ASSERT_NE(nearest, nullptr);
  EXPECT_STREQ(hone_kernel_source(nearest), "NEAREST");
  EXPECT_TRUE(Copies(nearest, 5001));
  const ErrorPtr missing(hone_prepare(Request(client.get(), kTuned, "F16"), nullptr));
  EXPECT_EQ(hone_error_code(missing.get()), HONE_NOT_FOUND);
  EXPECT_THAT(TextOf(missing), AllOf(HasSubstr(pack()), HasSubstr("no kernel of copy_1d for T=F16"),
                                     HasSubstr("no hone daemon at")));
  EXPECT_THAT(TextOf(ErrorPtr(hone_client_daemon_status(client.get()))),
              HasSubstr("start the daemon"));
  EXPECT_LT(absl::Now() - began, absl::Minutes(5)) << "connect_timeout was waited for";

  absl::Notification announced;
  hone_watch(
      client.get(),
      [](void* notification, uint64_t) {
        auto* const once = static_cast<absl::Notification*>(notification);
        if (!once->HasBeenNotified()) once->Notify();
      },
      &announced);
  StartDaemon();
  announced.WaitForNotification();
  EXPECT_EQ(hone_find(request), packed) << "nothing changes before it is asked for";
  // Both slots are asked for in one go, but the first may be announced before the second.
  while (hone_kernel_is_from_pack(hone_find(request)) == 1) {
    int32_t changed = 0;
    const ErrorPtr refreshed(
        hone_refresh(client.get(), hone_latest_generation(client.get()), &changed));
    ASSERT_EQ(refreshed, nullptr) << TextOf(refreshed);
  }
  EXPECT_GT(hone_kernel_generation(hone_find(request)), 0u);
  EXPECT_STREQ(hone_kernel_source(hone_find(request)), "TUNED");
  EXPECT_TRUE(Copies(hone_find(request), 5001));
  EXPECT_TRUE(Copies(packed, 5001)) << "what was found earlier stays valid";
  EXPECT_EQ(ErrorPtr(hone_client_daemon_status(client.get())), nullptr);
  hone_watch(client.get(), nullptr, nullptr);
}

// scenario P45
TEST_F(PackOnDaemonTest, ADaemonThatDiesInTheMiddleIsReplacedByThePack) {
  const ClientPtr client = Open();
  hone_request* const request = Request(client.get(), kTuned);
  const hone_kernel* const served = Prepared(request);
  ASSERT_NE(served, nullptr);
  EXPECT_EQ(hone_kernel_is_from_pack(served), 0);
  StopDaemon();
  EXPECT_TRUE(Copies(hone_find(request), 777));
  EXPECT_EQ(Prepared(request), served) << "there is one already";
  const hone_kernel* const another = Prepared(Request(client.get(), 1 << 20));
  ASSERT_NE(another, nullptr);
  EXPECT_EQ(hone_kernel_is_from_pack(another), 1);
  EXPECT_TRUE(Copies(another, 777));
  StartDaemon();
  // The daemon is found again: it answers what the pack has not.
  hone_request* const fresh = Request(client.get(), 64, "F16");
  ErrorPtr error(hone_prepare(fresh, nullptr));
  while (hone_error_code(error.get()) == HONE_NOT_FOUND) error.reset(hone_prepare(fresh, nullptr));
  EXPECT_EQ(error, nullptr) << TextOf(error);
  EXPECT_EQ(hone_kernel_is_from_pack(hone_find(fresh)), 0);
}

// scenario P44
TEST_F(PackOnDaemonTest, AForkedChildUsesItsParentsPack) {
#ifdef HONE_TSAN
  GTEST_SKIP() << "ThreadSanitizer takes no threads after a fork";
#endif
  StopDaemon();
  const ClientPtr client = Open();
  hone_request* const request = Request(client.get(), kTuned);
  ASSERT_NE(Prepared(request), nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const hone_kernel* const another = Prepared(Request(client.get(), 1 << 20));
    const bool ok = another != nullptr && hone_kernel_is_from_pack(another) == 1 &&
                    Copies(another, 100) && Copies(hone_find(request), 100);
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Copies(Prepared(Request(client.get(), 512)), 512));
}

TEST_F(PackOnDaemonTest, AMissingOrDamagedPackIsAnErrorThatNamesIt) {
  hone_client* client = nullptr;
  const std::string none = pack() + ".none";
  const ErrorPtr missing = TryOpen(none.c_str(), &client);
  EXPECT_EQ(hone_error_code(missing.get()), HONE_NOT_FOUND);
  EXPECT_THAT(TextOf(missing), AllOf(HasSubstr("hone_client_options.pack_path"), HasSubstr(none)));
  std::string bytes = *ReadFile(pack());
  bytes[100] ^= 1;
  const std::string damaged = pack() + ".damaged";
  ASSERT_THAT(WriteFileAtomic(damaged, bytes), IsOk());
  ASSERT_EQ(setenv("HONE_PACK", damaged.c_str(), 1), 0);
  const ErrorPtr wrong = TryOpen(nullptr, &client);
  EXPECT_EQ(hone_error_code(wrong.get()), HONE_DATA_LOSS);
  EXPECT_THAT(TextOf(wrong), AllOf(HasSubstr("$HONE_PACK"), HasSubstr(damaged)));
  EXPECT_EQ(TryOpen("", &client), nullptr) << "no pack, whatever the variable says";
  hone_client_close(client);
  unsetenv("HONE_PACK");
}

TEST_F(PackOnDaemonTest, HostCodeOfAPackIsForThoseWhoEnabledIt) {
  StopDaemon();
  const ClientPtr client = Open(/*cpu=*/false);
  const ErrorPtr refused(hone_prepare(Request(client.get(), kTuned), nullptr));
  EXPECT_EQ(hone_error_code(refused.get()), HONE_FAILED_PRECONDITION);
  EXPECT_THAT(TextOf(refused), HasSubstr("enable_cpu_device"));
}

TEST_F(PackOnDaemonTest, TheCommandExportsNoHostCodeAndShowsWhatIsInAPack) {
  EXPECT_EQ(Hone({"pack", "export", pack() + ".cli"}), cli::kExitNotFound);
  EXPECT_THAT(err_, HasSubstr("packs carry no host code"));
  EXPECT_FALSE(PathExists(pack() + ".cli"));
  ASSERT_EQ(Hone({"pack", "show", pack()}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("T=F32 n=4096"), HasSubstr("x86-64"), HasSubstr("XBLOCK=256")));
  // The same daemon's same kernels are the same file, also after a restart.
  Export(pack() + ".1");
  StopDaemon();
  StartDaemon();
  Export(pack() + ".2");
  EXPECT_EQ(*ReadFile(pack() + ".1"), *ReadFile(pack() + ".2"));
}

}  // namespace
}  // namespace hone
