#include "runtime/kernel/config_space.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/template_bindings.h"

namespace hone {
namespace {

constexpr int64_t kProductMax = int64_t{1} << 62;

// "VEC=8, T=F32": the values behind a constraint, for people.
std::string ValuesIn(const Expression& expression, const ExpressionBindings& bindings) {
  std::vector<std::string> parts;
  for (const std::string& name : expression.Variables()) {
    const auto it = bindings.find(name);
    if (it == bindings.end()) continue;
    const std::string value = ToString(it->second);
    if (value != name) parts.push_back(absl::StrCat(name, "=", value));
  }
  return absl::StrJoin(parts, ", ");
}

bool AllBound(const Expression& expression, const ExpressionBindings& bindings) {
  for (const std::string& name : expression.Variables()) {
    if (bindings.count(name) == 0) return false;
  }
  return true;
}

int64_t PositionOf(const Tunable& tunable, int64_t value) {
  const auto it = std::find(tunable.values.begin(), tunable.values.end(), value);
  return it == tunable.values.end() ? -1 : it - tunable.values.begin();
}

}  // namespace

std::vector<Tunable> TunablesFor(const TemplateBody& body, const std::string& architecture) {
  std::vector<Tunable> tunables = body.tunables;
  for (Tunable& tunable : tunables) {
    for (const ArchitectureValues& special : tunable.per_architecture) {
      const bool applies =
          std::any_of(special.architectures.begin(), special.architectures.end(),
                      [&](const std::string& p) { return ArchitectureMatches(p, architecture); });
      if (!applies) continue;
      tunable.values = special.values;
      tunable.default_value = special.default_value;
      break;
    }
  }
  return tunables;
}

int64_t ProductSize(const std::vector<Tunable>& tunables) {
  int64_t product = 1;
  for (const Tunable& tunable : tunables) {
    const auto count = static_cast<int64_t>(tunable.values.size());
    if (count > 0 && product > kProductMax / count) return kProductMax;
    product *= count;
  }
  return product;
}

absl::StatusOr<ConfigSpace> ConfigSpace::Create(KernelTemplatePtr kernel_template,
                                                const Problem& problem,
                                                const std::string& architecture,
                                                const DeviceFacts& facts) {
  HONE_RETURN_IF_ERROR(kernel_template->SupportsArchitecture(architecture));
  ConfigSpace space;
  space.body_ = &kernel_template->BodyFor(architecture);
  space.architecture_ = architecture;
  space.bindings_ = BindingsFor(*kernel_template, problem.values());
  AddTo(space.bindings_, facts);
  space.tunables_ = TunablesFor(*space.body_, architecture);
  space.conditions_.resize(space.tunables_.size() + 1);
  for (const Expression& constraint : space.body_->constraints) space.AddConstraint(constraint);
  for (const PrebuiltCandidate& candidate : kernel_template->spec().prebuilt) {
    if (!ArchitectureMatches(candidate.architecture, architecture)) continue;
    std::vector<std::pair<std::string, int64_t>> values;
    for (const Tunable& tunable : space.tunables_) {
      const auto it = candidate.config.find(tunable.name);
      if (it != candidate.config.end()) values.emplace_back(tunable.name, it->second);
    }
    if (values.size() != space.tunables_.size()) continue;  // another variant's tunables
    Config config(std::move(values));
    // Listed for sm_90 and for sm_90a: one config.
    if (std::find(space.prebuilt_.begin(), space.prebuilt_.end(), config) ==
        space.prebuilt_.end()) {
      space.prebuilt_.push_back(std::move(config));
    }
  }
  space.template_ = std::move(kernel_template);
  return space;
}

void ConfigSpace::AddConstraint(const Expression& expression) {
  ExpressionBindings all = bindings_;
  for (const Tunable& tunable : tunables_) all[tunable.name] = tunable.default_value;
  if (!AllBound(expression, all)) return;  // over device facts that nobody gave
  Constraint constraint{expression, expression};
  // Folding evaluates operands that `&&` would skip; if that fails, the whole is evaluated each
  // time.
  auto bound = expression.Bind(bindings_);
  if (bound.ok()) constraint.bound = *std::move(bound);
  AddConditions(constraint.bound, bound.ok());
  constraints_.push_back(std::move(constraint));
}

// Both sides of a conjunction must hold and neither may fail, so each is checked where its own last
// tunable is known.
void ConfigSpace::AddConditions(const Expression& bound, bool folded) {
  if (bound.op() == Expression::Op::kAnd) {
    for (const Expression& operand : bound.operands()) AddConditions(operand, folded);
    return;
  }
  const std::set<std::string> variables = bound.Variables();
  std::vector<std::string> names;
  size_t place = 0;
  for (const Tunable& tunable : tunables_) {
    names.push_back(tunable.name);
    if (variables.count(tunable.name) > 0) place = names.size();
  }
  Condition condition{.expression = bound};
  if (folded) condition.fast = SlotExpression::Create(bound, names);
  conditions_[place].push_back(std::move(condition));
}

bool ConfigSpace::HoldsAtDepth(int depth, const int64_t* values) const {
  const auto holds = [&](const Condition& condition) {
    if (condition.fast) {
      const std::optional<int64_t> value = condition.fast->Evaluate(values);
      return value && *value != 0;
    }
    ExpressionBindings bindings = bindings_;
    for (int i = 0; i <= depth; ++i) bindings[tunables_[static_cast<size_t>(i)].name] = values[i];
    const absl::StatusOr<int64_t> value = condition.expression.Evaluate(bindings);
    return value.ok() && *value != 0;
  };
  const std::vector<Condition>& conditions = ConditionsAt(depth);
  return std::all_of(conditions.begin(), conditions.end(), holds);
}

int64_t ConfigSpace::product_size() const { return ProductSize(tunables_); }

Config ConfigSpace::At(int64_t index) const {
  std::vector<std::pair<std::string, int64_t>> values(tunables_.size());
  for (size_t i = tunables_.size(); i-- > 0;) {
    const auto count = static_cast<int64_t>(tunables_[i].values.size());
    values[i] = {tunables_[i].name, tunables_[i].values[static_cast<size_t>(index % count)]};
    index /= count;
  }
  return Config(std::move(values));
}

int64_t ConfigSpace::IndexOf(const Config& config) const {
  if (config.values().size() != tunables_.size()) return -1;
  int64_t index = 0;
  for (size_t i = 0; i < tunables_.size(); ++i) {
    if (config.values()[i].first != tunables_[i].name) return -1;
    const int64_t position = PositionOf(tunables_[i], config.values()[i].second);
    if (position < 0) return -1;
    const auto count = static_cast<int64_t>(tunables_[i].values.size());
    if (index > kProductMax / count) return kProductMax;
    index = index * count + position;
  }
  return index;
}

struct ConfigSpace::Walk {
  const std::function<bool(const Config&)>& visit;
  int64_t steps_left = 0;
  std::vector<int64_t> values;
};

bool ConfigSpace::ForEachValid(const std::function<bool(const Config&)>& visit,
                               int64_t steps_max) const {
  if (is_prebuilt()) {
    ForEachPrebuilt(visit);
    return true;
  }
  Walk walk{visit, steps_max, std::vector<int64_t>(tunables_.size())};
  if (HoldsAtDepth(-1, walk.values.data())) Descend(0, walk);
  return walk.steps_left >= 0;
}

bool ConfigSpace::Descend(size_t depth, Walk& walk) const {
  if (depth == tunables_.size()) return walk.visit(ConfigOf(walk.values));
  for (const int64_t value : tunables_[depth].values) {
    if (--walk.steps_left < 0) return false;
    walk.values[depth] = value;
    if (!HoldsAtDepth(static_cast<int>(depth), walk.values.data())) continue;
    if (!Descend(depth + 1, walk)) return false;
  }
  return true;
}

Config ConfigSpace::ConfigOf(const std::vector<int64_t>& values) const {
  std::vector<std::pair<std::string, int64_t>> named;
  named.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) named.emplace_back(tunables_[i].name, values[i]);
  return Config(std::move(named));
}

void ConfigSpace::ForEachPrebuilt(const std::function<bool(const Config&)>& visit) const {
  std::vector<Config> configs = prebuilt_;
  std::stable_sort(configs.begin(), configs.end(),
                   [this](const Config& a, const Config& b) { return IndexOf(a) < IndexOf(b); });
  for (const Config& config : configs) {
    if (CheckConstraints(config).ok() && !visit(config)) return;
  }
}

absl::StatusOr<std::vector<Config>> ConfigSpace::ValidConfigs(int64_t limit) const {
  std::vector<Config> configs;
  bool beyond = false;
  const bool covered = ForEachValid([&](const Config& config) {
    beyond = static_cast<int64_t>(configs.size()) >= limit;
    if (!beyond) configs.push_back(config);
    return !beyond;
  });
  if (beyond) {
    return absl::OutOfRangeError(absl::StrCat("the space has more than ", limit, " valid configs"));
  }
  if (!covered) {
    return absl::OutOfRangeError(
        absl::StrCat("the space is too large to search for valid configs: ", product_size(),
                     " points and ", kStepsMax, " steps looked at"));
  }
  return configs;
}

absl::Status ConfigSpace::CheckValues(const Config& config) const {
  const std::string text = absl::StrCat("config \"", config.ToString(), "\": ");
  for (size_t i = 0; i < tunables_.size(); ++i) {
    if (i >= config.values().size() || config.values()[i].first != tunables_[i].name) {
      return absl::InvalidArgumentError(absl::StrCat(
          text, "expected a value for each of ",
          absl::StrJoin(tunables_, ", ",
                        [](std::string* out, const Tunable& tunable) { *out += tunable.name; })));
    }
    if (PositionOf(tunables_[i], config.values()[i].second) < 0) {
      return absl::InvalidArgumentError(absl::StrCat(text, tunables_[i].name, "=",
                                                     config.values()[i].second, " is not one of ",
                                                     absl::StrJoin(tunables_[i].values, ", ")));
    }
  }
  if (config.values().size() > tunables_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, config.values()[tunables_.size()].first, " is not a tunable"));
  }
  return absl::OkStatus();
}

absl::Status ConfigSpace::CheckConstraints(const Config& config) const {
  ExpressionBindings bindings = bindings_;
  AddTo(bindings, config);
  for (const Constraint& constraint : constraints_) {
    const absl::StatusOr<int64_t> value = constraint.bound.Evaluate(bindings);
    if (value.ok() && *value != 0) continue;
    const std::string values = ValuesIn(constraint.written, bindings);
    return absl::FailedPreconditionError(absl::StrCat(
        "constraint \"", constraint.written.ToString(), "\" ",
        value.ok() ? "does not hold" : absl::StrCat("fails: ", value.status().message()),
        values.empty() ? "" : absl::StrCat(" (", values, ")")));
  }
  return absl::OkStatus();
}

absl::Status ConfigSpace::Validate(const Config& config) const {
  HONE_RETURN_IF_ERROR(CheckValues(config));
  HONE_RETURN_IF_ERROR(CheckConstraints(config));
  if (is_prebuilt() && std::find(prebuilt_.begin(), prebuilt_.end(), config) == prebuilt_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no prebuilt binary for ", config.ToString(), " on ", architecture_));
  }
  return absl::OkStatus();
}

Config ConfigSpace::DeclaredDefault() const {
  std::vector<std::pair<std::string, int64_t>> values;
  for (const Tunable& tunable : tunables_) values.emplace_back(tunable.name, tunable.default_value);
  return Config(std::move(values));
}

absl::StatusOr<Config> ConfigSpace::Default() const {
  const Config declared = DeclaredDefault();
  const bool has_binary =
      std::find(prebuilt_.begin(), prebuilt_.end(), declared) != prebuilt_.end();
  if (is_prebuilt() && !has_binary) {
    for (const Config& config : prebuilt_) {
      if (Validate(config).ok()) return config;
    }
  }
  if (const absl::Status status = Validate(declared); !status.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("default config \"", declared.ToString(), "\": ", status.message()));
  }
  return declared;
}

std::optional<Config> ConfigSpace::PriorConfig(const Prior& prior) const {
  const bool here = prior.architectures.empty() ||
                    std::any_of(prior.architectures.begin(), prior.architectures.end(),
                                [this](const std::string& pattern) {
                                  return ArchitectureMatches(pattern, architecture_);
                                });
  if (!here) return std::nullopt;
  if (prior.when.has_value()) {
    const absl::StatusOr<int64_t> applies = prior.when->Evaluate(bindings_);
    if (!applies.ok() || *applies == 0) return std::nullopt;
  }
  std::vector<std::pair<std::string, int64_t>> values = DeclaredDefault().values();
  for (auto& [name, value] : values) {
    if (const auto it = prior.config.find(name); it != prior.config.end()) value = it->second;
  }
  Config config(std::move(values));
  if (!Validate(config).ok()) return std::nullopt;
  return config;
}

std::vector<Config> ConfigSpace::Priors() const {
  std::vector<Config> configs;
  const absl::StatusOr<Config> standard = Default();
  for (const Prior& prior : template_->spec().priors) {
    std::optional<Config> config = PriorConfig(prior);
    if (!config.has_value() || (standard.ok() && *config == *standard)) continue;
    if (std::find(configs.begin(), configs.end(), *config) == configs.end()) {
      configs.push_back(*std::move(config));
    }
  }
  return configs;
}

}  // namespace hone
