#include "client/cli/errors.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "runtime/base/error_info.h"

namespace hone::cli {
namespace {

constexpr char kUsagePayload[] = "hone/usage";
constexpr char kUnreachablePayload[] = "hone/unreachable";
constexpr char kInFilePayload[] = "hone/in_file";

absl::Status Marked(absl::Status status, const char* payload) {
  status.SetPayload(payload, absl::Cord("1"));
  return status;
}

// Whether the daemon refused what the command line says. What does not compile is a file's fault.
bool IsRefusedRequest(const absl::Status& status) {
  const auto info = ErrorInfoOf(status);
  return absl::IsInvalidArgument(status) && info.has_value() && info->reason != "COMPILE_FAILED";
}

int ExitCodeOf(const absl::Status& status) {
  if (status.GetPayload(kUsagePayload).has_value()) return kExitUsage;
  if (status.GetPayload(kUnreachablePayload).has_value()) return kExitUnreachable;
  if (status.GetPayload(kInFilePayload).has_value()) return kExitError;
  if (IsRefusedRequest(status)) return kExitUsage;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return kExitUnreachable;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    default:
      return kExitError;
  }
}

void PrintFacts(const ErrorInfo& info, std::ostream& out) {
  if (!info.excerpt.empty()) out << info.excerpt << "\n";
  if (info.error_count > 0) {
    out << info.error_count << " errors"
        << (info.error_limit_reached ? " (the compiler stops there)" : "") << "\n";
  }
  if (!info.log_id.empty()) {
    out << "whole log: hone artifact --log " << info.log_id << "\n";
  }
  if (info.needed > 0) out << "needed " << info.needed << ", available " << info.available << "\n";
  if (info.retry_after_ms > 0) {
    out << "try again in " << FormatDuration(static_cast<double>(info.retry_after_ms) * 1e6)
        << "\n";
  }
}

}  // namespace

absl::Status UsageError(absl::string_view message) {
  return Marked(absl::InvalidArgumentError(message), kUsagePayload);
}

absl::Status Unreachable(absl::Status status) {
  return Marked(std::move(status), kUnreachablePayload);
}

absl::Status InFile(absl::Status status) {
  return status.ok() ? status : Marked(std::move(status), kInFilePayload);
}

int ReportAndExitCode(const absl::Status& status, std::ostream& out) {
  if (status.ok()) return kExitOk;
  out << "hone: " << status.message() << "\n";
  if (const auto info = ErrorInfoOf(status)) PrintFacts(*info, out);
  return ExitCodeOf(status);
}

}  // namespace hone::cli
