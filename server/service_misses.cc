// Problems that were asked for and are not tuned.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/reply_size.h"

namespace hone {
namespace {

constexpr int64_t kSinceDefaultSeconds = 24 * 3600;
constexpr int64_t kSinceMaxSeconds = int64_t{3650} * 24 * 3600;
constexpr int kMissesDefault = 100;
constexpr int kMissesMax = 1000;

absl::StatusOr<MissFilter> FilterOf(const v1::ListMissesRequest& request) {
  if (request.since_s() < 0 || request.since_s() > kSinceMaxSeconds) {
    return InvalidField("since_s", absl::StrCat(request.since_s(), " is not from 1 to ",
                                                kSinceMaxSeconds, ", or 0 for a day"));
  }
  if (request.limit() < 0 || request.limit() > kMissesMax) {
    return InvalidField("limit", absl::StrCat(request.limit(), " is not from 1 to ", kMissesMax,
                                              ", or 0 for ", kMissesDefault));
  }
  const int64_t since_s = request.since_s() == 0 ? kSinceDefaultSeconds : request.since_s();
  return MissFilter{.template_name = request.template_name(),
                    .since_unix_ms = absl::ToUnixMillis(absl::Now() - absl::Seconds(since_s)),
                    .limit = request.limit() == 0 ? kMissesDefault : request.limit()};
}

v1::UntunedKey MissToProto(const Miss& miss) {
  v1::UntunedKey proto;
  proto.set_key(miss.tuning_key);
  proto.set_bucket_key(miss.bucket_key);
  proto.set_template_name(miss.template_name);
  proto.set_template_digest(miss.template_digest);
  proto.set_problem(miss.problem);
  proto.set_architecture(miss.architecture);
  v1::Policy policy = v1::BEST_AVAILABLE;
  v1::Policy_Parse(miss.policy, &policy);
  proto.set_policy(policy);
  proto.set_count(miss.count);
  proto.set_last_at_unix_ms(miss.last_at_unix_ms);
  return proto;
}

absl::StatusOr<v1::ListMissesResponse> MissesIn(ServiceContext& context, KernelCache& cache,
                                                const MissFilter& filter) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Miss> misses, cache.ListMisses(filter));
  // After reading, which writes down what was only counted until then.
  if (misses.empty()) HONE_RETURN_IF_ERROR(CheckTemplateName(context, filter.template_name));
  v1::ListMissesResponse response;
  size_t bytes = 0;
  for (const Miss& miss : misses) {
    v1::UntunedKey proto = MissToProto(miss);
    // With a tag and a length before each.
    bytes += proto.ByteSizeLong() + 8;
    if (bytes > kReplyBytesMax) break;
    *response.add_misses() = std::move(proto);
  }
  return response;
}

}  // namespace

void ListMisses(ServiceContext& context,
                CallPtr<v1::ListMissesRequest, v1::ListMissesResponse> call) {
  const auto filter = FilterOf(call->request());
  if (!filter.ok()) return call->Fail(filter.status());
  WithEngine(context, call, [&context, call, filter = *filter](Engine& engine) {
    const auto response = MissesIn(context, *engine.cache, filter);
    if (!response.ok()) return call->Fail(response.status());
    call->Reply(*response);
  });
}

}  // namespace hone
