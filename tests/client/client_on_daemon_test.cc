// Client and command against a real daemon on the CPU reference device.
#include <numeric>
#include <string>
#include <vector>

#include "client/cli/cli.h"
#include "client/cpp/hone/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scenarios/daemon_process.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ClientOnDaemonTest : public testing::Test {
 protected:
  // One daemon for all: starting it compiles nothing, but its cache saves the compiler.
  static void SetUpTestSuite() {
    absl::StatusOr<TemporaryDirectory> directory = TemporaryDirectory::Create();
    ASSERT_THAT(directory, IsOk());
    directory_ = new TemporaryDirectory(*std::move(directory));
    // Compile workers run at idle priority, so a busy machine makes them slow.
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

  static std::string Endpoint() { return "unix:" + daemon_->socket_path(); }

  static Client Connected(bool enable_cpu_device) {
    absl::StatusOr<Client> client =
        Client::Connect({.endpoint = Endpoint(), .enable_cpu_device = enable_cpu_device});
    EXPECT_THAT(client, IsOk());
    return *client;
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

  static TemporaryDirectory* directory_;
  static DaemonProcess* daemon_;
  std::string out_;
  std::string err_;
};

TemporaryDirectory* ClientOnDaemonTest::directory_ = nullptr;
DaemonProcess* ClientOnDaemonTest::daemon_ = nullptr;

// Copies `n` floats that begin `offset` floats behind an aligned address; whether the copy is right
// and nothing around it was touched.
bool CopiesRightly(const Kernel& kernel, int64_t n, size_t offset) {
  constexpr size_t kAround = 64;
  const auto count = static_cast<size_t>(n);
  std::vector<float> from(count + 2 * kAround, 0);
  std::vector<float> to(count + 2 * kAround, -1);
  std::iota(from.begin(), from.end(), 1.0f);
  const std::vector<float> before = to;
  const size_t at = kAround / 2 + offset;
  LaunchArguments arguments;
  arguments.sizes = {{"n", n}};
  const auto dst = reinterpret_cast<uint64_t>(to.data() + at);
  const auto src = reinterpret_cast<uint64_t>(from.data() + at);
  arguments.buffers = {{"dst", {.address = dst}}, {"src", {.address = src}}};
  const PlanBuffer buffers[] = {{.address = dst}, {.address = src}};
  const PlanInputs inputs{.sizes = &n, .buffers = buffers};
  const absl::Status status =
      offset % 2 == 0 ? kernel.LaunchOnCpu(arguments) : kernel.LaunchOnCpu(inputs);
  EXPECT_THAT(status, IsOk());
  std::vector<float> wanted = before;
  std::copy_n(from.begin() + static_cast<ptrdiff_t>(at), count,
              wanted.begin() + static_cast<ptrdiff_t>(at));
  return to == wanted;
}

TEST_F(ClientOnDaemonTest, AServedKernelIsRightAtEverySizeAndOffset) {
  absl::StatusOr<Kernel> kernel = Connected(true).GetKernel({.template_name = "copy_1d",
                                                             .params = {{"T", "F32"}, {"n", 4096}},
                                                             .max_wait = absl::Minutes(5)});
  ASSERT_THAT(kernel, IsOk());
  EXPECT_EQ(kernel->response().kernel().architecture(), "cpu");
  for (const int64_t n : {0, 1, 255, 1023, 1025, 4096, 5001}) {
    for (const size_t offset : {0, 1, 2, 3}) {
      EXPECT_TRUE(CopiesRightly(*kernel, n, offset)) << n << " " << offset;
    }
  }
}

TEST_F(ClientOnDaemonTest, AChainOfOperatorsIsTunedShownAndServed) {
  const std::vector<std::string> sizes = {"A=F32", "rows=32", "cols=64"};
  const auto hone = [&](std::vector<std::string> arguments, std::vector<std::string> options = {}) {
    arguments.insert(arguments.end(), sizes.begin(), sizes.end());
    arguments.insert(arguments.end(), options.begin(), options.end());
    return Hone(arguments);
  };
  EXPECT_EQ(Hone({"describe", "elementwise"}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("f=swiglu"), HasSubstr("silu(a) * b"), HasSubstr("B_SHAPE=row"),
                          HasSubstr("against the interpreted chain f")));
  EXPECT_EQ(hone({"tune", "elementwise", "f=silu(a) * b"}, {"--evaluations", "3"}), cli::kExitOk)
      << out_ << err_;
  // The preset is the same problem.
  EXPECT_EQ(hone({"get", "elementwise", "f=swiglu"}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("TUNED"));
  EXPECT_EQ(Hone({"list"}), cli::kExitOk);
  EXPECT_THAT(out_, HasSubstr("f=silu(a)*b"));
  EXPECT_EQ(hone({"show", "elementwise", "f=silu(a)*b"}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("verified at"));
  EXPECT_EQ(hone({"run", "elementwise", "f=silu(a)*b"}), cli::kExitOk) << err_;
  EXPECT_NE(hone({"run", "elementwise", "f=silu(a)*b"}, {"--verify"}), cli::kExitOk);
  EXPECT_THAT(err_, HasSubstr("checked by interpreting the chain f"));

  EXPECT_EQ(hone({"tune", "elementwise", "f=silu(a) * e"}), cli::kExitUsage);
  EXPECT_THAT(err_, HasSubstr("params.f: column 11: \"e\" is unknown"));
  EXPECT_EQ(hone({"tune", "elementwise", "f=a); asm(\"trap;"}), cli::kExitUsage);
  EXPECT_THAT(err_, HasSubstr("params.f: column 2"));
  // What is to be typed is quoted for a shell.
  EXPECT_EQ(hone({"show", "elementwise", "f=-a*b"}), cli::kExitNotFound);
  EXPECT_THAT(err_, HasSubstr("try: hone tune elementwise 'f=-a*b' A=F32 rows=32 cols=64"));

  absl::StatusOr<Kernel> kernel = Connected(true).GetKernel(
      {.template_name = "elementwise",
       .params = {{"f", "relu(a) + alpha"}, {"A", "F32"}, {"rows", 3}, {"cols", 5}},
       .max_wait = absl::Minutes(5)});
  ASSERT_THAT(kernel, IsOk());
  std::vector<float> values = {-2, -1, 0, 1, 2, 3, -4};
  LaunchArguments arguments;
  arguments.sizes = {{"rows", 1}, {"cols", 7}};
  arguments.scalars = {{"alpha", 0.5}};
  const auto address = reinterpret_cast<uint64_t>(values.data());
  arguments.buffers = {{"out", {.address = address}}, {"a", {.address = address}}};  // in place
  EXPECT_THAT(kernel->LaunchOnCpu(arguments), IsOk());
  EXPECT_THAT(values, testing::ElementsAre(0.5f, 0.5f, 0.5f, 1.5f, 2.5f, 3.5f, 0.5f));
}

TEST_F(ClientOnDaemonTest, KernelsOfTheCpuDeviceRunOnlyWhereTheClientAllowsIt) {
  absl::StatusOr<Kernel> kernel = Connected(false).GetKernel({.template_name = "copy_1d",
                                                              .params = {{"T", "F32"}, {"n", 4096}},
                                                              .max_wait = absl::Minutes(5)});
  ASSERT_THAT(kernel, IsOk());
  LaunchArguments arguments;
  arguments.sizes = {{"n", 0}};
  EXPECT_THAT(kernel->LaunchOnCpu(arguments),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("enable_cpu_device")));
}

TEST_F(ClientOnDaemonTest, TuneShowAndRunTellOneStory) {
  const std::vector<std::string> tune{
      "tune",     "copy_1d",
      "T=F32",    "n=4096",
      "--config", "XBLOCK=256 VEC=1 ITEMS=4 CACHE=0 BLOCKS_PER_SM=0 STAGES=0",
      "--config", "XBLOCK=256 VEC=4 ITEMS=1 CACHE=0 BLOCKS_PER_SM=0 STAGES=0"};
  ASSERT_EQ(Hone(tune), cli::kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("winner  XBLOCK=256"), HasSubstr("verified at n=4096"),
                          HasSubstr("GB/s")));
  const std::string key = out_.substr(out_.rfind("key  ") + 5, 12);

  ASSERT_EQ(Hone({"list", "copy_1d"}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr(key));
  ASSERT_EQ(Hone({"show", key}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("XBLOCK=256 VEC=4 ITEMS=1 CACHE=0 BLOCKS_PER_SM=0 STAGES=0"),
                          HasSubstr("* the winner")));

  ASSERT_EQ(Hone({"explain", key}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("winner  XBLOCK=256"), HasSubstr("32.77 kB moved"),
                          testing::ContainsRegex("copy +[0-9.]+ GB/s"), HasSubstr("bound   "),
                          HasSubstr("next    XBLOCK=256")));
  ASSERT_EQ(Hone({"explain", key, "--config", "VEC=1"}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("XBLOCK=256 VEC=1 ITEMS=4 CACHE=0 BLOCKS_PER_SM=0 STAGES=0"));
  ASSERT_EQ(Hone({"compare", "copy_1d", "n=4096"}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr(key), HasSubstr("1.00x")));
  EXPECT_EQ(Hone({"export", key, "--repro", "-o", "-"}), cli::kExitError);
  EXPECT_THAT(err_, HasSubstr("CPU reference device"));
  EXPECT_EQ(Hone({"artifact", key, "--ptx"}), cli::kExitError);
  EXPECT_THAT(err_, HasSubstr("no PTX for cpu"));
  ASSERT_EQ(Hone({"artifact", key}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("HOST_ELF"));

  // Again: nothing is measured.
  ASSERT_EQ(Hone(tune), cli::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("0 measured"));

  // At the tuned size, beyond it by one, and on pointers one element off.
  for (const std::vector<std::string>& run :
       {std::vector<std::string>{"run", "copy_1d", "T=F32", "n=4096", "--verify"},
        {"run", "copy_1d", "T=F32", "n=2^12+1", "--verify"},
        {"run", "copy_1d", "T=F32", "n=4096", "--verify", "--offset-elements", "1"},
        {"run", key, "n=1000", "--verify"}}) {
    ASSERT_EQ(Hone(run), cli::kExitOk) << err_;
    EXPECT_THAT(out_, AllOf(HasSubstr("exactly"), HasSubstr("\nverified\n")));
  }
  ASSERT_EQ(Hone({"run", "copy_1d", "n=4096", "-o", "json"}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("\"config\""), Not(HasSubstr("verified"))));
}

// scenario P16
TEST_F(ClientOnDaemonTest, ACompileHasTheHeadersOfItsSetAndIsKeptPerSet) {
  const std::string tree = JoinPath(directory_->path(), "tree");
  const std::string source = JoinPath(directory_->path(), "k.cu");
  ASSERT_THAT(MakeDirectories(JoinPath(tree, "lib/detail")), IsOk());
  ASSERT_THAT(WriteFileAtomic(JoinPath(tree, "lib/value.h"), "#include \"detail/one.h\"\n"),
              IsOk());
  ASSERT_THAT(WriteFileAtomic(source,
                              "#include <lib/value.h>\n"
                              "extern \"C\" __global__ void k(int* a) { a[0] = VALUE; }\n"),
              IsOk());
  const std::vector<std::string> compile{"compile", source, "--arch",       "cpu",
                                         "-n",      "k",    "--header-set", "lib"};
  EXPECT_EQ(Hone(compile), cli::kExitNotFound);
  EXPECT_THAT(err_, HasSubstr("hone headers add"));

  std::vector<std::string> digests;
  for (const char* value : {"1", "2"}) {
    ASSERT_THAT(WriteFileAtomic(JoinPath(tree, "lib/detail/one.h"),
                                std::string("#define VALUE ") + value + "\n"),
                IsOk());
    ASSERT_EQ(Hone({"headers", "add", "lib", tree}), cli::kExitOk) << err_;
    EXPECT_THAT(out_, HasSubstr("lib  2 files"));
    const auto sets = Connected(false).ListHeaderSets();
    ASSERT_THAT(sets, IsOk());
    digests.push_back(sets->header_sets(0).digest());
    EXPECT_THAT(out_, HasSubstr(digests.back()));
    ASSERT_EQ(Hone(compile), cli::kExitOk) << err_;
    EXPECT_THAT(out_, Not(HasSubstr("from the cache"))) << "another set is another program";
    ASSERT_EQ(Hone(compile), cli::kExitOk) << err_;
    EXPECT_THAT(out_, HasSubstr("from the cache"));
  }
  EXPECT_NE(digests[0], digests[1]);
  // The first set is still there, under its digest.
  std::vector<std::string> first = compile;
  first.back() = digests[0];
  ASSERT_EQ(Hone(first), cli::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("from the cache"));
}

TEST_F(ClientOnDaemonTest, RunTellsWhatItCannotDo) {
  EXPECT_EQ(Hone({"run", "copy_9d", "n=4"}), cli::kExitNotFound);
  EXPECT_THAT(err_, HasSubstr("copy_1d"));  // a name near it
  EXPECT_EQ(Hone({"run", "copy_1d"}), cli::kExitUsage);
  EXPECT_THAT(err_, HasSubstr("params.n"));
  EXPECT_EQ(Hone({"run", "rmsnorm", "rows=2", "cols=64", "eps=tiny"}), cli::kExitUsage);
  EXPECT_THAT(err_, HasSubstr("eps=tiny"));
}

TEST_F(ClientOnDaemonTest, AReferenceThatReadsAChainIsCompiledWithIt) {
  ASSERT_EQ(Hone({"run", "softmax", "f=x * scale", "rows=3", "cols=65", "scale=0.5", "--max-wait",
                  "300", "--verify"}),
            cli::kExitOk)
      << err_;
  EXPECT_THAT(out_, HasSubstr("verified"));
}

TEST_F(ClientOnDaemonTest, ScalarsMayBeGivenPerLaunch) {
  ASSERT_EQ(
      Hone({"run", "rmsnorm", "rows=3", "cols=64", "eps=0.5", "--max-wait", "300", "--verify"}),
      cli::kExitOk)
      << err_;
  EXPECT_THAT(out_, HasSubstr("verified"));
}

}  // namespace
}  // namespace hone
