// How the C ABI's handles are made.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/c/hone.h"
#include "client/cpp/serving_cache.h"

struct hone_error {
  hone_code code;
  std::string message;
};

namespace hone {

// nullptr for OK, else the caller's.
hone_error* ToC(const absl::Status& status);

// INVALID_ARGUMENT: `what` is NULL.
absl::Status Missing(absl::string_view what);

// A hone_kernel is a ServedKernel under another name.
inline const ServedKernel& FromC(const hone_kernel* kernel) {
  return *reinterpret_cast<const ServedKernel*>(kernel);
}
inline const hone_kernel* ToC(const ServedKernel* kernel) {
  return reinterpret_cast<const hone_kernel*>(kernel);
}

}  // namespace hone
