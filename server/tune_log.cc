#include "server/tune_log.h"

#include "server/errors.h"
#include "server/logging.h"

namespace hone {
namespace {

constexpr size_t kLoggedReasonBytesMax = 200;

absl::string_view EventName(TuneReport::Kind kind) {
  switch (kind) {
    case TuneReport::Kind::kStarted:
      return "tune_started";
    case TuneReport::Kind::kRejected:
      return "rejected";
    case TuneReport::Kind::kFinished:
      return "tune_finished";
    case TuneReport::Kind::kStopped:
      return "tune_stopped";
    case TuneReport::Kind::kFailed:
      return "tune_failed";
  }
  return "tune";
}

void AddOutcome(const TuneRun::Event& event, LogEvent& line) {
  if (event.winner.has_value()) {
    line.Add("winner", event.winner->config.ToString()).Add("best_ns", event.winner->median_ns);
  }
  if (event.pin.has_value()) line.Add("pinned", event.pin->config->ToString());
  line.Add("measured", event.outcome.measured)
      .Add("rejected", event.outcome.rejected)
      .Add("reused", event.outcome.reused)
      .Add("compiled", event.outcome.compiled)
      .Add("took_s", event.seconds);
}

}  // namespace

void LogTune(const TuneReport& report) {
  LogEvent line(EventName(report.kind));
  line.Add("template", report.template_name).Add("key", report.run->key());
  if (report.kind == TuneReport::Kind::kStarted) line.Add("problem", report.problem);
  if (report.rejected != nullptr) {
    line.Add("config", report.rejected->config.ToString())
        .Add("kind", Name(report.rejected->rejection->kind))
        .Add("reason", BoundedUtf8(report.rejected->rejection->detail, kLoggedReasonBytesMax));
  }
  if (!report.why.empty()) line.Add("reason", BoundedUtf8(report.why, kLoggedReasonBytesMax));
  if (report.outcome != nullptr) AddOutcome(*report.outcome, line);
  line.Write();
}

}  // namespace hone
