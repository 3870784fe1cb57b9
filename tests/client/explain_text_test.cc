#include "client/cli/explain_text.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace hone::cli {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

v1::ExplainTuningResponse Reply(const std::string& text) {
  v1::ExplainTuningResponse reply;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &reply)) << text;
  return reply;
}

constexpr char kCopyInTheWrongOrder[] = R"pb(
  summary {
    key: "0123456789abcdef"
    template_name: "copy_2d"
    winner { config: "ORDER=0 VEC=4" median_ns: 100000 }
  }
  subject { config: "ORDER=1 VEC=4" median_ns: 900000 spread: 0.004 gb_per_s: 477 clock_mhz: 1980 }
  work_bytes: 429496729
  arithmetic: "F32"
  shares {
    ceiling { name: "copy" value: 4300 unit: "GB/s" how: "the driver's copy" }
    achieved: 477
    share: 0.111
    least_ns: 99883
  }
  shares {
    ceiling { name: "launch" value: 1500 unit: "ns" }
    achieved: 900000
    share: 0.0017
    least_ns: 1500
  }
  bound: "none"
  bound_reason: "11.1 % of copy, 0.2 % of launch: all below"
  least_ns: 99883
  default_config { config: "ORDER=0 VEC=1" median_ns: 112000 }
  runner_up { config: "ORDER=0 VEC=4" median_ns: 100000 }
  runner_up_ratio: 0.111
  noise_share: 0.01
  tunables {
    name: "ORDER"
    matters: 8.5
    groups: 12
    values { value: 0 measured: 12 best_ratio: 0.11 mean_ratio: 0.12 }
    values { value: 1 measured: 12 best_ratio: 1 mean_ratio: 1.4 rejected: 2 }
  }
  tunables {
    name: "VEC"
    values { value: 4 measured: 12 best_ratio: 0.11 mean_ratio: 0.6 }
  }
  rejected { key: "launch" value: 2 }
  steps {
    entry: "copy_2d<float, 1, 128>"
    grid: 64
    grid: 1
    grid: 1
    block: 128
    block: 1
    block: 1
    registers: 32
  }
  notes: "stale: timed with driver 570"
)pb";

TEST(ExplainTextTest, ACopyInTheWrongOrderIsToldHonestly) {
  const std::string text = ExplainText(Reply(kCopyInTheWrongOrder));
  EXPECT_THAT(text, AllOf(HasSubstr("config  ORDER=1 VEC=4  900.00 us"), HasSubstr("at 1980 MHz"),
                          HasSubstr("429.5 MB moved, 477 GB/s")));
  EXPECT_THAT(text, AllOf(HasSubstr("grid 64x1x1, block 128x1x1, 32 registers"),
                          ContainsRegex("copy +4300 GB/s +477 GB/s +11.1%"),
                          HasSubstr("bound   by none of its ceilings: 11.1 % of copy")));
  EXPECT_THAT(text, AllOf(HasSubstr("left    at most 9.01x"), HasSubstr("99.88 us at least"),
                          HasSubstr("default ORDER=0 VEC=1  112.00 us, 0.12x the time"),
                          HasSubstr("next    ORDER=0 VEC=4  100.00 us, 88.9% faster")));
  EXPECT_THAT(text, AllOf(ContainsRegex("ORDER +8.50x +0 +0.11x +0.12x +12"),
                          ContainsRegex("[*] 1 +1.00x +1.40x +12 +2"),
                          ContainsRegex("VEC +[?] +[*] 4"), HasSubstr("rejected  2 launch"),
                          HasSubstr("note: stale: timed with driver 570")));
}

TEST(ExplainTextTest, TheWinnerIsCalledSoAndNoiseIsNamed) {
  v1::ExplainTuningResponse reply = Reply(kCopyInTheWrongOrder);
  reply.mutable_subject()->set_config("ORDER=0 VEC=4");
  reply.mutable_subject()->set_median_ns(100000);
  reply.set_bound("memory");
  reply.set_runner_up_ratio(1.004);
  const std::string text = ExplainText(reply);
  EXPECT_THAT(text, AllOf(HasSubstr("winner  ORDER=0 VEC=4"), HasSubstr("bound   memory"),
                          HasSubstr("left    nothing: it is at the ceiling"),
                          HasSubstr("0.4% slower, within noise (1.0%)")));
}

TEST(ExplainTextTest, WithoutATimedCandidateItSaysWhatHappened) {
  const std::string text = ExplainText(Reply(R"pb(
    summary { key: "0123456789abcdef" template_name: "copy_1d" }
    rejected { key: "compile" value: 3 }
    rejected { key: "wrong_result" value: 1 }
    notes: "no candidate survived"
  )pb"));
  EXPECT_THAT(text, AllOf(HasSubstr("rejected  3 compile, 1 wrong_result"),
                          HasSubstr("note: no candidate survived"), Not(HasSubstr("bound"))));
}

TEST(ExplainTextTest, MissingCeilingsAreExplained) {
  v1::ExplainTuningResponse reply = Reply(kCopyInTheWrongOrder);
  reply.clear_shares();
  reply.set_ceilings_missing("the device is tuning");
  reply.set_bound("unknown");
  EXPECT_THAT(ExplainText(reply), HasSubstr("no ceilings: the device is tuning"));
  EXPECT_EQ(CeilingsTable(v1::DeviceCeilings()), "");
}

}  // namespace
}  // namespace hone::cli
