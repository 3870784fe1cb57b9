// Device fingerprints as messages of the public API.
#pragma once

#include "hone/v1/kernel_service.pb.h"
#include "runtime/launch/device_fingerprint.h"

namespace hone {

DeviceFingerprint FromProto(const v1::DeviceFingerprint& proto);
v1::DeviceFingerprint ToProto(const DeviceFingerprint& fingerprint);

}  // namespace hone
