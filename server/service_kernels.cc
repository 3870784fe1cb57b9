// The service's front door.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/logging.h"
#include "spdlog/spdlog.h"

namespace hone {
namespace {

using GetKernelCall = CallPtr<v1::GetKernelRequest, v1::GetKernelResponse>;

absl::string_view Name(AnswerSource source) {
  switch (source) {
    case AnswerSource::kTuned:
      return "TUNED";
    case AnswerSource::kBucket:
      return "BUCKET";
    case AnswerSource::kNearest:
      return "NEAREST";
    case AnswerSource::kDefault:
      return "DEFAULT";
  }
  return "UNKNOWN";
}

struct Asked {
  KernelRequest request;
  bool from_catalog = true;
};

absl::StatusOr<Asked> RequestOf(ServiceContext& context, const v1::GetKernelRequest& proto) {
  Asked asked;
  KernelRequest& request = asked.request;
  const auto wait_max_ms = absl::ToInt64Milliseconds(context.limits.wait_max);
  if (proto.max_wait_ms() < 0 || proto.max_wait_ms() > wait_max_ms) {
    return InvalidField("max_wait_ms", absl::StrCat(proto.max_wait_ms(), " is not from 0 to ",
                                                    wait_max_ms, " (0: the default)"));
  }
  if (proto.inline_bytes_max() < -1) {
    return InvalidField("inline_bytes_max",
                        absl::StrCat(proto.inline_bytes_max(),
                                     " is negative; give -1 for never or 0 for the default"));
  }
  request.max_wait = proto.max_wait_ms() == 0 ? context.limits.wait_default
                                              : absl::Milliseconds(proto.max_wait_ms());
  request.policy = static_cast<Policy>(proto.policy());
  request.numerics = static_cast<Numerics>(proto.numerics());
  HONE_ASSIGN_OR_RETURN(request.values, ValuesFromProto(proto.params()));
  HONE_ASSIGN_OR_RETURN(request.target, TargetFromProto(proto.target()));
  HONE_ASSIGN_OR_RETURN(const CatalogEntryPtr entry, FindTemplate(context, proto.template_()));
  request.kernel_template = entry->kernel_template;
  asked.from_catalog = entry->origin == TemplateOrigin::kCatalog;
  return asked;
}

int64_t InlineBytesOf(const v1::GetKernelRequest& request, const ServiceLimits& limits) {
  if (request.inline_bytes_max() == 0) return limits.inline_bytes_default;
  return std::min(request.inline_bytes_max(), limits.inline_bytes_max);
}

void LogAnswer(absl::string_view event, spdlog::level::level_enum level, const GetKernelCall& call,
               const absl::StatusOr<KernelAnswer>& answer, absl::Time began) {
  if (!spdlog::default_logger_raw()->should_log(level)) return;
  LogEvent line(event);
  line.Add("template", BoundedUtf8(call->request().template_().name(), 64));
  line.Add("policy", v1::Policy_Name(call->request().policy()));
  if (answer.ok()) {
    line.Add("problem", ToString(answer->kernel->params));
    line.Add("source", Name(answer->source)).Add("key", answer->key);
    if (answer->stale) line.Add("stale", answer->stale_reason);
    if (answer->pin) line.Add("pinned", answer->pin->config->ToString());
  } else {
    line.Add("code", absl::StatusCodeToString(answer.status().code()));
    line.Add("reason", BoundedUtf8(answer.status().message(), 200));
  }
  line.Add("took_ms", absl::ToInt64Milliseconds(absl::Now() - began)).Write(level);
}

// What is not in memory may take a compile or, under WAIT_TUNED, device time, which is not
// everyone's.
absl::Status MayWorkFor(ServiceContext& context, const CallBase& call, const Asked& asked,
                        const Engine& engine) {
  if (asked.request.policy == Policy::kFrozen) return absl::OkStatus();
  if (asked.request.policy == Policy::kWaitTuned) {
    HONE_RETURN_IF_ERROR(RequireRole(call.caller(), Role::kTuner,
                                     "GetKernel with WAIT_TUNED, which starts a tune,",
                                     context.roles));
  }
  return CheckSourceTrusted(engine, asked.from_catalog);
}

void Answer(ServiceContext& context, const GetKernelCall& call, const KernelRequest& request,
            const absl::StatusOr<KernelAnswer>& answer) {
  if (!answer.ok()) return call->Fail(answer.status());
  call->Reply(
      ToProto(*answer, *request.kernel_template, InlineBytesOf(call->request(), context.limits)));
}

// A kernel in memory is answered with the bytes it was answered with before.
void AnswerHit(ServiceContext& context, CallBase& call, const KernelTemplate& kernel_template,
               const KernelAnswer& hit, int64_t inline_bytes) {
  if (auto reply = context.replies.Find(hit.kernel, inline_bytes)) {
    return call.ReplyBytes(*std::move(reply));
  }
  grpc::ByteBuffer reply = Serialize(ToProto(hit, kernel_template, inline_bytes));
  context.replies.Put(hit.kernel, inline_bytes, reply);
  call.ReplyBytes(std::move(reply));
}

}  // namespace

bool GetKnownKernel(ServiceContext& context, CallBase& call) {
  const auto known = context.requests.Find(call.RequestBytes());
  Engine* engine = context.gate->Get();
  if (known == nullptr || engine == nullptr) return false;
  // The name may mean another template by now.
  const auto entry = context.catalog->Find(known->template_name, known->template_digest);
  if (!entry.ok() || (*entry)->kernel_template != known->kernel_template) return false;
  if (!engine->cache->Again(*known->hit)) return false;
  AnswerHit(context, call, *known->kernel_template, known->hit->answer, known->inline_bytes_max);
  return true;
}

void GetKernel(ServiceContext& context, GetKernelCall call) {
  auto asked = RequestOf(context, call->request());
  if (!asked.ok()) return call->Fail(asked.status());
  const KernelRequest& request = asked->request;
  const absl::Time began = absl::Now();
  if (Engine* engine = context.gate->Get()) {
    if (const auto hit = engine->cache->FindHit(request)) {
      const int64_t inline_bytes = InlineBytesOf(call->request(), context.limits);
      const v1::TemplateRef& ref = call->request().template_();
      context.requests.Put(call->RequestBytes(), {.template_name = ref.name(),
                                                  .template_digest = ref.digest(),
                                                  .kernel_template = request.kernel_template,
                                                  .hit = hit,
                                                  .inline_bytes_max = inline_bytes});
      AnswerHit(context, *call, *request.kernel_template, hit->answer, inline_bytes);
      return LogAnswer("hit", spdlog::level::debug, call, hit->answer, began);
    }
  }
  if (!call->crowded().ok()) return call->Fail(call->crowded());
  const absl::Time deadline = began + request.max_wait;
  context.gate->WhenReady(deadline, [&context, call, asked = *std::move(asked), deadline,
                                     began](absl::StatusOr<Engine*> engine) {
    if (!engine.ok()) return call->Fail(engine.status());
    if (absl::Status status = MayWorkFor(context, *call, asked, **engine); !status.ok()) {
      return call->Fail(status);
    }
    KernelRequest remaining = asked.request;
    remaining.max_wait = std::max(deadline - absl::Now(), absl::ZeroDuration());
    remaining.client = call->caller().connection;
    auto leave = (*engine)->cache->Get(
        remaining, [&context, call, remaining, began](const absl::StatusOr<KernelAnswer>& answer) {
          LogAnswer("miss", spdlog::level::info, call, answer, began);
          Answer(context, call, remaining, answer);
        });
    call->OnCancelled(std::move(leave));
  });
}

}  // namespace hone
