#include "runtime/base/framed_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::HasSubstr;

class FramedChannelTest : public testing::Test {
 protected:
  FramedChannelTest() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ours_.Reset(pair[0]);
    theirs_.Reset(pair[1]);
  }

  UniqueFd ours_;
  UniqueFd theirs_;
};

TEST_F(FramedChannelTest, CarriesMessagesOfAnySizeInOrder) {
  FramedChannel sender(std::move(ours_));
  FramedChannel receiver(std::move(theirs_));
  const std::string large(9 << 20, 'x');
  std::thread thread([&] {
    EXPECT_THAT(sender.Send("", Deadline::Never()), IsOk());
    EXPECT_THAT(sender.Send(large, Deadline::Never()), IsOk());
    EXPECT_THAT(sender.Send(std::string("a\0b", 3), Deadline::Never()), IsOk());
  });
  EXPECT_THAT(receiver.Receive(Deadline::Never()), IsOkAndHolds(""));
  EXPECT_THAT(receiver.Receive(Deadline::Never()), IsOkAndHolds(large));
  EXPECT_THAT(receiver.Receive(Deadline::Never()), IsOkAndHolds(std::string("a\0b", 3)));
  thread.join();
}

TEST_F(FramedChannelTest, EndOfFileIsUnavailableAlsoInsideAMessage) {
  FramedChannel receiver(std::move(theirs_));
  ASSERT_EQ(::write(ours_.get(), "\x08\0\0\0half", 8), 8);
  ours_.Reset();
  EXPECT_THAT(receiver.Receive(Deadline::Never()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("closed")));
  EXPECT_TRUE(receiver.PeerGone());
}

TEST_F(FramedChannelTest, SendingToAPeerThatLeftIsUnavailableAndRaisesNoSignal) {
  FramedChannel sender(std::move(ours_));
  theirs_.Reset();
  EXPECT_THAT(sender.Send("x", Deadline::Never()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("closed")));
}

TEST_F(FramedChannelTest, SilenceEndsAtTheDeadline) {
  FramedChannel receiver(std::move(theirs_));
  EXPECT_FALSE(receiver.PeerGone());
  EXPECT_THAT(receiver.Receive(Deadline::In(absl::Milliseconds(20))),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("time limit")));
}

TEST_F(FramedChannelTest, APeerThatDoesNotReadEndsTheSendAtTheDeadline) {
  FramedChannel sender(std::move(ours_));
  EXPECT_THAT(sender.Send(std::string(16 << 20, 'x'), Deadline::In(absl::Milliseconds(20))),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("time limit")));
}

TEST_F(FramedChannelTest, RefusesMessagesAboveTheLimitOnBothSides) {
  FramedChannel sender(std::move(ours_), 8);
  FramedChannel receiver(std::move(theirs_), 4);
  EXPECT_THAT(sender.Send("123456789", Deadline::Never()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("limit is 8")));
  ASSERT_THAT(sender.Send("12345", Deadline::Never()), IsOk());
  EXPECT_THAT(receiver.Receive(Deadline::Never()), StatusIs(absl::StatusCode::kResourceExhausted,
                                                            HasSubstr("announced a message of 5")));
}

}  // namespace
}  // namespace hone
