// How the daemon is, and what its keys are made of.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/handlers.h"

namespace hone {
namespace {

void AddEngine(Engine& engine, KernelStore& store, v1::GetStatusResponse& response) {
  const std::vector<DeviceInfo> devices = engine.cache->Devices();
  for (size_t i = 0; i < devices.size(); ++i) {
    const LaneState lane = engine.lanes.at(i)->Get();
    v1::DeviceStatus* status = response.add_devices();
    // What Target.device_index means; a driver's own numbering may differ.
    status->set_index(static_cast<int32_t>(i));
    status->set_name(devices[i].name);
    *status->mutable_fingerprint() = ToProto(devices[i].fingerprint);
    status->set_driver(devices[i].driver);
    status->set_device_key(devices[i].fingerprint.Key());
    status->set_state(lane.state);
    status->set_detail(lane.detail);
    status->set_worker_pid(lane.worker_pid);
    // Best effort: a store that cannot be read is told of elsewhere.
    if (const auto ceilings = store.GetCeilings(devices[i].fingerprint.Key());
        ceilings.ok() && ceilings->has_value()) {
      *status->mutable_ceilings() = ToProto(**ceilings);
    }
  }
  for (const CompilerInfo& compiler : engine.compiler->Compilers()) {
    *response.add_compilers() = ToProto(compiler);
    if (!compiler.available) {
      response.add_warnings(absl::StrCat(compiler.kind, " is not available: ", compiler.detail));
    }
  }
  for (const auto& [name, count] : engine.cache->Counters()) {
    (*response.mutable_counters())[name] = count;
  }
  for (const std::string& warning : engine.warnings) response.add_warnings(warning);
}

void AddProbing(v1::GetStatusResponse& response) {
  v1::DeviceStatus* status = response.add_devices();
  status->set_state("probing");
  status->set_detail("devices and compilers are still being probed");
}

void AddRoom(const StoreRoom& room, v1::GetStatusResponse& response) {
  response.set_store_bytes_max(room.bytes_max);
  (*response.mutable_counters())["evictions"] = room.evictions;
  (*response.mutable_counters())["evicted_bytes"] = room.evicted_bytes;
  if (!room.exhausted) return;
  response.add_warnings(
      absl::StrCat("the store is at its bound of ", room.bytes_max,
                   " bytes, and what is left is winners' binaries, measurements and header sets: "
                   "new binaries are not kept; raise --store-max-bytes"));
}

// The lines whose hash is the key.
std::vector<std::string> Ingredients(const Key& key) {
  return absl::StrSplit(key.Canonical(), '\n', absl::SkipEmpty());
}

absl::StatusOr<v1::ExplainKeyResponse> Explain(KernelCache& cache, const KernelRequest& request) {
  HONE_ASSIGN_OR_RETURN(const KeyExplanation explanation, cache.Explain(request));
  v1::ExplainKeyResponse response;
  if (explanation.tuning_key.has_value()) {
    response.set_tuning_key(explanation.tuning_key->id());
    for (std::string& line : Ingredients(*explanation.tuning_key)) {
      response.add_tuning_key_ingredients(std::move(line));
    }
  }
  if (explanation.artifact_key.has_value()) {
    response.set_artifact_key(explanation.artifact_key->id());
    for (std::string& line : Ingredients(*explanation.artifact_key)) {
      response.add_artifact_key_ingredients(std::move(line));
    }
  }
  response.set_state(explanation.state);
  ValuesToProto(explanation.bucket_values, request.kernel_template.get(),
                response.mutable_bucket_params());
  if (explanation.bucket_key.has_value()) response.set_bucket_key(explanation.bucket_key->id());
  response.set_bucket_tuned(explanation.bucket_tuned);
  return response;
}

}  // namespace

void GetStatus(ServiceContext& context, CallPtr<v1::GetStatusRequest, v1::GetStatusResponse> call) {
  RunLookup(context, call, [&context, call] {
    v1::GetStatusResponse response;
    response.set_version(context.info.version);
    response.set_api_version(kApiVersion);
    response.set_pid(getpid());
    response.set_uptime_s(absl::ToDoubleSeconds(absl::Now() - context.info.started));
    response.set_store_path(context.info.store_path);
    response.set_kernels_path(context.info.kernels_path);
    response.set_listen(context.info.listen);
    response.set_caller_role(std::string(Name(call->caller().role)));
    if (Engine* engine = context.gate->Get()) {
      AddEngine(*engine, *context.store, response);
    } else {
      AddProbing(response);
    }
    (*response.mutable_counters())["calls"] = context.calls.count();
    (*response.mutable_counters())["streams"] = context.streams.count();
    (*response.mutable_counters())["connections"] = context.connections->admitted();
    if (const auto bytes = context.store->SizeBytes(); bytes.ok()) {
      response.set_store_bytes(*bytes);
    } else {
      response.add_warnings(absl::StrCat("store: ", bytes.status().message()));
    }
    AddRoom(context.store->Room(), response);
    AddCatalogWarnings(context, response);
    call->Reply(response);
  });
}

void ExplainKey(ServiceContext& context,
                CallPtr<v1::ExplainKeyRequest, v1::ExplainKeyResponse> call) {
  KernelRequest request;
  const auto read = [&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(request.values, ValuesFromProto(call->request().params()));
    HONE_ASSIGN_OR_RETURN(request.target, TargetFromProto(call->request().target()));
    request.numerics = static_cast<Numerics>(call->request().numerics());
    HONE_ASSIGN_OR_RETURN(const CatalogEntryPtr entry,
                          FindTemplate(context, call->request().template_()));
    request.kernel_template = entry->kernel_template;
    return absl::OkStatus();
  };
  if (absl::Status status = read(); !status.ok()) return call->Fail(status);
  WithEngine(context, call, [call, request](Engine& engine) {
    const auto response = Explain(*engine.cache, request);
    if (!response.ok()) return call->Fail(response.status());
    call->Reply(*response);
  });
}

}  // namespace hone
