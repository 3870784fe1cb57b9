// What is known about tuned problems.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
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

// A problem as it was printed; without its template everything but whole numbers is text.
Values ValuesOf(const TuningRecord& record, const KernelTemplate* kernel_template) {
  if (kernel_template == nullptr) return {};
  const auto problem = Problem::Parse(*kernel_template, record.problem);
  return problem.ok() ? problem->values() : Values();
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

const Measurement* FindConfig(const std::vector<Measurement>& measurements, const Config& config) {
  for (const Measurement& measurement : measurements) {
    if (measurement.config == config && !measurement.rejection && !measurement.samples_ns.empty()) {
      return &measurement;
    }
  }
  return nullptr;
}

// The stored winner under the present template, else the fastest: a winner is a query over the
// measurements.
absl::StatusOr<const Measurement*> WinnerAmong(const std::vector<Measurement>& measurements,
                                               const std::optional<Winner>& winner) {
  if (winner.has_value() && !winner->variants.empty()) {
    const Measurement* won = FindConfig(measurements, winner->variants.front().config);
    if (won != nullptr) return won;
  }
  const Measurement* fastest = nullptr;
  for (const Measurement& measurement : measurements) {
    if (measurement.rejection.has_value() || measurement.samples_ns.empty()) continue;
    if (fastest == nullptr || measurement.median_ns < fastest->median_ns) fastest = &measurement;
  }
  return fastest;
}

// Who is served: the winners, and the pin before them.
absl::Status AddServed(const TuningRecord& record, const std::vector<Measurement>& measurements,
                       const KernelTemplate* kernel_template, ServiceContext& context,
                       v1::TuningSummary& summary) {
  const std::string digest = kernel_template == nullptr ? "" : kernel_template->digest();
  KernelStore& store = *context.store;
  HONE_ASSIGN_OR_RETURN(const auto won,
                        store.GetWinner(record.key, digest, Numerics::kWithinTolerance));
  HONE_ASSIGN_OR_RETURN(const Measurement* winner, WinnerAmong(measurements, won));
  HONE_ASSIGN_OR_RETURN(const auto same_bits,
                        store.GetWinner(record.key, digest, Numerics::kSameBitsAsDefault));
  if (same_bits.has_value() && !same_bits->variants.empty()) {
    summary.set_same_bits_config(same_bits->variants.front().config.ToString());
  }
  HONE_ASSIGN_OR_RETURN(const auto pin, store.GetPin(record.key));
  if (pin.has_value() && pin->config.has_value()) {
    *summary.mutable_pin() = ToProto(*pin);
    if (winner != nullptr) summary.set_unpinned_config(winner->config.ToString());
    if (const auto* pinned = FindConfig(measurements, *pin->config)) winner = pinned;
  }
  if (winner == nullptr) return absl::OkStatus();
  *summary.mutable_winner() =
      ToProto(*winner, WorkOf(record, kernel_template), PresentOf(context, record));
  return absl::OkStatus();
}

absl::StatusOr<v1::TuningSummary> Summarise(const TuningRecord& record,
                                            const std::vector<Measurement>& measurements,
                                            ServiceContext& context) {
  const KernelTemplatePtr kernel_template = TemplateOf(context, record);
  v1::TuningSummary summary;
  summary.set_key(record.key);
  summary.set_template_name(record.template_name);
  if (kernel_template != nullptr) summary.set_template_digest(kernel_template->digest());
  ValuesToProto(ValuesOf(record, kernel_template.get()), kernel_template.get(),
                summary.mutable_params());
  *summary.mutable_device() = ToProto(record.device);
  summary.set_device_key(record.device.Key());
  HONE_RETURN_IF_ERROR(AddServed(record, measurements, kernel_template.get(), context, summary));
  summary.set_measured(record.measured);
  summary.set_rejected(record.rejected);
  summary.set_tuned_at_unix_ms(std::max(record.updated_at_unix_ms, record.created_at_unix_ms));
  return summary;
}

absl::StatusOr<v1::ListTuningsResponse> ListPage(ServiceContext& context,
                                                 const v1::ListTuningsRequest& request,
                                                 int page_size) {
  HONE_ASSIGN_OR_RETURN(
      const TuningPage page,
      context.store->ListTunings(request.template_name(), page_size, request.page_token()));
  v1::ListTuningsResponse response;
  for (const TuningRecord& record : page.records) {
    HONE_ASSIGN_OR_RETURN(const auto measurements, context.store->GetMeasurements(record.key));
    HONE_ASSIGN_OR_RETURN(*response.add_tunings(), Summarise(record, measurements, context));
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

// A page that would be too large a reply is a shorter one.
absl::StatusOr<v1::ListTuningsResponse> List(ServiceContext& context,
                                             const v1::ListTuningsRequest& request) {
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
  FoundTuning found;
  found.record = *std::move(record);
  HONE_ASSIGN_OR_RETURN(found.measurements, context.store->GetMeasurements(key));
  found.kernel_template = TemplateOf(context, found.record);
  if (found.kernel_template != nullptr) {
    auto problem = Problem::Parse(*found.kernel_template, found.record.problem);
    if (problem.ok()) found.problem = *std::move(problem);
  }
  HONE_ASSIGN_OR_RETURN(found.summary, Summarise(found.record, found.measurements, context));
  return found;
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
