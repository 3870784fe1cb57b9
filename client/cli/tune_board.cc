#include "client/cli/tune_board.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/table.h"
#include "client/cli/terminal.h"

namespace hone::cli {
namespace {

// The constraint as its detail names it, without the values that broke it.
std::string ConstraintOf(const v1::Rejection& rejection) {
  return rejection.detail().substr(0, rejection.detail().find(" does not hold"));
}

}  // namespace

bool IsExcluded(const v1::MeasurementInfo& measurement) {
  return measurement.rejection().kind() == "constraint";
}

std::string RejectionText(const v1::Rejection& rejection) {
  std::string text = rejection.detail().substr(0, rejection.detail().find('\n'));
  if (text.empty()) {
    text = rejection.kind();
  } else if (!absl::StartsWith(text, rejection.kind())) {
    text = absl::StrCat(rejection.kind(), ": ", text);
  }
  if (rejection.limit() > 0) {
    absl::StrAppend(&text, " (needs ", rejection.needed(), ", limit ", rejection.limit(), ")");
  }
  return text;
}

std::vector<std::string> ExclusionLines(const std::vector<const v1::MeasurementInfo*>& excluded) {
  std::map<std::string, int> counts;
  for (const v1::MeasurementInfo* m : excluded) ++counts[ConstraintOf(m->rejection())];
  std::vector<std::string> lines;
  for (const auto& [constraint, count] : counts) {
    lines.push_back(
        absl::StrCat(count, count == 1 ? " point" : " points", " excluded by ", constraint));
  }
  return lines;
}

void TuneBoard::Add(const v1::TuneEvent& event) {
  if (event.has_started()) started_ = event.started();
  if (event.has_progress()) progress_ = event.progress();
  if (event.has_candidate()) {
    if (IsNew(event.candidate())) order_.push_back(event.candidate().config());
    candidates_[event.candidate().config()] = event.candidate();
  }
}

bool TuneBoard::IsNew(const v1::MeasurementInfo& candidate) const {
  return candidates_.count(candidate.config()) == 0;
}

RateUnit TuneBoard::unit() const {
  return RateUnitFor(started_.work_bytes(), started_.work_flops());
}

std::vector<const v1::MeasurementInfo*> TuneBoard::Timed() const {
  std::vector<const v1::MeasurementInfo*> timed;
  for (const std::string& config : order_) {
    const v1::MeasurementInfo& m = candidates_.at(config);
    if (!m.has_rejection()) timed.push_back(&m);
  }
  std::stable_sort(timed.begin(), timed.end(),
                   [](const auto* a, const auto* b) { return a->median_ns() < b->median_ns(); });
  return timed;
}

std::vector<const v1::MeasurementInfo*> TuneBoard::Rejected() const {
  std::vector<const v1::MeasurementInfo*> rejected;
  for (const std::string& config : order_) {
    const v1::MeasurementInfo& m = candidates_.at(config);
    if (m.has_rejection() && !IsExcluded(m)) rejected.push_back(&m);
  }
  return rejected;
}

std::vector<const v1::MeasurementInfo*> TuneBoard::Excluded() const {
  std::vector<const v1::MeasurementInfo*> excluded;
  for (const std::string& config : order_) {
    const v1::MeasurementInfo& m = candidates_.at(config);
    if (IsExcluded(m)) excluded.push_back(&m);
  }
  return excluded;
}

double TuneBoard::BestNs() const {
  const auto timed = Timed();
  const double known_ns = started_.best_known_ns();
  if (timed.empty()) return known_ns;
  const double timed_ns = timed.front()->median_ns();
  return known_ns > 0 ? std::min(known_ns, timed_ns) : timed_ns;
}

std::vector<std::string> TuneBoard::Lines(size_t rows_max) const {
  std::vector<const v1::MeasurementInfo*> timed = Timed();
  std::vector<const v1::MeasurementInfo*> rejected = Rejected();
  size_t hidden = 0;
  if (rows_max > 0 && timed.size() + rejected.size() > rows_max) {
    hidden = timed.size() + rejected.size() - rows_max;
    const size_t timed_rows = std::min(timed.size(), rows_max);
    timed.resize(timed_rows);
    // The newest rejections are the ones nobody has seen yet.
    rejected.erase(rejected.begin(),
                   rejected.end() - static_cast<ptrdiff_t>(rows_max - timed_rows));
  }
  Table table(
      {{"config"}, {"median", true}, {UnitName(unit()), true}, {"of best", true}, {"rejected"}});
  const double best_ns = BestNs();
  for (const v1::MeasurementInfo* m : timed) {
    table.Add({m->config(), FormatDuration(m->median_ns()), FormatRate(*m, unit()),
               FormatPercent(best_ns / m->median_ns()), ""});
  }
  for (const v1::MeasurementInfo* m : rejected) {
    table.Add({m->config(), "", "", "", RejectionText(m->rejection())});
  }
  std::vector<std::string> lines = table.empty() ? std::vector<std::string>() : table.Lines();
  if (hidden > 0) lines.push_back(absl::StrCat("(", hidden, " more)"));
  if (rows_max == 0) {
    for (std::string& line : ExclusionLines(Excluded())) lines.push_back(std::move(line));
  }
  return lines;
}

std::string TuneBoard::ProgressLine(int bar_width, bool utf8) const {
  const auto total = static_cast<double>(std::max<int64_t>(progress_.total(), 1));
  const std::string bar = Bar(static_cast<double>(progress_.done()) / total, bar_width, utf8);
  const std::string rest(
      static_cast<size_t>(bar_width) - std::min(static_cast<size_t>(bar_width), DisplayWidth(bar)),
      utf8 ? ' ' : '.');
  std::string line = absl::StrCat("[", bar, rest, "] ", progress_.done(), "/", progress_.total(),
                                  " ", progress_.phase());
  const size_t rejected = Rejected().size();
  if (rejected > 0) absl::StrAppend(&line, "  ", rejected, " rejected");
  if (BestNs() > 0) absl::StrAppend(&line, "  best ", FormatDuration(BestNs()));
  return line;
}

std::string TuneBoard::CandidateLine(const v1::MeasurementInfo& candidate) const {
  if (candidate.has_rejection()) {
    return absl::StrCat(candidate.config(), "  rejected  ", RejectionText(candidate.rejection()));
  }
  std::string line =
      absl::StrFormat("%s  %s", candidate.config(), FormatDuration(candidate.median_ns()));
  const std::string rate = FormatRate(candidate, unit());
  if (rate != "-") absl::StrAppend(&line, "  ", rate, " ", UnitName(unit()));
  const double best_ns = BestNs();
  const double share = best_ns > 0 ? std::min(1.0, best_ns / candidate.median_ns()) : 1.0;
  return absl::StrCat(line, "  ", FormatPercent(share), " of best so far");
}

std::string Summary(const TuneBoard& board, const v1::TuneFinished& finished) {
  const v1::MeasurementInfo& winner = finished.winner();
  std::string text =
      absl::StrCat("winner  ", winner.config(), "  ", FormatDuration(winner.median_ns()));
  const std::string rate = FormatRate(winner, board.unit());
  if (rate != "-") absl::StrAppend(&text, "  ", rate, " ", UnitName(board.unit()));
  if (finished.has_runner_up() && winner.median_ns() > 0) {
    absl::StrAppend(
        &text, "  (runner-up ",
        absl::StrFormat("%+.1f%%",
                        100 * (finished.runner_up().median_ns() / winner.median_ns() - 1)),
        ")");
  }
  absl::StrAppend(&text, "\n");
  const std::string noisy =
      finished.has_runner_up() ? NoisyText(winner, finished.runner_up()) : std::string();
  if (!noisy.empty()) absl::StrAppend(&text, noisy, "\n");
  if (finished.unverified()) {
    text +=
        "unverified: the template has no reference, candidates were compared with the default\n";
  } else if (winner.verified()) {
    absl::StrAppend(&text, "verified at ", absl::StrJoin(winner.verified_sizes(), ", "), "\n");
  }
  absl::StrAppend(
      &text, finished.measured(), " measured, ", finished.rejected(), " rejected, ",
      finished.reused(), " known already, ",
      finished.identical() > 0 ? absl::StrCat(finished.identical(), " the same work as another, ")
                               : "",
      finished.compiled(), " compiled, ", FormatDuration(finished.seconds() * 1e9), "\n");
  if (finished.left_out() > 0) {
    absl::StrAppend(
        &text, finished.left_out(), " left out by their estimate",
        finished.ranking_regret() > 0
            ? absl::StrFormat(", which costs at least %.1f %%", 100 * finished.ranking_regret())
            : ", which cost nothing that the controls show",
        "\n");
  }
  if (finished.revalidated() > 0) {
    absl::StrAppend(&text, finished.revalidated(),
                    " of the measured were known from another driver or compiler\n");
  }
  if (finished.has_pin()) {
    absl::StrAppend(&text, "pinned  ", PinText(finished.pin()),
                    "; this is served until hone unpin ", ShortHash(board.started().key()), "\n");
  }
  if (!finished.stopped_early().empty()) {
    absl::StrAppend(&text, "stopped early: ", finished.stopped_early(), "\n");
  }
  absl::StrAppend(&text, "key  ", board.started().key(), "\n");
  if (finished.measured() == 0 && finished.reused() > 0) {
    absl::StrAppend(&text, "nothing was left to measure; hone show ",
                    ShortHash(board.started().key()), " lists every candidate\n");
  }
  return text;
}

}  // namespace hone::cli
