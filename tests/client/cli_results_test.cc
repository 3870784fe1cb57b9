// What the commands about results print: list, show, misses, pin, invalidate, keys and artifacts.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/files.h"
#include "tests/client/cli_fixture.h"

namespace hone::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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
TEST_F(CliTest, ListSaysWhyAPinnedConfigHasNoTime) {
  v1::TuningSummary& tuning = service().tunings.emplace_back();
  tuning.set_key("0123456789abcdef");
  tuning.set_template_name("copy_1d");
  tuning.mutable_winner()->set_config("A=1");
  tuning.mutable_winner()->mutable_rejection()->set_kind("timeout");
  tuning.mutable_pin()->set_config("A=1");
  EXPECT_EQ(Hone({"list"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("A=1"), HasSubstr("pinned; rejected since: timeout")));
  *tuning.mutable_winner() = Timed("A=2", 1000);
  EXPECT_EQ(Hone({"list"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("pinned to A=1, which does not answer here"));
}

TEST_F(CliTest, ListOfOneTemplateSaysThatNothingOfItIsTuned) {
  EXPECT_EQ(Hone({"list", "copy_1d"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("Nothing of copy_1d is tuned yet"));
}

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
