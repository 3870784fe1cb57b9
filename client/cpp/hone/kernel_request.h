// What a client asks for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "hone/v1/kernel_service.pb.h"

namespace hone {

// A parameter's value: a size, a name (data type or choice), a flag.
using ParamValue = std::variant<int64_t, std::string, bool>;
using Params = std::map<std::string, ParamValue>;

v1::Value ToValue(const ParamValue& value);

struct GetKernelOptions {
  std::string template_name{};
  std::string template_digest{};  // empty: the newest under the name
  Params params{};
  v1::Target target{};  // empty: the daemon's first device
  v1::Policy policy = v1::BEST_AVAILABLE;
  v1::Numerics numerics = v1::WITHIN_TOLERANCE;
  // Bounds the daemon's wait; the call's deadline is a little later. At least 1 ms.
  absl::Duration max_wait = absl::Seconds(30);
};

v1::GetKernelRequest ToProto(const GetKernelOptions& options);

}  // namespace hone
