// Replies that could be too large for their receiver leave something out and say so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hone/v1/kernel_service.pb.h"

namespace hone {

// Below the 4 MiB that gRPC clients accept by default, with room for the frame.
inline constexpr size_t kReplyBytesMax = 3'500'000;

// Cuts descriptions and problems short where there are too many whole ones.
void FitReply(v1::ListTemplatesResponse& response);

// Leaves out files' contents, largest first, until those sent have at most `files_bytes_max`
// together; 0: until the reply has at most kReplyBytesMax; -1: all.
void FitReply(int64_t files_bytes_max, v1::DescribeTemplateResponse& response);

// Large tunes give up samples first, then long details, last candidates: what is left is what
// tables show.
void FitReply(v1::GetTuningResponse& response);

}  // namespace hone
