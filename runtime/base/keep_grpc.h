// For whoever serves or calls over gRPC.
#pragma once

#include "grpc/grpc.h"

namespace hone {

// From now on gRPC's threads end with the process only. gRPC 1.51 ends them with its last channel
// or server, and one of them may be polling for what is left to write, for ten seconds: a command
// would not exit and a daemon not stop until then.
inline void KeepGrpc() {
  static const bool kept = [] {
    grpc_init();
    return true;
  }();
  static_cast<void>(kept);
}

}  // namespace hone
