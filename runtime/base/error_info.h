// Facts that travel with an absl::Status beside its text: the reason a program can branch on, the
// compiler's first error, what was needed and what there was.
//
// They sit in one payload of the status, so that any layer can attach them and the service can put
// them into the reply without knowing who failed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace hone {

struct ErrorInfo {
  std::string reason = {};   // COMPILE_FAILED, NO_CANDIDATE_SURVIVED, NO_DEVICE, NVRTC_MISSING, ...
  std::string excerpt = {};  // first compiler error and the caller's own source around it
  std::string log_id = {};
  int64_t error_count = 0;
  bool error_limit_reached = false;
  int64_t needed = 0;
  int64_t available = 0;
  int64_t retry_after_ms = 0;  // 0: retrying does not help
};

inline constexpr char kErrorInfoPayload[] = "hone/error_info";

// Replaces what was attached before; does nothing to an OK status. The excerpt comes last because
// it may span lines.
inline void AttachErrorInfo(absl::Status& status, const ErrorInfo& info) {
  status.SetPayload(
      kErrorInfoPayload,
      absl::Cord(absl::StrCat(info.reason, "\n", info.log_id, "\n", info.error_count, "\n",
                              info.error_limit_reached ? 1 : 0, "\n", info.needed, "\n",
                              info.available, "\n", info.retry_after_ms, "\n", info.excerpt)));
}

inline absl::Status WithErrorInfo(absl::Status status, const ErrorInfo& info) {
  AttachErrorInfo(status, info);
  return status;
}

// What is attached; nullopt without.
inline std::optional<ErrorInfo> ErrorInfoOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kErrorInfoPayload);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  const std::vector<std::string> fields = absl::StrSplit(text, absl::MaxSplits('\n', 7));
  if (fields.size() != 8) return std::nullopt;
  ErrorInfo info;
  info.reason = fields[0];
  info.log_id = fields[1];
  info.error_limit_reached = fields[3] == "1";
  info.excerpt = fields[7];
  const bool parsed = absl::SimpleAtoi(fields[2], &info.error_count) &&
                      absl::SimpleAtoi(fields[4], &info.needed) &&
                      absl::SimpleAtoi(fields[5], &info.available) &&
                      absl::SimpleAtoi(fields[6], &info.retry_after_ms);
  if (!parsed) return std::nullopt;
  return info;
}

}  // namespace hone
