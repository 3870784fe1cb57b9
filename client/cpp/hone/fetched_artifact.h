// One artifact as the daemon sent it.
#pragma once

#include <string>

#include "hone/v1/kernel_service.pb.h"

namespace hone {

struct FetchedArtifact {
  v1::ArtifactInfo info;
  std::string bytes;
};

}  // namespace hone
