#include "runtime/tune/revalidation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/simple_template.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Sixteen configs with a stale timing each, X0 the fastest; the default is the ninth.
class RevalidationTest : public testing::Test {
 protected:
  RevalidationTest()
      : template_(SimpleTemplate({.xblock = {64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704,
                                             768, 832, 896, 960, 1024},
                                  .vec = {1}})),
        space_(*ConfigSpace::Create(template_, *Problem::Create(*template_, {{"n", int64_t{4096}}}),
                                    "sm_90a", {})) {
    for (int rank = 0; rank < 16; ++rank) {
      // Neither in order of declaration nor of insertion.
      Measurement measurement = Timed(Ranked((rank + 5) % 16), 100.0 + 10 * ((rank + 5) % 16));
      measurement.driver = "old";
      known_.push_back(measurement);
    }
  }

  static Config Ranked(int rank) {
    return *Config::Parse(absl::StrCat("XBLOCK=", 64 + 64 * ((rank + 8) % 16), " VEC=1"));
  }
  static Measurement Timed(const Config& config, double median_ns) {
    Measurement measurement;
    measurement.config = config;
    measurement.samples_ns = {median_ns};
    measurement.driver = "new";
    Summarise(measurement);
    return measurement;
  }
  Revalidation Make() { return Revalidation(space_, known_, {Ranked(0), Ranked(8)}); }

  KernelTemplatePtr template_;
  ConfigSpace space_;
  std::vector<Measurement> known_;
};

TEST_F(RevalidationTest, AsksTheIncumbentsAndTheFirstFewAndIsDoneWhenTheIncumbentStillLeads) {
  Revalidation revalidation = Make();
  EXPECT_THAT(revalidation.First(), ElementsAre(Ranked(0), Ranked(8), Ranked(1), Ranked(2),
                                                Ranked(3), Ranked(4), Ranked(5)));
  revalidation.Observe(Timed(Ranked(0), 200));
  revalidation.Observe(Timed(Ranked(5), 199));  // within the margin
  EXPECT_THAT(revalidation.More(), IsEmpty());
  EXPECT_EQ(revalidation.measured(), 2);
}

TEST_F(RevalidationTest, LooksFurtherAsLongAsTheLastFewBringANewFastest) {
  Revalidation revalidation = Make();
  revalidation.First();
  revalidation.Observe(Timed(Ranked(0), 200));
  revalidation.Observe(Timed(Ranked(4), 150));
  EXPECT_THAT(revalidation.More(),
              ElementsAre(Ranked(6), Ranked(7), Ranked(9), Ranked(10), Ranked(11)));
  revalidation.Observe(Timed(Ranked(9), 140));
  EXPECT_THAT(revalidation.More(), SizeIs(4)) << "the last four";
  revalidation.Observe(Timed(Ranked(12), 145));
  EXPECT_THAT(revalidation.More(), IsEmpty());
}

TEST_F(RevalidationTest, ThoseWhoWereRejectedAreNotWaitedFor) {
  Revalidation revalidation = Make();
  revalidation.First();
  EXPECT_THAT(revalidation.More(), IsEmpty());
}

TEST_F(RevalidationTest, RejectionsStand) {
  for (Measurement& measurement : known_) {
    if (measurement.config == Ranked(3) || measurement.config == Ranked(8)) {
      measurement.samples_ns.clear();
      measurement.rejection = Rejection{.kind = RejectionKind::kWrongResult};
    }
  }
  EXPECT_THAT(Make().First(),
              ElementsAre(Ranked(0), Ranked(1), Ranked(2), Ranked(4), Ranked(5), Ranked(6)));
}

// What an interrupted re-validation measured was not raced to the end.
TEST_F(RevalidationTest, WhatIsOfThePresentDriverAlreadyTakesPart) {
  for (Measurement& measurement : known_) {
    if (measurement.config == Ranked(0)) measurement.driver = "new";
  }
  EXPECT_THAT(Make().First(), SizeIs(7));
}

}  // namespace
}  // namespace hone
