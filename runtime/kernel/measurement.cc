#include "runtime/kernel/measurement.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

// REQUIRES: sorted, not empty, 0 <= share <= 1.
double Quantile(const std::vector<double>& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(position));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double fraction = position - static_cast<double>(below);
  return sorted[below] + fraction * (sorted[above] - sorted[below]);
}

}  // namespace

std::string Name(RejectionKind kind) {
  switch (kind) {
    case RejectionKind::kConstraint:
      return "constraint";
    case RejectionKind::kCompile:
      return "compile";
    case RejectionKind::kResources:
      return "resources";
    case RejectionKind::kLaunch:
      return "launch";
    case RejectionKind::kIllegalAccess:
      return "illegal_access";
    case RejectionKind::kTimeout:
      return "timeout";
    case RejectionKind::kWrongResult:
      return "wrong_result";
    case RejectionKind::kUnstable:
      return "unstable";
    case RejectionKind::kCrash:
      return "crash";
  }
  return "unknown";
}

bool Expires(RejectionKind kind) {
  return kind == RejectionKind::kTimeout || kind == RejectionKind::kCrash ||
         kind == RejectionKind::kUnstable;
}

bool AreSameWork(const Measurement& a, const Measurement& b) {
  const auto measured = [](const Measurement& m) {
    return m.same_work_as.empty() ? m.config.ToString() : m.same_work_as;
  };
  return measured(a) == measured(b);
}

std::string StaleReason(const Measurement& measurement, const Provenance& present) {
  const auto differ = [](const std::string& then, const std::string& now) {
    return !then.empty() && !now.empty() && then != now;
  };
  if (!measurement.invalidated.empty()) {
    return absl::StrCat("invalidated ", measurement.invalidated);
  }
  if (measurement.rejection && measurement.rejection->kind == RejectionKind::kConstraint) return "";
  if (differ(measurement.driver, present.driver)) {
    return absl::StrCat("measured under driver ", measurement.driver, ", now ", present.driver);
  }
  // Binaries that came with their template are of no compiler of ours.
  if (measurement.compiler_build != "prebuilt" &&
      differ(measurement.compiler_build, present.compiler_build)) {
    return absl::StrCat("built by ", measurement.compiler_build, ", now ", present.compiler_build);
  }
  return "";
}

bool SameBits(const Measurement& a, const Measurement& b) {
  if (a.output_sha256.empty() || a.output_sha256 != b.output_sha256) return false;
  return std::all_of(a.small_outputs.begin(), a.small_outputs.end(), [&](const auto& item) {
    const auto other = b.small_outputs.find(item.first);
    return other == b.small_outputs.end() || other->second == item.second;
  });
}

void Summarise(Measurement& measurement) {
  measurement.median_ns = 0;
  measurement.spread = 0;
  if (measurement.samples_ns.empty()) return;
  std::vector<double> sorted = measurement.samples_ns;
  std::sort(sorted.begin(), sorted.end());
  measurement.median_ns = Quantile(sorted, 0.5);
  if (measurement.median_ns > 0) {
    measurement.spread =
        (Quantile(sorted, 0.75) - Quantile(sorted, 0.25)) / 2 / measurement.median_ns;
  }
}

}  // namespace hone
