// Unary gRPC calls, bytes in and bytes out, timed by the one who waits for them. The client is the
// same whatever the server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"

namespace hone {

inline constexpr char kGetKernelMethod[] = "/hone.v1.KernelService/GetKernel";

struct RawReply {
  size_t index = 0;  // as the call was started
  grpc::Status status;
  grpc::ByteBuffer bytes;
  double us = 0;
};

// Calls in flight on any number of channels. Not thread-safe: one thread starts and takes them.
class RawCalls {
 public:
  explicit RawCalls(std::vector<std::shared_ptr<grpc::Channel>> channels);
  ~RawCalls();

  // On the channel index % channels. `index` comes back with the reply.
  void Start(size_t index, const std::string& method, const std::string& request);
  // The next reply; nullopt when none came by `deadline`. REQUIRES: calls are in flight, or a
  // deadline.
  std::optional<RawReply> Next(absl::Time deadline = absl::InfiniteFuture());
  size_t in_flight() const { return in_flight_; }

  // One call from start to reply. Ends the program when it fails.
  RawReply Call(const std::string& method, const std::string& request);

 private:
  struct Pending;

  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  grpc::CompletionQueue queue_;
  size_t in_flight_ = 0;
};

// Microseconds of `count` calls, one after the other.
std::vector<double> TimeCalls(RawCalls& calls, const std::string& method,
                              const std::string& request, int count);
// Calls a second, with one call always in flight on each of `channels`.
double CallsPerSecond(RawCalls& calls, size_t channels, const std::string& method,
                      const std::string& request, int count);

}  // namespace hone
