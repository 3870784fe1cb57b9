// Reading one template from disk.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/text_format.h"
#include "hone/v1/kernel_template.pb.h"

namespace hone {

struct TemplateDirectory {
  v1::KernelTemplate message;  // with `files` filled from disk
  std::string readme;          // empty if there is none
  // Where each field stands in template.pbtxt.
  google::protobuf::TextFormat::ParseInfoTree locations;
  std::string pbtxt_path;
};

// Reads `directory`/template.pbtxt into `out` and then the files it names: source, headers and
// prebuilt. Everything is read within bounds from regular files whose real path lies in
// `directory`, or, for headers that are not there, in the directory `include` beside it.
// INVALID_ARGUMENT gives line and column of what does not parse; an error about a file names the
// field that names it and the file. LocateProblem tells where in template.pbtxt that is.
absl::Status ReadTemplateDirectory(const std::string& directory, TemplateDirectory& out);

// "path:12:5 steps[0].launch.grid_x" for an error about a field (FieldOf), else the path.
std::string LocateProblem(const TemplateDirectory& directory, const absl::Status& status);

// Parses a template in text form. INVALID_ARGUMENT lists "line:column: message" of every error, up
// to a bound. `locations` may be nullptr.
absl::Status ParseTemplateText(const std::string& text, v1::KernelTemplate& message,
                               google::protobuf::TextFormat::ParseInfoTree* locations);

}  // namespace hone
