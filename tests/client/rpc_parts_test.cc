// The parts of the transport that need no connection.
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "client/cpp/rpc/endpoint.h"
#include "client/cpp/rpc/error_detail.h"
#include "client/cpp/rpc/message_reader.h"
#include "client/cpp/rpc/pending_call.h"
#include "client/cpp/rpc/reply_status.h"
#include "client/cpp/rpc/rpc_channel.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum absl::StatusCode;

TEST(MessageReaderTest, MessagesComeWholeHoweverTheBytesAreCut) {
  const std::string wire = FramedMessage("first") + FramedMessage("") + FramedMessage("third");
  for (size_t piece = 1; piece <= wire.size(); ++piece) {
    MessageReader reader(100);
    std::vector<std::string> messages;
    for (size_t at = 0; at < wire.size(); at += piece) {
      ASSERT_THAT(reader.Feed(wire.substr(at, piece), messages), IsOk());
    }
    EXPECT_THAT(messages, ElementsAre("first", "", "third")) << "pieces of " << piece;
    EXPECT_FALSE(reader.within_message());
  }
}

TEST(MessageReaderTest, KnowsThatAMessageHasNotEnded) {
  for (const size_t size : {size_t{1}, size_t{5}, size_t{7}}) {
    MessageReader reader(100);
    std::vector<std::string> messages;
    ASSERT_THAT(reader.Feed(FramedMessage("text").substr(0, size), messages), IsOk());
    EXPECT_TRUE(reader.within_message()) << size << " bytes";
    EXPECT_THAT(messages, IsEmpty());
  }
}

TEST(MessageReaderTest, TooLongAMessageIsRefusedByItsPrefix) {
  MessageReader reader(100);
  std::vector<std::string> messages;
  EXPECT_THAT(reader.Feed(FramedMessage(std::string(100, 'x')), messages), IsOk());
  EXPECT_THAT(reader.Feed(FramedMessage(std::string(101, 'x')).substr(0, 5), messages),
              StatusIs(kResourceExhausted, AllOf(HasSubstr("101"), HasSubstr("at most 100"))));
}

TEST(MessageReaderTest, CompressionThatNobodyAskedForIsRefused) {
  MessageReader reader(100);
  std::vector<std::string> messages;
  std::string wire = FramedMessage("text");
  wire[0] = 1;
  EXPECT_THAT(reader.Feed(wire, messages), StatusIs(kInternal, HasSubstr("compressed")));
}

TEST(ReplyStatusTest, TextsArePercentDecodedAndOtherPercentSignsStay) {
  EXPECT_EQ(PercentDecoded("50%25 of %E2%82%ac"), "50% of \u20ac");
  EXPECT_EQ(PercentDecoded("100%"), "100%");
  EXPECT_EQ(PercentDecoded("%4"), "%4");
  EXPECT_EQ(PercentDecoded("%zz%41"), "%zzA");
}

TEST(ReplyStatusTest, TimeoutsHaveAtMostEightDigitsAndAreNeverShortened) {
  EXPECT_EQ(TimeoutHeader(absl::Microseconds(1)), "1u");
  EXPECT_EQ(TimeoutHeader(absl::Nanoseconds(1500)), "2u");
  EXPECT_EQ(TimeoutHeader(absl::Seconds(99)), "99000000u");
  EXPECT_EQ(TimeoutHeader(absl::Seconds(100) + absl::Microseconds(1)), "100001m");
  EXPECT_EQ(TimeoutHeader(absl::Hours(48)), "172800S");
  EXPECT_EQ(TimeoutHeader(absl::Hours(1'000'000)), "60000000M");
  EXPECT_EQ(TimeoutHeader(-absl::Seconds(1)), "1u");
}

absl::Status OfFields(std::initializer_list<std::pair<std::string, std::string>> fields) {
  ReplyHeaders headers;
  for (const auto& [name, value] : fields) headers.Add(name, value);
  return StatusOfReply(headers);
}

TEST(ReplyStatusTest, TheDaemonsWordCountsBeforeHttps) {
  EXPECT_THAT(OfFields({{":status", "200"}, {"grpc-status", "0"}}), IsOk());
  EXPECT_THAT(OfFields({{":status", "503"}, {"grpc-status", "5"}, {"grpc-message", "no%20such"}}),
              StatusIs(kNotFound, "no such"));
  EXPECT_THAT(OfFields({{":status", "200"}, {"grpc-status", "16"}}),
              StatusIs(kUnauthenticated, ""));
  // scenario P46
  EXPECT_THAT(OfFields({{":status", "200"}, {"grpc-status", "99"}, {"grpc-message", "new"}}),
              StatusIs(kUnknown, AllOf(HasSubstr("'99'"), HasSubstr("new"))));
  EXPECT_THAT(OfFields({{":status", "200"}, {"grpc-status", "x"}}),
              StatusIs(kUnknown, HasSubstr("'x'")));
}

TEST(ReplyStatusTest, AnswersOfOtherServersAreMappedAsGrpcDoes) {
  const std::vector<std::pair<int, absl::StatusCode>> table = {
      {400, kInternal},    {401, kUnauthenticated}, {403, kPermissionDenied}, {404, kUnimplemented},
      {429, kUnavailable}, {502, kUnavailable},     {503, kUnavailable},      {504, kUnavailable},
      {500, kUnknown},     {302, kUnknown}};
  for (const auto& [http, code] : table) {
    EXPECT_THAT(OfFields({{":status", std::to_string(http)}}),
                StatusIs(code, HasSubstr(std::to_string(http))));
  }
  EXPECT_THAT(OfFields({{":status", "200"}, {"content-type", "text/html"}}),
              StatusIs(kUnknown, HasSubstr("text/html")));
  EXPECT_THAT(OfFields({{":status", "200"}, {"content-type", "application/grpc+proto"}}),
              StatusIs(kUnknown, HasSubstr("without a grpc-status")));
  EXPECT_THAT(OfFields({}), StatusIs(kInternal, HasSubstr("without any headers")));
}

TEST(ReplyStatusTest, DamagedDetailsLeaveTheStatus) {
  for (const std::string details : {"!!", "/////w", "CgZ"}) {
    const absl::Status status =
        OfFields({{":status", "200"}, {"grpc-status", "9"}, {"grpc-status-details-bin", details}});
    EXPECT_THAT(status, StatusIs(kFailedPrecondition, ""));
    EXPECT_FALSE(ErrorInfoOf(status).has_value()) << details;
  }
}

TEST(ErrorDetailTest, CutOrForeignBytesAreNoDetail) {
  const std::string whole = std::string(
      "\x0a\x03"
      "abc\x40\x96\x01",
      8);  // reason, retry_after_ms
  const auto info = DecodeErrorDetail(whole);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, "abc");
  EXPECT_EQ(info->retry_after_ms, 150);
  for (const size_t size : {1u, 2u, 4u, 6u, 7u}) {
    EXPECT_FALSE(DecodeErrorDetail(whole.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(DecodeErrorDetail(std::string("\x0b", 1)).has_value());      // a group
  EXPECT_FALSE(DecodeErrorDetail(std::string("\x00\x01", 2)).has_value());  // field 0
  EXPECT_FALSE(DecodeErrorDetail(std::string(12, '\xff')).has_value());     // an endless varint
}

TEST(EndpointTest, HostAndPortAreTakenApart) {
  for (const auto& [endpoint, host] : std::vector<std::pair<std::string, std::string>>{
           {"localhost:7433", "localhost"}, {"10.0.0.1:7433", "10.0.0.1"}, {"[::1]:7433", "::1"}}) {
    const absl::StatusOr<HostPort> parts = ParseHostPort(endpoint);
    ASSERT_THAT(parts, IsOk());
    EXPECT_EQ(parts->host, host);
    EXPECT_EQ(parts->port, "7433");
  }
}

TEST(EndpointTest, WhatCannotBeAnEndpointIsNamed) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "neither unix:PATH nor HOST:PORT"},
      {"localhost", "neither"},
      {"http://localhost:1", "neither"},
      {"localhost:http", "1 to 65535"},
      {"localhost:0", "1 to 65535"},
      {"localhost:65536", "1 to 65535"},
      {"::1:7433", "brackets"},
      {":7433", "host is missing"},
      {"unix:", "1 to 107 bytes"},
      {"unix:/" + std::string(107, 'x'), "1 to 107 bytes"}};
  for (const auto& [endpoint, text] : bad) {
    EXPECT_THAT(CheckEndpoint(endpoint),
                StatusIs(kInvalidArgument, AllOf(HasSubstr(endpoint), HasSubstr(text))));
    EXPECT_THAT(RpcChannel::Create({.endpoint = endpoint}).status(),
                StatusIs(kInvalidArgument, HasSubstr(text)));
  }
}

TEST(RpcChannelTest, WrongMethodsAndTooLongRequestsAreRefusedBeforeTheyAreSent) {
  const auto channel =
      RpcChannel::Create({.endpoint = "unix:/nonexistent/s", .message_bytes_max = 100});
  ASSERT_THAT(channel, IsOk());
  EXPECT_THAT((*channel)->Call("GetStatus", ""),
              StatusIs(kInvalidArgument, HasSubstr("'GetStatus'")));
  EXPECT_THAT((*channel)->Call("/s/M", std::string(101, 'x')),
              StatusIs(kResourceExhausted, AllOf(HasSubstr("101"), HasSubstr("at most 100"))));
}

PendingCall::Request StreamingRequest() {
  return {.path = "/s/M",
          .body = std::make_shared<const std::string>(),
          .message_bytes_max = size_t{4} << 20,
          .streaming = true};
}

TEST(PendingCallTest, AFullStreamPausesItsPeerUntilTheCallerHasCaughtUp) {
  PendingCall call(StreamingRequest());
  const std::string half(size_t{700} << 10, 'x');
  EXPECT_TRUE(call.Deliver({half}));
  EXPECT_FALSE(call.Deliver({half}));
  EXPECT_FALSE(call.Next().resume);
  const PendingCall::News last = call.Next();
  EXPECT_TRUE(last.message.has_value());
  EXPECT_TRUE(last.resume);
  EXPECT_TRUE(call.Deliver({half}));
  EXPECT_FALSE(call.Next().resume);
}

TEST(PendingCallTest, MessagesComeBeforeTheEndAndOnlyTheFirstEndCounts) {
  PendingCall call(StreamingRequest());
  call.Deliver({"message"});
  call.Finish({.status = absl::NotFoundError("first")});
  call.Finish({.status = absl::InternalError("second")});
  call.Deliver({"late"});
  EXPECT_EQ(call.Next().message, "message");
  const PendingCall::News news = call.Next();
  EXPECT_FALSE(news.message.has_value());
  ASSERT_TRUE(news.end.has_value());
  EXPECT_THAT(news.end->status, StatusIs(kNotFound, "first"));
}

}  // namespace
}  // namespace hone
