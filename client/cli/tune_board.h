// What is known about a running tune, and how it looks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "client/cli/format.h"
#include "hone/v1/kernel_service.pb.h"

namespace hone::cli {

// Not thread-safe.
class TuneBoard {
 public:
  void Add(const v1::TuneEvent& event);

  const v1::TuneStarted& started() const { return started_; }
  const v1::TuneProgress& progress() const { return progress_; }
  RateUnit unit() const;

  // Timed candidates, fastest first, then rejected ones in the order they came; points that break a
  // constraint are only counted. At most `rows_max` candidates, rejected ones giving way first; 0:
  // all. With a title line.
  std::vector<std::string> Lines(size_t rows_max) const;
  // "[####....] 23/48 timing  3 rejected  best 11.20 us".
  std::string ProgressLine(int bar_width, bool utf8) const;
  // One candidate as one line of plain text.
  std::string CandidateLine(const v1::MeasurementInfo& candidate) const;
  // True when this candidate was not seen before: it deserves a line.
  bool IsNew(const v1::MeasurementInfo& candidate) const;
  // Of the fastest candidate so far, those stored before the tune included; 0: none is timed yet.
  double BestNs() const;
  // Whether this tune has timed any.
  bool HasTimed() const { return !Timed().empty(); }

 private:
  std::vector<const v1::MeasurementInfo*> Timed() const;
  std::vector<const v1::MeasurementInfo*> Rejected() const;  // without excluded points
  std::vector<const v1::MeasurementInfo*> Excluded() const;

  v1::TuneStarted started_;
  v1::TuneProgress progress_;
  std::map<std::string, v1::MeasurementInfo> candidates_;  // by config
  std::vector<std::string> order_;                         // configs as they came
};

// True for a point of the product that is no candidate: a constraint excludes it.
bool IsExcluded(const v1::MeasurementInfo& measurement);
// "wrong_result: max error 0.5"; one line.
std::string RejectionText(const v1::Rejection& rejection);
// A line for each constraint that excluded points, with their number.
std::vector<std::string> ExclusionLines(const std::vector<const v1::MeasurementInfo*>& excluded);

// What a finished tune came to, for people.
std::string Summary(const TuneBoard& board, const v1::TuneFinished& finished);

}  // namespace hone::cli
