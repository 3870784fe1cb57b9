// Tells the service manager how the daemon is doing.
#pragma once

#include "absl/strings/string_view.h"

namespace hone {

// Sends `state` ("READY=1", "STOPPING=1") to the datagram socket in $NOTIFY_SOCKET; without the
// variable nothing happens. Best effort: a manager that does not listen is no reason not to serve.
void NotifyManager(absl::string_view state);

}  // namespace hone
