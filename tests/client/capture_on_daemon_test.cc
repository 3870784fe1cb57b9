// Launches through the C ABI recorded, and tuned from the record, against a real daemon on the CPU
// reference device.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/c/hone.h"
#include "client/cli/captures.h"
#include "client/cli/cli.h"
#include "client/cpp/hone/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scenarios/daemon_process.h"
#include "tests/testing/forking.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

struct Free {
  void operator()(hone_error* error) const { hone_error_free(error); }
  void operator()(hone_client* client) const { hone_client_close(client); }
};
using Error = std::unique_ptr<hone_error, Free>;
using OpenClient = std::unique_ptr<hone_client, Free>;

// A variable while this lives.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { ::unsetenv(name_); }

 private:
  const char* const name_;
};

class CaptureOnDaemonTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    daemon_directory_ = new TemporaryDirectory(TemporaryDirectory::Create().value());
    absl::StatusOr<std::unique_ptr<DaemonProcess>> daemon =
        DaemonProcess::Start(daemon_directory_->path(), {.arguments = {"--compile-timeout", "5m"}});
    ASSERT_THAT(daemon, IsOk());
    daemon_ = daemon->release();
    daemon_->WaitForEngine();
  }
  static void TearDownTestSuite() {
    delete daemon_;
    delete daemon_directory_;
  }

  CaptureOnDaemonTest() : own_(TemporaryDirectory::Create().value()) {}

  std::string Directory() const { return JoinPath(own_.path(), "captures"); }
  static std::string Endpoint() { return "unix:" + daemon_->socket_path(); }

  // `capture_dir` nullptr: the environment's.
  static OpenClient Open(const char* capture_dir) {
    hone_client_options options{};
    options.struct_bytes = sizeof(options);
    const std::string endpoint = Endpoint();
    options.endpoint = endpoint.c_str();
    options.enable_cpu_device = 1;
    options.capture_dir = capture_dir;
    hone_client* client = nullptr;
    EXPECT_EQ(Error(hone_client_open(&options, &client)).get(), nullptr);
    return OpenClient(client);
  }

  static const hone_kernel* Prepared(hone_client* client, const char* name,
                                     std::vector<hone_param> params) {
    hone_request_options options = HONE_REQUEST_OPTIONS(name, params.data(), params.size());
    options.architecture = "cpu";
    options.max_wait_ms = 600'000;
    hone_request* request = nullptr;
    const hone_kernel* kernel = nullptr;
    Error error(hone_request_create(client, &options, &request));
    if (error == nullptr) error.reset(hone_prepare(request, &kernel));
    EXPECT_EQ(error.get(), nullptr) << hone_error_message(error.get());
    return kernel;
  }
  static const hone_kernel* PreparedCopy(hone_client* client) {
    return Prepared(client, "copy_1d", {hone_text("T", "F32"), hone_size("n", 4096)});
  }

  // A copy of `n` floats that begin `offset` floats behind an aligned address; whether it is right.
  static bool Copies(const hone_kernel* kernel, int64_t n, int64_t offset = 0) {
    const auto count = static_cast<size_t>(n);
    std::vector<float> from_memory(count + 128), to_memory(count + 128, -1);
    float* const from = Aligned(from_memory) + offset;
    float* const to = Aligned(to_memory) + offset;
    std::iota(from, from + count, 1.0f);
    const hone_buffer buffers[] = {{to}, {from}};
    hone_arguments arguments{};
    arguments.sizes = &n;
    arguments.buffers = buffers;
    const Error error(hone_launch_on_cpu(kernel, &arguments));
    EXPECT_EQ(error.get(), nullptr) << hone_error_message(error.get());
    return std::equal(from, from + count, to);
  }
  // At a multiple of 256 bytes.
  static float* Aligned(std::vector<float>& memory) {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (256 - address % 256) / sizeof(float) % 64;
  }

  static std::string StatusText(const hone_client* client) {
    std::string text(hone_capture_status(client, nullptr, 0), '\0');
    EXPECT_EQ(hone_capture_status(client, text.data(), text.size() + 1), text.size());
    return text;
  }

  std::vector<cli::CapturedLaunches> Recorded() const {
    const auto captures = cli::ReadCaptures(Directory());
    EXPECT_THAT(captures, IsOk());
    EXPECT_THAT(captures->notes, IsEmpty());
    return captures->problems;
  }

  // Runs the command; its output is in out_ and err_.
  int Hone(std::vector<std::string> arguments) {
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

  static TemporaryDirectory* daemon_directory_;
  static DaemonProcess* daemon_;
  const TemporaryDirectory own_;
  std::string out_;
  std::string err_;
};

TemporaryDirectory* CaptureOnDaemonTest::daemon_directory_ = nullptr;
DaemonProcess* CaptureOnDaemonTest::daemon_ = nullptr;

TEST_F(CaptureOnDaemonTest, NothingIsRecordedUnlessItIsAskedFor) {
  const OpenClient client = Open(nullptr);
  EXPECT_TRUE(Copies(PreparedCopy(client.get()), 100));
  EXPECT_EQ(StatusText(client.get()), "");
  EXPECT_EQ(hone_capture_status(nullptr, nullptr, 0), 0u);
  // An empty directory overrules the environment.
  const ScopedVariable variable("HONE_CAPTURE", Directory());
  const OpenClient other = Open("");
  EXPECT_TRUE(Copies(PreparedCopy(other.get()), 100));
  EXPECT_FALSE(PathExists(Directory()));
}

TEST_F(CaptureOnDaemonTest, LaunchesAreRecordedWithTheirTrueSizes) {
  const ScopedVariable variable("HONE_CAPTURE", Directory());
  OpenClient client = Open(nullptr);
  const hone_kernel* const kernel = PreparedCopy(client.get());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Copies(kernel, 5000));
  EXPECT_TRUE(Copies(kernel, 4096, /*offset=*/1));
  EXPECT_TRUE(Copies(kernel, 4096, /*offset=*/2));
  // A launch that is refused is none.
  const int64_t n = 77, wrong = 76;
  float memory[128];
  const hone_buffer buffers[] = {{memory, &wrong, nullptr, 1}, {memory + 64}};
  hone_arguments arguments{};
  arguments.sizes = &n;
  arguments.buffers = buffers;
  EXPECT_NE(Error(hone_launch_on_cpu(kernel, &arguments)).get(), nullptr);
  EXPECT_THAT(StatusText(client.get()),
              AllOf(HasSubstr("recording into"), HasSubstr("3 problems")));
  client.reset();

  const std::vector<cli::CapturedLaunches> recorded = Recorded();
  ASSERT_THAT(recorded, SizeIs(2));
  const v1::CapturedProblem& problem = recorded[0].problem;
  EXPECT_EQ(recorded[0].Text(), "copy_1d T=F32 n=5000");
  EXPECT_EQ(problem.launches(), 5);
  EXPECT_EQ(problem.template_().digest(), "") << "it was asked for by name";
  EXPECT_THAT(problem.launched_digest(), SizeIs(64));
  EXPECT_EQ(problem.target().architecture(), "cpu");
  EXPECT_EQ(problem.architecture(), "cpu");
  ASSERT_EQ(problem.buffers_size(), 2);
  EXPECT_EQ(problem.buffers(1).name(), "src");
  EXPECT_EQ(problem.buffers(1).dtype(), v1::F32);
  EXPECT_EQ(problem.buffers(1).access(), v1::Buffer::READ);
  EXPECT_EQ(problem.buffers(1).alignment_bytes(), 256);
  ASSERT_EQ(problem.buffers(1).shape_size(), 1);
  EXPECT_EQ(problem.buffers(1).shape(0), 5000);
  EXPECT_EQ(problem.buffers(1).strides(0), 1);
  EXPECT_EQ(problem.buffers(1).contents_file(), "");
  // Two alignments, two records; for a tune they are one problem.
  EXPECT_EQ(recorded[1].Text(), "copy_1d T=F32 n=4096");
  EXPECT_EQ(recorded[1].problem.launches(), 2);
  EXPECT_EQ(recorded[1].problem.buffers(0).alignment_bytes(), 4);
}

TEST_F(CaptureOnDaemonTest, KernelsOfTheCppClientAreRecordedToo) {
  absl::StatusOr<Client> client = Client::Connect(
      {.endpoint = Endpoint(), .enable_cpu_device = true, .capture_dir = Directory()});
  ASSERT_THAT(client, IsOk());
  const absl::StatusOr<Kernel> kernel = client->GetKernel({.template_name = "rmsnorm",
                                                           .params = {{"rows", 2}, {"cols", 64}},
                                                           .max_wait = absl::Minutes(10)});
  ASSERT_THAT(kernel, IsOk());
  std::vector<float> x(4 * 64, 1), weight(64, 1), y(4 * 64);
  LaunchArguments arguments;
  arguments.sizes = {{"rows", 4}};
  arguments.scalars = {{"eps", 0.25}};
  arguments.buffers = {{"y", {.address = reinterpret_cast<uint64_t>(y.data())}},
                       {"x", {.address = reinterpret_cast<uint64_t>(x.data())}},
                       {"weight", {.address = reinterpret_cast<uint64_t>(weight.data())}}};
  ASSERT_THAT(kernel->LaunchOnCpu(arguments), IsOk());
  arguments.scalars["eps"] = 0.5;  // another value is no other problem
  ASSERT_THAT(kernel->LaunchOnCpu(arguments), IsOk());
  EXPECT_THAT(client->CaptureStatus(), HasSubstr("1 problems"));
  client = absl::CancelledError("closed");
  const std::vector<cli::CapturedLaunches> recorded = Recorded();
  ASSERT_THAT(recorded, SizeIs(1));
  EXPECT_THAT(recorded[0].Text(), AllOf(HasSubstr("cols=64"), HasSubstr("rows=4")));
  EXPECT_EQ(recorded[0].problem.launches(), 2);
  ASSERT_EQ(recorded[0].problem.scalars_size(), 1);
  EXPECT_EQ(recorded[0].problem.scalars(0).name(), "eps");
  EXPECT_EQ(recorded[0].problem.scalars(0).value(), 0.25);
}

TEST_F(CaptureOnDaemonTest, LaunchesGoOnWhereNothingCanBeWritten) {
  ASSERT_THAT(WriteNewFile(Directory(), "a file"), IsOk());
  const OpenClient client = Open(Directory().c_str());
  const hone_kernel* const kernel = PreparedCopy(client.get());
  testing::internal::CaptureStderr();
  EXPECT_TRUE(Copies(kernel, 100));
  EXPECT_TRUE(Copies(kernel, 200));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("HONE_CAPTURE"));
  EXPECT_THAT(StatusText(client.get()), HasSubstr("stopped: "));
  char few[5];
  hone_capture_status(client.get(), few, sizeof(few));
  EXPECT_STREQ(few, "stop");
}

// scenario P44
TEST_F(CaptureOnDaemonTest, AForkedChildRecordsItsOwnLaunches) {
  OpenClient client = Open(Directory().c_str());
  const hone_kernel* const kernel = PreparedCopy(client.get());
  EXPECT_TRUE(Copies(kernel, 100));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(Copies(kernel, 100) && Copies(kernel, 300) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  client.reset();
  const std::vector<cli::CapturedLaunches> recorded = Recorded();
  ASSERT_THAT(recorded, SizeIs(2));
  EXPECT_EQ(recorded[0].Text(), "copy_1d T=F32 n=100");
  EXPECT_EQ(recorded[0].problem.launches(), 2);
  EXPECT_EQ(recorded[0].processes, 2);
  EXPECT_EQ(recorded[1].processes, 1);
}

TEST_F(CaptureOnDaemonTest, ContentsAreStoredWithTheSecondSwitchAndCanBeRun) {
  const ScopedVariable contents("HONE_CAPTURE_CONTENTS", "1");
  OpenClient client = Open(Directory().c_str());
  EXPECT_TRUE(Copies(PreparedCopy(client.get()), 1000));
  // One element of padding in each row.
  const hone_kernel* const padded =
      Prepared(client.get(), "copy_2d",
               {hone_text("T", "F32"), hone_size("rows", 4), hone_size("cols", 8),
                hone_size("src_pad", 1), hone_size("dst_pad", 0)});
  ASSERT_NE(padded, nullptr);
  std::vector<float> from(4 * 9), to(4 * 8);
  const hone_buffer buffers[] = {{to.data()}, {from.data()}};
  const std::map<std::string, int64_t> wanted = {
      {"rows", 4}, {"cols", 8}, {"src_pad", 1}, {"dst_pad", 0}};
  std::vector<int64_t> sizes;
  for (int32_t i = 0; i < hone_kernel_size_count(padded); ++i) {
    sizes.push_back(wanted.at(hone_kernel_size_name(padded, i)));
  }
  hone_arguments arguments{};
  arguments.sizes = sizes.data();
  arguments.buffers = buffers;
  const Error error(hone_launch_on_cpu(padded, &arguments));
  EXPECT_EQ(error.get(), nullptr) << hone_error_message(error.get());
  client.reset();

  const std::vector<cli::CapturedLaunches> recorded = Recorded();
  ASSERT_THAT(recorded, SizeIs(2));
  const std::map<std::string, std::string> files = cli::ContentsOf(recorded[0]);
  ASSERT_EQ(files.size(), 1u) << "dst is only written";
  const absl::StatusOr<std::string> bytes = ReadFile(files.at("src"));
  ASSERT_THAT(bytes, IsOk());
  ASSERT_THAT(*bytes, SizeIs(4000));
  float last = 0;
  std::memcpy(&last, bytes->data() + 3996, 4);
  EXPECT_EQ(last, 1000.0f);
  struct stat info = {};
  ASSERT_EQ(::lstat(files.at("src").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_THAT(cli::ContentsOf(recorded[1]), IsEmpty());
  EXPECT_EQ(recorded[1].problem.buffers(1).contents_missing(), "it is not dense");

  ASSERT_EQ(Hone({"run", "--from", Directory(), "--verify"}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("n=1000"), HasSubstr("verified"), HasSubstr("captured")));
  ASSERT_EQ(Hone({"run", "--from", Directory(), "--problem", "2", "--verify"}), cli::kExitOk)
      << err_;
  EXPECT_THAT(out_, Not(HasSubstr("captured")));
  EXPECT_EQ(Hone({"run", "--from", Directory(), "--problem", "3"}), cli::kExitUsage);
  EXPECT_EQ(Hone({"run"}), cli::kExitUsage);
}

TEST_F(CaptureOnDaemonTest, WhatWasLaunchedIsTunedOnceAndServedFromThenOn) {
  OpenClient client = Open(Directory().c_str());
  const hone_kernel* const kernel = PreparedCopy(client.get());
  for (const int64_t n : {9000, 9000, 9001, 16383, 100}) EXPECT_TRUE(Copies(kernel, n));
  client.reset();
  ASSERT_EQ(Hone({"tune", "--from", Directory(), "--list"}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("n=9001"), HasSubstr("n=100"), HasSubstr("launches")));

  const std::vector<std::string> tune{"tune", "--from", Directory(), "--evaluations", "1"};
  ASSERT_EQ(Hone(tune), cli::kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("copy_1d T=F32 n=8192"), HasSubstr("4 launches of 3 problems"),
                          HasSubstr("winner  "), HasSubstr("2 tuned, 0 tuned already, 0 failed")));
  EXPECT_LT(out_.find("n=8192"), out_.find("n=64:")) << "most launched first";
  ASSERT_EQ(Hone(tune), cli::kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(Not(HasSubstr("winner")), HasSubstr("n=8192: tuned already"),
                          HasSubstr("0 tuned, 2 tuned already, 0 failed")));
  ASSERT_EQ(Hone({"get", "copy_1d", "T=F32", "n=9001"}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("BUCKET"));
  ASSERT_EQ(Hone({"get", "copy_1d", "T=F32", "n=8192"}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("TUNED"));
}

TEST_F(CaptureOnDaemonTest, AProblemThatDoesNotFitIsToldAndTheOthersAreTuned) {
  ASSERT_THAT(MakeDirectories(Directory()), IsOk());
  const auto line = [](const std::string& name, const std::string& params) {
    return absl::StrCat("problem { launches: 9 template { name: '", name, "' } ", params,
                        " params { key: 'n' value { integer: 3000 } } }\n");
  };
  const std::string fits = line("copy_1d", "params { key: 'T' value { text: 'F32' } }");
  ASSERT_THAT(
      WriteNewFile(JoinPath(Directory(), "capture-1-1.pbtxt"),
                   absl::StrCat("# by hand\n", line("copy_9d", ""),
                                line("copy_1d", "params { key: 'T' value { text: 'F99' } }"), fits,
                                "problem { launches: ", fits.substr(0, 30))),
      IsOk());
  EXPECT_EQ(
      Hone({"tune", "--from", JoinPath(Directory(), "capture-1-1.pbtxt"), "--evaluations", "1"}),
      cli::kExitError);
  EXPECT_THAT(err_, AllOf(HasSubstr("copy_9d n=3000: "), HasSubstr("F99"),
                          HasSubstr("2 of 3 captured problems could not be tuned")));
  EXPECT_THAT(out_, HasSubstr("1 tuned, 0 tuned already, 2 failed"));
}

}  // namespace
}  // namespace hone
