// Tunes what processes recorded.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "client/cli/captures.h"
#include "client/cpp/hone/client.h"

namespace hone::cli {

// The problems as a table, or as a Capture in JSON.
absl::Status ListCaptures(const Captures& captures, bool json);

// Asks the daemon for each problem's bucket and calls `tune` once for each bucket, most launched
// first; `like` has the options of all. Those that a tune answers already are passed over unless
// like.force is set. A problem that cannot be tuned is told on standard error and the others go on;
// the error at the end counts them. At once returns what would fail for all: UNAVAILABLE,
// PERMISSION_DENIED. With `json`, standard output is left to `tune`.
absl::Status TuneCaptures(const Client& client, const Captures& captures,
                          const v1::TuneRequest& like, bool json,
                          const std::function<absl::Status(const v1::TuneRequest&)>& tune);

}  // namespace hone::cli
