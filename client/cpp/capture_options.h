// Whether and where a process records its launches.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace hone {

struct CaptureOptions {
  std::string directory{};  // absolute; empty: nothing is recorded
  // Of everything that the process writes, in bytes: HONE_CAPTURE_MAX_MB.
  int64_t bytes_max = 64'000'000;
  // Contents of buffers too: HONE_CAPTURE_CONTENTS=1.
  bool contents = false;
  // What is wrong with a variable; nothing is recorded then either.
  absl::Status problem{};

  // `directory` nullptr: $HONE_CAPTURE. The environment of a program with more rights than its
  // caller is not trusted with where to write.
  static CaptureOptions FromEnvironment(const char* directory);
};

}  // namespace hone
