#include "server/logging.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(LogEventTest, QuotesWhatIsNotAPlainWord) {
  const LogEvent event = LogEvent("miss")
                             .Add("template", "copy_1d")
                             .Add("reason", "no \"such\"\nkey")
                             .Add("n", int64_t{3});
  EXPECT_EQ(event.line(), "miss template=copy_1d reason=\"no \\\"such\\\"\\nkey\" n=3");
}

TEST(LogEventTest, AnEmptyValueIsVisible) {
  EXPECT_EQ(LogEvent("hit").Add("key", "").line(), "hit key=\"\"");
}

TEST(JsonMembersTest, KeepsNumbersAndQuotes) {
  EXPECT_EQ(JsonMembers("miss template=copy_1d took_ms=3 best_ns=1.5 reason=\"a b\""),
            "\"event\":\"miss\",\"template\":\"copy_1d\",\"took_ms\":3,\"best_ns\":1.5,"
            "\"reason\":\"a b\"");
}

TEST(JsonMembersTest, HashesAndOddNumbersStayText) {
  EXPECT_EQ(JsonMembers("x key=0012 sha=12345678901234567890 v=1."),
            "\"event\":\"x\",\"key\":\"0012\",\"sha\":\"12345678901234567890\",\"v\":\"1.\"");
}

TEST(JsonMembersTest, OtherLinesBecomeAMessage) {
  EXPECT_EQ(JsonMembers("not an event: it has no keys"),
            "\"message\":\"not an event: it has no keys\"");
}

}  // namespace
}  // namespace hone
