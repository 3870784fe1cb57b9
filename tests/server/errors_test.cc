#include "server/errors.h"

#include <gtest/gtest.h>

#include "runtime/base/error_info.h"

namespace hone {
namespace {

v1::ErrorDetail DetailIn(const grpc::Status& status) {
  v1::ErrorDetail detail;
  EXPECT_TRUE(detail.ParseFromString(status.error_details()));
  return detail;
}

TEST(ErrorsTest, CodesAndTextsPassThrough) {
  const grpc::Status status = ToGrpc(absl::NotFoundError("no such key"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no such key");
  EXPECT_EQ(DetailIn(status).reason(), "NOT_FOUND");
}

TEST(ErrorsTest, AttachedFactsBecomeDetails) {
  const grpc::Status status =
      ToGrpc(WithErrorInfo(absl::InvalidArgumentError("no"), {.reason = "COMPILE_FAILED",
                                                              .excerpt = "line 1\nline 2",
                                                              .log_id = "abc",
                                                              .error_count = 100,
                                                              .error_limit_reached = true,
                                                              .retry_after_ms = 5}));
  const v1::ErrorDetail detail = DetailIn(status);
  EXPECT_EQ(detail.reason(), "COMPILE_FAILED");
  EXPECT_EQ(detail.excerpt(), "line 1\nline 2");
  EXPECT_EQ(detail.log_id(), "abc");
  EXPECT_EQ(detail.error_count(), 100);
  EXPECT_TRUE(detail.error_limit_reached());
  EXPECT_EQ(detail.retry_after_ms(), 5);
}

TEST(ErrorsTest, TextsFitHttp2Trailers) {
  const std::string huge(100'000, 'x');
  const grpc::Status status =
      ToGrpc(WithErrorInfo(absl::InternalError(huge), {.reason = huge, .excerpt = huge}));
  EXPECT_LT(status.error_message().size() + status.error_details().size() * 4 / 3, 6000u);
}

TEST(ErrorsTest, FindsTheFirstByteThatIsNotUtf8) {
  EXPECT_EQ(FindInvalidUtf8("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\x80"),
            absl::string_view::npos);
  EXPECT_EQ(FindInvalidUtf8("ab\xff"), 2u);
  EXPECT_EQ(FindInvalidUtf8("\xc0\xaf"), 0u);           // overlong
  EXPECT_EQ(FindInvalidUtf8("a\xed\xa0\x80"), 1u);      // a surrogate
  EXPECT_EQ(FindInvalidUtf8("a\xf4\x90\x80\x80"), 1u);  // beyond Unicode
  EXPECT_EQ(FindInvalidUtf8("a\xe2\x82"), 1u);          // cut
}

TEST(ErrorsTest, BoundedTextIsValidAndMarksItsCut) {
  EXPECT_EQ(BoundedUtf8("ab\xff", 10), "ab?");
  const std::string cut = BoundedUtf8(std::string(50, 'a') + "\xe2\x82\xac", 20);
  EXPECT_LE(cut.size(), 20u);
  EXPECT_EQ(cut.substr(cut.size() - 5), "[...]");
}

}  // namespace
}  // namespace hone
