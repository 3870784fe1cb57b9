// What processes recorded of their launches: the files of a capture directory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hone/v1/capture.pb.h"

namespace hone::cli {

struct CapturedLaunches {
  // Launches of all processes together; first and last of them all. Of records that differ in what
  // a tune does not look at, such as alignment, it is one that has contents, if any has.
  v1::CapturedProblem problem;
  int processes = 0;
  // Directory of problem.buffers' contents files.
  std::string directory;

  // "copy_1d T=F32 n=4096".
  std::string Text() const;
};

struct Captures {
  // Distinct by template, params, target and numerics; most launched first.
  std::vector<CapturedLaunches> problems;
  // Files and lines that could not be read, with the reasons.
  std::vector<std::string> notes;
};

// `path`: a capture directory, or one file of it. Of a directory, files that cannot be read are
// noted and the others taken; symbolic links in it are not followed. Errors are InFile: there is no
// such path, or the one file that was named cannot be read.
absl::StatusOr<Captures> ReadCaptures(const std::string& path);

// Paths of the files with the contents of buffers, by buffer.
std::map<std::string, std::string> ContentsOf(const CapturedLaunches& launches);

}  // namespace hone::cli
