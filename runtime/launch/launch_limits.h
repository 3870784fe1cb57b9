// What a CUDA driver's launch and tensor map fields hold, the same on every device up to compute
// capability 12.x.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hone {

inline constexpr std::array<int64_t, 3> kGridMax{2147483647, 65535, 65535};
inline constexpr std::array<int64_t, 3> kBlockMax{1024, 1024, 64};
inline constexpr int64_t kThreadsPerBlockMax = 1024;
inline constexpr int64_t kClusterBlocksMax = 16;
// What a driver's field holds. How much a block may have is the device's to say: the tuner rejects
// more with needed and limit, the driver at a launch.
inline constexpr int64_t kSharedBytesMax = 2147483647;

inline constexpr size_t kTensorMapBytes = 128;
inline constexpr size_t kTensorMapRankMax = 5;
inline constexpr int64_t kTensorMapDimMax = int64_t{1} << 32;
inline constexpr int64_t kTensorMapStrideBytesMax = (int64_t{1} << 40) - 1;
inline constexpr int64_t kTensorMapBoxMax = 256;
inline constexpr int64_t kTensorMapElementStrideMax = 8;

}  // namespace hone
