// What stream captures forbid and allow.
#pragma once

#include "runtime/launch/cuda_driver.h"

namespace hone {

// Makes no synchronising call.
inline bool IsCapturing(const CudaDriver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // The legacy stream answers with an error while another stream is captured.
  return driver.StreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// While it lives this thread may load modules and copy although streams are captured, by it or by
// others: in the default mode that would end any capture that was begun in the global mode, torch's
// default.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const CudaDriver& driver) : driver_(driver) { Exchange(); }
  ~RelaxedCapture() { Exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void Exchange() { driver_.ThreadExchangeStreamCaptureMode(&mode_); }

  const CudaDriver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace hone
