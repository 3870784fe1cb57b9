#include "runtime/kernel/valid_points_builder.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/hash/hash.h"

namespace hone {
namespace {

constexpr int64_t kPointsMax = int64_t{1} << 62;
// In a state: an operation that failed, which fails whatever contains it.
constexpr int64_t kFailed = INT64_MIN + 0x5EED;

// The largest parts of `expression` that depend on names of `known` only: their values are all that
// the rest of it can see of those names. `A * B * C <= 1024` sees the product of A and B, not both.
void CollectKnownParts(const Expression& expression, const std::set<std::string>& known,
                       std::set<std::string>& texts, std::vector<Expression>& parts) {
  const std::set<std::string> names = expression.Variables();
  if (names.empty()) return;
  if (std::includes(known.begin(), known.end(), names.begin(), names.end())) {
    if (texts.insert(expression.ToString()).second) parts.push_back(expression);
    return;
  }
  for (const Expression& operand : expression.operands()) {
    CollectKnownParts(operand, known, texts, parts);
  }
}

// Where an expression did not fold, every known name in it counts.
void CollectKnownNames(const Expression& expression, const std::set<std::string>& known,
                       std::set<std::string>& texts, std::vector<Expression>& parts) {
  for (const std::string& name : expression.Variables()) {
    if (known.count(name) > 0 && texts.insert(name).second) {
      parts.push_back(Expression::Variable(name));
    }
  }
}

}  // namespace

ValidPointsBuilder::ValidPointsBuilder(const ValidPoints::Limits& limits) : limits_(limits) {
  result_.nodes_.push_back({.first_edge = 0, .edges = 0, .points = 1});  // kEnd
}

std::optional<ValidPoints> ValidPointsBuilder::FromConstraints(const ConfigSpace& space) {
  FindStates(space);
  const size_t dimensions = space.tunables().size();
  known_.resize(dimensions + 1);
  std::vector<int64_t> values(dimensions);
  const uint32_t root = space.HoldsAtDepth(-1, values.data()) ? Explore(space, 0, values) : kDead;
  if (exceeded_) return std::nullopt;
  return Take(dimensions, root);
}

void ValidPointsBuilder::FindStates(const ConfigSpace& space) {
  const int dimensions = static_cast<int>(space.tunables().size());
  std::vector<std::string> names;
  for (const Tunable& tunable : space.tunables()) names.push_back(tunable.name);
  states_.resize(static_cast<size_t>(dimensions) + 1);
  for (int depth = 0; depth < dimensions; ++depth) {
    const std::set<std::string> known(names.begin(), names.begin() + depth);
    std::set<std::string> texts;
    std::vector<Expression> parts;
    for (int later = depth; later < dimensions; ++later) {
      for (const ConfigSpace::Condition& condition : space.ConditionsAt(later)) {
        if (condition.fast) {
          CollectKnownParts(condition.expression, known, texts, parts);
        } else {
          CollectKnownNames(condition.expression, known, texts, parts);
        }
      }
    }
    for (const Expression& part : parts) {
      states_[static_cast<size_t>(depth)].push_back(*SlotExpression::Create(part, names));
    }
  }
}

ValidPointsBuilder::State ValidPointsBuilder::StateAt(size_t depth, const int64_t* values) const {
  State state{0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F};
  for (const SlotExpression& part : states_[depth]) {
    const int64_t value = part.Evaluate(values).value_or(kFailed);
    state = {absl::HashOf(state.first, value), absl::HashOf(value, state.second)};
  }
  return state;
}

uint32_t ValidPointsBuilder::Explore(const ConfigSpace& space, size_t depth,
                                     std::vector<int64_t>& values) {
  if (depth == values.size()) return ValidPoints::kEnd;
  const State state = StateAt(depth, values.data());
  if (const auto it = known_[depth].find(state); it != known_[depth].end()) return it->second;
  Edges edges;
  int64_t points = 0;
  const std::vector<int64_t>& choices = space.tunables()[depth].values;
  for (size_t i = 0; i < choices.size() && !exceeded_; ++i) {
    exceeded_ = ++steps_ > limits_.steps_max;
    values[depth] = choices[i];
    if (!space.HoldsAtDepth(static_cast<int>(depth), values.data())) continue;
    const uint32_t child = Explore(space, depth + 1, values);
    if (child == kDead) continue;
    edges.push_back({.before = points, .child = child, .value = static_cast<uint16_t>(i)});
    points += result_.nodes_[child].points;  // both below 2^62
    exceeded_ = exceeded_ || points >= kPointsMax;
  }
  if (exceeded_) return kDead;
  const uint32_t node = NodeOf(std::move(edges));
  known_[depth].emplace(state, node);
  exceeded_ = ++states_known_ > limits_.states_max;
  return node;
}

uint32_t ValidPointsBuilder::NodeOf(Edges edges) {
  if (edges.empty()) return kDead;
  size_t hash = edges.size();
  for (const ValidPoints::Edge& edge : edges) {
    hash = absl::HashOf(hash, edge.child, edge.value);
  }
  const auto [it, fresh] = nodes_by_hash_.emplace(hash, 0);
  if (!fresh) {
    const ValidPoints::Node& node = result_.nodes_[it->second];
    if (node.edges == edges.size() &&
        std::equal(edges.begin(), edges.end(), &result_.edges_[node.first_edge])) {
      return it->second;
    }
  }
  const auto index = static_cast<uint32_t>(result_.nodes_.size());
  const int64_t points = edges.back().before + result_.nodes_[edges.back().child].points;
  result_.nodes_.push_back({.first_edge = static_cast<uint32_t>(result_.edges_.size()),
                            .edges = static_cast<uint32_t>(edges.size()),
                            .points = points});
  result_.edges_.insert(result_.edges_.end(), edges.begin(), edges.end());
  exceeded_ = exceeded_ || static_cast<int64_t>(result_.edges_.size()) > limits_.edges_max;
  it->second = index;
  return index;
}

ValidPoints ValidPointsBuilder::FromList(size_t dimensions, const std::vector<Point>& points) {
  return Take(dimensions, points.empty() ? kDead : ExploreList(points, 0, points.size(), 0));
}

uint32_t ValidPointsBuilder::ExploreList(const std::vector<Point>& points, size_t begin, size_t end,
                                         size_t depth) {
  if (depth == points[begin].size()) return ValidPoints::kEnd;
  Edges edges;
  int64_t before = 0;
  while (begin < end) {
    const uint16_t value = points[begin][depth];
    size_t next = begin;
    while (next < end && points[next][depth] == value) ++next;
    const uint32_t child = ExploreList(points, begin, next, depth + 1);
    edges.push_back({.before = before, .child = child, .value = value});
    before += static_cast<int64_t>(next - begin);
    begin = next;
  }
  return NodeOf(std::move(edges));
}

ValidPoints ValidPointsBuilder::Take(size_t dimensions, uint32_t root) {
  result_.dimensions_ = dimensions;
  if (root != kDead) {
    result_.root_ = root;
    result_.size_ = result_.nodes_[root].points;
  }
  result_.nodes_.shrink_to_fit();
  result_.edges_.shrink_to_fit();
  return std::move(result_);
}

}  // namespace hone
