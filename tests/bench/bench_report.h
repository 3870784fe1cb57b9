// What every benchmark prints: the machine first, one JSON line for each figure last.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hone {

// One figure, with what it is compared to when there is a peer.
struct Figure {
  std::string figure;
  double value = 0;
  std::string unit;
  std::string peer = {};
  double peer_value = 0;
};

// CPU, cores, kernel and build type, to standard output.
void PrintMachine();
// {"figure": ..., "value": ..., "unit": ..., "peer": ..., "peer_value": ..., "ratio": ...}
void PrintFigure(const Figure& figure);

// Sorts a copy; `share` from 0 to 1. REQUIRES: not empty.
double Percentile(std::vector<double> values, double share);

}  // namespace hone
