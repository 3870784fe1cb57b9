// All tunables with constraints, and single points of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/kernel/problem.h"
#include "runtime/launch/device_fingerprint.h"
#include "runtime/launch/slot_expression.h"

namespace hone {

// One point: a value for every tunable, in declaration order. Ordered and printable.
class Config {
 public:
  Config() = default;
  explicit Config(std::vector<std::pair<std::string, int64_t>> values);
  // "XBLOCK=256 VEC=4".
  static absl::StatusOr<Config> Parse(const std::string& text);

  const std::vector<std::pair<std::string, int64_t>>& values() const { return values_; }
  // REQUIRES: the tunable exists.
  int64_t value(const std::string& tunable) const;
  // In declaration order, separated by single blanks. The stored form.
  std::string ToString() const;
  // The same assignments, those to tunables of `other` first and in its order.
  Config InOrderOf(const Config& other) const;

  friend bool operator==(const Config& a, const Config& b) { return a.values_ == b.values_; }
  friend bool operator<(const Config& a, const Config& b) { return a.values_ < b.values_; }

 private:
  std::vector<std::pair<std::string, int64_t>> values_;
};

// The space of one template on one architecture for one problem. Immutable, thread-safe.
//
// Of a PREBUILT template only configs with a binary for the architecture are valid. A constraint
// over device facts that are not given is taken to hold: it is checked again at launch.
class ConfigSpace {
 public:
  // FAILED_PRECONDITION if the template cannot run on the architecture.
  static absl::StatusOr<ConfigSpace> Create(KernelTemplatePtr kernel_template,
                                            const Problem& problem, const std::string& architecture,
                                            const DeviceFacts& facts);

  // Points of the full product, constraints ignored; saturates at 2^62.
  int64_t product_size() const;
  // The i-th point of the product in declaration order, the last tunable fastest.
  // REQUIRES: 0 <= index < product_size().
  Config At(int64_t index) const;
  // Steps of a walk: values tried, at whatever depth. More than any tune looks at, and few enough
  // that a space in which hardly anything is valid does not hold a thread for ever.
  static constexpr int64_t kStepsMax = 20'000'000;
  // Calls `visit` for every valid config in declaration order until it returns false. Prunes as
  // soon as a constraint's tunables are bound, so invalid regions cost nothing. Returns false if it
  // gave up after `steps_max` steps.
  bool ForEachValid(const std::function<bool(const Config&)>& visit,
                    int64_t steps_max = kStepsMax) const;
  // All valid configs; OUT_OF_RANGE when there are more than `limit` or the walk gave up.
  absl::StatusOr<std::vector<Config>> ValidConfigs(int64_t limit) const;

  // OK, or FAILED_PRECONDITION with the constraint that does not hold, as written and with values;
  // INVALID_ARGUMENT for a value outside a tunable's list or a missing or unknown tunable.
  absl::Status Validate(const Config& config) const;
  // The same assignments in declaration order, those to unknown tunables last.
  Config InOrder(const Config& config) const { return config.InOrderOf(DeclaredDefault()); }
  // The declared default; FAILED_PRECONDITION if it is invalid for this problem. Of a PREBUILT
  // template that has no binary for it: the first valid candidate as listed.
  absl::StatusOr<Config> Default() const;
  // Valid configs from the priors, best first, without the default.
  std::vector<Config> Priors() const;
  // REQUIRES: a value for every tunable, in declaration order.
  Config ConfigOf(const std::vector<int64_t>& values) const;
  // Declaration-order index of a config in the product, for ties; -1 for a value outside the space.
  int64_t IndexOf(const Config& config) const;

  const TemplateBody& body() const { return *body_; }
  const std::vector<Tunable>& tunables() const { return tunables_; }

  // A constraint, or one side of a conjunction in one, as walks through the space check it.
  struct Condition {
    Expression expression;  // bound to problem and facts where that folds without error
    // Over the values of the tunables; nullopt where the expression did not fold.
    std::optional<SlotExpression> fast = {};
  };
  // Those whose last tunable is the `depth`-th; -1: those that mention none.
  const std::vector<Condition>& ConditionsAt(int depth) const {
    return conditions_[static_cast<size_t>(depth + 1)];
  }
  // True if all of them hold for values[0..depth] of the first tunables.
  bool HoldsAtDepth(int depth, const int64_t* values) const;
  // Of a PREBUILT template: the configs with a binary for the architecture, as listed.
  const std::vector<Config>& prebuilt() const { return prebuilt_; }
  bool is_prebuilt() const { return !template_->spec().prebuilt.empty(); }

 private:
  struct Constraint {
    Expression written;
    Expression bound;
  };

  ConfigSpace() = default;
  void AddConstraint(const Expression& constraint);
  void AddConditions(const Expression& bound, bool folded);
  struct Walk;
  // False to stop.
  bool Descend(size_t depth, Walk& walk) const;
  void ForEachPrebuilt(const std::function<bool(const Config&)>& visit) const;
  absl::Status CheckValues(const Config& config) const;
  absl::Status CheckConstraints(const Config& config) const;
  Config DeclaredDefault() const;
  std::optional<Config> PriorConfig(const Prior& prior) const;

  KernelTemplatePtr template_;
  const TemplateBody* body_ = nullptr;
  std::string architecture_;
  ExpressionBindings bindings_;    // problem and device facts
  std::vector<Tunable> tunables_;  // for this architecture
  std::vector<Constraint> constraints_;
  std::vector<std::vector<Condition>> conditions_;  // by depth + 1
  std::vector<Config> prebuilt_;                    // configs with a binary, as listed
};

// The body's tunables with the values and defaults of `architecture`.
std::vector<Tunable> TunablesFor(const TemplateBody& body, const std::string& architecture);
// Points of their product; saturates at 2^62.
int64_t ProductSize(const std::vector<Tunable>& tunables);

}  // namespace hone
