// Numbers and names for people.
#pragma once

#include <cstdint>
#include <string>

#include "google/protobuf/map.h"
#include "hone/v1/kernel_service.pb.h"

namespace hone::cli {

// "11.20 us"; three or four digits.
std::string FormatDuration(double ns);
// "1.5 MiB".
std::string FormatBytes(int64_t bytes);
// "2026-03-01 12:30" in local time; empty for 0.
std::string FormatTime(int64_t unix_ms);
// "97.9%".
std::string FormatPercent(double share);
// "T=F32 n=67108864", sorted by name.
std::string FormatParams(const google::protobuf::Map<std::string, v1::Value>& params);
std::string FormatValue(const v1::Value& value);
// The text as one word of a shell's command line: quoted if it has to be, "'f=silu(a)*b'".
std::string ShellWord(const std::string& text);
// "cuda sm_90a, 132 SMs, 141 GB".
std::string FormatDevice(const v1::DeviceFingerprint& device);
// "sm_90a", with what tells a part of a board from the whole: "sm_90a, 16 SMs, slice MIG 1g.18gb".
std::string FormatDeviceShort(const v1::DeviceFingerprint& device);
// "XBLOCK=256 VEC=4 since 2026-03-01 12:30: why".
std::string PinText(const v1::PinInfo& pin);
// "TUNED"; "source 9" for one that only a newer daemon knows.
std::string SourceText(v1::Source source);
std::string PolicyText(v1::Policy policy);
// The first digits of a key or hash, enough to name it on a command line.
std::string ShortHash(const std::string& hash);

// "noisy: single samples spread by 21.5%, the runner-up is 5.8% away" when the spread of one of the
// two exceeds the distance between them (scenario P31); else empty.
std::string NoisyText(const v1::MeasurementInfo& measurement, const v1::MeasurementInfo& runner_up);

// Whether a kernel's speed is told by its bandwidth or by its arithmetic, and in which unit.
enum class RateUnit { kGbPerS, kTflopPerS };
RateUnit RateUnitFor(int64_t work_bytes, int64_t work_flops);
// The same from a measurement, when the work is not known.
RateUnit RateUnitFor(const v1::MeasurementInfo& measurement);
// "763.1", without unit; "-" when unknown.
std::string FormatRate(const v1::MeasurementInfo& measurement, RateUnit unit);
std::string UnitName(RateUnit unit);

}  // namespace hone::cli
