#include "client/cpp/hone/kernel_request.h"

#include <algorithm>
#include <limits>

namespace hone {
namespace {

int32_t Milliseconds(absl::Duration duration) {
  const int64_t ms = absl::ToInt64Milliseconds(duration);
  return static_cast<int32_t>(std::clamp<int64_t>(ms, 1, std::numeric_limits<int32_t>::max()));
}

}  // namespace

v1::Value ToValue(const ParamValue& value) {
  v1::Value proto;
  if (const auto* integer = std::get_if<int64_t>(&value)) proto.set_integer(*integer);
  if (const auto* text = std::get_if<std::string>(&value)) proto.set_text(*text);
  if (const auto* flag = std::get_if<bool>(&value)) proto.set_flag(*flag);
  return proto;
}

v1::GetKernelRequest ToProto(const GetKernelOptions& options) {
  v1::GetKernelRequest request;
  request.mutable_template_()->set_name(options.template_name);
  request.mutable_template_()->set_digest(options.template_digest);
  for (const auto& [name, value] : options.params) {
    (*request.mutable_params())[name] = ToValue(value);
  }
  *request.mutable_target() = options.target;
  request.set_policy(options.policy);
  request.set_numerics(options.numerics);
  request.set_max_wait_ms(Milliseconds(options.max_wait));
  return request;
}

}  // namespace hone
