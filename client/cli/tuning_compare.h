// Two tunings of the same template side by side.
#pragma once

#include <string>
#include <vector>

#include "google/protobuf/struct.pb.h"
#include "hone/v1/kernel_service.pb.h"

namespace hone::cli {

// A config that was timed in both; ranks count from 1 among the configs of both.
struct CommonConfig {
  std::string config;
  double a_ns = 0;
  double b_ns = 0;
  int a_rank = 0;
  int b_rank = 0;
};

struct TuningComparison {
  std::vector<CommonConfig> common;  // fastest in `a` first
  int only_a = 0;                    // timed in one of them only
  int only_b = 0;
  // Geometric mean, least and largest of b over a; 0 without common configs.
  double mean_ratio = 0;
  double least_ratio = 0;
  double largest_ratio = 0;
  // Of the pairs of common configs that differ clearly in both, those in the same order; 1 where
  // there are none.
  double same_order_share = 1;
};

TuningComparison CompareTunings(const v1::GetTuningResponse& a, const v1::GetTuningResponse& b);

// Lines, each ended. The configs whose rank changed most are named.
std::string CompareText(const v1::GetTuningResponse& a, const v1::GetTuningResponse& b);
google::protobuf::Struct CompareJson(const v1::GetTuningResponse& a,
                                     const v1::GetTuningResponse& b);

// One row of a listing: the fastest candidate of a tuning under one driver.
struct ProblemRow {
  const v1::GetTuningResponse* tuning = nullptr;
  v1::MeasurementInfo best;
};
// By problem, then fastest first.
std::vector<ProblemRow> ProblemRows(const std::vector<v1::GetTuningResponse>& tunings);
std::string ProblemText(const std::vector<ProblemRow>& rows);
google::protobuf::Struct ProblemJson(const std::vector<ProblemRow>& rows);

}  // namespace hone::cli
