// A header set before it is registered: the files of include directories, read on the user's side.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hone/v1/kernel_template.pb.h"

namespace hone::cli {

// Every file below `directories`, named as a source includes it: relative to the directory it is
// in. Left out are hidden files and directories, links to directories and, unless `only` is empty,
// names that match none of its shell patterns, whose * goes over '/'. INVALID_ARGUMENT names what
// is wrong: a directory that is none, a name in two directories, nothing found; RESOURCE_EXHAUSTED
// when there is more than a header set may hold.
absl::StatusOr<std::vector<v1::SourceFile>> ReadHeaderTrees(
    const std::vector<std::string>& directories, const std::vector<std::string>& only);

}  // namespace hone::cli
