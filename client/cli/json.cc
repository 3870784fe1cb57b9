#include "client/cli/json.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"

namespace hone::cli {
namespace {

absl::Status Print(const google::protobuf::Message& message, bool indented) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = indented;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) {
    return absl::InternalError(absl::StrCat("cannot write the reply as JSON: ", status.ToString()));
  }
  if (!indented) text += "\n";
  std::cout << text << std::flush;
  return absl::OkStatus();
}

}  // namespace

absl::Status PrintJson(const google::protobuf::Message& message) { return Print(message, true); }
absl::Status PrintJsonLine(const google::protobuf::Message& message) {
  return Print(message, false);
}

}  // namespace hone::cli
