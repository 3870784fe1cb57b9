#include "runtime/store/record.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

TEST(RecordTest, TextOfAnyBytesReadsBack) {
  const std::string odd("a=b\nc\\d\re\0f\xff", 12);
  RecordWriter writer;
  writer.Text("odd", odd).Text("empty", "");
  RecordReader reader(writer.text());
  EXPECT_EQ(reader.Text("odd"), odd);
  EXPECT_EQ(reader.Text("empty"), "");
  EXPECT_THAT(reader.status(), IsOk());
}

TEST(RecordTest, NumbersReadBackExactly) {
  RecordWriter writer;
  writer.Int("n", std::numeric_limits<int64_t>::min());
  for (const double value : {0.1, 1.0 / 3.0, 1e300, -0.0}) writer.Double("x", value);
  RecordReader reader(writer.text());
  EXPECT_EQ(reader.Int("n"), std::numeric_limits<int64_t>::min());
  EXPECT_THAT(reader.Doubles("x"), testing::ElementsAre(0.1, 1.0 / 3.0, 1e300, -0.0));
  EXPECT_THAT(reader.status(), IsOk());
}

TEST(RecordTest, UnknownFieldsArePassedOver) {
  RecordReader reader("new_in_schema_9=1\nname=x\n");
  EXPECT_EQ(reader.Text("name"), "x");
  EXPECT_THAT(reader.status(), IsOk());
}

TEST(RecordTest, AMissingFieldIsDataLoss) {
  RecordReader reader("a=1\n");
  EXPECT_EQ(reader.Int("b"), 0);
  EXPECT_THAT(reader.status(),
              StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr("field 'b' is missing")));
}

TEST(RecordTest, AnIllFormedFieldIsDataLoss) {
  RecordReader number("n=12x\n");
  EXPECT_EQ(number.Int("n"), 0);
  EXPECT_THAT(number.status(), StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr("12x")));
  EXPECT_THAT(RecordReader("no equals sign\n").status(),
              StatusIs(absl::StatusCode::kDataLoss, testing::HasSubstr("no equals sign")));
  EXPECT_THAT(RecordReader("a=bad \\q escape\n").status(),
              StatusIs(absl::StatusCode::kDataLoss, testing::_));
}

}  // namespace
}  // namespace hone
