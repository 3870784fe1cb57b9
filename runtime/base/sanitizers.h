// HONE_TSAN: compiled under ThreadSanitizer. HONE_SANITIZED: under it or AddressSanitizer.
//
// The build sets HONE_TSAN itself and hides __SANITIZE_THREAD__, because protobuf's headers add
// fields to its classes under that name, which Debian's libprotobuf was built without.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(HONE_TSAN)
#define HONE_SANITIZED 1
#endif
