// `name=value` arguments.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/hone/client.h"

namespace hone::cli {

// Names to values as typed. Usage errors: no '=', an empty side, a name given twice.
absl::StatusOr<std::map<std::string, std::string>> SplitAssignments(
    const std::vector<std::string>& arguments);

// An integer: digits, powers (2^26), binary units (64Ki, 1Gi), products and sums of them
// (3*2^20+1). Usage error otherwise, and for what does not fit 64 bits.
absl::StatusOr<int64_t> ParseInteger(absl::string_view text);

// An integer, true or false, else text (data types, choices, chains of operators).
absl::StatusOr<ParamValue> ParseParamValue(absl::string_view text);

// Both steps. Errors name the parameter.
absl::StatusOr<Params> ParseParams(const std::vector<std::string>& arguments);

// Into a request.
void SetParams(const Params& params, google::protobuf::Map<std::string, v1::Value>* proto);

}  // namespace hone::cli
