// The templates there are, and new ones.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "server/catalog.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/logging.h"
#include "server/nearest_names.h"
#include "server/reply_size.h"

namespace hone {
namespace {

// The newest tunings, which are looked through for names.
constexpr int kTuningsForNames = 1000;

v1::TemplateSummary ToProto(const CatalogEntry& entry) {
  const TemplateSpec& spec = entry.kernel_template->spec();
  v1::TemplateSummary summary;
  summary.set_name(spec.name);
  summary.set_version(spec.version);
  summary.set_digest(entry.kernel_template->digest());
  summary.set_description(spec.description);
  summary.set_origin(Name(entry.origin));
  summary.set_tunable_points(entry.tunable_points);
  return summary;
}

absl::StatusOr<RegisterResult> Register(ServiceContext& context, const Engine& engine,
                                        const Caller& caller, const v1::KernelTemplate& message,
                                        const RegisterOptions& options) {
  if (!options.validate_only) {
    HONE_RETURN_IF_ERROR(CheckSourceTrusted(engine, /*from_catalog=*/false));
  }
  HONE_ASSIGN_OR_RETURN(RegisterResult result, context.catalog->Register(message, options));
  if (!options.validate_only && !result.already_registered) {
    LogEvent("template_registered")
        .Add("template", result.entry->kernel_template->name())
        .Add("version", result.entry->kernel_template->spec().version)
        .Add("digest", result.entry->kernel_template->digest())
        .Add("uid", static_cast<int64_t>(caller.credentials.uid))
        .Write();
  }
  return result;
}

}  // namespace

absl::StatusOr<CatalogEntryPtr> FindTemplate(ServiceContext& context, const v1::TemplateRef& ref) {
  if (ref.name().empty() && ref.digest().empty()) {
    return InvalidField("template", "names nothing; give its name, its digest or both");
  }
  return context.catalog->Find(ref.name(), ref.digest());
}

absl::Status CheckTemplateName(ServiceContext& context, const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  std::vector<std::string> known = context.catalog->Names();
  if (std::find(known.begin(), known.end(), name) != known.end()) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const TuningPage tunings, context.store->ListTunings(name, 1, ""));
  if (!tunings.records.empty()) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const std::vector<Miss> misses,
                        context.store->ListMisses({.template_name = name, .limit = 1}));
  if (!misses.empty()) return absl::OkStatus();
  // Templates that are gone may be meant too.
  HONE_ASSIGN_OR_RETURN(const TuningPage newest,
                        context.store->ListTunings("", kTuningsForNames, ""));
  for (const TuningRecord& record : newest.records) known.push_back(record.template_name);
  return absl::NotFoundError(absl::StrCat("template_name: no template \"", BoundedUtf8(name, 80),
                                          "\"; ", Suggestion(name, known)));
}

absl::StatusOr<CatalogEntryPtr> TemplateToTune(ServiceContext& context, const Engine& engine,
                                               const Caller& caller,
                                               const v1::TuneRequest& request) {
  if (!request.has_inline_template()) {
    HONE_ASSIGN_OR_RETURN(CatalogEntryPtr entry, FindTemplate(context, request.template_()));
    HONE_RETURN_IF_ERROR(CheckSourceTrusted(engine, entry->origin == TemplateOrigin::kCatalog));
    return entry;
  }
  if (request.has_template_()) {
    return InvalidField("inline_template",
                        "is given together with template; give one of them, not both");
  }
  HONE_ASSIGN_OR_RETURN(
      RegisterResult result,
      Register(context, engine, caller, request.inline_template(), {.inline_template = true}));
  return std::move(result.entry);
}

void AddCatalogWarnings(ServiceContext& context, v1::GetStatusResponse& response) {
  for (const CatalogProblem& problem : context.catalog->Problems()) {
    response.add_warnings(
        absl::StrCat("template not loaded: ", problem.location, ": ", problem.message));
  }
}

void ListTemplates(ServiceContext& context,
                   CallPtr<v1::ListTemplatesRequest, v1::ListTemplatesResponse> call) {
  v1::ListTemplatesResponse response;
  for (const CatalogEntryPtr& entry : context.catalog->List()) {
    *response.add_templates() = ToProto(*entry);
  }
  for (const CatalogProblem& problem : context.catalog->Problems()) {
    v1::TemplateProblem* to = response.add_problems();
    to->set_location(problem.location);
    to->set_message(problem.message);
  }
  FitReply(response);
  call->Reply(response);
}

void DescribeTemplate(ServiceContext& context,
                      CallPtr<v1::DescribeTemplateRequest, v1::DescribeTemplateResponse> call) {
  const int64_t files_bytes_max = call->request().files_bytes_max();
  if (files_bytes_max < -1) {
    return call->Fail(InvalidField(
        "files_bytes_max",
        absl::StrCat(files_bytes_max, " is negative; give -1 for none or 0 for the default")));
  }
  const auto entry = FindTemplate(context, call->request().template_());
  if (!entry.ok()) return call->Fail(entry.status());
  v1::DescribeTemplateResponse response;
  *response.mutable_summary() = ToProto(**entry);
  *response.mutable_template_() = (*entry)->message;
  response.set_readme((*entry)->readme);
  FitReply(files_bytes_max, response);
  call->Reply(response);
}

void RegisterTemplate(ServiceContext& context,
                      CallPtr<v1::RegisterTemplateRequest, v1::RegisterTemplateResponse> call) {
  if (!call->request().has_template_()) {
    return call->Fail(InvalidField("template", "is missing; give the template to register"));
  }
  WithEngine(context, call, [&context, call](Engine& engine) {
    const auto result = Register(context, engine, call->caller(), call->request().template_(),
                                 {.validate_only = call->request().validate_only()});
    if (!result.ok()) return call->Fail(result.status());
    v1::RegisterTemplateResponse response;
    *response.mutable_summary() = ToProto(*result->entry);
    response.set_already_registered(result->already_registered);
    for (const std::string& warning : result->warnings) response.add_warnings(warning);
    call->Reply(response);
  });
}

}  // namespace hone
