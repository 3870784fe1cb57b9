#include "runtime/kernel/field_error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace hone {
namespace {

constexpr char kFieldPayload[] = "hone/field";

}  // namespace

absl::Status FieldError(absl::string_view path, absl::string_view message) {
  return AtField(path, absl::InvalidArgumentError(message));
}

absl::Status AtField(absl::string_view path, const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status result(status.code(), absl::StrCat(path, ": ", status.message()));
  status.ForEachPayload([&result](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  result.SetPayload(kFieldPayload, absl::Cord(path));
  return result;
}

std::optional<std::string> FieldOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldPayload);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

}  // namespace hone
