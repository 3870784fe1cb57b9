// Where NVRTC and the CUDA headers lie on this machine. Looks at file names only; nothing is
// loaded.
#pragma once

#include <string>
#include <vector>

namespace hone {

struct NvrtcLocation {
  std::string library;  // with links resolved, so that one library under two names is one
  // Roots to search for toolkit headers, in order; empty when no headers were found for the
  // library.
  std::vector<std::string> include_directories;
};

struct NvrtcSearch {
  std::vector<NvrtcLocation> found;   // in search order
  std::vector<std::string> searched;  // directories that were looked into, for messages
};

// Looks into `directories` when there are any, else into those of $HONE_NVRTC_DIRS
// (colon-separated), else next to the running program (../lib), $CUDA_HOME, $CUDA_PATH,
// /usr/local/cuda*, $LD_LIBRARY_PATH and the directories of the dynamic loader. A directory may be
// a toolkit, its library directory, or a Python site-packages with NVIDIA's wheels. `headers`, if
// not empty, are the include roots for every library found, in place of those that belong to it.
NvrtcSearch LocateNvrtc(const std::vector<std::string>& directories,
                        const std::vector<std::string>& headers = {});

}  // namespace hone
