// Many at once, and more than fits: through the real daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <numeric>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/cli/cli.h"
#include "client/cpp/hone/client.h"
#include "google/protobuf/text_format.h"
#include "tests/scenarios/daemon_process.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class Message>
Message FromText(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

class PressureTest : public ::testing::Test {
 protected:
  PressureTest() : directory_(*TemporaryDirectory::Create("/tmp", "hone")) {}

  void Start(std::vector<std::string> arguments) {
    daemon_.reset();
    // Compile workers run at idle priority, so a busy machine makes them slow.
    arguments.insert(arguments.end(), {"--compile-timeout", "5m"});
    auto started = DaemonProcess::Start(directory_.path(), {.arguments = std::move(arguments)});
    ASSERT_TRUE(started.ok()) << started.status();
    daemon_ = *std::move(started);
    const v1::GetStatusResponse status = daemon_->WaitForEngine();
    for (const v1::CompilerStatus& compiler : status.compilers()) {
      // Quicker than a host compiler, and what the scenarios are about.
      if (compiler.kind() == "nvrtc" && compiler.available()) architecture_ = "sm_90";
    }
  }

  v1::CompileRequest Source(const std::string& source) {
    v1::CompileRequest request;
    request.set_name("k.cu");
    request.set_source(source);
    request.add_architectures(architecture_);
    return request;
  }

  TemporaryDirectory directory_;
  std::string architecture_ = "cpu";
  std::unique_ptr<DaemonProcess> daemon_;
};

// Compile workers of the daemon that work now: those that run, or wait for a compiler they started.
// Idle ones stay a while for more, beside those of other compilers and priorities.
int BusyCompileWorkersOf(pid_t daemon) {
  std::set<std::string> workers, busy, parents;
  const auto names = ListDirectory("/proc");
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    int pid = 0;
    if (!absl::SimpleAtoi(name, &pid)) continue;
    const std::string stat = ReadKernelFile("/proc/" + name + "/stat").value_or("");
    // "PID (NAME) STATE PPID ..."
    const std::vector<std::string> fields =
        absl::StrSplit(stat.substr(std::min(stat.rfind(')'), stat.size())), ' ');
    if (fields.size() < 3 || fields[1] == "Z") continue;
    parents.insert(fields[2]);
    if (fields[2] != absl::StrCat(daemon)) continue;
    const std::string line = ReadKernelFile("/proc/" + name + "/cmdline").value_or("");
    if (!absl::StrContains(line, absl::string_view("hone-worker\0compile", 19))) continue;
    workers.insert(name);
    if (fields[1] == "R") busy.insert(name);
  }
  for (const std::string& worker : workers) {
    if (parents.count(worker) > 0) busy.insert(worker);
  }
  return static_cast<int>(busy.size());
}

// scenario P10
TEST_F(PressureTest, SixtyFourSourcesAndSixtyFourLoadsAtOnceAllSucceed) {
  constexpr int kEach = 64;
  constexpr int kWorkers = 2;
  ASSERT_NO_FATAL_FAILURE(Start({"--workers", absl::StrCat(kWorkers)}));
  std::atomic<bool> done{false};
  std::atomic<int> most_workers{0}, loaded{0};
  std::thread watch([&] {
    int before = 0;
    while (!done) {
      // Twice in a row: a worker that has just answered still runs for a moment.
      const int now = BusyCompileWorkersOf(daemon_->pid());
      most_workers = std::max<int>(most_workers, std::min(before, now));
      before = now;
      absl::SleepFor(absl::Milliseconds(2));  // between looks at /proc
    }
  });
  std::vector<std::string> compiled(kEach);
  std::vector<std::thread> clients;
  for (int i = 0; i < kEach; ++i) {
    clients.emplace_back([&, i] {
      grpc::ClientContext context;
      v1::CompileResponse response;
      const grpc::Status status = daemon_->Client()->Compile(
          &context,
          Source(absl::StrCat("extern \"C\" __global__ void k(int* a) { a[0] = ", 1000 + i, "; }")),
          &response);
      ASSERT_TRUE(status.ok()) << i << ": " << status.error_message();
      ASSERT_EQ(response.artifacts_size(), 1);
      compiled[static_cast<size_t>(i)] = response.artifacts(0).info().sha256();
    });
    clients.emplace_back([&, i] {
      auto client = Client::Connect({.endpoint = "unix:" + daemon_->socket_path(),
                                     .connect_timeout = absl::Minutes(1),
                                     .enable_cpu_device = true});
      ASSERT_TRUE(client.ok()) << client.status();
      const auto kernel = client->GetKernel({.template_name = "copy_1d",
                                             .params = {{"T", "F32"}, {"n", 4096}},
                                             .max_wait = absl::Minutes(30)});
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      std::vector<float> from(1000 + static_cast<size_t>(i)), to(from.size(), -1);
      std::iota(from.begin(), from.end(), static_cast<float>(i));
      LaunchArguments arguments;
      arguments.sizes = {{"n", static_cast<int64_t>(from.size())}};
      arguments.buffers = {{"dst", {.address = reinterpret_cast<uint64_t>(to.data())}},
                           {"src", {.address = reinterpret_cast<uint64_t>(from.data())}}};
      const absl::Status launched = kernel->LaunchOnCpu(arguments);
      ASSERT_TRUE(launched.ok()) << launched;
      EXPECT_EQ(to, from);
      ++loaded;
    });
  }
  for (std::thread& client : clients) client.join();
  done = true;
  watch.join();
  EXPECT_EQ(loaded, kEach);
  EXPECT_EQ(std::set<std::string>(compiled.begin(), compiled.end()).size(),
            static_cast<size_t>(kEach))
      << "every source got a binary of its own";
  EXPECT_LE(most_workers, kWorkers);
  EXPECT_GE(most_workers, 1);
  const v1::GetStatusResponse status = daemon_->Status();
  EXPECT_EQ(status.pid(), daemon_->pid());
  // The kernel of the 64 loads, with a fallback at most, was compiled for all of them.
  EXPECT_LE(status.counters().at("compiles"), kEach + 2);
}

// scenario P18
TEST_F(PressureTest, TheStoreStaysBelowItsBoundAndKeepsWinnersAndHotBinaries) {
  constexpr int64_t kBound = int64_t{16} << 20;
  const std::vector<std::string> bound = {"--store-max-bytes", "16MiB"};
  ASSERT_NO_FATAL_FAILURE(Start(bound));
  std::string winner;
  {
    grpc::ClientContext context;
    auto client = daemon_->Client();
    auto reader = client->Tune(
        &context, FromText<v1::TuneRequest>(
                      "template { name: 'copy_1d' } "
                      "params { key: 'n' value { integer: 4096 } } "
                      "configs: 'XBLOCK=256 VEC=4 ITEMS=1 CACHE=0 BLOCKS_PER_SM=0 STAGES=0'"));
    v1::TuneEvent event;
    while (reader->Read(&event)) {
      if (event.has_finished()) winner = event.finished().winner().artifact_sha256();
    }
    const grpc::Status status = reader->Finish();
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  const auto compile = [&](int i) {
    grpc::ClientContext context;
    v1::CompileResponse response;
    const grpc::Status status = daemon_->Client()->Compile(
        &context,
        Source(absl::StrCat("__device__ unsigned char table[1000000] = {", 1 + i % 250, ", ",
                            1 + i / 250, "};\n",
                            "extern \"C\" __global__ void k(int* a) { a[0] = table[a[1]]; }")),
        &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.artifacts_size(), 1);
    EXPECT_EQ(response.artifacts(0).not_cached_reason(), "");
    EXPECT_GE(response.artifacts(0).info().size_bytes(), 1'000'000);
    return response.artifacts(0).cached();
  };
  const auto bytes_on_disk = [&] {
    int64_t bytes = 0;
    for (const char* name : {"hone.db", "hone.db-wal", "hone.db-shm"}) {
      std::error_code gone;
      const auto size = std::filesystem::file_size(
          JoinPath(directory_.path(), absl::StrCat("cache/", name)), gone);
      if (!gone) bytes += static_cast<int64_t>(size);
    }
    return bytes;
  };
  EXPECT_FALSE(compile(0));
  for (int i = 1; i <= 24; ++i) {
    EXPECT_FALSE(compile(i)) << i;
    EXPECT_TRUE(compile(0)) << "hot, after " << i;
    EXPECT_LE(bytes_on_disk(), kBound + (1 << 20)) << i;
  }
  EXPECT_FALSE(compile(1)) << "used longest ago";
  v1::GetStatusResponse status = daemon_->Status();
  EXPECT_EQ(status.store_bytes_max(), kBound);
  EXPECT_GE(status.counters().at("evictions"), 8);
  EXPECT_GE(status.counters().at("evicted_bytes"), 8'000'000);

  ASSERT_NO_FATAL_FAILURE(Start(bound));
  grpc::ClientContext context;
  v1::GetKernelResponse served;
  const grpc::Status got = daemon_->Client()->GetKernel(
      &context,
      FromText<v1::GetKernelRequest>("template { name: 'copy_1d' } policy: FROZEN "
                                     "params { key: 'n' value { integer: 4096 } }"),
      &served);
  ASSERT_TRUE(got.ok()) << got.error_message();
  EXPECT_EQ(served.kernel().variants(0).artifact().sha256(), winner);
  EXPECT_EQ(daemon_->Status().counters().at("compiles"), 0);
}

// scenario P35: an untuned key is found with the command, until it is tuned.
TEST_F(PressureTest, UntunedKeysAreListedUntilTheyAreTuned) {
  ASSERT_NO_FATAL_FAILURE(Start({}));
  const auto hone = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"hone", "--endpoint", "unix:" + daemon_->socket_path()});
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    testing::internal::CaptureStdout();
    const int code = cli::Main(static_cast<int>(argv.size()), argv.data());
    const std::string out = testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, cli::kExitOk) << out;
    return out;
  };
  EXPECT_THAT(hone({"get", "copy_1d", "n=5000"}), HasSubstr("source      DEFAULT"));
  hone({"get", "copy_1d", "n=5000"});
  EXPECT_THAT(hone({"misses", "--since", "1h"}),
              AllOf(HasSubstr("copy_1d"), HasSubstr("T=F32 n=5000"), HasSubstr("BEST_AVAILABLE"),
                    HasSubstr("2")));
  EXPECT_THAT(hone({"status"}), HasSubstr("untuned"));
  hone({"tune", "copy_1d", "n=4096", "--config",
        "XBLOCK=256 VEC=1 ITEMS=4 CACHE=0 BLOCKS_PER_SM=0 STAGES=0"});
  EXPECT_THAT(hone({"misses"}), HasSubstr("Nothing untuned"));
  EXPECT_THAT(hone({"get", "copy_1d", "n=5000"}), HasSubstr("BUCKET: tuned for T=F32 n=4096"));
}

}  // namespace
}  // namespace hone
