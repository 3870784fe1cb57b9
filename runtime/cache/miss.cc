#include "runtime/cache/miss.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/base/error_info.h"

namespace hone {
namespace {

std::string PolicyName(Policy policy) {
  switch (policy) {
    case Policy::kBestAvailable:
      return "BEST_AVAILABLE";
    case Policy::kWaitTuned:
      return "WAIT_TUNED";
    case Policy::kNoWait:
      return "NO_WAIT";
    case Policy::kFrozen:
      return "FROZEN";
  }
  return "UNKNOWN";
}

}  // namespace

absl::Status MissStatus(const ResolvedRequest& request, Policy policy, KernelStore& store) {
  const std::optional<Key> key = request.TuningKeyOf(request.problem);
  std::vector<std::string> near;
  if (request.device) {
    const auto records =
        store.TuningsOf(request.kernel_template->kernel_digest(), request.device->Key());
    if (records.ok()) {
      for (const TuningRecord& record : *records) {
        if (near.size() < 3) near.push_back(record.problem);
      }
    }
  }
  ErrorInfo info;
  info.reason = policy == Policy::kFrozen ? "FROZEN_MISS" : "NO_WAIT_MISS";
  return WithErrorInfo(
      absl::NotFoundError(absl::StrCat(
          "nothing is stored for template '", request.kernel_template->name(), "' with ",
          request.problem.ToString(), " on ", request.architecture, " (policy ", PolicyName(policy),
          ", key ", key ? key->id().substr(0, 12) : "none without a device",
          near.empty() ? "" : absl::StrCat("; tuned: ", absl::StrJoin(near, " | ")), ")")),
      info);
}

void RecordMiss(const ResolvedRequest& request, Policy policy, KernelStore& store) {
  Miss miss;
  miss.template_name = request.kernel_template->name();
  miss.template_digest = request.kernel_template->digest();
  miss.problem = request.problem.ToString();
  miss.architecture = request.architecture;
  miss.policy = PolicyName(policy);
  miss.count = 1;
  miss.last_at_unix_ms = absl::ToUnixMillis(absl::Now());
  (void)store.RecordMiss(miss);
}

}  // namespace hone
