// One kernel on a stream; shared by the launcher of resolved steps and that of planned ones.
#pragma once

#include <cuda.h>

#include <array>

#include "absl/status/status.h"
#include "runtime/launch/cuda_driver.h"

namespace hone {

inline unsigned BlocksPerCluster(const std::array<uint32_t, 3>& cluster) {
  return cluster[0] * cluster[1] * cluster[2];
}

// `Step`: ResolvedStep or PlannedStep. `function` was allowed its shared memory and cluster size.
// `parameters`: a pointer to each one's bytes, read during the call.
template <typename Step>
absl::Status LaunchKernel(const CudaDriver& driver, CUfunction function, const Step& step,
                          void** parameters, CUstream stream) {
  std::array<CUlaunchAttribute, 2> attributes{};
  unsigned count = 0;
  if (BlocksPerCluster(step.cluster) > 1) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[count].value.clusterDim = {step.cluster[0], step.cluster[1], step.cluster[2]};
    ++count;
  }
  if (step.programmatic_dependent_launch) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count].value.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  CUlaunchConfig config{};
  config.gridDimX = step.grid[0];
  config.gridDimY = step.grid[1];
  config.gridDimZ = step.grid[2];
  config.blockDimX = step.block[0];
  config.blockDimY = step.block[1];
  config.blockDimZ = step.block[2];
  config.sharedMemBytes = step.dynamic_shared_bytes;
  config.hStream = stream;
  config.attrs = attributes.data();
  config.numAttrs = count;
  HONE_CUDA_RETURN_IF_ERROR(driver, LaunchKernelEx(&config, function, parameters, nullptr));
  return absl::OkStatus();
}

}  // namespace hone
