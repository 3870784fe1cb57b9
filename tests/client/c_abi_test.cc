// The C ABI against a real daemon on the CPU reference device.
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "client/c/hone.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scenarios/daemon_process.h"
#include "tests/testing/forking.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Free {
  void operator()(hone_error* error) const { hone_error_free(error); }
  void operator()(hone_client* client) const { hone_client_close(client); }
};
using Error = std::unique_ptr<hone_error, Free>;
using OpenClient = std::unique_ptr<hone_client, Free>;

MATCHER(Ok, "is no error") {
  if (arg != nullptr) *result_listener << hone_error_message(arg);
  return arg == nullptr;
}
MATCHER_P2(Fails, code, message, "") {
  *result_listener << "code " << hone_error_code(arg) << ": " << hone_error_message(arg);
  return hone_error_code(arg) == code &&
         testing::ExplainMatchResult(message, std::string(hone_error_message(arg)),
                                     result_listener);
}

class CAbiTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    absl::StatusOr<TemporaryDirectory> directory = TemporaryDirectory::Create();
    ASSERT_THAT(directory, IsOk());
    directory_ = new TemporaryDirectory(*std::move(directory));
    StartDaemon();
  }
  static void StartDaemon() {
    absl::StatusOr<std::unique_ptr<DaemonProcess>> daemon =
        DaemonProcess::Start(directory_->path(), {.arguments = {"--compile-timeout", "5m"}});
    ASSERT_THAT(daemon, IsOk());
    daemon_ = daemon->release();
    daemon_->WaitForEngine();
  }
  static void TearDownTestSuite() {
    delete daemon_;
    delete directory_;
  }

  static OpenClient Open(const std::string& endpoint, int32_t connect_timeout_ms = 0) {
    hone_client_options options{};
    options.struct_bytes = sizeof(options);
    options.endpoint = endpoint.c_str();
    options.connect_timeout_ms = connect_timeout_ms;
    options.enable_cpu_device = 1;
    hone_client* client = nullptr;
    EXPECT_THAT(Error(hone_client_open(&options, &client)).get(), Ok());
    return OpenClient(client);
  }
  static OpenClient Open() { return Open("unix:" + daemon_->socket_path()); }

  static Error Create(hone_client* client, int64_t n, hone_request** request) {
    const std::vector<hone_param> params = {hone_text("T", "F32"), hone_size("n", n)};
    hone_request_options options = HONE_REQUEST_OPTIONS("copy_1d", params.data(), params.size());
    options.architecture = "cpu";
    options.max_wait_ms = 600'000;
    return Error(hone_request_create(client, &options, request));
  }
  static hone_request* Request(hone_client* client, int64_t n = 4096) {
    hone_request* request = nullptr;
    EXPECT_THAT(Create(client, n, &request).get(), Ok());
    return request;
  }

  // Copies `n` floats that begin `offset` floats behind an aligned address; whether they arrived.
  static bool Copies(const hone_kernel* kernel, int64_t n, int64_t offset = 0) {
    std::vector<float> from(static_cast<size_t>(n + offset)), to(from.size());
    std::iota(from.begin(), from.end(), 1.0f);
    std::vector<hone_buffer> buffers(2);
    buffers[0].address = to.data() + offset;
    buffers[1].address = from.data() + offset;
    hone_arguments arguments{};
    arguments.sizes = &n;
    arguments.buffers = buffers.data();
    EXPECT_THAT(Error(hone_launch_on_cpu(kernel, &arguments)).get(), Ok());
    return std::equal(from.begin() + offset, from.end(), to.begin() + offset);
  }

  static TemporaryDirectory* directory_;
  static DaemonProcess* daemon_;
};

TemporaryDirectory* CAbiTest::directory_ = nullptr;
DaemonProcess* CAbiTest::daemon_ = nullptr;

TEST_F(CAbiTest, PreparesFindsAndLaunches) {
  const OpenClient client = Open();
  hone_request* const request = Request(client.get());
  EXPECT_EQ(hone_find(request), nullptr);
  const hone_kernel* kernel = nullptr;
  ASSERT_THAT(Error(hone_prepare(request, &kernel)).get(), Ok());
  EXPECT_EQ(hone_find(request), kernel);
  EXPECT_STREQ(hone_kernel_architecture(kernel), "cpu");
  EXPECT_STREQ(hone_kernel_source(kernel), "DEFAULT");
  EXPECT_THAT(hone_kernel_config(kernel), HasSubstr("XBLOCK=256"));
  // Not the tuned size, not the declared alignment: another grid, perhaps another variant.
  EXPECT_TRUE(Copies(kernel, 4096));
  EXPECT_TRUE(Copies(kernel, 4097));
  EXPECT_TRUE(Copies(kernel, 1000, /*offset=*/1));
  EXPECT_TRUE(Copies(kernel, 0));
}

TEST_F(CAbiTest, SaysWhatAKernelTakes) {
  const OpenClient client = Open();
  const hone_kernel* kernel = nullptr;
  ASSERT_THAT(Error(hone_prepare(Request(client.get()), &kernel)).get(), Ok());
  ASSERT_EQ(hone_kernel_size_count(kernel), 1);
  EXPECT_STREQ(hone_kernel_size_name(kernel, 0), "n");
  EXPECT_EQ(hone_kernel_size_name(kernel, 1), nullptr);
  ASSERT_EQ(hone_kernel_buffer_count(kernel), 2);
  const hone_buffer_info dst = hone_kernel_buffer(kernel, 0);
  EXPECT_STREQ(dst.name, "dst");
  EXPECT_EQ(dst.dtype, HONE_F32);
  EXPECT_EQ(dst.access, HONE_WRITE);
  EXPECT_EQ(dst.rank, 1);
  EXPECT_EQ(hone_kernel_buffer(kernel, 1).access, HONE_READ);
  EXPECT_EQ(hone_kernel_scalar_count(kernel), 0);
  EXPECT_EQ(hone_kernel_scratch_count(kernel), 0);
}

TEST_F(CAbiTest, SizesAreReadOffShapesThatAgree) {
  const OpenClient client = Open();
  const hone_kernel* kernel = nullptr;
  ASSERT_THAT(Error(hone_prepare(Request(client.get()), &kernel)).get(), Ok());
  const int64_t three = 3, four = 4;
  std::vector<hone_buffer> buffers(2);
  buffers[0].shape = &three;
  buffers[0].rank = 1;
  int64_t n = -1;
  ASSERT_THAT(Error(hone_sizes_from_shapes(kernel, buffers.data(), &n)).get(), Ok());
  EXPECT_EQ(n, 3);
  buffers[1].shape = &four;
  buffers[1].rank = 1;
  EXPECT_THAT(
      Error(hone_sizes_from_shapes(kernel, buffers.data(), &n)).get(),
      Fails(HONE_INVALID_ARGUMENT, HasSubstr("size 'n' is 3 in dimension 0 of 'dst', but 4")));
  buffers[1].rank = 2;
  EXPECT_THAT(Error(hone_sizes_from_shapes(kernel, buffers.data(), &n)).get(),
              Fails(HONE_INVALID_ARGUMENT, HasSubstr("buffer 'src' has 2 dimensions")));
}

TEST_F(CAbiTest, WrongInputIsNamed) {
  const OpenClient client = Open();
  hone_request* request = nullptr;
  EXPECT_THAT(Error(hone_request_create(client.get(), nullptr, &request)).get(),
              Fails(HONE_INVALID_ARGUMENT, HasSubstr("options is NULL")));
  const std::vector<hone_param> twice = {hone_size("n", 1), hone_size("n", 2)};
  hone_request_options options = HONE_REQUEST_OPTIONS("copy_1d", twice.data(), twice.size());
  EXPECT_THAT(Error(hone_request_create(client.get(), &options, &request)).get(),
              Fails(HONE_INVALID_ARGUMENT, HasSubstr("param 'n' is given twice")));
  options.struct_bytes = 3;
  EXPECT_THAT(Error(hone_request_create(client.get(), &options, &request)).get(),
              Fails(HONE_INVALID_ARGUMENT, HasSubstr("struct_bytes is 3")));
  const hone_kernel* kernel = nullptr;
  ASSERT_THAT(Error(hone_prepare(Request(client.get()), &kernel)).get(), Ok());
  hone_arguments arguments{};
  EXPECT_THAT(Error(hone_launch_on_cpu(kernel, &arguments)).get(),
              Fails(HONE_INVALID_ARGUMENT, HasSubstr("hone_arguments.sizes is NULL")));
  const std::vector<hone_param> unknown = {hone_text("T", "F77"), hone_size("n", 1)};
  options = HONE_REQUEST_OPTIONS("copy_1d", unknown.data(), unknown.size());
  ASSERT_THAT(Error(hone_request_create(client.get(), &options, &request)).get(), Ok());
  EXPECT_THAT(Error(hone_prepare(request, nullptr)).get(),
              Fails(HONE_INVALID_ARGUMENT, AllOf(HasSubstr("F77"), HasSubstr("F32"))));
  EXPECT_EQ(hone_find(request), nullptr);
}

TEST_F(CAbiTest, FieldsOfALaterVersionMayBeThereButNotSet) {
  struct Later {
    hone_client_options known;
    int64_t later;
  } later{};
  later.known.struct_bytes = sizeof(later);
  hone_client* client = nullptr;
  EXPECT_THAT(Error(hone_client_open(&later.known, &client)).get(), Ok());
  hone_client_close(client);
  later.later = 1;
  EXPECT_THAT(Error(hone_client_open(&later.known, &client)).get(),
              Fails(HONE_INVALID_ARGUMENT, HasSubstr("a later field is set")));
}

TEST_F(CAbiTest, FieldsThatAnOlderCallerDoesNotKnowAreNotRead) {
  const std::string endpoint = "unix:" + daemon_->socket_path();
  hone_client_options options{};
  options.struct_bytes = offsetof(hone_client_options, tls_ca_file);
  options.endpoint = endpoint.c_str();
  options.tls_ca_file = "what stands behind the caller's struct";
  hone_client* client = nullptr;
  EXPECT_THAT(Error(hone_client_open(&options, &client)).get(), Ok());
  hone_client_close(client);
}

TEST_F(CAbiTest, WhatTlsCannotDoIsSaidWhenTheClientIsOpened) {
  hone_client_options options{};
  options.struct_bytes = sizeof(options);
  options.endpoint = "localhost:7433";
  options.tls_ca_file = "/nowhere/ca.pem";
  hone_client* client = nullptr;
  EXPECT_THAT(Error(hone_client_open(&options, &client)).get(),
              Fails(HONE_INVALID_ARGUMENT, HasSubstr("tls_ca_file '/nowhere/ca.pem'")));
  options.endpoint = "unix:/nowhere/s";
  EXPECT_THAT(Error(hone_client_open(&options, &client)).get(),
              Fails(HONE_INVALID_ARGUMENT, HasSubstr("socket of this machine")));
}

TEST_F(CAbiTest, WithoutADaemonPrepareSaysWhatToStart) {
  const OpenClient client = Open("unix:" + directory_->path() + "/none", 100);
  EXPECT_THAT(Error(hone_prepare(Request(client.get()), nullptr)).get(),
              Fails(HONE_UNAVAILABLE, HasSubstr("start the daemon with 'honed'")));
}

// scenario P45
TEST_F(CAbiTest, LaunchesGoOnWithoutTheDaemonAndItIsFoundAgain) {
  const OpenClient client = Open();
  hone_request* const request = Request(client.get());
  ASSERT_THAT(Error(hone_prepare(request, nullptr)).get(), Ok());
  daemon_->Kill();
  daemon_->Wait();
  EXPECT_TRUE(Copies(hone_find(request), 4096));
  ASSERT_THAT(Error(hone_prepare(request, nullptr)).get(), Ok()) << "there is one already";
  delete std::exchange(daemon_, nullptr);
  StartDaemon();
  hone_request* const another = Request(client.get(), 1 << 20);
  const hone_kernel* kernel = nullptr;
  ASSERT_THAT(Error(hone_prepare(another, &kernel)).get(), Ok());
  EXPECT_TRUE(Copies(kernel, 4096));
}

// scenario P44
TEST_F(CAbiTest, AForkedChildConnectsAnew) {
  const OpenClient client = Open();
  hone_request* const request = Request(client.get());
  ASSERT_THAT(Error(hone_prepare(request, nullptr)).get(), Ok());
  const pid_t child = fork();
  if (child == 0) {
    hone_request* another = nullptr;
    const hone_kernel* kernel = nullptr;
    const bool ok = Create(client.get(), 1 << 21, &another) == nullptr &&
                    hone_prepare(another, &kernel) == nullptr && Copies(kernel, 100) &&
                    Copies(hone_find(request), 100);
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Copies(hone_find(request), 4096));
  ASSERT_THAT(Error(hone_prepare(Request(client.get(), 1 << 22), nullptr)).get(), Ok());
}

TEST_F(CAbiTest, ManyThreadsPrepareAndLaunch) {
  const OpenClient client = Open();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      hone_request* const request = Request(client.get(), int64_t{1} << (i % 4 + 8));
      const hone_kernel* kernel = nullptr;
      ASSERT_THAT(Error(hone_prepare(request, &kernel)).get(), Ok());
      EXPECT_TRUE(Copies(kernel, 777));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hone
