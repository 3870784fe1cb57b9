#include "client/c/handles.h"

#include "absl/strings/str_cat.h"

namespace hone {

hone_error* ToC(const absl::Status& status) {
  if (status.ok()) return nullptr;
  return new hone_error{static_cast<hone_code>(status.code()), std::string(status.message())};
}

absl::Status Missing(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " is NULL"));
}

}  // namespace hone

extern "C" {

hone_code hone_error_code(const hone_error* error) {
  return error == nullptr ? HONE_OK : error->code;
}
const char* hone_error_message(const hone_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}
void hone_error_free(hone_error* error) { delete error; }

const char* hone_version(void) { return HONE_VERSION; }

}  // extern "C"
