// A template being written: template.pbtxt and the files it names, read on the author's side.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hone/v1/kernel_template.pb.h"

namespace hone::cli {

struct LocalTemplate {
  std::string path;  // of template.pbtxt
  std::string directory;
  v1::KernelTemplate message;  // with `files` filled
  // "steps[0].launch.grid_x" -> "12:5", counted from 1.
  std::map<std::string, std::string> locations;
};

// True for what can only be a path: it holds a '/', is "." or "..", or ends in .pbtxt.
bool LooksLikePath(const std::string& argument);

// The templates under `path`: itself, or, when it is a directory without template.pbtxt, its
// directories that have one, sorted; itself when there are none.
std::vector<std::string> FindTemplates(const std::string& path);

// `path`: a directory with a template.pbtxt, or that file. Errors read "file:line:column: what".
absl::StatusOr<LocalTemplate> ReadTemplate(const std::string& path);

// The daemon's error about this template with "file:line:column: " before it, when the error begins
// with a field path that is known or lies within one that is; such an error is InFile.
absl::Status Located(const LocalTemplate& local, const absl::Status& status);

// The same template under a version of its own, made from its contents: an edited template may not
// keep the version under which another body is registered.
v1::KernelTemplate WithDevelopmentVersion(const v1::KernelTemplate& message);

}  // namespace hone::cli
