#include "runtime/launch/device_fingerprint_proto.h"

namespace hone {

DeviceFingerprint FromProto(const v1::DeviceFingerprint& proto) {
  DeviceFingerprint fingerprint;
  fingerprint.kind = proto.kind();
  fingerprint.architecture = proto.architecture();
  fingerprint.sm_count = proto.sm_count();
  fingerprint.clock_khz = proto.clock_khz();
  fingerprint.memory_clock_khz = proto.memory_clock_khz();
  fingerprint.memory_bus_bits = proto.memory_bus_bits();
  fingerprint.l2_bytes = proto.l2_bytes();
  fingerprint.memory_bytes = proto.memory_bytes();
  fingerprint.slice = proto.slice();
  return fingerprint;
}

v1::DeviceFingerprint ToProto(const DeviceFingerprint& fingerprint) {
  v1::DeviceFingerprint proto;
  proto.set_kind(fingerprint.kind);
  proto.set_architecture(fingerprint.architecture);
  proto.set_sm_count(fingerprint.sm_count);
  proto.set_clock_khz(fingerprint.clock_khz);
  proto.set_memory_clock_khz(fingerprint.memory_clock_khz);
  proto.set_memory_bus_bits(fingerprint.memory_bus_bits);
  proto.set_l2_bytes(fingerprint.l2_bytes);
  proto.set_memory_bytes(fingerprint.memory_bytes);
  proto.set_slice(fingerprint.slice);
  return proto;
}

}  // namespace hone
