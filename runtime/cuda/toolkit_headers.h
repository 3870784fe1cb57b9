// The CUDA headers that a program may include: which they are, and of what version.
#pragma once

#include <string>
#include <vector>

namespace hone {

// "13.0" from cuda.h or cuda_runtime_api.h in the first root that has one; empty if none has.
std::string ToolkitHeadersVersion(const std::vector<std::string>& roots);

// SHA-256 over the names, relative to their root, and contents of the headers that device code can
// include: all files below the roots except host libraries' (cuBLAS, cuDNN, NCCL, Thrust, CUPTI,
// ...), so that installing one of those changes no key; of two files of one name the first root's
// counts. `extra` is hashed first: what else a compiler brings along. Reads about 15 MB; 0.1 s from
// the page cache.
std::string ToolkitHeadersDigest(const std::vector<std::string>& roots, const std::string& extra);

}  // namespace hone
