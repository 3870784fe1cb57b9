// Bad candidates through the real daemon, worker and compiler: each costs itself only. Built twice:
// for the CPU reference device, and as a test of tests/gpu for a CUDA device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "runtime/base/clocks.h"
#include "tests/scenarios/daemon_process.h"
#include "tests/scenarios/one_kernel_template.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kDevice[] = HONE_SCENARIO_DEVICE;

// What a Tune call said, the last word on each candidate.
struct Tuned {
  v1::TuneStarted started;
  v1::TuneFinished finished;
  std::map<std::string, v1::MeasurementInfo> candidates;
  grpc::Status status;

  const v1::Rejection& rejection(const std::string& config) const {
    return candidates.at(config).rejection();
  }
  bool timed(const std::string& config) const {
    const auto found = candidates.find(config);
    return found != candidates.end() && !found->second.has_rejection() &&
           found->second.median_ns() > 0;
  }
};

class CandidatesTest : public ::testing::Test {
 protected:
  // One cache for all tests spares the compiler; each tunes a problem of its own.
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory(*TemporaryDirectory::Create("/tmp", "hone"));
  }
  static void TearDownTestSuite() { delete directory_; }

  void SetUp() override {
    if (!missing_.empty()) GTEST_SKIP() << missing_;
    ASSERT_NO_FATAL_FAILURE(Start());
    const v1::GetStatusResponse status = daemon_->WaitForEngine();
    if (status.devices_size() > 0) return;
    missing_ = absl::StrCat("no ", kDevice, " device: ", absl::StrJoin(status.warnings(), "; "));
    GTEST_SKIP() << missing_;
  }

  void Start() {
    daemon_.reset();
    // Compile workers run at idle priority, so a busy machine makes them slow.
    auto started = DaemonProcess::Start(
        directory_->path(), {.arguments = {"--compile-timeout", "5m", "--launch-timeout", "2s"},
                             .device = kDevice,
                             .kernels = ScenarioTemplates()});
    ASSERT_TRUE(started.ok()) << started.status();
    daemon_ = *std::move(started);
  }
  // As after a power failure.
  void Restart() {
    daemon_->Kill();
    ASSERT_NO_FATAL_FAILURE(Start());
  }

  Tuned Tune(const v1::TuneRequest& request) {
    Tuned tuned;
    grpc::ClientContext context;
    auto client = daemon_->Client();
    auto reader = client->Tune(&context, request);
    v1::TuneEvent event;
    while (reader->Read(&event)) {
      if (event.has_started()) tuned.started = event.started();
      if (event.has_candidate()) tuned.candidates[event.candidate().config()] = event.candidate();
      if (event.has_finished()) tuned.finished = event.finished();
    }
    tuned.status = reader->Finish();
    EXPECT_TRUE(tuned.status.ok()) << tuned.status.error_message() << "\n" << daemon_->Log();
    return tuned;
  }
  Tuned Tune(const std::string& name, int64_t n, const std::vector<int>& kinds) {
    auto request = FromText<v1::TuneRequest>(absl::StrCat(
        "template { name: '", name, "' } params { key: 'n' value { integer: ", n, " } }"));
    for (const int kind : kinds) request.add_configs(absl::StrCat("KIND=", kind));
    return Tune(request);
  }

  v1::GetTuningResponse GetTuning(const std::string& key) {
    grpc::ClientContext context;
    v1::GetTuningRequest request;
    request.set_key(key);
    v1::GetTuningResponse response;
    const grpc::Status status = daemon_->Client()->GetTuning(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  std::string Log(const std::string& id) {
    grpc::ClientContext context;
    v1::GetLogRequest request;
    request.set_log_id(id);
    v1::GetLogResponse response;
    const grpc::Status status = daemon_->Client()->GetLog(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.log();
  }
  // After the first tune the lane takes the device's ceilings.
  v1::DeviceStatus DeviceAtRest() {
    v1::DeviceStatus device = Device();
    for (int i = 0; i < 600 && device.state() == "measuring"; ++i) {
      absl::SleepFor(absl::Milliseconds(100));
      device = Device();
    }
    return device;
  }
  v1::DeviceStatus Device() {
    const v1::GetStatusResponse status = daemon_->Status();
    return status.devices_size() > 0 ? status.devices(0) : v1::DeviceStatus();
  }

  // The command in this process; its output is in out_.
  int Hone(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"hone", "--endpoint", "unix:" + daemon_->socket_path()});
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    testing::internal::CaptureStdout();
    const int code = cli::Main(static_cast<int>(argv.size()), argv.data());
    out_ = testing::internal::GetCapturedStdout();
    return code;
  }
  // The served kernel is loaded by a client, launched, and right.
  void ExpectServed(const std::string& name, int64_t n) {
    EXPECT_EQ(Hone({"run", name, absl::StrCat("n=", n), "--verify"}), cli::kExitOk)
        << daemon_->Log();
    EXPECT_THAT(out_, HasSubstr("\nverified\n"));
  }

  static TemporaryDirectory* directory_;
  static std::string missing_;  // why there is no device; looked for once

  std::unique_ptr<DaemonProcess> daemon_;
  std::string out_;
};
TemporaryDirectory* CandidatesTest::directory_ = nullptr;
std::string CandidatesTest::missing_;

// scenario P24
TEST_F(CandidatesTest, OneThatDoesNotCompileAndOneThatIsTooLargeCostOnlyThemselves) {
  const Tuned tuned = Tune("hostile", 65536, {1, 2, 8, 5, 10});
  EXPECT_EQ(tuned.rejection("KIND=2").kind(), "compile");
  EXPECT_THAT(tuned.rejection("KIND=2").detail(), HasSubstr("candidate 2 is not meant to compile"));
  EXPECT_THAT(Log(tuned.rejection("KIND=2").log_id()),
              HasSubstr("candidate 2 is not meant to compile"));
  const v1::Rejection& large = tuned.rejection("KIND=5");
  EXPECT_EQ(large.kind(), "resources");
  EXPECT_THAT(large.detail(), AllOf(HasSubstr("shared memory"), HasSubstr("needs"),
                                    HasSubstr("limit"), HasSubstr(absl::StrCat(large.limit()))));
  EXPECT_EQ(large.needed(), large.limit() + 1024);
  for (const char* good : {"KIND=1", "KIND=8", "KIND=10"}) EXPECT_TRUE(tuned.timed(good)) << good;
  EXPECT_EQ(tuned.finished.measured(), 3);
  EXPECT_EQ(tuned.finished.rejected(), 2);
  EXPECT_TRUE(tuned.finished.winner().verified());
  EXPECT_TRUE(tuned.timed(tuned.finished.winner().config()));

  const v1::GetTuningResponse kept = GetTuning(tuned.started.key());
  EXPECT_EQ(kept.measurements_size(), 5) << "rejections are rows";
  EXPECT_EQ(kept.summary().rejected(), 2);
}

// scenario P25
TEST_F(CandidatesTest, OneThatWritesFarPastItsBufferCostsItselfAndAProcess) {
  const Tuned tuned = Tune("hostile", 65537, {1, 8, 9, 10});
  EXPECT_EQ(tuned.rejection("KIND=9").kind(), "illegal_access")
      << tuned.rejection("KIND=9").detail();
  for (const char* good : {"KIND=1", "KIND=8", "KIND=10"}) {
    EXPECT_TRUE(tuned.timed(good)) << good;
    EXPECT_TRUE(tuned.candidates.at(good).verified()) << good;
  }
  EXPECT_EQ(tuned.finished.measured(), 3);
  EXPECT_EQ(DeviceAtRest().state(), "idle") << Device().detail();
  ExpectServed("hostile", 65537);
  EXPECT_EQ(Tune("tail_sum", 4096, {1}).finished.measured(), 1) << "the next tune works";
  EXPECT_EQ(DeviceAtRest().state(), "idle") << Device().detail();
}

// scenario P26
TEST_F(CandidatesTest, OneThatNeverEndsIsKilledAtItsLimitAndRememberedOverARestart) {
  const std::vector<int> kinds = {1, 4, 10};
  const Tuned tuned = Tune("hostile", 65538, kinds);
  const v1::Rejection& endless = tuned.rejection("KIND=4");
  EXPECT_EQ(endless.kind(), "timeout");
  EXPECT_THAT(endless.detail(), HasSubstr("did not end within 2s"));
  EXPECT_EQ(endless.limit(), 2000);
  EXPECT_THAT(daemon_->Log(), HasSubstr("measure_worker_replaced"));
  EXPECT_TRUE(tuned.timed("KIND=1"));
  EXPECT_TRUE(tuned.timed("KIND=10"));
  EXPECT_EQ(DeviceAtRest().state(), "idle") << Device().detail();

  ASSERT_NO_FATAL_FAILURE(Restart());
  const absl::Duration start = MonotonicNow();
  const Tuned again = Tune("hostile", 65538, kinds);
  EXPECT_EQ(again.finished.measured(), 0);
  EXPECT_EQ(again.finished.rejected(), 0) << "nothing was tried again";
  EXPECT_EQ(again.finished.reused(), 3);
  EXPECT_EQ(again.finished.winner().config(), tuned.finished.winner().config());
  EXPECT_EQ(Device().worker_pid(), 0) << "no measuring worker was needed";
  EXPECT_LT(MonotonicNow() - start, absl::Seconds(60));
  EXPECT_THAT(daemon_->Log(), Not(HasSubstr("measure_worker_replaced")));
}

// scenario P27
TEST_F(CandidatesTest, OneThatSkipsTheTailIsWrongHoweverFast) {
  const Tuned tuned = Tune("tail_sum", 65636, {1, 2, 3, 4});
  EXPECT_EQ(tuned.rejection("KIND=4").kind(), "wrong_result");
  EXPECT_THAT(tuned.rejection("KIND=4").detail(),
              AllOf(HasSubstr("wrong result in sums"), HasSubstr("max error")));
  EXPECT_EQ(tuned.finished.measured(), 3);
  EXPECT_NE(tuned.finished.winner().config(), "KIND=4");
  EXPECT_TRUE(tuned.finished.winner().verified());
  EXPECT_FALSE(tuned.finished.unverified());
}

// scenario P27
TEST_F(CandidatesTest, WithoutAReferenceDisagreementIsReportedAndTheTuneUnverified) {
  const Tuned tuned = Tune("unverified", 65636, {1, 2, 3, 4});
  EXPECT_EQ(tuned.rejection("KIND=4").kind(), "wrong_result");
  EXPECT_THAT(tuned.rejection("KIND=4").detail(), HasSubstr("compared with KIND=1"));
  EXPECT_TRUE(tuned.finished.unverified());
  EXPECT_FALSE(tuned.finished.winner().verified());
  EXPECT_EQ(Hone({"show", tuned.started.key()}), cli::kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("unverified"), HasSubstr("compared with KIND=1")));
}

// scenario P28
TEST_F(CandidatesTest, InPlaceKernelsAreCheckedAndTimedOnTheSameInput) {
  const Tuned tuned = Tune(FromText<v1::TuneRequest>(
      "template { name: 'scale_in_place' } params { key: 'n' value { integer: 10007 } }"));
  EXPECT_EQ(tuned.finished.measured(), 3);
  EXPECT_EQ(tuned.finished.rejected(), 0);
  for (const auto& [config, candidate] : tuned.candidates) {
    EXPECT_TRUE(candidate.verified()) << config << ": " << candidate.rejection().detail();
  }
  // One application, as the reference's.
  ExpectServed("scale_in_place", 10007);
}

// scenario P28
TEST_F(CandidatesTest, RestoringABufferIsNotTimed) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const Tuned tuned = Tune(FromText<v1::TuneRequest>(absl::StrCat(
      "template { name: 'touch_in_place' } params { key: 'n' value { integer: ", kBytes / 4,
      " } }")));
  ASSERT_EQ(tuned.finished.measured(), 2);
  // 64 MiB are read and written in 20 us at best, by a GPU's memory; by a CPU's in milliseconds.
  const double restore_ns = std::string(kDevice) == "cuda" ? 20e3 : 2e6;
  EXPECT_LT(tuned.finished.winner().median_ns(), restore_ns);
}

// A tune of a template sent along, whose only tunable has `values`.
v1::TuneRequest ScaleWith(const std::vector<int64_t>& values, const std::string& version) {
  v1::TuneRequest request;
  (*request.mutable_params())["n"].set_integer(65536);
  *request.mutable_inline_template() = OneKernelTemplate({.kernel = "scale",
                                                          .tunable = "XBLOCK",
                                                          .values = values,
                                                          .block = "XBLOCK",
                                                          .reads_x = true,
                                                          .source = R"(
template <int XBLOCK> __global__ void scale(float* y, const float* x, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * XBLOCK + threadIdx.x;
  if (i < n) y[i] = 1.5f * x[i];
}
__global__ void scale_reference(float* y, const float* x, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 1.5f * x[i];
}
)"});
  request.mutable_inline_template()->set_version(version);
  return request;
}

// scenario P30
TEST_F(CandidatesTest, AfterARestartNothingIsMeasuredAndASeventhCandidateCostsItselfOnly) {
  const std::vector<int64_t> six = {32, 64, 96, 128, 256, 512};
  const Tuned first = Tune(ScaleWith(six, "1"));
  ASSERT_EQ(first.finished.measured(), 6);

  ASSERT_NO_FATAL_FAILURE(Restart());
  const Tuned again = Tune(ScaleWith(six, "1"));
  EXPECT_EQ(again.finished.measured(), 0);
  EXPECT_EQ(again.finished.reused(), 6);
  EXPECT_EQ(daemon_->Status().counters().at("measurements"), 0);
  EXPECT_EQ(Device().worker_pid(), 0);

  std::vector<int64_t> seven = six;
  seven.push_back(1024);
  const Tuned more = Tune(ScaleWith(seven, "2"));
  EXPECT_EQ(more.started.key(), first.started.key());
  EXPECT_EQ(more.finished.measured(), 2) << "the new one and the incumbent";
  std::set<std::string> measured;
  for (const auto& [config, candidate] : more.candidates) measured.insert(config);
  EXPECT_THAT(measured,
              ::testing::UnorderedElementsAre("XBLOCK=1024", first.finished.winner().config()));

  EXPECT_EQ(Hone({"show", first.started.key()}), cli::kExitOk);
  for (const int64_t value : seven) EXPECT_THAT(out_, HasSubstr(absl::StrCat("XBLOCK=", value)));
  EXPECT_THAT(out_, AllOf(HasSubstr("clock"), HasSubstr("when"), HasSubstr("driver")));
  EXPECT_THAT(out_, ContainsRegex("20[0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]"));
  // A virtual machine may not know its clock, and a CPU has no driver.
  EXPECT_THAT(out_, HasSubstr(more.finished.winner().clock_mhz() > 0 ? " MHz" : ""));
  EXPECT_THAT(out_, HasSubstr(more.finished.winner().driver()));
}

// scenario P04
TEST_F(CandidatesTest, AutoIsATargetThatACompilerHasAndTheDeviceRuns) {
  grpc::ClientContext context;
  v1::GetKernelResponse response;
  const grpc::Status status = daemon_->Client()->GetKernel(
      &context,
      FromText<v1::GetKernelRequest>("template { name: 'scale_in_place' } max_wait_ms: 300000 "
                                     "params { key: 'n' value { integer: 1000 } } "
                                     "target { architecture: 'auto' }"),
      &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  std::set<std::string> made;
  const v1::GetStatusResponse state = daemon_->Status();
  for (const v1::CompilerStatus& compiler : state.compilers()) {
    made.insert(compiler.architectures().begin(), compiler.architectures().end());
  }
  EXPECT_THAT(made, ::testing::Contains(response.kernel().architecture()));
  EXPECT_EQ(Hone({"run", "scale_in_place", "n=1000", "--arch", "auto", "--verify"}), cli::kExitOk);
  EXPECT_THAT(out_, HasSubstr("\nverified\n"));
}

// scenario P07: what is loaded after a restart is found by the names kept with it.
TEST_F(CandidatesTest, NamespacedKernelsAreLoadedByTheirNamesAfterARestart) {
  Tune(
      FromText<v1::TuneRequest>("template { name: 'namespaced' } "
                                "params { key: 'T' value { text: 'F16' } } "
                                "params { key: 'n' value { integer: 4096 } }"));
  ASSERT_NO_FATAL_FAILURE(Restart());
  EXPECT_EQ(Hone({"get", "namespaced", "T=F16", "n=4096", "-o", "json"}), cli::kExitOk);
  // Protobuf's JSON writes '<' like this.
  EXPECT_THAT(out_, AllOf(HasSubstr("\"a::b::axpy\\u003c__half, "), HasSubstr("TUNED")));
  EXPECT_EQ(Hone({"run", "namespaced", "T=F16", "n=4096"}), cli::kExitOk);
  EXPECT_EQ(daemon_->Status().counters().at("compiles"), 0);
  EXPECT_EQ(Hone({"run", "namespaced", "T=F16", "n=4096", "--verify"}), cli::kExitOk);
  EXPECT_THAT(out_, HasSubstr("\nverified\n"));
}

}  // namespace
}  // namespace hone
