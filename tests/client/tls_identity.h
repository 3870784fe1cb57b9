// What a TLS server shows of itself.
#pragma once

#include <string>

namespace hone {

// A certificate with its key, both in PEM.
struct TlsIdentity {
  std::string certificate;
  std::string key;
};

}  // namespace hone
