#include "tests/bench/raw_calls.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/time/clock.h"

namespace hone {
namespace {

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

void RequireOk(const grpc::Status& status, const std::string& method) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", method.c_str(), status.error_message().c_str());
  std::exit(1);
}

}  // namespace

struct RawCalls::Pending {
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  RawReply reply;
  int64_t began_ns = 0;
};

RawCalls::RawCalls(std::vector<std::shared_ptr<grpc::Channel>> channels) {
  for (const auto& channel : channels) {
    stubs_.push_back(std::make_unique<grpc::GenericStub>(channel));
  }
}

RawCalls::~RawCalls() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) delete static_cast<Pending*>(tag);
}

void RawCalls::Start(size_t index, const std::string& method, const std::string& request) {
  auto* pending = new Pending;
  pending->reply.index = index;
  pending->context.set_wait_for_ready(true);
  pending->began_ns = absl::GetCurrentTimeNanos();
  pending->reader = stubs_[index % stubs_.size()]->PrepareUnaryCall(&pending->context, method,
                                                                    Bytes(request), &queue_);
  pending->reader->StartCall();
  pending->reader->Finish(&pending->reply.bytes, &pending->reply.status, pending);
  ++in_flight_;
}

std::optional<RawReply> RawCalls::Next(absl::Time deadline) {
  void* tag = nullptr;
  bool ok = false;
  const auto limit = deadline == absl::InfiniteFuture()
                         ? std::chrono::system_clock::time_point::max()
                         : absl::ToChronoTime(deadline);
  if (queue_.AsyncNext(&tag, &ok, limit) != grpc::CompletionQueue::GOT_EVENT) return std::nullopt;
  const std::unique_ptr<Pending> pending(static_cast<Pending*>(tag));
  pending->reply.us = static_cast<double>(absl::GetCurrentTimeNanos() - pending->began_ns) / 1e3;
  --in_flight_;
  return std::move(pending->reply);
}

RawReply RawCalls::Call(const std::string& method, const std::string& request) {
  Start(0, method, request);
  RawReply reply = *Next();
  RequireOk(reply.status, method);
  return reply;
}

std::vector<double> TimeCalls(RawCalls& calls, const std::string& method,
                              const std::string& request, int count) {
  std::vector<double> us;
  for (int i = 0; i < count; ++i) us.push_back(calls.Call(method, request).us);
  return us;
}

double CallsPerSecond(RawCalls& calls, size_t channels, const std::string& method,
                      const std::string& request, int count) {
  const absl::Time began = absl::Now();
  int left = count;
  for (size_t i = 0; i < channels; ++i, --left) calls.Start(i, method, request);
  while (calls.in_flight() > 0) {
    const RawReply reply = *calls.Next();
    RequireOk(reply.status, method);
    if (left-- > 0) calls.Start(reply.index, method, request);
  }
  return count / absl::ToDoubleSeconds(absl::Now() - began);
}

}  // namespace hone
