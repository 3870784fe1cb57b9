#include "runtime/base/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/error_info.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FairQueueTest : public ::testing::Test {
 protected:
  std::optional<int64_t> Push(uint64_t client, const std::string& name) {
    return queue_.Push(client, [this, name] { ran_.push_back(name); });
  }
  void RunAll() {
    while (!queue_.empty()) queue_.Pop()();
  }

  FairQueue queue_{8};
  std::vector<std::string> ran_;
};

TEST_F(FairQueueTest, ClientsTakeTurnsAndEachKeepsItsOrder) {
  for (const char* name : {"a1", "a2", "a3"}) Push(1, name);
  Push(2, "b1");
  Push(3, "c1");
  Push(3, "c2");
  RunAll();
  EXPECT_THAT(ran_, ElementsAre("a1", "b1", "c1", "a2", "c2", "a3"));
}

TEST_F(FairQueueTest, OneClientGetsHalfAndTheNextOneStillFindsRoom) {
  int first = 0, second = 0;
  while (Push(1, "x")) ++first;
  while (Push(2, "x")) ++second;
  EXPECT_EQ(first, 4);
  EXPECT_EQ(second, 2);
  EXPECT_TRUE(Push(3, "x"));
  EXPECT_FALSE(Push(1, "x"));
  EXPECT_EQ(queue_.size(), 7u);
  EXPECT_EQ(queue_.SizeOf(1), 4u);
}

TEST_F(FairQueueTest, WhatIsRemovedMakesRoomAndNeverRuns) {
  std::vector<int64_t> ids;
  while (const auto id = Push(1, "x" + std::to_string(ids.size()))) ids.push_back(*id);
  EXPECT_TRUE(queue_.Remove(ids[1]));
  EXPECT_FALSE(queue_.Remove(ids[1]));
  EXPECT_TRUE(Push(1, "y"));
  RunAll();
  EXPECT_THAT(ran_, ElementsAre("x0", "x2", "x3", "y"));
  EXPECT_FALSE(queue_.Remove(ids[0]));
}

TEST_F(FairQueueTest, ARefusalSaysWhatThereIsAndWhenToComeBack) {
  while (Push(1, "x")) {
  }
  const absl::Status full = queue_.Full(1, "compiles", absl::Milliseconds(300));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()),
              AllOf(HasSubstr("waiting compiles holds 4, 4 of them of this connection"),
                    HasSubstr("limit is 8"), HasSubstr("retry in 300ms")));
  EXPECT_EQ(ErrorInfoOf(full)->reason, "QUEUE_FULL");
  EXPECT_EQ(ErrorInfoOf(full)->retry_after_ms, 300);
}

}  // namespace
}  // namespace hone
