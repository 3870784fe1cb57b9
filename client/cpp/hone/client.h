// Client of honed: ask for kernels, tune them, look at what is stored.
//
//   HONE_ASSIGN_OR_RETURN(hone::Client client, hone::Client::Connect());
//   HONE_ASSIGN_OR_RETURN(hone::Kernel kernel,
//       client.GetKernel({.template_name = "copy_1d", .params = {{"T", "F32"}, {"n", 1 << 26}}}));
//   hone::LaunchArguments arguments;
//   arguments.sizes = {{"n", n}};
//   arguments.buffers = {{"dst", {.address = dst}}, {"src", {.address = src}}};
//   HONE_RETURN_IF_ERROR(kernel.Launch(arguments, stream));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/hone/fetched_artifact.h"
#include "client/cpp/hone/kernel.h"
#include "client/cpp/hone/kernel_request.h"
#include "hone/v1/kernel_service.pb.h"

namespace hone {

// The version of the API this library speaks (GetStatusResponse.api_version).
inline constexpr int kClientApiVersion = 1;

struct ClientOptions {
  // "unix:/path/to/socket" or "host:port". Empty: DefaultEndpoint() of
  // runtime/base/default_paths.h.
  std::string endpoint{};
  // How long Connect, and any later call that finds the connection down, waits for the daemon. 0:
  // Connect does not wait, so that a service may start before its daemon.
  absl::Duration connect_timeout = absl::Seconds(5);
  // PEM file with the authority of the daemon's certificate, for TLS over TCP; "system": those that
  // gRPC trusts by default, $GRPC_DEFAULT_SSL_ROOTS_FILE_PATH or the system's; empty: no TLS.
  std::string tls_ca_file{};
  // Lets kernels of the CPU reference device run in this process. They are code that the daemon
  // sent.
  bool enable_cpu_device = false;
  // Where launches of this client's kernels are recorded as problems to tune, see
  // hone/v1/capture.proto. Not set: $HONE_CAPTURE; empty: nowhere.
  std::optional<std::string> capture_dir{};
};

// Immutable; copies share one connection. Thread-safe.
//
// Errors carry the daemon's code and text; facts it gave (reason, log id, needed and available
// bytes) are read with ErrorInfoOf of runtime/base/error_info.h. UNAVAILABLE when no daemon answers
// at the endpoint within connect_timeout; the text says what was tried and what to start. Calls
// that change nothing are retried over a restart of the daemon.
class Client {
 public:
  // FAILED_PRECONDITION when the daemon speaks a newer API than this library.
  static absl::StatusOr<Client> Connect(ClientOptions options = {});

  const std::string& endpoint() const;
  // What becomes of recorded launches, for people: "recording into FILE: ...", "stopped: ...";
  // empty when nothing is to be recorded.
  std::string CaptureStatus() const;

  // Fetches what was not sent inline and verifies each artifact; DATA_LOSS if one does not match.
  absl::StatusOr<Kernel> GetKernel(const GetKernelOptions& options) const;
  // The reply alone, for looking at it.
  absl::StatusOr<v1::GetKernelResponse> GetKernel(const v1::GetKernelRequest& request) const;
  // Bytes and facts of one artifact, verified. `sha256` in hex, whole.
  absl::StatusOr<FetchedArtifact> GetArtifact(const std::string& sha256) const;

  // Runs or joins a tune. `on_event` sees each event on the calling thread, in order; when it
  // returns false the call is cancelled (CANCELLED) and the tune goes on only for its other
  // callers.
  using OnTuneEvent = std::function<bool(const v1::TuneEvent&)>;
  absl::StatusOr<v1::TuneFinished> Tune(const v1::TuneRequest& request,
                                        const OnTuneEvent& on_event) const;

  absl::StatusOr<v1::CompileResponse> Compile(const v1::CompileRequest& request) const;
  absl::StatusOr<v1::GetLogResponse> GetLog(const std::string& log_id) const;

  absl::StatusOr<v1::ListTemplatesResponse> ListTemplates() const;
  // Files' contents up to 48 MiB together; files_left_out names the others.
  absl::StatusOr<v1::DescribeTemplateResponse> DescribeTemplate(
      const std::string& name, const std::string& digest = "") const;
  absl::StatusOr<v1::RegisterTemplateResponse> RegisterTemplate(
      const v1::RegisterTemplateRequest& request) const;
  absl::StatusOr<v1::RegisterHeaderSetResponse> RegisterHeaderSet(
      const std::string& name, const std::vector<v1::SourceFile>& files) const;
  absl::StatusOr<v1::ListHeaderSetsResponse> ListHeaderSets() const;

  // All pages together, newest first, at most `limit`. `template_name` empty: every template.
  absl::StatusOr<std::vector<v1::TuningSummary>> ListTunings(const std::string& template_name,
                                                             int limit = 1000) const;
  // `key`: whole, or a unique prefix of at least 6 digits.
  absl::StatusOr<v1::GetTuningResponse> GetTuning(const std::string& key) const;
  // May measure the device's ceilings first. `config`: other values than the winner's, "ORDER=1".
  absl::StatusOr<v1::ExplainTuningResponse> ExplainTuning(const std::string& key,
                                                          const std::string& config = "") const;
  // `key` as for GetTuning; `config` empty: the present winner.
  absl::StatusOr<v1::PinResponse> Pin(const std::string& key, const std::string& config,
                                      const std::string& reason) const;
  absl::StatusOr<v1::UnpinResponse> Unpin(const std::string& key) const;
  absl::StatusOr<v1::InvalidateResponse> Invalidate(const v1::InvalidateRequest& request) const;
  // What was asked for and is not tuned, most frequent first.
  absl::StatusOr<v1::ListMissesResponse> ListMisses(const v1::ListMissesRequest& request) const;
  absl::StatusOr<v1::ExplainKeyResponse> ExplainKey(const v1::ExplainKeyRequest& request) const;

  // Blocks; ends with OK when `on_event` returns false, else with the call's error.
  using OnWatchEvent = std::function<bool(const v1::WatchEvent&)>;
  absl::Status Watch(const std::string& template_name, const OnWatchEvent& on_event,
                     v1::Numerics numerics = v1::WITHIN_TOLERANCE) const;

  absl::StatusOr<v1::GetStatusResponse> GetStatus() const;

 private:
  struct State;
  explicit Client(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace hone
