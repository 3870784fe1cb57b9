// What a daemon may say on the wire, and what it must not, as a caller sees it.
#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/rpc/message_reader.h"
#include "client/cpp/rpc/rpc_channel.h"
#include "runtime/base/error_info.h"
#include "runtime/base/notification.h"
#include "tests/client/rpc_calls.h"
#include "tests/client/scripted_server.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using namespace http2;
using enum absl::StatusCode;

// The result of one call that is answered with `make_reply` of its stream; the connection must take
// a second call after it.
absl::StatusOr<std::string> AnsweredWith(const std::function<std::string(uint32_t)>& make_reply) {
  ScriptedServer server([&](ScriptedConnection& connection, int) {
    if (!connection.Greet()) return;
    const uint32_t stream = connection.ReadRequest();
    connection.Send(make_reply(stream));
    while (const uint32_t next = connection.ReadRequest()) connection.Send(Reply(next, "second"));
  });
  const auto channel = ChannelTo(server.endpoint());
  const absl::StatusOr<std::string> result = channel->Call(kMethod, "request", Within(kLong));
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("second"));
  EXPECT_EQ(server.connections(), 1);
  return result;
}

std::string Messages(uint32_t stream, const std::vector<std::string>& messages) {
  std::string wire = ReplyBegins(stream);
  for (const std::string& message : messages) wire += Data(stream, FramedMessage(message), false);
  return wire + ReplyEnds(stream);
}

TEST(RpcWireTest, ARepliesBytesAreReturned) {
  EXPECT_THAT(AnsweredWith([](uint32_t stream) { return Reply(stream, "reply"); }),
              IsOkAndHolds("reply"));
  EXPECT_THAT(AnsweredWith([](uint32_t stream) { return Reply(stream, ""); }), IsOkAndHolds(""));
}

TEST(RpcWireTest, SlowBytesAreStillAReply) {
  ScriptedServer server([](ScriptedConnection& connection, int) {
    if (!connection.Greet()) return;
    const uint32_t stream = connection.ReadRequest();
    for (const char byte : Reply(stream, "reply")) {
      if (!connection.Send(absl::string_view(&byte, 1))) return;
      std::this_thread::yield();
    }
    connection.ReadToEnd();
  });
  EXPECT_THAT(ChannelTo(server.endpoint())->Call(kMethod, "", Within(kLong)),
              IsOkAndHolds("reply"));
}

TEST(RpcWireTest, AnErrorMayComeWithoutAnythingElse) {
  const auto result = AnsweredWith([](uint32_t stream) {
    return Headers(stream,
                   {{":status", "200"},
                    {"content-type", "application/grpc"},
                    {"grpc-status", "8"},
                    {"grpc-message", "95%25 full"},
                    // needed: 300, retry_after_ms: 150
                    {"grpc-status-details-bin", "MKwCQJYB"}},
                   true);
  });
  EXPECT_THAT(result, StatusIs(kResourceExhausted, "95% full"));
  const auto info = ErrorInfoOf(result.status());
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->needed, 300);
  EXPECT_EQ(info->retry_after_ms, 150);
}

TEST(RpcWireTest, AnAnswerBeforeTheRequestWasReadEndsTheCall) {
  // More than the windows that this server ever grants.
  const std::string request(size_t{1} << 20, 'x');
  ScriptedServer server([](ScriptedConnection& connection, int) {
    if (!connection.Greet()) return;
    const auto frame = connection.ReadUntil(kHeaders);
    if (!frame) return;
    connection.Send(Headers(frame->stream, {{":status", "200"}, {"grpc-status", "7"}}, true));
    const auto reset = connection.ReadUntil(kReset);
    if (reset) {
      EXPECT_EQ(reset->stream, frame->stream);
    }
    connection.ReadToEnd();
  });
  EXPECT_THAT(ChannelTo(server.endpoint())->Call(kMethod, request, Within(kLong)),
              StatusIs(kPermissionDenied, ""));
}

TEST(RpcWireTest, RepliesThatAreNoneAreInternal) {
  EXPECT_THAT(AnsweredWith([](uint32_t stream) { return Messages(stream, {}); }),
              StatusIs(kInternal, HasSubstr("without a reply")));
  EXPECT_THAT(AnsweredWith([](uint32_t stream) {
                return Messages(stream, {"a", "b"});
              }),
              StatusIs(kInternal, HasSubstr("more than one")));
  EXPECT_THAT(AnsweredWith([](uint32_t stream) {
                return ReplyBegins(stream) +
                       Data(stream, FramedMessage("reply").substr(0, 8), false) + ReplyEnds(stream);
              }),
              StatusIs(kInternal, HasSubstr("within a message")));
  EXPECT_THAT(AnsweredWith([](uint32_t stream) {
                std::string message = FramedMessage("reply");
                message[0] = 1;
                return ReplyBegins(stream) + Data(stream, message, false) + ReplyEnds(stream);
              }),
              StatusIs(kInternal, HasSubstr("compressed")));
}

TEST(RpcWireTest, AReplyThatClaimsTooMuchIsRefusedWithoutIt) {
  EXPECT_THAT(AnsweredWith([](uint32_t stream) {
                // Announces 100 MiB and goes on with garbage.
                return ReplyBegins(stream) +
                       Data(stream, std::string("\0\x06\x40\0\0", 5) + "garbage", false);
              }),
              StatusIs(kResourceExhausted, AllOf(HasSubstr("104857600"), HasSubstr("67108864"))));
}

TEST(RpcWireTest, EndlessHeadersAreCutOff) {
  EXPECT_THAT(AnsweredWith([](uint32_t stream) {
                Fields fields = {{":status", "200"}};
                for (int i = 0; i < 5; ++i) {
                  fields.push_back({absl::StrCat("x-", i), std::string(30000, 'x')});
                }
                return Headers(stream, fields, false);
              }),
              StatusIs(kResourceExhausted, HasSubstr("headers")));
}

TEST(RpcWireTest, ResetsMeanWhatGrpcSays) {
  const std::vector<std::pair<uint32_t, absl::StatusCode>> table = {
      {0, kInternal},
      {kInternalError, kInternal},
      {kCancel, kCancelled},
      {kEnhanceYourCalm, kResourceExhausted}};
  for (const auto& [error, code] : table) {
    EXPECT_THAT(AnsweredWith([error = error](uint32_t stream) { return Reset(stream, error); }),
                StatusIs(code, HasSubstr("reset")));
  }
}

TEST(RpcWireTest, WhatTheDaemonRefusedIsSentAgainWhateverItIs) {
  int refused = 0;
  ScriptedServer server([&](ScriptedConnection& connection, int) {
    if (!connection.Greet()) return;
    while (const uint32_t stream = connection.ReadRequest()) {
      connection.Send(refused++ < 2 ? Reset(stream, kRefusedStream) : Reply(stream, "third"));
    }
  });
  EXPECT_THAT(ChannelTo(server.endpoint())->Call(kMethod, "", Within(kLong)),
              IsOkAndHolds("third"));
}

TEST(RpcWireTest, WhatDoesNotSpeakHttp2IsNoDaemon) {
  for (const std::string& answer :
       {std::string("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
        std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string(1000, '\xff')}) {
    ScriptedServer server([&](ScriptedConnection& connection, int) {
      connection.Send(answer);
      connection.ReadToEnd();
    });
    EXPECT_THAT(ChannelTo(server.endpoint())->Call(kMethod, "", Within(kLong)),
                StatusIs(kUnavailable, HasSubstr("does not speak HTTP/2")));
  }
}

TEST(RpcWireTest, GarbageWithinAConnectionEndsItAndTheNextCallGetsANewOne) {
  ScriptedServer server([](ScriptedConnection& connection, int number) {
    if (number > 0) return Serve(connection, "good");
    if (!connection.Greet()) return;
    const uint32_t stream = connection.ReadRequest();
    // DATA for a stream that nobody opened.
    connection.Send(ReplyBegins(stream) + Data(4, "x", false));
    connection.ReadToEnd();
  });
  const auto channel = ChannelTo(server.endpoint());
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, HasSubstr("broke the protocol")));
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("good"));
}

TEST(RpcWireTest, HalfAFrameAndThenSilenceEndsAtTheDeadline) {
  ScriptedServer server([](ScriptedConnection& connection, int) {
    if (!connection.Greet()) return;
    const uint32_t stream = connection.ReadRequest();
    const std::string reply = Reply(stream, "reply");
    connection.Send(absl::string_view(reply).substr(0, reply.size() / 2));
    const auto reset = connection.ReadUntil(kReset);
    if (reset) {
      EXPECT_EQ(reset->payload, std::string("\0\0\0\x08", 4));  // CANCEL
    }
    connection.ReadToEnd();
  });
  const absl::Time began = absl::Now();
  EXPECT_THAT(ChannelTo(server.endpoint())->Call(kMethod, "", Within(absl::Milliseconds(200))),
              StatusIs(kDeadlineExceeded, HasSubstr(kMethod)));
  EXPECT_LT(absl::Now() - began, absl::Seconds(5));
}

TEST(RpcWireTest, StreamsDeliverEachMessageAsItComes) {
  Notification first_seen;
  ScriptedServer server([&](ScriptedConnection& connection, int) {
    if (!connection.Greet()) return;
    const uint32_t stream = connection.ReadRequest();
    connection.Send(ReplyBegins(stream) + Data(stream, FramedMessage("one"), false));
    first_seen.WaitForNotification();
    connection.Send(Data(stream, FramedMessage("two") + FramedMessage("three"), false) +
                    ReplyEnds(stream));
    connection.ReadToEnd();
  });
  std::vector<std::string> messages;
  EXPECT_THAT(ChannelTo(server.endpoint())
                  ->Stream(kMethod, "", Within(kLong),
                           [&](std::string message) {
                             messages.push_back(std::move(message));
                             if (messages.size() == 1) first_seen.Notify();
                             return true;
                           }),
              IsOk());
  EXPECT_THAT(messages, ElementsAre("one", "two", "three"));
}

TEST(RpcWireTest, AReaderThatPausesHoldsTheDaemonBack) {
  constexpr int64_t kTotal = 12 << 20;
  const std::string frame_message(16000, 'x');
  int64_t held_back_at = -1;
  Notification held_back;
  ScriptedServer server([&](ScriptedConnection& connection, int) {
    if (!connection.Greet()) return;
    const uint32_t stream = connection.ReadRequest();
    // The window that this client's SETTINGS give to each stream.
    int64_t window = 4 << 20;
    const std::string message = FramedMessage(frame_message);
    const auto size = static_cast<int64_t>(message.size());
    connection.Send(ReplyBegins(stream));
    for (int64_t sent = 0; sent < kTotal; sent += size) {
      while (window < size) {
        if (held_back_at < 0) {
          held_back_at = sent;
          held_back.Notify();
        }
        const auto update = connection.ReadUntil(kWindowUpdate);
        if (!update) return;
        if (update->stream == stream) window += Number(update->payload);
      }
      connection.Send(Data(stream, message, false));
      window -= size;
    }
    connection.Send(ReplyEnds(stream));
    connection.ReadToEnd();
  });
  int64_t received = 0;
  EXPECT_THAT(ChannelTo(server.endpoint())
                  ->Stream(kMethod, "", Within(kLong),
                           [&](const std::string& message) {
                             if (received == 0) held_back.WaitForNotification();
                             received += static_cast<int64_t>(message.size());
                             return true;
                           }),
              IsOk());
  EXPECT_GE(received, kTotal - (int64_t{1} << 20));
  // What may lie unread and one window.
  EXPECT_GT(held_back_at, 3 << 20);
  EXPECT_LT(held_back_at, 8 << 20);
}

// scenario P41
TEST(RpcWireTest, LeavingAStreamTellsTheDaemon) {
  Notification told;
  ScriptedServer server([&](ScriptedConnection& connection, int) {
    if (!connection.Greet()) return;
    const uint32_t stream = connection.ReadRequest();
    connection.Send(ReplyBegins(stream) + Data(stream, FramedMessage("one"), false));
    if (connection.ReadUntil(kReset)) told.Notify();
    connection.ReadToEnd();
  });
  const auto channel = ChannelTo(server.endpoint());
  EXPECT_THAT(channel->Stream(kMethod, "", Within(kLong), [](const std::string&) { return false; }),
              StatusIs(kCancelled, HasSubstr("by the caller")));
  EXPECT_TRUE(told.WaitForNotificationWithTimeout(kLong));
}

TEST(RpcWireTest, ShutdownEndsWhatOthersWaitFor) {
  ScriptedServer server([](ScriptedConnection& connection, int) {
    if (!connection.Greet()) return;
    const uint32_t stream = connection.ReadRequest();
    connection.Send(ReplyBegins(stream) + Data(stream, FramedMessage("one"), false));
    connection.ReadToEnd();
  });
  const auto channel = ChannelTo(server.endpoint());
  Notification begun;
  std::thread reader([&] {
    EXPECT_THAT(channel->Stream(kMethod, "", {},
                                [&](const std::string&) {
                                  begun.Notify();
                                  return true;
                                }),
                StatusIs(kCancelled, HasSubstr("shut down")));
  });
  begun.WaitForNotification();
  channel->Shutdown();
  reader.join();
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)),
              StatusIs(kCancelled, HasSubstr("shut down")));
  EXPECT_THAT(channel->WaitUntilConnected(kLong), StatusIs(kCancelled, HasSubstr("shut down")));
}

TEST(RpcWireTest, ACallThatComesTooLateIsNotSent) {
  ScriptedServer server([](ScriptedConnection& connection, int) { Serve(connection, "reply"); });
  EXPECT_THAT(ChannelTo(server.endpoint())->Call(kMethod, "", Within(-absl::Seconds(1))),
              StatusIs(kDeadlineExceeded, HasSubstr("had passed")));
  EXPECT_EQ(server.connections(), 0);
}

TEST(RpcWireTest, AStreamThatHasBegunIsNotRepeated) {
  ScriptedServer server([](ScriptedConnection& connection, int) {
    if (!connection.Greet()) return;
    const uint32_t stream = connection.ReadRequest();
    connection.Send(ReplyBegins(stream) + Data(stream, FramedMessage("one"), false));
  });
  std::vector<std::string> messages;
  EXPECT_THAT(ChannelTo(server.endpoint())
                  ->Stream(kMethod, "", Within(kLong, /*retry=*/true),
                           [&](std::string message) {
                             messages.push_back(std::move(message));
                             return true;
                           }),
              StatusIs(kUnavailable, HasSubstr("lost")));
  EXPECT_THAT(messages, SizeIs(1));
}

// scenario P42
TEST(RpcWireTest, ASilentDaemonIsPingedAndLivesAsLongAsItAnswers) {
  ScriptedServer server([](ScriptedConnection& connection, int) {
    if (!connection.Greet()) return;
    const uint32_t stream = connection.ReadRequest();
    for (int pings = 0; pings < 3; ++pings) {
      const auto ping = connection.ReadUntil(kPing);
      if (!ping || !connection.Send(Frame(kPing, kAck, 0, ping->payload))) return;
    }
    connection.Send(Reply(stream, "late"));
    connection.ReadToEnd();
  });
  const auto channel = *RpcChannel::Create({.endpoint = server.endpoint(),
                                            .keepalive_interval = absl::Milliseconds(50),
                                            .keepalive_timeout = absl::Seconds(10)});
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)), IsOkAndHolds("late"));
}

TEST(RpcWireTest, ADaemonThatAnswersNoPingIsLost) {
  ScriptedServer server([](ScriptedConnection& connection, int) {
    if (!connection.Greet()) return;
    connection.ReadToEnd();
  });
  const auto channel = *RpcChannel::Create({.endpoint = server.endpoint(),
                                            .keepalive_interval = absl::Milliseconds(50),
                                            .keepalive_timeout = absl::Milliseconds(50)});
  EXPECT_THAT(channel->Call(kMethod, "", Within(kLong)),
              StatusIs(kUnavailable, HasSubstr("no reply to a ping")));
}

}  // namespace
}  // namespace hone
