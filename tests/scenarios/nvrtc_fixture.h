// Programs through the real daemon, its workers and the NVRTC of this machine.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/clocks.h"
#include "runtime/base/sha256.h"
#include "tests/scenarios/daemon_process.h"
#include "tests/scenarios/one_kernel_template.h"

namespace hone {

inline v1::ErrorDetail DetailIn(const grpc::Status& status) {
  v1::ErrorDetail detail;
  detail.ParseFromString(status.error_details());
  return detail;
}

inline v1::CompileRequest Source(const std::string& source,
                                 const std::string& architecture = "sm_90") {
  v1::CompileRequest request;
  request.set_name("k.cu");
  request.set_source(source);
  request.add_architectures(architecture);
  return request;
}

// A kernel that stores the value of a constant expression, so that bytes differ with the value.
inline std::string Storing(const std::string& expression) {
  return absl::StrCat("extern \"C\" __global__ void k(int* a) { a[0] = 1000 + (", expression,
                      "); }\n");
}

inline void AddHeader(const std::string& name, const std::string& content,
                      v1::CompileRequest& request) {
  v1::SourceFile* header = request.add_headers();
  header->set_name(name);
  header->set_content(content);
}

// A template with one kernel, fill, that writes `value` to y; its reference writes `right`.
inline v1::KernelTemplate FillTemplate(const std::string& name, const std::string& before,
                                       const std::string& value, const std::string& right) {
  const std::string source = absl::StrCat(
      before, "template <int XBLOCK> __global__ void fill(float* y, long long n) {\n",
      "  const long long i = static_cast<long long>(blockIdx.x) * XBLOCK + threadIdx.x;\n",
      "  if (i < n) y[i] = ", value, ";\n}\n",
      "__global__ void fill_reference(float* y, long long n) {\n",
      "  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;\n",
      "  if (i < n) y[i] = ", right, ";\n}\n");
  v1::KernelTemplate message = OneKernelTemplate(
      {.kernel = "fill", .tunable = "XBLOCK", .values = {64}, .block = "XBLOCK", .source = source});
  message.set_name(name);
  return message;
}

// Templates that form a binary tree of distinct types: time doubles with every level.
inline std::string TypeTree(int levels) {
  return absl::StrCat(
      "template <int N, int M> struct F { using L = typename F<N-1, 2*M>::T; using R = typename "
      "F<N-1, 2*M+1>::T; struct T : L, R { char c[M % 7 + 1]; }; };\n"
      "template <int M> struct F<0, M> { struct T { int x[M % 5 + 1]; }; };\n"
      "extern \"C\" __global__ void k(unsigned long* a) { a[0] = sizeof(F<",
      levels, ", 1>::T); }\n");
}

// Command lines of hone-workers that compile below `directory`.
inline int WorkersOf(const std::string& directory) {
  int workers = 0;
  const auto names = ListDirectory("/proc");
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    const auto line = ReadKernelFile(absl::StrCat("/proc/", name, "/cmdline"));
    workers += line.ok() && line->find(directory) != std::string::npos &&
               line->find("hone-worker") != std::string::npos;
  }
  return workers;
}

class NvrtcScenarioTest : public ::testing::Test {
 protected:
  NvrtcScenarioTest() : directory_(*TemporaryDirectory::Create("/tmp", "hone")) {}

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Restart({}));
    if (!Nvrtc().available()) GTEST_SKIP() << "NVRTC is not installed: " << Nvrtc().detail();
  }

  // As the daemon sees it.
  v1::CompilerStatus Nvrtc() {
    const v1::GetStatusResponse status = daemon_->Status();
    for (const v1::CompilerStatus& compiler : status.compilers()) {
      if (compiler.kind() == "nvrtc") return compiler;
    }
    return v1::CompilerStatus();
  }

  // Compile workers run at idle priority, so a busy machine makes them slow.
  void Restart(DaemonOptions options, const std::string& compile_timeout = "5m") {
    options.arguments.insert(options.arguments.end(), {"--compile-timeout", compile_timeout});
    daemon_.reset();
    auto started = DaemonProcess::Start(directory_.path(), std::move(options));
    ASSERT_TRUE(started.ok()) << started.status();
    daemon_ = *std::move(started);
    daemon_->WaitForEngine();
  }

  grpc::Status Compile(const v1::CompileRequest& request, v1::CompileResponse* response) {
    grpc::ClientContext context;
    return daemon_->Client()->Compile(&context, request, response);
  }
  v1::CompiledArtifact Compiled(const v1::CompileRequest& request) {
    v1::CompileResponse response;
    const grpc::Status status = Compile(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message() << "\n" << DetailIn(status).excerpt();
    return response.artifacts_size() == 1 ? response.artifacts(0) : v1::CompiledArtifact();
  }
  std::string Sha256Of(const v1::CompileRequest& request) {
    return Compiled(request).info().sha256();
  }
  grpc::Status Error(const v1::CompileRequest& request) {
    v1::CompileResponse response;
    return Compile(request, &response);
  }
  v1::GetLogResponse Log(const std::string& id) {
    grpc::ClientContext context;
    v1::GetLogRequest request;
    request.set_log_id(id);
    v1::GetLogResponse response;
    const grpc::Status status = daemon_->Client()->GetLog(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  grpc::Status Register(const v1::KernelTemplate& message) {
    grpc::ClientContext context;
    v1::RegisterTemplateRequest request;
    *request.mutable_template_() = message;
    v1::RegisterTemplateResponse response;
    return daemon_->Client()->RegisterTemplate(&context, request, &response);
  }
  grpc::Status Get(const std::string& name, const std::string& more,
                   v1::GetKernelResponse* response) {
    grpc::ClientContext context;
    auto request = FromText<v1::GetKernelRequest>(
        absl::StrCat("template { name: '", name, "' } params { key: 'n' value { integer: 4096 } } ",
                     "target { architecture: 'sm_90a' } max_wait_ms: 300000"));
    request.MergeFrom(FromText<v1::GetKernelRequest>(more));
    return daemon_->Client()->GetKernel(&context, request, response);
  }
  v1::ExplainKeyResponse Explain(const std::string& name) {
    grpc::ClientContext context;
    v1::ExplainKeyResponse response;
    const grpc::Status status = daemon_->Client()->ExplainKey(
        &context,
        FromText<v1::ExplainKeyRequest>(absl::StrCat(
            "template { name: '", name, "' } params { key: 'n' value { integer: 4096 } } ",
            "target { architecture: 'sm_90a' }")),
        &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  // On the CPU reference device: whether the kernel wrote what its reference says.
  bool VerifiedOnCpu(const std::string& name) {
    grpc::ClientContext context;
    auto client = daemon_->Client();
    auto reader = client->Tune(&context, FromText<v1::TuneRequest>(absl::StrCat(
                                             "template { name: '", name,
                                             "' } params { key: 'n' value { integer: 64 } }")));
    v1::TuneEvent event;
    bool verified = false;
    while (reader->Read(&event)) {
      if (event.has_finished()) verified = event.finished().winner().verified();
    }
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return verified;
  }
  std::string Fetch(const std::string& sha256) {
    grpc::ClientContext context;
    v1::GetArtifactRequest request;
    request.set_sha256(sha256);
    auto client = daemon_->Client();
    auto reader = client->GetArtifact(&context, request);
    v1::ArtifactChunk chunk;
    std::string bytes;
    while (reader->Read(&chunk)) bytes += chunk.data();
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return bytes;
  }
  int64_t Counter(const std::string& name) { return daemon_->Status().counters().at(name); }

  TemporaryDirectory directory_;
  std::unique_ptr<DaemonProcess> daemon_;
};

}  // namespace hone
