// Spaces that somebody has measured completely, to try search strategies on without a device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/kernel/measurement.h"
#include "runtime/tune/search_space.h"

namespace hone {

// Results in the T4 format of auto-tuning benchmarks: an entry a configuration, with its parameters
// and the time of every run, or why it has none. Parameters with one value are left out. Immutable.
class RecordedSpace {
 public:
  // A parameter whose values are not all integers has their positions instead: of numbers in
  // ascending order, of texts in alphabetical order.
  using Dimension = SearchSpace::Dimension;
  struct Row {
    Point point;
    std::optional<RejectionKind> rejection;
    double time_ns = 0;  // the mean of all runs; no rejection
  };

  // A JSON file, compressed by gzip or not. Errors name the file, the result and the field.
  static absl::StatusOr<RecordedSpace> Load(const std::string& path);
  static absl::StatusOr<RecordedSpace> Parse(absl::string_view json);

  const std::vector<Dimension>& dimensions() const { return dimensions_; }
  // Each point once, in the file's order.
  const std::vector<Row>& rows() const { return rows_; }
  // The shortest time there is; nullopt if every row is a rejection.
  std::optional<double> best_ns() const;

 private:
  RecordedSpace() = default;

  std::vector<Dimension> dimensions_;
  std::vector<Row> rows_;
};

}  // namespace hone
