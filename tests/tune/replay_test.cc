#include "runtime/tune/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/files.h"
#include "runtime/tune/recorded_space.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::string Result(const std::string& configuration, const std::string& rest) {
  return absl::StrCat("{\"configuration\": {", configuration, "}, ", rest, "}");
}
std::string Runtimes(const std::string& values) {
  return absl::StrCat("\"times\": {\"compilation\": 900, \"runtimes\": [", values,
                      "]}, \"invalidity\": \"correct\"");
}
std::string File(const std::vector<std::string>& results) {
  return absl::StrCat("{\"metadata\": {\"timeunit\": \"miliseconds\"}, \"results\": [",
                      absl::StrJoin(results, ", "), "], \"schema_version\": \"1.0.0\"}");
}
std::string Compressed(const std::string& text) {
  std::string out(text.size() + 1000, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(RecordedSpaceTest, TimesAreMeansAndConstantParametersAreLeftOut) {
  const auto space = RecordedSpace::Parse(
      File({Result("\"block\": 64, \"fixed\": 15, \"vec\": 4", Runtimes("1, 2, 6")),
            Result("\"block\": 32, \"fixed\": 15, \"vec\": 4", Runtimes("0.5")),
            Result("\"block\": 32, \"fixed\": 15, \"vec\": 1",
                   "\"times\": {}, \"invalidity\": \"compile\"")}));
  ASSERT_THAT(space, IsOk());
  ASSERT_THAT(space->dimensions(), SizeIs(2));
  EXPECT_EQ(space->dimensions()[0].name, "block");
  EXPECT_THAT(space->dimensions()[0].values, ElementsAre(32, 64));
  EXPECT_THAT(space->dimensions()[1].values, ElementsAre(1, 4));
  ASSERT_THAT(space->rows(), SizeIs(3));
  EXPECT_THAT(space->rows()[0].point, ElementsAre(1, 1));
  EXPECT_EQ(space->rows()[0].time_ns, 3e6);
  EXPECT_EQ(space->rows()[2].rejection, RejectionKind::kCompile);
  EXPECT_EQ(space->best_ns(), 0.5e6);
}

TEST(RecordedSpaceTest, ValuesThatAreNoIntegersAreTakenByPosition) {
  const auto space = RecordedSpace::Parse(
      File({Result("\"ratio\": 1.5, \"type\": \"half\", \"on\": true, \"n\": 4.0", Runtimes("1")),
            Result("\"ratio\": 0.25, \"type\": \"float\", \"on\": false, \"n\": 2", Runtimes("2")),
            Result("\"ratio\": 2, \"type\": \"half\", \"on\": false, \"n\": 8", Runtimes("2"))}));
  ASSERT_THAT(space, IsOk());
  EXPECT_THAT(space->dimensions()[0].values, ElementsAre(2, 4, 8));  // n
  EXPECT_THAT(space->dimensions()[1].values, ElementsAre(0, 1));     // on
  EXPECT_THAT(space->dimensions()[2].values, ElementsAre(0, 1, 2));  // ratio
  EXPECT_THAT(space->dimensions()[3].values, ElementsAre(0, 1));     // type
  EXPECT_THAT(space->rows()[0].point, ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(space->rows()[2].point, ElementsAre(2, 0, 2, 1));
}

TEST(RecordedSpaceTest, AMeanAmongTheMeasurementsStandsInForRuntimes) {
  const auto space = RecordedSpace::Parse(
      File({Result("\"a\": 1",
                   "\"times\": {\"compilation\": 1}, \"invalidity\": \"correct\", "
                   "\"measurements\": [{\"name\": \"time\", \"value\": 4.5}]")}));
  ASSERT_THAT(space, IsOk());
  EXPECT_EQ(space->best_ns(), 4.5e6);
}

TEST(RecordedSpaceTest, WhatIsWrongIsNamedWithItsPlace) {
  const auto error = [](const std::string& text) { return RecordedSpace::Parse(text).status(); };
  const auto invalid = [](const std::string& place, const std::string& what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(place), HasSubstr(what)));
  };
  const std::string good = Result("\"a\": 1", Runtimes("1"));
  EXPECT_THAT(error("{\"results\": [1,"), invalid("not JSON", "parse error"));
  EXPECT_THAT(error("[]"), invalid("results", "missing or empty"));
  EXPECT_THAT(error(File({})), invalid("results", "missing or empty"));
  EXPECT_THAT(error(File({good, "{\"times\": {}}"})),
              invalid("results[1].configuration", "missing"));
  EXPECT_THAT(error(File({good, Result("\"b\": 1", Runtimes("1"))})),
              invalid("results[1].configuration", "other parameters"));
  EXPECT_THAT(error(File({Result("\"a\": [1]", Runtimes("1"))})),
              invalid("results[0].configuration.a", "neither a number"));
  EXPECT_THAT(error(File({Result("\"a\": 1", Runtimes(""))})),
              invalid("results[0].times.runtimes", "missing or empty"));
  EXPECT_THAT(error(File({Result("\"a\": 1", Runtimes("\"x\""))})),
              invalid("results[0].times.runtimes", "no number"));
  EXPECT_THAT(error(File({Result("\"a\": 1", Runtimes("0, 0"))})),
              invalid("results[0].times.runtimes", "more than 0"));
}

// A kernel-like space with a summit, a fifth of it rejected.
std::string KernelFile() {
  std::vector<std::string> results;
  for (const int block : {32, 64, 96, 128, 160, 192, 224, 256}) {
    for (const int tile : {1, 2, 3, 4, 5, 6}) {
      for (const int vec : {1, 2, 4, 8}) {
        for (const int flag : {0, 1}) {
          const std::string configuration = absl::StrCat("\"block\": ", block, ", \"tile\": ", tile,
                                                         ", \"vec\": ", vec, ", \"flag\": ", flag);
          if (block * tile * vec > 4096) {
            results.push_back(Result(configuration, "\"times\": {}, \"invalidity\": \"runtime\""));
            continue;
          }
          const double time = (1 + std::abs(block - 96) / 64.0) * (1 + std::abs(tile - 4) / 4.0) *
                              (vec == 4 ? 1 : 1.5) * (flag == 1 ? 1 : 1.3);
          results.push_back(Result(configuration, Runtimes(absl::StrCat(time))));
        }
      }
    }
  }
  return File(results);
}

class ReplayTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = *TemporaryDirectory::Create();
    path_ = JoinPath(directory_.path(), "space.json.gz");
    ASSERT_THAT(WriteNewFile(path_, Compressed(KernelFile())), IsOk());
  }
  TemporaryDirectory directory_;
  std::string path_;
};

TEST_F(ReplayTest, CompressedAndPlainFilesGiveTheSame) {
  const std::string plain = JoinPath(directory_.path(), "space.json");
  ASSERT_THAT(WriteNewFile(plain, KernelFile()), IsOk());
  const auto a = RecordedSpace::Load(path_);
  const auto b = RecordedSpace::Load(plain);
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  EXPECT_EQ(a->rows().size(), 8u * 6 * 4 * 2);
  EXPECT_EQ(a->best_ns(), b->best_ns());
}

TEST_F(ReplayTest, DamagedAndMissingFilesAreNamed) {
  const std::string cut = JoinPath(directory_.path(), "cut.json.gz");
  ASSERT_THAT(WriteNewFile(cut, Compressed(KernelFile()).substr(0, 500)), IsOk());
  EXPECT_THAT(RecordedSpace::Load(cut),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("cut.json.gz"), HasSubstr("not a complete gzip file"))));
  EXPECT_THAT(RecordedSpace::Load("/nowhere/x.json"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/x.json")));
}

TEST_F(ReplayTest, FractionsGrowToOneWhenTheSpaceIsCovered) {
  for (const char* strategy : {"exhaustive", "random", "local", "model"}) {
    const auto result =
        ReplayFile(path_, {.strategy = strategy, .seeds = 3, .evaluations = {1, 20, 384, 1000}});
    ASSERT_THAT(result, IsOk());
    ASSERT_THAT(result->points, SizeIs(4));
    EXPECT_LE(result->points[0].mean_fraction, result->points[1].mean_fraction);
    EXPECT_LE(result->points[1].worst_fraction, result->points[1].mean_fraction);
    EXPECT_EQ(result->points[2].worst_fraction, 1);
    EXPECT_EQ(result->points[3].mean_fraction, 1);
  }
}

TEST_F(ReplayTest, TheModelIsAheadOfRandom) {
  const auto after_40 = [&](const std::string& strategy) {
    const auto result = ReplayFile(path_, {.strategy = strategy, .seeds = 20, .evaluations = {40}});
    EXPECT_THAT(result, IsOk());
    return result->points[0].mean_fraction;
  };
  EXPECT_GT(after_40("model"), 0.99);
  EXPECT_LT(after_40("random"), 0.95);
}

TEST_F(ReplayTest, ThreadsChangeNothing) {
  const auto one = ReplayFile(path_, {.seeds = 6, .threads = 1, .evaluations = {10, 30}});
  const auto three = ReplayFile(path_, {.seeds = 6, .threads = 3, .evaluations = {10, 30}});
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(three, IsOk());
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(one->points[i].mean_fraction, three->points[i].mean_fraction);
  }
}

TEST_F(ReplayTest, WrongOptionsAreNamed) {
  const auto error = [&](const ReplayOptions& options) {
    return ReplayFile(path_, options).status();
  };
  const auto invalid = [](const std::string& field) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field));
  };
  EXPECT_THAT(error({.strategy = "clever"}), invalid("strategy: 'clever'"));
  EXPECT_THAT(error({.seeds = 0}), invalid("seeds: 0"));
  EXPECT_THAT(error({.in_flight = 0}), invalid("in_flight: 0"));
  EXPECT_THAT(error({.evaluations = {10, 10}}), invalid("evaluations"));
}

}  // namespace
}  // namespace hone
