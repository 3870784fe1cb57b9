#include "client/cli/tune_captured.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/errors.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/table.h"

namespace hone::cli {
namespace {

// Problems that one tune is for.
struct Bucket {
  v1::TuneRequest request;
  int64_t launches = 0;
  int problems = 0;
  bool tuned = false;

  std::string Text() const {
    return absl::StrCat(request.template_().name(), " ", FormatParams(request.params()));
  }
  std::string Share() const {
    return absl::StrCat(launches, launches == 1 ? " launch of " : " launches of ", problems,
                        problems == 1 ? " problem" : " problems");
  }
};

bool WouldFailForAll(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsPermissionDenied(status) ||
         absl::IsUnauthenticated(status);
}

void Report(const std::string& what, const absl::Status& status) {
  ReportAndExitCode(absl::Status(status.code(), absl::StrCat(what, ": ", status.message())),
                    std::cerr);
}

std::string TargetText(const v1::CapturedProblem& problem) {
  if (problem.target().has_device()) return FormatDeviceShort(problem.target().device());
  return problem.architecture();
}

class CapturedTunes {
 public:
  CapturedTunes(const Client& client, const v1::TuneRequest& like, bool json)
      : client_(client), like_(like), out_(json ? std::cerr : std::cout) {}

  // Finds the buckets.
  absl::Status Explain(const Captures& captures) {
    for (const CapturedLaunches& launches : captures.problems) {
      const absl::Status status = Add(launches);
      if (WouldFailForAll(status)) return status;
      if (status.ok()) continue;
      Report(launches.Text(), status);
      ++failed_;
    }
    std::stable_sort(buckets_.begin(), buckets_.end(),
                     [](const Bucket& a, const Bucket& b) { return a.launches > b.launches; });
    return absl::OkStatus();
  }

  absl::Status Tune(const std::function<absl::Status(const v1::TuneRequest&)>& tune) {
    for (const Bucket& bucket : buckets_) {
      if (bucket.tuned && !like_.force()) {
        out_ << bucket.Text() << ": tuned already (" << bucket.Share() << ")\n";
        ++known_;
        continue;
      }
      out_ << "\n" << bucket.Text() << ": " << bucket.Share() << "\n" << std::flush;
      const absl::Status status = tune(bucket.request);
      if (WouldFailForAll(status)) return status;
      if (status.ok()) {
        ++tuned_;
      } else {
        Report(bucket.Text(), status);
        ++failed_;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Finish() const {
    out_ << "\n" << tuned_ << " tuned, " << known_ << " tuned already, " << failed_ << " failed\n";
    if (failed_ == 0) return absl::OkStatus();
    return absl::AbortedError(absl::StrCat(failed_, " of ", tuned_ + known_ + failed_,
                                           " captured problems could not be tuned; see above"));
  }

 private:
  absl::Status Add(const CapturedLaunches& launches) {
    const v1::CapturedProblem& problem = launches.problem;
    v1::ExplainKeyRequest request;
    *request.mutable_template_() = problem.template_();
    *request.mutable_params() = problem.params();
    *request.mutable_target() = problem.target();
    request.set_numerics(problem.numerics());
    const absl::StatusOr<v1::ExplainKeyResponse> explained = client_.ExplainKey(request);
    if (!explained.ok()) return explained.status();
    std::string identity = absl::StrCat(problem.numerics(), " ", explained->bucket_key());
    // Without a device there is no key; the tune says what is missing.
    if (explained->bucket_key().empty()) absl::StrAppend(&identity, launches.Text());
    const auto [found, is_new] = index_.try_emplace(std::move(identity), buckets_.size());
    if (is_new) {
      Bucket& bucket = buckets_.emplace_back();
      bucket.request = like_;
      *bucket.request.mutable_template_() = problem.template_();
      // A daemon that does not name the bucket tunes the problem itself.
      *bucket.request.mutable_params() =
          explained->bucket_params().empty() ? problem.params() : explained->bucket_params();
      *bucket.request.mutable_target() = problem.target();
      bucket.request.set_numerics(problem.numerics());
      bucket.tuned = explained->bucket_tuned();
    }
    buckets_[found->second].launches += problem.launches();
    ++buckets_[found->second].problems;
    return absl::OkStatus();
  }

  const Client& client_;
  const v1::TuneRequest& like_;
  std::ostream& out_;
  std::vector<Bucket> buckets_;
  std::map<std::string, size_t> index_;
  int tuned_ = 0, known_ = 0, failed_ = 0;
};

}  // namespace

absl::Status ListCaptures(const Captures& captures, bool json) {
  if (json) {
    v1::Capture list;
    for (const CapturedLaunches& launches : captures.problems) {
      *list.add_problem() = launches.problem;
    }
    return PrintJson(list);
  }
  Table table({{"#", true},
               {"template"},
               {"params"},
               {"target"},
               {"numerics"},
               {"launches", true},
               {"processes", true},
               {"last seen"},
               {"contents"}});
  int rank = 0;
  for (const CapturedLaunches& launches : captures.problems) {
    const v1::CapturedProblem& problem = launches.problem;
    const bool default_numerics = problem.numerics() == v1::WITHIN_TOLERANCE;
    table.Add({absl::StrCat(++rank), problem.template_().name(), FormatParams(problem.params()),
               TargetText(problem), default_numerics ? "" : v1::Numerics_Name(problem.numerics()),
               absl::StrCat(problem.launches()), absl::StrCat(launches.processes),
               FormatTime(problem.last_at_unix_ms()), ContentsOf(launches).empty() ? "" : "yes"});
  }
  if (table.empty()) {
    std::cout << "No launch is recorded there; set HONE_CAPTURE for the process that launches\n";
  } else {
    std::cout << table.Text();
  }
  return absl::OkStatus();
}

absl::Status TuneCaptures(const Client& client, const Captures& captures,
                          const v1::TuneRequest& like, bool json,
                          const std::function<absl::Status(const v1::TuneRequest&)>& tune) {
  CapturedTunes tunes(client, like, json);
  if (absl::Status status = tunes.Explain(captures); !status.ok()) return status;
  if (absl::Status status = tunes.Tune(tune); !status.ok()) return status;
  return tunes.Finish();
}

}  // namespace hone::cli
