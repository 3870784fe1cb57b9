// Replies as protobuf's JSON, with the names of the proto files and with zeros written out.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace hone::cli {

// Indented, to standard output.
absl::Status PrintJson(const google::protobuf::Message& message);
// On one line: for streams of messages.
absl::Status PrintJsonLine(const google::protobuf::Message& message);

}  // namespace hone::cli
