// What is known about tuned problems.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/cache/served_config.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/reply_size.h"

namespace hone {
namespace {

constexpr int kPageSizeDefault = 100;
constexpr int kPageSizeMax = 1000;
constexpr size_t kKeyPrefixMin = 6;

// The current template of the record's name, if the record was made with its code.
KernelTemplatePtr TemplateOf(ServiceContext& context, const TuningRecord& record) {
  v1::TemplateRef ref;
  ref.set_name(record.template_name);
  const auto found = FindTemplate(context, ref);
  if (!found.ok()) return nullptr;
  const KernelTemplatePtr& present = (*found)->kernel_template;
  return present->kernel_digest() == record.kernel_digest ? present : nullptr;
}

WorkAmount WorkOf(const TuningRecord& record, const KernelTemplate* kernel_template) {
  if (kernel_template == nullptr) return {};
  const auto problem = Problem::Parse(*kernel_template, record.problem);
  return problem.ok() ? WorkOf(*kernel_template, *problem) : WorkAmount();
}

// What qualifies this tuning's timings here and now; nothing while the engine is being probed.
Provenance PresentOf(ServiceContext& context, const TuningRecord& record) {
  Engine* const engine = context.gate->Get();
  return engine == nullptr ? Provenance() : engine->cache->PresentProvenance(record);
}

v1::MeasurementInfo ToProto(const Measurement& measurement, const WorkAmount& work,
                            const Provenance& present) {
  v1::MeasurementInfo proto = ToProto(measurement, work);
  proto.set_stale_reason(StaleReason(measurement, present));
  return proto;
}

// What answers for one stored tuning: the rule of GetKernel, for the tuned problem itself.
class ServedRule {
 public:
  ServedRule(ServiceContext& context, const FoundTuning& found)
      : store_(*context.store), found_(found) {
    if (!found.problem) return;
    Engine* const engine = context.gate->Get();
    DeviceFacts facts;
    if (engine != nullptr) {
      for (const DeviceInfo& device : engine->cache->Devices()) {
        if (device.fingerprint == found.record.device) facts = device.Facts();
      }
    }
    auto space = ConfigSpace::Create(found.kernel_template, *found.problem,
                                     found.record.architecture, facts);
    // A template that no longer runs on the architecture serves nothing there.
    if (space.ok()) space_ = *std::move(space);
    present_ = PresentOf(context, found.record);
  }

  absl::StatusOr<KeyDecisions> Decisions(Numerics numerics) const {
    const std::string digest = space_ ? found_.kernel_template->digest() : "";
    return ReadDecisions(found_.record.key, digest, numerics, store_);
  }
  std::optional<Config> Choose(const KeyDecisions& decisions, Numerics numerics) const {
    const auto served = space_ ? ChooseServed(*space_, found_.measurements, decisions,
                                              {.numerics = numerics, .present = present_})
                               : ChooseWithoutTemplate(found_.measurements, decisions, numerics);
    if (!served) return std::nullopt;
    return served->config;
  }

 private:
  KernelStore& store_;
  const FoundTuning& found_;
  std::optional<ConfigSpace> space_;
  Provenance present_;
};

absl::Status AddServed(ServiceContext& context, FoundTuning& found) {
  const ServedRule served(context, found);
  v1::TuningSummary& summary = found.summary;
  HONE_ASSIGN_OR_RETURN(KeyDecisions same_bits, served.Decisions(Numerics::kSameBitsAsDefault));
  if (const auto config = served.Choose(same_bits, Numerics::kSameBitsAsDefault)) {
    summary.set_same_bits_config(config->ToString());
  }
  HONE_ASSIGN_OR_RETURN(KeyDecisions decisions, served.Decisions(Numerics::kWithinTolerance));
  std::optional<Config> answers = served.Choose(decisions, Numerics::kWithinTolerance);
  found.unpinned = answers;
  if (decisions.pin.has_value() && decisions.pin->config.has_value()) {
    *summary.mutable_pin() = ToProto(*decisions.pin);
    decisions.pin.reset();
    found.unpinned = served.Choose(decisions, Numerics::kWithinTolerance);
    if (found.unpinned) summary.set_unpinned_config(found.unpinned->ToString());
  }
  if (!answers) return absl::OkStatus();
  const auto measured = std::find_if(found.measurements.begin(), found.measurements.end(),
                                     [&](const Measurement& m) { return m.config == *answers; });
  if (measured == found.measurements.end()) {
    // Its row was damaged and dropped; it answers all the same.
    summary.mutable_winner()->set_config(answers->ToString());
  } else {
    *summary.mutable_winner() =
        ToProto(*measured, WorkOf(found.record, found.kernel_template.get()),
                PresentOf(context, found.record));
  }
  return absl::OkStatus();
}

absl::StatusOr<FoundTuning> ReadTuning(ServiceContext& context, TuningRecord record) {
  FoundTuning found;
  found.record = std::move(record);
  HONE_ASSIGN_OR_RETURN(found.measurements, context.store->GetMeasurements(found.record.key));
  found.kernel_template = TemplateOf(context, found.record);
  if (found.kernel_template != nullptr) {
    auto problem = Problem::Parse(*found.kernel_template, found.record.problem);
    if (problem.ok()) found.problem = *std::move(problem);
  }
  v1::TuningSummary& summary = found.summary;
  summary.set_key(found.record.key);
  summary.set_template_name(found.record.template_name);
  if (found.kernel_template != nullptr) {
    summary.set_template_digest(found.kernel_template->digest());
  }
  if (found.problem) {
    ValuesToProto(found.problem->values(), found.kernel_template.get(), summary.mutable_params());
  }
  *summary.mutable_device() = ToProto(found.record.device);
  summary.set_device_key(found.record.device.Key());
  HONE_RETURN_IF_ERROR(AddServed(context, found));
  summary.set_measured(found.record.measured);
  summary.set_rejected(found.record.rejected);
  summary.set_tuned_at_unix_ms(
      std::max(found.record.updated_at_unix_ms, found.record.created_at_unix_ms));
  return found;
}

absl::StatusOr<v1::ListTuningsResponse> ListPage(ServiceContext& context,
                                                 const v1::ListTuningsRequest& request,
                                                 int page_size) {
  HONE_ASSIGN_OR_RETURN(
      const TuningPage page,
      context.store->ListTunings(request.template_name(), page_size, request.page_token()));
  v1::ListTuningsResponse response;
  for (const TuningRecord& record : page.records) {
    HONE_ASSIGN_OR_RETURN(FoundTuning found, ReadTuning(context, record));
    *response.add_tunings() = std::move(found.summary);
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

// A page that would be too large a reply is a shorter one.
absl::StatusOr<v1::ListTuningsResponse> List(ServiceContext& context,
                                             const v1::ListTuningsRequest& request) {
  HONE_RETURN_IF_ERROR(CheckTemplateName(context, request.template_name()));
  int page_size = request.page_size() == 0 ? kPageSizeDefault : request.page_size();
  while (true) {
    HONE_ASSIGN_OR_RETURN(v1::ListTuningsResponse response, ListPage(context, request, page_size));
    if (page_size == 1 || response.ByteSizeLong() <= kReplyBytesMax) return response;
    page_size = std::max(1, std::min(page_size, response.tunings_size()) / 2);
  }
}

absl::StatusOr<v1::GetTuningResponse> Get(ServiceContext& context, const std::string& prefix) {
  HONE_ASSIGN_OR_RETURN(FoundTuning found, FindTuning(context, prefix));
  v1::GetTuningResponse response;
  *response.mutable_summary() = std::move(found.summary);
  const WorkAmount work = WorkOf(found.record, found.kernel_template.get());
  const Provenance present = PresentOf(context, found.record);
  for (const Measurement& measurement : found.measurements) {
    *response.add_measurements() = ToProto(measurement, work, present);
  }
  FitReply(response);
  return response;
}

}  // namespace

absl::Status CheckKey(const std::string& key) {
  if (key.size() >= kKeyPrefixMin && key.size() <= 64 &&
      key.find_first_not_of("0123456789abcdef") == std::string::npos) {
    return absl::OkStatus();
  }
  return InvalidField("key",
                      absl::StrCat("'", BoundedUtf8(key, 80), "' is not a key; give its first ",
                                   kKeyPrefixMin, " to 64 lower-case hex digits"));
}

absl::StatusOr<std::string> FindKey(const std::string& prefix, KernelStore& store) {
  HONE_ASSIGN_OR_RETURN(const auto keys, store.FindTunings(prefix, 3));
  if (keys.empty()) {
    return absl::NotFoundError(absl::StrCat("key: no tuning has a key that begins with ", prefix,
                                            "; ListTunings shows the keys there are"));
  }
  if (keys.size() > 1 && keys.front() != prefix) {
    return InvalidField(
        "key", absl::StrCat("'", prefix, "' is ambiguous; it begins ", absl::StrJoin(keys, ", "),
                            keys.size() > 2 ? ", ..." : "", ". Give more digits"));
  }
  return keys.front();
}

absl::StatusOr<FoundTuning> FindTuning(ServiceContext& context, const std::string& key_prefix) {
  HONE_ASSIGN_OR_RETURN(const std::string key, FindKey(key_prefix, *context.store));
  HONE_ASSIGN_OR_RETURN(auto record, context.store->GetTuning(key));
  if (!record.has_value()) {
    return absl::NotFoundError(absl::StrCat("key: the tuning ", key, " is gone"));
  }
  return ReadTuning(context, *std::move(record));
}

void ListTunings(ServiceContext& context,
                 CallPtr<v1::ListTuningsRequest, v1::ListTuningsResponse> call) {
  const int page_size = call->request().page_size();
  if (page_size < 0 || page_size > kPageSizeMax) {
    return call->Fail(
        InvalidField("page_size", absl::StrCat(page_size, " is not from 1 to ", kPageSizeMax,
                                               ", or 0 for ", kPageSizeDefault)));
  }
  RunLookup(context, call, [&context, call] {
    const auto response = List(context, call->request());
    if (!response.ok()) return call->Fail(response.status());
    call->Reply(*response);
  });
}

void GetTuning(ServiceContext& context, CallPtr<v1::GetTuningRequest, v1::GetTuningResponse> call) {
  if (absl::Status status = CheckKey(call->request().key()); !status.ok()) {
    return call->Fail(status);
  }
  RunLookup(context, call, [&context, call] {
    const auto response = Get(context, call->request().key());
    if (!response.ok()) return call->Fail(response.status());
    call->Reply(*response);
  });
}

}  // namespace hone
