#include "tests/client/fake_service.h"

#include <stdlib.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "runtime/base/keep_grpc.h"
#include "runtime/base/sha256.h"
#include "runtime/launch/recipe_proto.h"

namespace hone {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

grpc::Status NotFound(const std::string& what) {
  return grpc::Status(grpc::StatusCode::NOT_FOUND, absl::StrCat("no ", what));
}

std::string TemporaryDirectory() {
  std::string path = "/tmp/hone-fake-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) abort();
  return path;
}

}  // namespace

grpc::Status FakeService::Enter(const std::string& method, grpc::ServerContext& context) {
  const MutexLock lock(&mutex_);
  ++calls_[method];
  last_timeout_ = absl::FromChrono(context.deadline()) - absl::Now();
  for (std::deque<grpc::Status>* failures : {&method_failures_[method], &failures_}) {
    if (failures->empty()) continue;
    grpc::Status failure = failures->front();
    failures->pop_front();
    if (failure.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
      v1::ErrorDetail detail;
      detail.ParseFromString(failure.error_details());
      const int64_t after_ms = detail.retry_after_ms();
      context.AddTrailingMetadata("grpc-retry-pushback-ms",
                                  absl::StrCat(after_ms > 0 ? after_ms : -1));
    }
    return failure;
  }
  return grpc::Status::OK;
}

void FakeService::FailNext(grpc::Status failure) {
  const MutexLock lock(&mutex_);
  failures_.push_back(std::move(failure));
}

void FakeService::FailNext(const std::string& method, grpc::Status failure) {
  const MutexLock lock(&mutex_);
  method_failures_[method].push_back(std::move(failure));
}

int FakeService::calls(const std::string& method) const {
  const MutexLock lock(&mutex_);
  const auto found = calls_.find(method);
  return found == calls_.end() ? 0 : found->second;
}

v1::GetKernelRequest FakeService::last_get() const {
  const MutexLock lock(&mutex_);
  return last_get_;
}

v1::TuneRequest FakeService::last_tune() const {
  const MutexLock lock(&mutex_);
  return last_tune_;
}

v1::RegisterTemplateRequest FakeService::last_register() const {
  const MutexLock lock(&mutex_);
  return last_register_;
}

v1::RegisterHeaderSetRequest FakeService::last_header_set() const {
  const MutexLock lock(&mutex_);
  return last_header_set_;
}

absl::Duration FakeService::last_timeout() const {
  const MutexLock lock(&mutex_);
  return last_timeout_;
}

grpc::Status FakeService::GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest*,
                                    v1::GetStatusResponse* response) {
  grpc::Status entered = Enter("GetStatus", *context);
  if (entered.ok()) *response = status;
  return entered;
}

grpc::Status FakeService::GetKernel(grpc::ServerContext* context,
                                    const v1::GetKernelRequest* request,
                                    v1::GetKernelResponse* response) {
  {
    const MutexLock lock(&mutex_);
    last_get_ = *request;
  }
  grpc::Status entered = Enter("GetKernel", *context);
  if (entered.ok()) *response = kernel;
  return entered;
}

grpc::Status FakeService::GetArtifact(grpc::ServerContext* context,
                                      const v1::GetArtifactRequest* request,
                                      grpc::ServerWriter<v1::ArtifactChunk>* writer) {
  grpc::Status entered = Enter("GetArtifact", *context);
  if (!entered.ok()) return entered;
  const auto found = artifacts.find(request->sha256());
  if (found == artifacts.end()) return NotFound("artifact " + request->sha256());
  v1::ArtifactChunk chunk;
  chunk.mutable_info()->set_sha256(request->sha256());
  chunk.mutable_info()->set_size_bytes(static_cast<int64_t>(found->second.size()));
  for (size_t at = 0; at == 0 || at < found->second.size(); at += kChunkBytes) {
    chunk.set_data(found->second.substr(at, kChunkBytes));
    writer->Write(chunk);
    chunk.clear_info();
  }
  return grpc::Status::OK;
}

grpc::Status FakeService::Tune(grpc::ServerContext* context, const v1::TuneRequest* request,
                               grpc::ServerWriter<v1::TuneEvent>* writer) {
  {
    const MutexLock lock(&mutex_);
    last_tune_ = *request;
  }
  grpc::Status entered = Enter("Tune", *context);
  if (!entered.ok()) return entered;
  for (const v1::TuneEvent& event : tune_events) {
    if (!writer->Write(event)) return grpc::Status::CANCELLED;
  }
  return grpc::Status::OK;
}

grpc::Status FakeService::Compile(grpc::ServerContext* context, const v1::CompileRequest*,
                                  v1::CompileResponse* response) {
  grpc::Status entered = Enter("Compile", *context);
  if (entered.ok()) *response = compiled;
  return entered;
}

grpc::Status FakeService::ListTemplates(grpc::ServerContext* context,
                                        const v1::ListTemplatesRequest*,
                                        v1::ListTemplatesResponse* response) {
  grpc::Status entered = Enter("ListTemplates", *context);
  if (entered.ok()) *response = templates;
  return entered;
}

grpc::Status FakeService::DescribeTemplate(grpc::ServerContext* context,
                                           const v1::DescribeTemplateRequest* request,
                                           v1::DescribeTemplateResponse* response) {
  grpc::Status entered = Enter("DescribeTemplate", *context);
  if (!entered.ok()) return entered;
  const auto found = described.find(request->template_().name());
  if (found == described.end()) return NotFound("template '" + request->template_().name() + "'");
  *response = found->second;
  return grpc::Status::OK;
}

grpc::Status FakeService::RegisterTemplate(grpc::ServerContext* context,
                                           const v1::RegisterTemplateRequest* request,
                                           v1::RegisterTemplateResponse* response) {
  {
    const MutexLock lock(&mutex_);
    last_register_ = *request;
  }
  grpc::Status entered = Enter("RegisterTemplate", *context);
  if (entered.ok()) *response = registered;
  return entered;
}

grpc::Status FakeService::RegisterHeaderSet(
    grpc::ServerContext* context, grpc::ServerReader<v1::RegisterHeaderSetRequest>* reader,
    v1::RegisterHeaderSetResponse* response) {
  grpc::Status entered = Enter("RegisterHeaderSet", *context);
  if (!entered.ok()) return entered;
  v1::RegisterHeaderSetRequest whole;
  v1::RegisterHeaderSetRequest message;
  while (reader->Read(&message)) whole.MergeFrom(message);
  *response = header_set;
  const MutexLock lock(&mutex_);
  last_header_set_ = std::move(whole);
  return grpc::Status::OK;
}

grpc::Status FakeService::ListHeaderSets(grpc::ServerContext* context,
                                         const v1::ListHeaderSetsRequest*,
                                         v1::ListHeaderSetsResponse* response) {
  grpc::Status entered = Enter("ListHeaderSets", *context);
  if (entered.ok()) *response = header_sets;
  return entered;
}

grpc::Status FakeService::ListTunings(grpc::ServerContext* context,
                                      const v1::ListTuningsRequest* request,
                                      v1::ListTuningsResponse* response) {
  grpc::Status entered = Enter("ListTunings", *context);
  if (!entered.ok()) return entered;
  size_t at = request->page_token().empty() ? 0 : std::stoul(request->page_token());
  for (int i = 0; i < request->page_size() && at < tunings.size(); ++i) {
    *response->add_tunings() = tunings[at++];
  }
  if (at < tunings.size()) response->set_next_page_token(absl::StrCat(at));
  return grpc::Status::OK;
}

grpc::Status FakeService::GetTuning(grpc::ServerContext* context,
                                    const v1::GetTuningRequest* request,
                                    v1::GetTuningResponse* response) {
  grpc::Status entered = Enter("GetTuning", *context);
  if (!entered.ok()) return entered;
  const auto found = tuning.find(request->key());
  if (found == tuning.end()) return NotFound("tuning '" + request->key() + "'");
  *response = found->second;
  return grpc::Status::OK;
}

v1::PinRequest FakeService::last_pin() const {
  const MutexLock lock(&mutex_);
  return last_pin_;
}

v1::InvalidateRequest FakeService::last_invalidate() const {
  const MutexLock lock(&mutex_);
  return last_invalidate_;
}

grpc::Status FakeService::Pin(grpc::ServerContext* context, const v1::PinRequest* request,
                              v1::PinResponse* response) {
  {
    const MutexLock lock(&mutex_);
    last_pin_ = *request;
  }
  grpc::Status entered = Enter("Pin", *context);
  if (entered.ok()) *response = pinned;
  return entered;
}

grpc::Status FakeService::Unpin(grpc::ServerContext* context, const v1::UnpinRequest*,
                                v1::UnpinResponse* response) {
  grpc::Status entered = Enter("Unpin", *context);
  if (entered.ok()) *response = unpinned;
  return entered;
}

grpc::Status FakeService::Invalidate(grpc::ServerContext* context,
                                     const v1::InvalidateRequest* request,
                                     v1::InvalidateResponse* response) {
  {
    const MutexLock lock(&mutex_);
    last_invalidate_ = *request;
  }
  grpc::Status entered = Enter("Invalidate", *context);
  if (entered.ok()) *response = invalidated;
  return entered;
}

grpc::Status FakeService::ListMisses(grpc::ServerContext* context,
                                     const v1::ListMissesRequest* request,
                                     v1::ListMissesResponse* response) {
  grpc::Status entered = Enter("ListMisses", *context);
  misses_request = *request;
  if (entered.ok()) *response = misses;
  return entered;
}

grpc::Status FakeService::ExplainKey(grpc::ServerContext* context, const v1::ExplainKeyRequest*,
                                     v1::ExplainKeyResponse* response) {
  grpc::Status entered = Enter("ExplainKey", *context);
  if (entered.ok()) *response = explained;
  return entered;
}

FakeDaemon::FakeDaemon() : directory_(TemporaryDirectory()), socket_path_(directory_ + "/s") {
  Start();
}

FakeDaemon::FakeDaemon(std::string socket_path) : socket_path_(std::move(socket_path)) { Start(); }

FakeDaemon::FakeDaemon(const TlsIdentity& identity, int port) {
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs = {{identity.key, identity.certificate}};
  Start(absl::StrCat("127.0.0.1:", port), grpc::SslServerCredentials(options));
}

std::string FakeDaemon::endpoint() const {
  return socket_path_.empty() ? absl::StrCat("127.0.0.1:", port_) : "unix:" + socket_path_;
}

void FakeDaemon::Start() { Start(endpoint(), grpc::InsecureServerCredentials()); }

void FakeDaemon::Start(const std::string& address,
                       std::shared_ptr<grpc::ServerCredentials> credentials) {
  KeepGrpc();
  service_.status.set_api_version(1);
  service_.status.set_version("0.1.0");
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, std::move(credentials), &port_);
  builder.RegisterService(&service_);
  builder.SetMaxReceiveMessageSize(64 << 20);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) abort();
}

void FakeDaemon::Stop() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
  if (!socket_path_.empty()) unlink(socket_path_.c_str());
}

FakeDaemon::~FakeDaemon() {
  Stop();
  if (!directory_.empty()) rmdir(directory_.c_str());
}

v1::KernelVariant CopyVariant(const std::string& bytes, int64_t alignment_bytes,
                              const std::string& guard, bool inline_bytes) {
  const auto parse = [](const std::string& text) { return Expression::Parse(text).value(); };
  LaunchRecipe recipe;
  recipe.dynamic_sizes = {"n"};
  for (const char* name : {"dst", "src"}) {
    RecipeBuffer buffer;
    buffer.shape = {parse("n")};
    buffer.strides = {parse("1")};
    buffer.access = std::string(name) == "dst" ? Access::kWrite : Access::kRead;
    buffer.alignment_bytes = alignment_bytes;
    recipe.arguments.push_back({name, buffer});
  }
  recipe.arguments.push_back({"n", RecipeScalar{.type = DataType::kI64, .value = parse("n")}});
  RecipeStep step;
  step.symbol = "copy";
  step.launch.grid[0] = parse("ceil_div(n, 1024)");
  step.launch.block[0] = parse("256");
  step.arguments = {0, 1, 2};
  recipe.steps = {step};
  if (!guard.empty()) recipe.guards = {parse(guard)};

  v1::KernelVariant variant;
  variant.set_config(absl::StrCat("VEC=", alignment_bytes / 4));
  variant.mutable_artifact()->set_sha256(Sha256Hex(bytes));
  variant.mutable_artifact()->set_size_bytes(static_cast<int64_t>(bytes.size()));
  variant.mutable_artifact()->set_format("CUBIN");
  if (inline_bytes) variant.set_artifact_bytes(bytes);
  *variant.mutable_recipe() = ToProto(recipe);
  return variant;
}

}  // namespace hone
