// hone pack export and hone pack show against a scripted daemon.
#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cli_fixture.h"
#include "tests/client/pack_fixture.h"

namespace hone::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CliPackTest : public CliTest {
 protected:
  // One tuning, and what the daemon answers to its problem.
  CliPackTest() : directory_(*TemporaryDirectory::Create()) {
    service().status.set_version("9.9.9");
    service().kernel = CopyReply(1024);
    service().kernel.mutable_kernel()->mutable_variants(0)->mutable_measurement()->set_median_ns(
        1500);
    for (const v1::KernelVariant& variant : service().kernel.kernel().variants()) {
      service().artifacts[variant.artifact().sha256()] = FetchCopy(variant.artifact().sha256());
    }
    v1::TuningSummary& tuning = service().tunings.emplace_back();
    tuning.set_key(service().kernel.key());
    tuning.set_template_name("copy_1d");
    *tuning.mutable_params() = service().kernel.kernel().params();
    *tuning.mutable_device() = Gpu();
    *tuning.mutable_winner() = Timed("VEC=4", 1500);
    v1::DescribeTemplateResponse& described = service().described[""];
    described.mutable_template_()->set_name("copy_1d");
    v1::Parameter* type = described.mutable_template_()->add_params();
    type->set_name("T");
    type->mutable_dtype()->set_default_(v1::F32);
    v1::Parameter* n = described.mutable_template_()->add_params();
    n->set_name("n");
    n->mutable_size()->set_dynamic(true);
  }

  std::string File() const { return JoinPath(directory_.path(), "pack"); }

  TemporaryDirectory directory_;
};

TEST_F(CliPackTest, ExportTakesWinnersAndShowListsThem) {
  ASSERT_EQ(Hone({"pack", "export", File()}), kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("1 kernel, 2 binaries"), Not(HasSubstr("left out"))));
  EXPECT_EQ(service().last_get().policy(), v1::FROZEN);
  EXPECT_EQ(service().last_get().target().device().sm_count(), 132);
  EXPECT_EQ(service().calls("GetArtifact"), 2);
  ASSERT_EQ(RunMain({"hone", "pack", "show", File()}), kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("verified"), HasSubstr("honed 9.9.9"),
                          HasSubstr(service().kernel.key().substr(0, 12)),
                          HasSubstr("T=F32 n=1024"), HasSubstr("VEC=4"), HasSubstr("1.50 us")));
  ASSERT_EQ(RunMain({"hone", "pack", "show", File(), "-o", "json"}), kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("\"dynamic_sizes\""), HasSubstr("\"generation\": \"1000\"")));
}

TEST_F(CliPackTest, TwoExportsOfTheSameKernelsAreTheSameFile) {
  ASSERT_EQ(setenv("SOURCE_DATE_EPOCH", "1700000000", 1), 0);
  ASSERT_EQ(Hone({"pack", "export", File()}), kExitOk) << err_;
  const std::string first = *ReadFile(File());
  ASSERT_EQ(Hone({"pack", "export", File()}), kExitOk) << err_;
  EXPECT_EQ(*ReadFile(File()), first);
  unsetenv("SOURCE_DATE_EPOCH");
}

TEST_F(CliPackTest, WhatIsLeftOutIsNamedWithItsReason) {
  service().tunings.push_back(service().tunings[0]);
  service().tunings[1].set_key("fedcba9876543210");  // the fake answers with the first one's key
  service().tunings.push_back(service().tunings[0]);
  service().tunings[2].mutable_device()->set_kind("cpu");
  service().tunings.push_back(service().tunings[0]);
  service().tunings[3].clear_winner();
  ASSERT_EQ(Hone({"pack", "export", File(), "copy_1d"}), kExitOk) << err_;
  EXPECT_THAT(
      out_, AllOf(HasSubstr("1 kernel,"), HasSubstr("fedcba987654"), HasSubstr("has changed since"),
                  HasSubstr("packs carry no host code"), HasSubstr("no candidate was timed")));
}

TEST_F(CliPackTest, StaleKernelsAreTakenWhenAskedFor) {
  service().kernel.set_stale(true);
  service().kernel.set_stale_reason("measured under driver 570.1");
  EXPECT_EQ(Hone({"pack", "export", File()}), kExitNotFound);
  EXPECT_THAT(err_, AllOf(HasSubstr("no kernel to export"), HasSubstr("driver 570.1"),
                          HasSubstr("--stale takes it")));
  EXPECT_FALSE(PathExists(File()));
  ASSERT_EQ(Hone({"pack", "export", File(), "--stale"}), kExitOk) << err_;
  ASSERT_EQ(RunMain({"hone", "pack", "show", File()}), kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("stale: measured under driver 570.1"));
}

TEST_F(CliPackTest, ADamagedPackIsNotShown) {
  ASSERT_EQ(Hone({"pack", "export", File()}), kExitOk) << err_;
  std::string bytes = *ReadFile(File());
  bytes.back() ^= 1;
  ASSERT_THAT(WriteFileAtomic(File(), bytes), IsOk());
  EXPECT_EQ(RunMain({"hone", "pack", "show", File()}), kExitError);
  EXPECT_THAT(err_, AllOf(HasSubstr(File()), HasSubstr("damaged")));
  EXPECT_EQ(RunMain({"hone", "pack", "show", File() + "none"}), kExitError);
  EXPECT_THAT(err_, HasSubstr(File() + "none"));
  EXPECT_EQ(RunMain({"hone", "pack"}), kExitUsage);
}

TEST_F(CliPackTest, NothingTunedIsNothingToExport) {
  EXPECT_EQ(Hone({"pack", "export", File() + "/none/pack"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("there is no directory"));
  service().tunings.clear();
  EXPECT_EQ(Hone({"pack", "export", File()}), kExitNotFound);
  EXPECT_THAT(err_, HasSubstr("nothing is tuned"));
}

}  // namespace
}  // namespace hone::cli
