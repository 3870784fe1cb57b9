// The command against a scripted daemon: what it prints and how it exits.
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/files.h"
#include "tests/client/cli_fixture.h"
#include "tests/client/tls_authority.h"

namespace hone::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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

TEST_F(CliTest, TlsIsSpokenWithTheFileOfTheOptionOrTheEnvironment) {
  const TlsAuthority authority;
  FakeDaemon remote(authority.Issue("IP:127.0.0.1"));
  EXPECT_EQ(RunMain({"hone", "--endpoint", remote.endpoint(), "--tls-ca-file", authority.ca_file(),
                     "templates"}),
            kExitOk)
      << err_;
  setenv("HONE_TLS_CA_FILE", authority.ca_file().c_str(), 1);
  EXPECT_EQ(RunMain({"hone", "--endpoint", remote.endpoint(), "templates"}), kExitOk) << err_;
  EXPECT_EQ(Hone({"templates"}), kExitOk) << "of sockets it says nothing: " << err_;
  const TlsAuthority other;
  EXPECT_EQ(RunMain({"hone", "--wait", "0.5", "--endpoint", remote.endpoint(), "--tls-ca-file",
                     other.ca_file(), "templates"}),
            kExitUnreachable);
  EXPECT_THAT(err_, AllOf(HasSubstr(other.ca_file()), HasSubstr("issued by nobody")));
  unsetenv("HONE_TLS_CA_FILE");
  EXPECT_NE(RunMain({"hone", "--endpoint", remote.endpoint(), "--tls-ca-file", "/nowhere.pem",
                     "templates"}),
            kExitOk);
  EXPECT_THAT(err_, HasSubstr("tls_ca_file '/nowhere.pem'"));
}

TEST_F(CliTest, UnknownNamesExitWith3) {
  EXPECT_EQ(Hone({"describe", "copy_2d"}), kExitNotFound);
  EXPECT_THAT(err_, HasSubstr("no template 'copy_2d'"));
  EXPECT_EQ(Hone({"show", "abcdef"}), kExitNotFound);
}

grpc::Status Invalid(const std::string& message, const std::string& reason) {
  v1::ErrorDetail detail;
  detail.set_reason(reason);
  return {grpc::StatusCode::INVALID_ARGUMENT, message, detail.SerializeAsString()};
}

// One kind of mistake has one code, whoever notices it.
TEST_F(CliTest, WhatTheDaemonFindsWrongWithTheCommandLineExitsWith64Too) {
  service().FailNext("GetKernel", Invalid("params.n: -1 is not at least 0", "INVALID_ARGUMENT"));
  EXPECT_EQ(Hone({"get", "copy_1d", "n=-1"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("params.n"));
  service().FailNext("GetKernel", Invalid("copy_1d does not compile", "COMPILE_FAILED"));
  EXPECT_EQ(Hone({"get", "copy_1d", "n=1"}), kExitError) << "not what the command line says";
  service().FailNext("GetKernel",
                     grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "no device here"));
  EXPECT_EQ(Hone({"get", "copy_1d", "n=1"}), kExitError);
}

TEST_F(CliTest, WhatAFileSaysWrongExitsWith1) {
  const TemporaryDirectory files = TemporaryDirectory::Create().value();
  const std::string path = JoinPath(files.path(), "template.pbtxt");
  ASSERT_TRUE(WriteNewFile(path, "name: \"mine\"\nconstraints: \"VEC +\"\n").ok());
  const grpc::Status refusal = Invalid("constraints[0]: \"VEC +\": bad", "INVALID_ARGUMENT");
  service().FailNext("RegisterTemplate", refusal);
  EXPECT_EQ(Hone({"lint", path}), kExitError);
  service().FailNext("Tune", refusal);
  EXPECT_EQ(Hone({"tune", path, "n=64"}), kExitError);
  EXPECT_THAT(err_, HasSubstr("template.pbtxt:2:"));
  service().FailNext("Tune", Invalid("params.n: -1 is not at least 0", "INVALID_ARGUMENT"));
  EXPECT_EQ(Hone({"tune", path, "n=-1"}), kExitUsage) << "the template is not at fault";
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
  // The source and the headers it shares.
  EXPECT_EQ(service().last_tune().inline_template().files_size(),
            1 + service().last_tune().inline_template().headers_size());
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

// scenario P46
TEST_F(CliTest, WhatOnlyANewerDaemonKnowsIsShownByItsNumber) {
  service().kernel.set_source(static_cast<v1::Source>(9));
  *service().kernel.mutable_kernel()->add_variants() = CopyVariant("image", 16, "", false);
  EXPECT_EQ(Hone({"get", "copy_1d", "n=65"}), kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("source 9"), HasSubstr("VEC=4")));
  EXPECT_EQ(Hone({"get", "copy_1d", "n=65", "-o", "json"}), kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("\"source\": 9"));
  auto* miss = service().misses.add_misses();
  miss->set_policy(static_cast<v1::Policy>(8));
  miss->set_template_name("copy_1d");
  EXPECT_EQ(Hone({"misses"}), kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("policy 8"));
}

TEST_F(CliTest, CompileErrorsShowTheExcerptAndHowToGetTheLog) {
  v1::ErrorDetail detail;
  detail.set_excerpt("k.cu(3): error: expected a \";\"");
  detail.set_log_id("feed");
  detail.set_reason("COMPILE_FAILED");
  service().FailNext("Compile", grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                             "k.cu does not compile", detail.SerializeAsString()));
  EXPECT_EQ(Hone({"compile", "/dev/null"}), kExitError);
  EXPECT_THAT(err_, AllOf(HasSubstr("k.cu does not compile"), HasSubstr("k.cu(3)"),
                          HasSubstr("hone artifact --log feed")));
  EXPECT_EQ(Hone({"compile", "/nowhere.cu"}), kExitError);
  EXPECT_THAT(err_, HasSubstr("/nowhere.cu"));
}

}  // namespace
}  // namespace hone::cli
