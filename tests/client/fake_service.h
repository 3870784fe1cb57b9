// A scripted KernelService behind a real gRPC server, on a unix socket or on TCP with TLS.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "hone/v1/kernel_service.grpc.pb.h"
#include "runtime/base/mutex.h"
#include "runtime/launch/launch_recipe.h"
#include "tests/client/tls_identity.h"

namespace hone {

// Succeeds by default. Fill the fields before the first call that reads them.
class FakeService : public v1::KernelService::Service {
 public:
  v1::GetStatusResponse status;
  v1::GetKernelResponse kernel;
  std::map<std::string, std::string> artifacts;  // by the hash under which they are asked for
  v1::ListTemplatesResponse templates;
  std::map<std::string, v1::DescribeTemplateResponse> described;
  std::vector<v1::TuningSummary> tunings;
  std::map<std::string, v1::GetTuningResponse> tuning;
  v1::ListMissesResponse misses;
  v1::ListMissesRequest misses_request;  // the last
  std::vector<v1::TuneEvent> tune_events;
  v1::CompileResponse compiled;
  v1::ExplainKeyResponse explained;
  v1::RegisterTemplateResponse registered;
  v1::RegisterHeaderSetResponse header_set;
  v1::ListHeaderSetsResponse header_sets;
  v1::PinResponse pinned;
  v1::UnpinResponse unpinned;
  v1::InvalidateResponse invalidated;

  // The next calls fail with these, one each, whatever they are.
  void FailNext(grpc::Status status);
  // As FailNext, for one method.
  void FailNext(const std::string& method, grpc::Status status);

  int calls(const std::string& method) const;
  // What the last call of a method carried.
  v1::GetKernelRequest last_get() const;
  v1::TuneRequest last_tune() const;
  v1::RegisterTemplateRequest last_register() const;
  v1::PinRequest last_pin() const;
  v1::InvalidateRequest last_invalidate() const;
  v1::RegisterHeaderSetRequest last_header_set() const;  // its messages merged
  absl::Duration last_timeout() const;                   // from call to deadline

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse*) override;
  grpc::Status GetKernel(grpc::ServerContext*, const v1::GetKernelRequest*,
                         v1::GetKernelResponse*) override;
  grpc::Status GetArtifact(grpc::ServerContext*, const v1::GetArtifactRequest*,
                           grpc::ServerWriter<v1::ArtifactChunk>*) override;
  grpc::Status Tune(grpc::ServerContext*, const v1::TuneRequest*,
                    grpc::ServerWriter<v1::TuneEvent>*) override;
  grpc::Status Compile(grpc::ServerContext*, const v1::CompileRequest*,
                       v1::CompileResponse*) override;
  grpc::Status ListTemplates(grpc::ServerContext*, const v1::ListTemplatesRequest*,
                             v1::ListTemplatesResponse*) override;
  grpc::Status DescribeTemplate(grpc::ServerContext*, const v1::DescribeTemplateRequest*,
                                v1::DescribeTemplateResponse*) override;
  grpc::Status RegisterTemplate(grpc::ServerContext*, const v1::RegisterTemplateRequest*,
                                v1::RegisterTemplateResponse*) override;
  grpc::Status RegisterHeaderSet(grpc::ServerContext*,
                                 grpc::ServerReader<v1::RegisterHeaderSetRequest>*,
                                 v1::RegisterHeaderSetResponse*) override;
  grpc::Status ListHeaderSets(grpc::ServerContext*, const v1::ListHeaderSetsRequest*,
                              v1::ListHeaderSetsResponse*) override;
  grpc::Status ListTunings(grpc::ServerContext*, const v1::ListTuningsRequest*,
                           v1::ListTuningsResponse*) override;
  grpc::Status GetTuning(grpc::ServerContext*, const v1::GetTuningRequest*,
                         v1::GetTuningResponse*) override;
  grpc::Status Pin(grpc::ServerContext*, const v1::PinRequest*, v1::PinResponse*) override;
  grpc::Status Unpin(grpc::ServerContext*, const v1::UnpinRequest*, v1::UnpinResponse*) override;
  grpc::Status Invalidate(grpc::ServerContext*, const v1::InvalidateRequest*,
                          v1::InvalidateResponse*) override;
  grpc::Status ListMisses(grpc::ServerContext*, const v1::ListMissesRequest*,
                          v1::ListMissesResponse*) override;
  grpc::Status ExplainKey(grpc::ServerContext*, const v1::ExplainKeyRequest*,
                          v1::ExplainKeyResponse*) override;

 private:
  // Counts the call; the scripted failure, if there is one, with the trailer of the daemon's.
  grpc::Status Enter(const std::string& method, grpc::ServerContext& context);

  mutable Mutex mutex_;
  std::deque<grpc::Status> failures_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::deque<grpc::Status>> method_failures_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> calls_ ABSL_GUARDED_BY(mutex_);
  v1::GetKernelRequest last_get_ ABSL_GUARDED_BY(mutex_);
  v1::TuneRequest last_tune_ ABSL_GUARDED_BY(mutex_);
  v1::RegisterTemplateRequest last_register_ ABSL_GUARDED_BY(mutex_);
  v1::RegisterHeaderSetRequest last_header_set_ ABSL_GUARDED_BY(mutex_);
  v1::PinRequest last_pin_ ABSL_GUARDED_BY(mutex_);
  v1::InvalidateRequest last_invalidate_ ABSL_GUARDED_BY(mutex_);
  absl::Duration last_timeout_ ABSL_GUARDED_BY(mutex_);
};

// The server around it. A destructed one is gone as a stopped daemon is; a new one may take its
// path.
class FakeDaemon {
 public:
  // At a path of its own in a new temporary directory.
  FakeDaemon();
  explicit FakeDaemon(std::string socket_path);
  // With TLS on TCP; port 0: any that is free.
  explicit FakeDaemon(const TlsIdentity& identity, int port = 0);
  ~FakeDaemon();

  FakeService& service() { return service_; }
  const std::string& socket_path() const { return socket_path_; }
  std::string endpoint() const;
  int port() const { return port_; }

  // Stops answering and removes the socket.
  void Stop();

 private:
  void Start();
  void Start(const std::string& address, std::shared_ptr<grpc::ServerCredentials> credentials);

  FakeService service_;
  std::string directory_;    // empty: not ours
  std::string socket_path_;  // empty: on TCP
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A variant of a kernel that copies n F32 elements with `alignment_bytes` wide accesses; its
// artifact is `bytes`, sent inline or not.
v1::KernelVariant CopyVariant(const std::string& bytes, int64_t alignment_bytes,
                              const std::string& guard, bool inline_bytes);

}  // namespace hone
