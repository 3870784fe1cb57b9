// What people decide over measurements: which config is served, and what is no longer believed.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/logging.h"

namespace hone {
namespace {

constexpr size_t kReasonBytesMax = 1000;
constexpr size_t kFilterBytesMax = 256;
// As for keys.
constexpr size_t kDevicePrefixMin = 6;
// Names that an answer proposes, of each kind.
constexpr size_t kNamesMax = 8;
constexpr int kPageSize = 1000;
// Tunings whose measurements are read for their drivers and builds: enough to show what there is.
constexpr int kSampledTunings = 50;

// It is shown on the terminals of others.
absl::Status CheckReason(const std::string& reason) {
  if (reason.size() > kReasonBytesMax) {
    return InvalidField("reason",
                        absl::StrCat("has ", reason.size(), " bytes; at most ", kReasonBytesMax));
  }
  const auto control = std::find_if(reason.begin(), reason.end(),
                                    [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (control == reason.end()) return absl::OkStatus();
  return InvalidField("reason",
                      absl::StrCat("holds the control character 0x",
                                   absl::Hex(static_cast<unsigned char>(*control)), " at ",
                                   control - reason.begin(), "; it is one line of text"));
}

absl::StatusOr<std::optional<Config>> ConfigOf(const std::string& text) {
  if (text.empty()) return std::nullopt;
  auto config = Config::Parse(text);
  if (config.ok()) return *std::move(config);
  return InvalidField("config", BoundedUtf8(config.status().message(), 200));
}

void LogPin(absl::string_view event, const CallBase& call, const WinnerPin& pin) {
  LogEvent(event)
      .Add("key", pin.tuning_key)
      .Add("config", pin.config->ToString())
      .Add("generation", static_cast<int64_t>(pin.generation))
      .Add("reason", BoundedUtf8(pin.reason, 200))
      .Add("uid", static_cast<int64_t>(call.caller().credentials.uid))
      .Write();
}

absl::StatusOr<v1::PinResponse> PinKey(ServiceContext& context, Engine& engine,
                                       const CallBase& call, const v1::PinRequest& request) {
  HONE_ASSIGN_OR_RETURN(const FoundTuning found, FindTuning(context, request.key()));
  const std::string& key = found.record.key;
  HONE_ASSIGN_OR_RETURN(std::optional<Config> config, ConfigOf(request.config()));
  if (!config) config = found.unpinned;
  if (!config) {
    return absl::FailedPreconditionError(
        absl::StrCat("config: no candidate measured under ", key, " can be served; tune it first"));
  }
  HONE_ASSIGN_OR_RETURN(const WinnerPin pin,
                        engine.cache->PinWinner(key, *config, request.reason()));
  LogPin("pinned", call, pin);
  v1::PinResponse response;
  response.set_key(key);
  *response.mutable_pin() = ToProto(pin);
  return response;
}

absl::StatusOr<v1::UnpinResponse> UnpinKey(ServiceContext& context, Engine& engine,
                                           const CallBase& call, const v1::UnpinRequest& request) {
  HONE_ASSIGN_OR_RETURN(const std::string key, FindKey(request.key(), *context.store));
  HONE_ASSIGN_OR_RETURN(const WinnerPin was, engine.cache->UnpinWinner(key));
  LogPin("unpinned", call, was);
  v1::UnpinResponse response;
  response.set_key(key);
  response.set_generation(was.generation);
  *response.mutable_was() = ToProto(was);
  return response;
}

absl::Status CheckFilters(const v1::InvalidateRequest& request) {
  const std::map<std::string, std::string> filters = {{"template_name", request.template_name()},
                                                      {"device_key", request.device_key()},
                                                      {"driver", request.driver()},
                                                      {"compiler_build", request.compiler_build()}};
  bool any = false;
  for (const auto& [field, value] : filters) {
    any = any || !value.empty();
    if (value.size() <= kFilterBytesMax) continue;
    return InvalidField(field,
                        absl::StrCat("has ", value.size(), " bytes; at most ", kFilterBytesMax));
  }
  if (!any) {
    return absl::InvalidArgumentError(
        "give at least one of template_name, device_key, driver and compiler_build: without any, "
        "everything would be measured anew");
  }
  const std::string& device = request.device_key();
  if (!device.empty() && (device.size() < kDevicePrefixMin || device.size() > 64 ||
                          device.find_first_not_of("0123456789abcdef") != std::string::npos)) {
    return InvalidField("device_key",
                        absl::StrCat("'", BoundedUtf8(device, 80), "' is none; give its first ",
                                     kDevicePrefixMin, " to 64 lower-case hex digits"));
  }
  return absl::OkStatus();
}

// What filters can name.
struct Names {
  std::set<std::string> templates, devices, drivers, builds;
};

// `deep`: of the newest tunings with their measurements; else of all tunings, without.
absl::StatusOr<Names> StoredNames(KernelStore& store, bool deep) {
  Names names;
  std::string token;
  do {
    HONE_ASSIGN_OR_RETURN(const TuningPage page,
                          store.ListTunings("", deep ? kSampledTunings : kPageSize, token));
    for (const TuningRecord& record : page.records) {
      names.templates.insert(record.template_name);
      names.devices.insert(record.device.Key());
      if (!deep) continue;
      HONE_ASSIGN_OR_RETURN(const auto measurements, store.GetMeasurements(record.key));
      for (const Measurement& measurement : measurements) {
        if (!measurement.driver.empty()) names.drivers.insert(measurement.driver);
        if (!measurement.compiler_build.empty()) names.builds.insert(measurement.compiler_build);
      }
    }
    token = page.next_page_token;
  } while (!token.empty() && !deep);
  return names;
}

std::string Listed(absl::string_view what, const std::set<std::string>& names) {
  std::vector<std::string> first;
  for (const std::string& name : names) {
    if (first.size() < kNamesMax) first.push_back(name);
  }
  return absl::StrCat(what, ": ", first.empty() ? "none" : absl::StrJoin(first, ", "),
                      names.size() > first.size() ? ", ..." : "");
}

absl::StatusOr<std::string> DeviceKeyOf(const std::string& prefix, KernelStore& store) {
  if (prefix.empty()) return prefix;
  HONE_ASSIGN_OR_RETURN(const Names names, StoredNames(store, /*deep=*/false));
  std::set<std::string> found;
  for (const std::string& device : names.devices) {
    if (absl::StartsWith(device, prefix)) found.insert(device);
  }
  if (found.size() == 1) return *found.begin();
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat("device_key: nothing was measured on a device whose key "
                     "begins with ",
                     prefix, "; ", Listed("devices", names.devices)));
  }
  return InvalidField("device_key", absl::StrCat("'", prefix, "' is ambiguous; it begins ",
                                                 absl::StrJoin(found, ", ")));
}

std::string Why(const v1::InvalidateRequest& request) {
  const std::string when = absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone());
  return request.reason().empty() ? when : absl::StrCat(when, ": ", request.reason());
}

absl::StatusOr<v1::InvalidateResponse> InvalidateMatching(ServiceContext& context, Engine& engine,
                                                          const CallBase& call,
                                                          const v1::InvalidateRequest& request) {
  HONE_RETURN_IF_ERROR(CheckTemplateName(context, request.template_name()));
  InvalidationFilter filter;
  filter.template_name = request.template_name();
  filter.driver = request.driver();
  filter.compiler_build = request.compiler_build();
  HONE_ASSIGN_OR_RETURN(filter.device_key, DeviceKeyOf(request.device_key(), *context.store));
  HONE_ASSIGN_OR_RETURN(const InvalidationCount count,
                        engine.cache->Invalidate(filter, Why(request), request.dry_run()));
  v1::InvalidateResponse response;
  response.set_tunings(count.tunings);
  response.set_measurements(count.measurements);
  response.set_pins_spared(count.pins_spared);
  if (count.measurements == 0 && count.pins_spared == 0) {
    HONE_ASSIGN_OR_RETURN(const Names names, StoredNames(*context.store, /*deep=*/true));
    response.set_note(absl::StrCat(
        "nothing matches that was not invalidated already; stored are ",
        Listed("templates", names.templates), "; ", Listed("devices", names.devices), "; ",
        Listed("drivers", names.drivers), "; ", Listed("compilers", names.builds)));
  }
  if (!request.dry_run()) {
    LogEvent("invalidated")
        .Add("template", BoundedUtf8(request.template_name(), 64))
        .Add("device", filter.device_key)
        .Add("driver", BoundedUtf8(request.driver(), 64))
        .Add("compiler", BoundedUtf8(request.compiler_build(), 64))
        .Add("tunings", count.tunings)
        .Add("measurements", count.measurements)
        .Add("reason", BoundedUtf8(request.reason(), 200))
        .Add("uid", static_cast<int64_t>(call.caller().credentials.uid))
        .Write();
  }
  return response;
}

}  // namespace

void Pin(ServiceContext& context, CallPtr<v1::PinRequest, v1::PinResponse> call) {
  absl::Status status = CheckKey(call->request().key());
  if (status.ok()) status = CheckReason(call->request().reason());
  if (status.ok()) status = ConfigOf(call->request().config()).status();
  if (!status.ok()) return call->Fail(status);
  WithEngine(context, call, [&context, call](Engine& engine) {
    const auto response = PinKey(context, engine, *call, call->request());
    if (!response.ok()) return call->Fail(response.status());
    call->Reply(*response);
  });
}

void Unpin(ServiceContext& context, CallPtr<v1::UnpinRequest, v1::UnpinResponse> call) {
  if (absl::Status status = CheckKey(call->request().key()); !status.ok()) {
    return call->Fail(status);
  }
  WithEngine(context, call, [&context, call](Engine& engine) {
    const auto response = UnpinKey(context, engine, *call, call->request());
    if (!response.ok()) return call->Fail(response.status());
    call->Reply(*response);
  });
}

void Invalidate(ServiceContext& context,
                CallPtr<v1::InvalidateRequest, v1::InvalidateResponse> call) {
  absl::Status status = CheckFilters(call->request());
  if (status.ok()) status = CheckReason(call->request().reason());
  if (!status.ok()) return call->Fail(status);
  WithEngine(context, call, [&context, call](Engine& engine) {
    const auto response = InvalidateMatching(context, engine, *call, call->request());
    if (!response.ok()) return call->Fail(response.status());
    call->Reply(*response);
  });
}

}  // namespace hone
