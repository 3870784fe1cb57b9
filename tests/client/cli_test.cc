// The command against a scripted daemon: what it prints and how it exits.
#include "client/cli/cli.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/files.h"
#include "tests/client/fake_service.h"

namespace hone::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CliTest : public testing::Test {
 protected:
  // Runs `hone ARGUMENTS` against the fake daemon.
  int Hone(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"hone", "--endpoint", daemon_.endpoint()});
    return RunMain(arguments);
  }

  int RunMain(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = Main(static_cast<int>(argv.size()), argv.data());
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }

  FakeService& service() { return daemon_.service(); }

  FakeDaemon daemon_;
  std::string out_;
  std::string err_;
};

v1::MeasurementInfo Timed(const std::string& config, double median_ns) {
  v1::MeasurementInfo m;
  m.set_config(config);
  m.set_median_ns(median_ns);
  m.set_gb_per_s(1e6 / median_ns);
  m.set_verified(true);
  m.add_verified_sizes("n=64");
  return m;
}

TEST_F(CliTest, HelpIsWrittenForPeople) {
  EXPECT_EQ(RunMain({"hone", "--help"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("hone tune copy_1d T=F32 n=2^24"), HasSubstr("Exit codes"),
                          HasSubstr("explain-key")));
  for (const char* command :
       {"status", "templates",  "describe", "lint",        "headers", "tune",    "run",
        "get",    "compile",    "list",     "show",        "explain", "compare", "pin",
        "unpin",  "invalidate", "misses",   "explain-key", "export",  "artifact"}) {
    EXPECT_EQ(RunMain({"hone", command, "--help"}), kExitOk) << command;
    EXPECT_THAT(out_, HasSubstr(command));
  }
}

TEST_F(CliTest, WrongUsageExitsWith64) {
  EXPECT_EQ(RunMain({"hone"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("templates"));
  EXPECT_EQ(RunMain({"hone", "frobnicate"}), kExitUsage);
  EXPECT_THAT(err_, AllOf(HasSubstr("'frobnicate'"), HasSubstr("explain-key")));
  EXPECT_EQ(RunMain({"hone", "describe"}), kExitUsage);
  EXPECT_THAT(err_, AllOf(HasSubstr("NAME"), HasSubstr("hone describe --help")));
  EXPECT_EQ(Hone({"get", "copy_1d", "n"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("'n' is not name=value"));
  EXPECT_EQ(Hone({"get", "copy_1d", "n=12x"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("n: '12x' is not an integer"));
  EXPECT_EQ(Hone({"tune", "copy_1d", "--watch"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("--watch needs a directory"));
  EXPECT_EQ(RunMain({"hone", "--endpoint", "nowhere", "status"}), kExitUsage);
}

TEST_F(CliTest, WithoutADaemonItSaysWhatToStartAndWhichEndpointWasTried) {
  EXPECT_EQ(RunMain({"hone", "--endpoint", "unix:/nowhere/honed.sock", "status"}),
            kExitUnreachable);
  EXPECT_THAT(err_, AllOf(HasSubstr("/nowhere/honed.sock"), HasSubstr("honed")));
}

TEST_F(CliTest, UnknownNamesExitWith3) {
  EXPECT_EQ(Hone({"describe", "copy_2d"}), kExitNotFound);
  EXPECT_THAT(err_, HasSubstr("no template 'copy_2d'"));
  EXPECT_EQ(Hone({"show", "abcdef"}), kExitNotFound);
}

TEST_F(CliTest, StatusShowsDevicesAndCompilers) {
  v1::DeviceStatus* device = service().status.add_devices();
  device->set_name("Test CPU");
  device->set_state("idle");
  service().status.add_compilers()->set_kind("host");
  service().status.set_caller_role("tuner");
  service().status.add_warnings("no GPU");
  EXPECT_EQ(Hone({"status"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("honed 0.1.0"), HasSubstr("Test CPU"), HasSubstr("host"),
                          HasSubstr("tuner"), HasSubstr("warning: no GPU")));
  EXPECT_EQ(Hone({"status", "-o", "json"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("\"caller_role\": \"tuner\""));
}

TEST_F(CliTest, TemplatesAreListedWithWhatCouldNotBeLoaded) {
  v1::TemplateSummary* summary = service().templates.add_templates();
  summary->set_name("copy_1d");
  summary->set_description("Copy");
  v1::TemplateProblem* problem = service().templates.add_problems();
  problem->set_location("kernels/bad/template.pbtxt:3:1");
  problem->set_message("no source");
  EXPECT_EQ(Hone({"templates"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("copy_1d"),
                          HasSubstr("not loaded: kernels/bad/template.pbtxt:3:1: no source")));
}

// scenario P40
TEST_F(CliTest, DescribeNamesTheFilesThatWereTooLargeToBeSent) {
  v1::DescribeTemplateResponse& reply = service().described["large"];
  reply.mutable_summary()->set_name("large");
  reply.add_files_left_out("big.h");
  EXPECT_EQ(Hone({"describe", "large"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("Too large to be sent: big.h"));
}

TEST_F(CliTest, TuneElsewhereThanOnATerminalPrintsPlainLines) {
  v1::TuneEvent started;
  started.mutable_started()->set_key("0123456789abcdef");
  started.mutable_started()->set_candidates(3);
  started.mutable_started()->set_device("cpu");
  started.mutable_started()->set_work_bytes(1);
  v1::TuneEvent first;
  *first.mutable_candidate() = Timed("A=1", 2000);
  v1::TuneEvent second;
  *second.mutable_candidate() = Timed("A=2", 1000);
  v1::TuneEvent third;
  third.mutable_candidate()->set_config("A=3");
  third.mutable_candidate()->mutable_rejection()->set_kind("compile");
  third.mutable_candidate()->mutable_rejection()->set_detail("expected ';'");
  v1::TuneEvent finished;
  *finished.mutable_finished()->mutable_winner() = Timed("A=2", 1000);
  service().tune_events = {started, first, second, third, finished};
  EXPECT_EQ(Hone({"tune", "copy_1d", "T=F32", "n=2^20", "--evaluations", "7"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("A=1  2.00 us  500.0 GB/s"),
                          HasSubstr("A=3  rejected  compile: expected ';'"),
                          HasSubstr("winner  A=2  1.00 us"), HasSubstr("verified at n=64"),
                          Not(HasSubstr("\x1b"))));
  EXPECT_EQ(service().last_tune().template_().name(), "copy_1d");
  EXPECT_EQ(service().last_tune().params().at("n").integer(), 1 << 20);
  EXPECT_EQ(service().last_tune().budget().evaluations_max(), 7);

  EXPECT_EQ(Hone({"tune", "copy_1d", "-o", "json"}), kExitOk);
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 5);
}

TEST_F(CliTest, TuningADirectorySendsTheTemplateAlong) {
  v1::TuneEvent finished;
  *finished.mutable_finished()->mutable_winner() = Timed("A=2", 1000);
  service().tune_events = {finished};
  const char* kernels = std::getenv("HONE_KERNELS");
  if (kernels == nullptr) GTEST_SKIP() << "HONE_KERNELS is not set";
  EXPECT_EQ(Hone({"tune", std::string(kernels) + "/copy_1d", "n=64"}), kExitOk);
  EXPECT_EQ(service().last_tune().inline_template().name(), "copy_1d");
  EXPECT_EQ(service().last_tune().inline_template().files_size(), 1);
  // Another body is registered under the version: it goes under one of its own.
  service().FailNext("Tune", grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "another body"));
  EXPECT_EQ(Hone({"tune", std::string(kernels) + "/copy_1d", "n=64"}), kExitOk);
  EXPECT_THAT(service().last_tune().inline_template().version(), HasSubstr("+dev."));
}

TEST_F(CliTest, LintChecksWithoutRegistering) {
  const char* kernels = std::getenv("HONE_KERNELS");
  if (kernels == nullptr) GTEST_SKIP() << "HONE_KERNELS is not set";
  service().registered.mutable_summary()->set_name("copy_1d");
  service().registered.add_warnings("no config accepts unaligned pointers");
  const std::string path = std::string(kernels) + "/copy_1d";
  EXPECT_EQ(Hone({"lint", path}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("ok  " + path), HasSubstr("unaligned pointers")));
  EXPECT_TRUE(service().last_register().validate_only());

  service().FailNext("RegisterTemplate", grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                                      "steps[0].launch.grid_x: bad"));
  EXPECT_EQ(Hone({"lint", path}), kExitError);
  EXPECT_THAT(err_, testing::ContainsRegex("template.pbtxt:[0-9]+:[0-9]+: steps"));
}

TEST_F(CliTest, HeadersAddSendsTheTreeAndSaysHowToNameIt) {
  const TemporaryDirectory tree = TemporaryDirectory::Create().value();
  ASSERT_TRUE(MakeDirectories(JoinPath(tree.path(), "cute")).ok());
  ASSERT_TRUE(WriteNewFile(JoinPath(tree.path(), "cute/tensor.hpp"), "#pragma once\n").ok());
  ASSERT_TRUE(WriteNewFile(JoinPath(tree.path(), "LICENSE"), "").ok());
  service().header_set.set_digest("feed");
  service().header_set.set_size_bytes(3 << 20);
  EXPECT_EQ(Hone({"headers", "add", "cutlass", tree.path(), "--only", "*.hpp"}), kExitOk);
  EXPECT_THAT(
      out_, AllOf(HasSubstr("cutlass  1 file, 3.0 MiB"), HasSubstr("feed"),
                  HasSubstr("#include <cute/tensor.hpp>"), HasSubstr("header_sets: \"cutlass\"")));
  EXPECT_EQ(service().last_header_set().name(), "cutlass");
  ASSERT_EQ(service().last_header_set().files_size(), 1);
  EXPECT_EQ(service().last_header_set().files(0).content(), "#pragma once\n");
  EXPECT_EQ(Hone({"headers", "add", "cutlass", tree.path(), "-o", "json"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("\"digest\": \"feed\""));

  service().FailNext("RegisterHeaderSet",
                     grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "uid 7 may not"));
  EXPECT_EQ(Hone({"headers", "add", "cutlass", tree.path()}), kExitError);
  EXPECT_THAT(err_, HasSubstr("uid 7 may not"));
  EXPECT_EQ(Hone({"headers", "add", "cutlass"}), kExitUsage);
  EXPECT_EQ(Hone({"headers"}), kExitUsage);
}

TEST_F(CliTest, HeadersListShowsWhatANameMeans) {
  EXPECT_EQ(Hone({"headers", "list"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("hone headers add"));
  for (const char* digest : {"new", "old"}) {
    v1::HeaderSetSummary* set = service().header_sets.add_header_sets();
    set->set_name("cutlass");
    set->set_digest(digest);
    set->set_current(digest == std::string("new"));
  }
  EXPECT_EQ(Hone({"headers", "list"}), kExitOk);
  EXPECT_THAT(out_, testing::ContainsRegex("cutlass +new\ncutlass +old +older"));
  EXPECT_EQ(Hone({"headers", "list", "-o", "json"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("\"current\": true"));
}

// scenario P35
TEST_F(CliTest, MissesAreListedWithHowOftenAndWhen) {
  v1::UntunedKey* miss = service().misses.add_misses();
  miss->set_key("0123456789abcdef0123");
  miss->set_template_name("copy_1d");
  miss->set_problem("T=F32 n=64");
  miss->set_architecture("sm_90a");
  miss->set_policy(v1::FROZEN);
  miss->set_count(1234);
  EXPECT_EQ(Hone({"misses", "--since", "90m", "--template", "copy_1d", "--limit", "7"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("0123456789ab"), HasSubstr("T=F32 n=64"), HasSubstr("FROZEN"),
                          HasSubstr("1234")));
  EXPECT_EQ(service().misses_request.since_s(), 5400);
  EXPECT_EQ(service().misses_request.template_name(), "copy_1d");
  EXPECT_EQ(service().misses_request.limit(), 7);
  EXPECT_EQ(Hone({"misses", "-o", "json"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("\"problem\": \"T=F32 n=64\""));
  EXPECT_EQ(service().misses_request.since_s(), 24 * 3600);
  service().misses.Clear();
  EXPECT_EQ(Hone({"misses"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("within 24h"));
  for (const char* wrong : {"yesterday", "0s", "-1h", "inf"}) {
    EXPECT_EQ(Hone({"misses", std::string("--since=") + wrong}), kExitUsage) << wrong;
    EXPECT_THAT(err_, AllOf(HasSubstr("--since"), HasSubstr(wrong)));
  }
}

// scenario P35
TEST_F(CliTest, GetNamesTheKeyThatMissedAndTheNearestTunedOnes) {
  service().kernel.set_source(v1::DEFAULT);
  service().kernel.set_key("fedcba9876543210fedc");
  v1::NearKey* near = service().kernel.add_nearest_keys();
  near->set_key("0123456789abcdef0123");
  near->set_problem("T=F32 n=64");
  near->set_architecture("sm_90a");
  near->add_differs_in("device.sm_count");
  near->add_differs_in("param.n");
  EXPECT_EQ(Hone({"get", "copy_1d", "n=65"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("DEFAULT"), HasSubstr("fedcba9876543210fedc"),
                          HasSubstr("0123456789ab T=F32 n=64 on sm_90a"),
                          HasSubstr("differs in device.sm_count, param.n")));
}

TEST_F(CliTest, WrongOptionsOfATuneAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> wrong = {{"--evaluations", "0"},
                                                                  {"--evaluations", "-3"},
                                                                  {"--evaluations", "10000001"},
                                                                  {"--evaluations", "many"},
                                                                  {"--seconds", "0"},
                                                                  {"--seconds", "-1"},
                                                                  {"--seconds", "nan"},
                                                                  {"--seconds", "inf"},
                                                                  {"--seconds", "1e300"},
                                                                  {"--patience", "0"},
                                                                  {"--patience", "99999999999"},
                                                                  {"--seed", "-1"},
                                                                  {"--seed", "1.5"},
                                                                  {"--device", "-1"},
                                                                  {"--driver", "-1"}};
  for (const auto& [option, value] : wrong) {
    EXPECT_EQ(Hone({"tune", "copy_1d", "n=64", absl::StrCat(option, "=", value)}), kExitUsage)
        << option << " " << value;
    EXPECT_THAT(err_, AllOf(HasSubstr(option), HasSubstr("hone tune --help"))) << value;
  }
  for (const char* wrong_param : {"n", "=64", "n=", "n=2^64", "n=1..5", "n=64Qi"}) {
    EXPECT_EQ(Hone({"tune", "copy_1d", wrong_param}), kExitUsage) << wrong_param;
  }
  EXPECT_EQ(Hone({"tune", "copy_1d", "n=64", "n=65"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("'n' is given twice"));
}

TEST_F(CliTest, ListAndShowDrawTheLandscape) {
  v1::TuningSummary summary;
  summary.set_key("0123456789abcdef0123");
  summary.set_template_name("copy_1d");
  (*summary.mutable_params())["n"].set_integer(64);
  *summary.mutable_winner() = Timed("A=2", 1000);
  service().tunings = {summary};
  EXPECT_EQ(Hone({"list"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("0123456789ab"), HasSubstr("n=64"), HasSubstr("1.00 us")));

  service().explained.set_tuning_key("012345");
  v1::GetTuningResponse& tuning = service().tuning["012345"];
  *tuning.mutable_summary() = summary;
  *tuning.add_measurements() = Timed("A=1", 2000);
  *tuning.add_measurements() = Timed("A=2", 1000);
  v1::MeasurementInfo* rejected = tuning.add_measurements();
  rejected->set_config("A=3");
  rejected->mutable_rejection()->set_kind("timeout");
  EXPECT_EQ(Hone({"show", "012345"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("A=2 *"), HasSubstr("50.0%"), HasSubstr("timeout"),
                          HasSubstr("verified at n=64")));
  EXPECT_LT(out_.find("A=2 *"), out_.find("A=1"));
  const std::string by_key = out_;
  EXPECT_EQ(Hone({"show", "copy_1d", "n=64"}), kExitOk);
  EXPECT_EQ(out_, by_key);
  service().explained.set_tuning_key("abcdef");
  EXPECT_EQ(Hone({"show", "copy_1d", "n=65"}), kExitNotFound);
  EXPECT_THAT(err_, HasSubstr("hone tune copy_1d n=65"));
}

// scenario P30
TEST_F(CliTest, ShowHasDateDriverAndClockOfEveryTiming) {
  v1::GetTuningResponse& tuning = service().tuning["012345"];
  for (const char* config : {"A=1", "A=2"}) {
    v1::MeasurementInfo* measurement = tuning.add_measurements();
    *measurement = Timed(config, 1000);
    measurement->set_measured_at_unix_ms(int64_t{1'700'000'000'000});
    measurement->set_driver("580.95.05");
    measurement->set_clock_mhz(1980);
  }
  tuning.set_left_out(7);
  EXPECT_EQ(Hone({"show", "012345"}), kExitOk);
  for (const char* config : {"A=1 ", "A=2 "}) {
    const std::string line =
        out_.substr(out_.find(config), out_.find('\n', out_.find(config)) - out_.find(config));
    EXPECT_THAT(line, AllOf(HasSubstr("2023-11-1"), HasSubstr("580.95.05"), HasSubstr("1980 MHz")));
  }
  EXPECT_THAT(out_, HasSubstr("7 more candidates"));
}

TEST_F(CliTest, PinAndUnpinSayWhatIsServedFromNowOn) {
  service().pinned.set_key("0123456789abcdef0123");
  service().pinned.mutable_pin()->set_config("A=1 B=2");
  service().pinned.mutable_pin()->set_generation(7);
  EXPECT_EQ(Hone({"pin", "012345", "A=1", "B=2", "--reason", "all ranks agree"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("0123456789ab is answered with A=1 B=2"), HasSubstr("7")));
  EXPECT_EQ(service().last_pin().config(), "A=1 B=2");
  EXPECT_EQ(service().last_pin().reason(), "all ranks agree");
  EXPECT_EQ(Hone({"pin", "012345", "A=1 B=2"}), kExitOk);
  EXPECT_EQ(service().last_pin().config(), "A=1 B=2");
  EXPECT_EQ(Hone({"pin", "012345"}), kExitOk);
  EXPECT_EQ(service().last_pin().config(), "");
  EXPECT_EQ(Hone({"pin"}), kExitUsage);

  service().unpinned.set_key("0123456789abcdef0123");
  *service().unpinned.mutable_was() = service().pinned.pin();
  service().unpinned.mutable_was()->set_reason("all ranks agree");
  EXPECT_EQ(Hone({"unpin", "012345"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("measurements again"), HasSubstr("A=1 B=2"),
                          HasSubstr("all ranks agree")));
}

TEST_F(CliTest, InvalidateSaysWhatItConcerns) {
  service().invalidated.set_tunings(1);
  service().invalidated.set_measurements(48);
  service().invalidated.set_pins_spared(2);
  EXPECT_EQ(Hone({"invalidate"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("--template, --device, --driver and --compiler"));
  EXPECT_EQ(Hone({"invalidate", "--driver", "570.1", "--compiler", "nvrtc 12.9.86", "--dry-run"}),
            kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("48 measurements of 1 tuning would be invalidated"),
                          HasSubstr("2 pinned configs spared")));
  EXPECT_TRUE(service().last_invalidate().dry_run());
  EXPECT_EQ(service().last_invalidate().driver(), "570.1");
  EXPECT_EQ(service().last_invalidate().compiler_build(), "nvrtc 12.9.86");

  v1::DeviceStatus* device = service().status.add_devices();
  device->set_index(0);
  device->set_device_key("feedfeedfeed");
  EXPECT_EQ(Hone({"invalidate", "--device", "0", "--template", "copy_1d"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("invalidated: kept"));
  EXPECT_EQ(service().last_invalidate().device_key(), "feedfeedfeed");
  EXPECT_EQ(service().last_invalidate().template_name(), "copy_1d");
  EXPECT_FALSE(service().last_invalidate().dry_run());
  EXPECT_EQ(Hone({"invalidate", "--device", "3"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("no device 3"));
  EXPECT_EQ(Hone({"invalidate", "--device", "abcdef"}), kExitOk);
  EXPECT_EQ(service().last_invalidate().device_key(), "abcdef");
  service().invalidated.set_note("nothing matches");
  EXPECT_EQ(Hone({"invalidate", "--template", "x"}), kExitOk);
  EXPECT_EQ(out_, "nothing matches\n");
}

TEST_F(CliTest, ListAndShowTellWhatIsPinnedAndWhatIsStale) {
  v1::GetTuningResponse& tuning = service().tuning["012345"];
  v1::TuningSummary& summary = *tuning.mutable_summary();
  summary.set_key("0123456789abcdef0123");
  summary.mutable_pin()->set_config("A=1");
  summary.mutable_pin()->set_reason("all ranks agree");
  summary.set_unpinned_config("A=2");
  summary.set_same_bits_config("A=3");
  *summary.mutable_winner() = Timed("A=1", 2000);
  summary.mutable_winner()->set_stale_reason("measured under driver 570.1, now 580.2");
  *tuning.add_measurements() = summary.winner();
  *tuning.add_measurements() = Timed("A=2", 1000);
  tuning.mutable_measurements(1)->set_stale_reason("invalidated 2026-11-30: bad cooling");
  tuning.mutable_measurements(1)->set_irreproducible(true);
  service().tunings = {summary};
  EXPECT_EQ(Hone({"list"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("pinned; stale: measured under driver 570.1, now 580.2"));
  EXPECT_EQ(Hone({"show", "012345"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("pinned: A=1"), HasSubstr("all ranks agree"),
                          HasSubstr("without the pin A=2 would be served"),
                          HasSubstr("stale: measured under driver 570.1"),
                          HasSubstr("with the default's bits: A=3"), HasSubstr("A=1 *"),
                          HasSubstr("* the pinned config"),
                          HasSubstr("invalidated 2026-11-30: bad cooling; other bits")));
}

// scenario P34
TEST_F(CliTest, SlicesAreShownAsWhatTheyAre) {
  v1::TuningSummary summary;
  summary.set_key("0123456789abcdef0123");
  summary.mutable_device()->set_kind("cuda");
  summary.mutable_device()->set_architecture("sm_90a");
  summary.mutable_device()->set_sm_count(16);
  summary.mutable_device()->set_slice("MIG 1g.18gb");
  service().tunings = {summary};
  EXPECT_EQ(Hone({"list"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("sm_90a, 16 SMs, slice MIG 1g.18gb"));
  *service().tuning["012345"].mutable_summary() = summary;
  EXPECT_EQ(Hone({"show", "012345"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("slice MIG 1g.18gb"));
  v1::DeviceStatus* device = service().status.add_devices();
  *device->mutable_fingerprint() = summary.device();
  device->set_device_key("feedfeedfeedfeed");
  EXPECT_EQ(Hone({"status"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("slice MIG 1g.18gb"), HasSubstr("feedfeedfeed")));
}

TEST_F(CliTest, NumericsAreAskedForByName) {
  *service().kernel.mutable_kernel()->add_variants() = CopyVariant("image", 16, "", false);
  service().kernel.mutable_pin()->set_config("VEC=4");
  EXPECT_EQ(Hone({"get", "copy_1d", "--numerics", "same-bits-as-default"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("pinned      VEC=4"));
  EXPECT_EQ(service().last_get().numerics(), v1::SAME_BITS_AS_DEFAULT);
  EXPECT_EQ(Hone({"get", "copy_1d"}), kExitOk);
  EXPECT_EQ(service().last_get().numerics(), v1::WITHIN_TOLERANCE);
  EXPECT_EQ(Hone({"get", "copy_1d", "--numerics", "nice"}), kExitUsage);
  v1::TuneEvent finished;
  *finished.mutable_finished()->mutable_winner() = Timed("A=2", 1000);
  finished.mutable_finished()->set_revalidated(6);
  finished.mutable_finished()->mutable_pin()->set_config("A=1");
  service().tune_events = {finished};
  EXPECT_EQ(Hone({"tune", "copy_1d", "--numerics", "same-bits-as-default"}), kExitOk);
  EXPECT_EQ(service().last_tune().numerics(), v1::SAME_BITS_AS_DEFAULT);
  EXPECT_THAT(out_, AllOf(HasSubstr("6 of the measured were known"), HasSubstr("pinned  A=1")));
}

TEST_F(CliTest, GetPrintsSourceAndVariants) {
  service().kernel.set_source(v1::BUCKET);
  (*service().kernel.mutable_answered_by_params())["n"].set_integer(64);
  *service().kernel.mutable_kernel()->add_variants() = CopyVariant("image", 16, "", false);
  EXPECT_EQ(Hone({"get", "copy_1d", "n=65", "--policy", "no_wait"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("BUCKET: tuned for n=64"), HasSubstr("VEC=4")));
  EXPECT_EQ(service().last_get().policy(), v1::NO_WAIT);
  EXPECT_EQ(service().last_get().inline_bytes_max(), -1);
  EXPECT_EQ(Hone({"get", "copy_1d", "--policy", "sometimes"}), kExitUsage);
}

TEST_F(CliTest, CompileErrorsShowTheExcerptAndHowToGetTheLog) {
  v1::ErrorDetail detail;
  detail.set_excerpt("k.cu(3): error: expected a \";\"");
  detail.set_log_id("feed");
  service().FailNext("Compile", grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                             "k.cu does not compile", detail.SerializeAsString()));
  EXPECT_EQ(Hone({"compile", "/dev/null"}), kExitError);
  EXPECT_THAT(err_, AllOf(HasSubstr("k.cu does not compile"), HasSubstr("k.cu(3)"),
                          HasSubstr("hone artifact --log feed")));
  EXPECT_EQ(Hone({"compile", "/nowhere.cu"}), kExitError);
  EXPECT_THAT(err_, HasSubstr("/nowhere.cu"));
}

TEST_F(CliTest, ExplainKeyPrintsEveryIngredient) {
  service().explained.set_tuning_key("abc");
  service().explained.add_tuning_key_ingredients("problem=n=64");
  service().explained.set_state("nothing is stored");
  EXPECT_EQ(Hone({"explain-key", "copy_1d", "n=64"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("problem=n=64"), HasSubstr("nothing is stored")));
}

TEST_F(CliTest, ArtifactWritesVerifiedBytes) {
  const v1::KernelVariant variant = CopyVariant("image", 16, "", false);
  service().artifacts[variant.artifact().sha256()] = "image";
  EXPECT_EQ(Hone({"artifact", variant.artifact().sha256(), "-"}), kExitOk);
  EXPECT_EQ(out_, "image");
}

}  // namespace
}  // namespace hone::cli
