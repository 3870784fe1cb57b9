#include "runtime/cache/miss_log.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/base/error_info.h"
#include "runtime/cache/near_keys.h"

namespace hone {
namespace {

// Different misses that one batch holds; more are dropped until it is written.
constexpr size_t kEntriesMax = 10'000;
constexpr size_t kEntriesToWriteEarly = 1000;

}  // namespace

std::string PolicyName(Policy policy) {
  switch (policy) {
    case Policy::kBestAvailable:
      return "BEST_AVAILABLE";
    case Policy::kWaitTuned:
      return "WAIT_TUNED";
    case Policy::kNoWait:
      return "NO_WAIT";
    case Policy::kFrozen:
      return "FROZEN";
  }
  return "UNKNOWN";
}

absl::Status MissStatus(const ResolvedRequest& request, Policy policy, KernelStore& store) {
  const std::optional<Key> key = request.TuningKeyOf(request.problem);
  std::vector<std::string> near;
  // Best effort: the error stands without its neighbours.
  for (const NearKey& neighbour : NearKeys(request, store).value_or(std::vector<NearKey>())) {
    near.push_back(neighbour.problem);
  }
  ErrorInfo info;
  info.reason = policy == Policy::kFrozen ? "FROZEN_MISS" : "NO_WAIT_MISS";
  return WithErrorInfo(
      absl::NotFoundError(absl::StrCat(
          "nothing is stored for template '", request.kernel_template->name(), "' with ",
          request.problem.ToString(), " on ", request.architecture, " (policy ", PolicyName(policy),
          ", key ", key ? key->id().substr(0, 12) : "none without a device",
          near.empty() ? "" : absl::StrCat("; tuned: ", absl::StrJoin(near, " | ")), ")")),
      info);
}

absl::Status NotReadyStatus(absl::Duration waited) {
  ErrorInfo info;
  info.reason = "NOT_READY";
  info.retry_after_ms = 1000;
  return WithErrorInfo(absl::DeadlineExceededError(absl::StrCat(
                           "nothing was ready within max_wait_ms (",
                           absl::ToInt64Milliseconds(waited), "); the work goes on, retry later")),
                       info);
}

MissLog::MissLog(KernelStore* store, absl::Duration written_every)
    : store_(store), written_every_(written_every), thread_([this] { Loop(); }) {}

MissLog::~MissLog() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
  }
  thread_.join();
  Write().IgnoreError();
}

void MissLog::Note(const std::string& identity, const ResolvedRequest& request, Policy policy,
                   int64_t count) {
  noted_ += count;
  const int64_t now_unix_ms = absl::ToUnixMillis(absl::Now());
  const std::string name = absl::StrCat(identity, "\n", static_cast<int>(policy));
  MutexLock lock(&mutex_);
  auto entry = entries_.find(name);
  if (entry == entries_.end()) {
    if (entries_.size() >= kEntriesMax) return;
    entry = entries_.emplace(name, Entry{.request = request, .policy = policy}).first;
  }
  entry->second.count += count;
  entry->second.last_at_unix_ms = now_unix_ms;
}

absl::Status MissLog::Write() {
  absl::flat_hash_map<std::string, Entry> entries;
  {
    MutexLock lock(&mutex_);
    entries.swap(entries_);
  }
  if (entries.empty()) return absl::OkStatus();
  std::vector<Miss> misses;
  for (const auto& [name, entry] : entries) {
    const ResolvedRequest& request = entry.request;
    Miss miss;
    miss.template_name = request.kernel_template->name();
    miss.template_digest = request.kernel_template->digest();
    miss.problem = request.problem.ToString();
    miss.architecture = request.architecture;
    miss.policy = PolicyName(entry.policy);
    const auto key = request.TuningKeyOf(request.problem);
    if (key) miss.tuning_key = key->id();
    const auto bucket = request.TuningKeyOf(request.problem.Bucketed(*request.kernel_template));
    if (bucket) miss.bucket_key = bucket->id();
    miss.count = entry.count;
    miss.last_at_unix_ms = entry.last_at_unix_ms;
    misses.push_back(std::move(miss));
  }
  return store_->RecordMisses(misses);
}

void MissLog::Loop() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      const auto any = [this] { return closing_ || !entries_.empty(); };
      const auto many = [this] { return closing_ || entries_.size() >= kEntriesToWriteEarly; };
      mutex_.Await(absl::Condition(&any));
      mutex_.AwaitWithTimeout(absl::Condition(&many), written_every_);
      if (closing_) return;
    }
    Write().IgnoreError();
  }
}

}  // namespace hone
