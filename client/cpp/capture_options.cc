#include "client/cpp/capture_options.h"

#include <stdlib.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/base/files.h"

namespace hone {
namespace {

constexpr char kMegabytes[] = "HONE_CAPTURE_MAX_MB";
constexpr char kContents[] = "HONE_CAPTURE_CONTENTS";
constexpr int64_t kBytesOfMegabyte = 1'000'000;
constexpr int64_t kMegabytesMax = 1'000'000;

// Empty when it is not set.
absl::string_view Variable(const char* name) {
  const char* const value = ::secure_getenv(name);
  return value == nullptr ? absl::string_view() : absl::string_view(value);
}

}  // namespace

CaptureOptions CaptureOptions::FromEnvironment(const char* directory) {
  CaptureOptions options;
  options.directory =
      std::string(directory != nullptr ? absl::string_view(directory) : Variable("HONE_CAPTURE"));
  if (options.directory.empty()) return options;
  // Servers change their directory when they have started.
  if (options.directory.front() != '/') {
    absl::StatusOr<std::string> here = RealPath(".");
    if (here.ok()) {
      options.directory = JoinPath(*here, options.directory);
    } else {
      options.problem = here.status();
    }
  }
  if (const absl::string_view text = Variable(kMegabytes); !text.empty()) {
    int64_t megabytes = 0;
    if (absl::SimpleAtoi(text, &megabytes) && megabytes > 0 && megabytes <= kMegabytesMax) {
      options.bytes_max = megabytes * kBytesOfMegabyte;
    } else {
      options.problem = absl::InvalidArgumentError(
          absl::StrCat(kMegabytes, " is '", text, "'; it is a whole number of megabytes from 1 to ",
                       kMegabytesMax, ", 64 unless set"));
    }
  }
  const absl::string_view contents = Variable(kContents);
  options.contents = contents == "1";
  if (!options.contents && !contents.empty() && contents != "0") {
    options.problem = absl::InvalidArgumentError(
        absl::StrCat(kContents, " is '", contents, "'; it is 1 to store contents, or 0"));
  }
  return options;
}

}  // namespace hone
