// The measure role of hone-worker: one device, one request at a time.
#pragma once

namespace hone {

// Serves MeasureRequestMessage on `socket`, which it owns, until the peer closes it or the device
// is dead. Returns the exit code, or ends the process itself where destructors would wait for a
// dead device. A kernel that never ends is ended from outside.
int RunMeasureRole(int socket);

}  // namespace hone
