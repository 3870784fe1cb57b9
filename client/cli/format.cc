#include "client/cli/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"

namespace hone::cli {
namespace {

// Operations per byte above which devices of the last ten years are limited by arithmetic when it
// is done in F32; only the unit shown depends on it.
constexpr double kArithmeticIntensity = 30;

}  // namespace

std::string FormatDuration(double ns) {
  struct Unit {
    double ns;
    const char* name;
  };
  static constexpr std::array<Unit, 4> kUnits{{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}}};
  for (const Unit& unit : kUnits) {
    if (ns >= unit.ns) return absl::StrFormat("%.2f %s", ns / unit.ns, unit.name);
  }
  return absl::StrFormat("%.2f ns", ns);
}

std::string FormatBytes(int64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string FormatTime(int64_t unix_ms) {
  if (unix_ms == 0) return "";
  return absl::FormatTime("%Y-%m-%d %H:%M", absl::FromUnixMillis(unix_ms), absl::LocalTimeZone());
}

std::string FormatPercent(double share) { return absl::StrFormat("%.1f%%", 100 * share); }

std::string FormatValue(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::kInteger:
      return absl::StrCat(value.integer());
    case v1::Value::kText:
      return value.text();
    case v1::Value::kFlag:
      return value.flag() ? "true" : "false";
    case v1::Value::KIND_NOT_SET:
      break;
  }
  return "?";
}

std::string FormatParams(const google::protobuf::Map<std::string, v1::Value>& params) {
  std::map<std::string, std::string> sorted;
  for (const auto& [name, value] : params) sorted[name] = FormatValue(value);
  return absl::StrJoin(sorted, " ", absl::PairFormatter("="));
}

std::string ShellWord(const std::string& text) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_=.,:^+-/@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::string FormatDevice(const v1::DeviceFingerprint& device) {
  if (device.kind().empty()) return "";
  std::string text = absl::StrCat(device.kind(), " ", device.architecture(), ", ",
                                  device.sm_count(), device.kind() == "cuda" ? " SMs" : " cores");
  if (device.memory_bytes() > 0) {
    absl::StrAppend(&text, ", ", FormatBytes(device.memory_bytes()));
  }
  if (!device.slice().empty()) {
    absl::StrAppend(&text, device.kind() == "cuda" ? ", slice " : ", ", device.slice());
  }
  return text;
}

std::string FormatDeviceShort(const v1::DeviceFingerprint& device) {
  if (device.kind() != "cuda" || device.slice().empty()) return device.architecture();
  return absl::StrCat(device.architecture(), ", ", device.sm_count(), " SMs, slice ",
                      device.slice());
}

std::string PinText(const v1::PinInfo& pin) {
  std::string text = absl::StrCat(pin.config(), " since ", FormatTime(pin.pinned_at_unix_ms()));
  if (!pin.reason().empty()) absl::StrAppend(&text, ": ", pin.reason());
  return text;
}

std::string SourceText(v1::Source source) {
  return v1::Source_IsValid(source) ? v1::Source_Name(source)
                                    : absl::StrCat("source ", static_cast<int>(source));
}

std::string PolicyText(v1::Policy policy) {
  return v1::Policy_IsValid(policy) ? v1::Policy_Name(policy)
                                    : absl::StrCat("policy ", static_cast<int>(policy));
}

std::string ShortHash(const std::string& hash) { return hash.substr(0, 12); }

std::string NoisyText(const v1::MeasurementInfo& measurement,
                      const v1::MeasurementInfo& runner_up) {
  if (measurement.median_ns() <= 0 || runner_up.median_ns() <= 0) return "";
  const bool paired = measurement.paired_ratio() > 0 && runner_up.paired_ratio() > 0;
  const double ratio = paired ? runner_up.paired_ratio() / measurement.paired_ratio()
                              : runner_up.median_ns() / measurement.median_ns();
  const double distance = std::abs(ratio - 1);
  const double spread = std::max(measurement.spread(), runner_up.spread());
  if (spread <= distance) return "";
  return absl::StrCat("noisy: single samples spread by ", FormatPercent(spread),
                      ", the runner-up is ", FormatPercent(distance), " away",
                      paired ? " in pairs" : "");
}

RateUnit RateUnitFor(int64_t work_bytes, int64_t work_flops) {
  const auto bytes = static_cast<double>(std::max<int64_t>(work_bytes, 1));
  return static_cast<double>(work_flops) > kArithmeticIntensity * bytes ? RateUnit::kTflopPerS
                                                                        : RateUnit::kGbPerS;
}

RateUnit RateUnitFor(const v1::MeasurementInfo& measurement) {
  const double flops = measurement.tflop_per_s() * 1e12;
  const double bytes = measurement.gb_per_s() * 1e9;
  return flops > kArithmeticIntensity * std::max(bytes, 1.0) ? RateUnit::kTflopPerS
                                                             : RateUnit::kGbPerS;
}

std::string FormatRate(const v1::MeasurementInfo& measurement, RateUnit unit) {
  const double rate =
      unit == RateUnit::kGbPerS ? measurement.gb_per_s() : measurement.tflop_per_s();
  if (!(rate > 0)) return "-";
  return rate >= 100 ? absl::StrFormat("%.1f", rate) : absl::StrFormat("%.3g", rate);
}

std::string UnitName(RateUnit unit) { return unit == RateUnit::kGbPerS ? "GB/s" : "TFLOP/s"; }

}  // namespace hone::cli
