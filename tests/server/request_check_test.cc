#include "server/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hone/v1/kernel_service.pb.h"
#include "server/call.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status Parse(const std::string& wire, google::protobuf::Message* message) {
  return ParseRequest(Bytes(wire), message);
}

TEST(ParseRequestTest, ReadsAGoodMessage) {
  v1::GetKernelRequest sent, read;
  sent.mutable_template_()->set_name("copy");
  (*sent.mutable_params())["n"].set_integer(5);
  EXPECT_TRUE(ParseRequest(Serialize(sent), &read).ok());
  EXPECT_EQ(read.params().at("n").integer(), 5);
}

TEST(ParseRequestTest, NamesTheFieldWhoseTextIsNotUtf8) {
  // CompileRequest.source is field 1: tag 0x0a, length 4.
  v1::CompileRequest request;
  absl::Status status = Parse(std::string("\x0a\x04") + "ab\xff\x63", &request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("source"), HasSubstr("byte 2")));
}

TEST(ParseRequestTest, NamesNestedAndMapFields) {
  v1::GetKernelRequest request;
  // template { name: "\xff" }
  absl::Status status = Parse("\x0a\x03\x0a\x01\xff", &request);
  EXPECT_THAT(std::string(status.message()), HasSubstr("template.name"));
  // params { key: "\xff" }
  status = Parse("\x12\x03\x0a\x01\xff", &request);
  EXPECT_THAT(std::string(status.message()), HasSubstr("params"));
}

TEST(ParseRequestTest, GarbageIsAnInvalidMessage) {
  v1::GetKernelRequest request;
  const absl::Status status = Parse("\x0a\xff\xff", &request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("hone.v1.GetKernelRequest"));
}

TEST(ParseRequestTest, RefusesNulBytesByField) {
  v1::CompileRequest sent, read;
  sent.add_name_expressions("good");
  sent.add_name_expressions(std::string("a\0b", 3));
  const absl::Status status = ParseRequest(Serialize(sent), &read);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("name_expressions[1]"), HasSubstr("NUL")));
}

TEST(ParseRequestTest, RefusesUnknownEnumValuesWithThoseThereAre) {
  v1::GetKernelRequest sent, read;
  sent.set_policy(static_cast<v1::Policy>(17));
  const absl::Status status = ParseRequest(Serialize(sent), &read);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("policy: 17"), HasSubstr("WAIT_TUNED (1)")));
}

// scenario P46
TEST(ParseRequestTest, FieldsOfALaterVersionAreLeftOut) {
  v1::GetStatusRequest request;
  EXPECT_TRUE(Parse("\xfa\x3f\x03new", &request).ok());
}

// scenario P40
TEST(ParseRequestTest, AnOverlongMessageIsToldTheLimit) {
  v1::CompileRequest read;
  const absl::Status status = Parse(std::string(kRequestBytesMax + 1, 'x'), &read);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("16 MiB"), HasSubstr("16777216")));
}

}  // namespace
}  // namespace hone
