// Small sizes at which a candidate is checked besides the tuned one.
#include <algorithm>
#include <optional>

#include "runtime/base/align.h"
#include "runtime/kernel/instantiate.h"
#include "runtime/launch/resolve_launch.h"

namespace hone {
namespace {

// A base size of this or less keeps the product over several dimensions small.
constexpr int64_t kBaseMax = 257;
// Check sizes may take this much memory even when the tuned problem takes less.
constexpr int64_t kBytesMax = int64_t{64} << 20;
constexpr int64_t kCoverageMax = int64_t{1} << 40;
// Guards like `n % 16 == 0` refuse most sizes: how many neighbours are tried.
constexpr int kNeighboursMax = 64;

class SizeFinder {
 public:
  SizeFinder(const KernelTemplate& kernel_template, const Problem& problem,
             const LaunchRecipe& recipe, const DeviceFacts& facts)
      : recipe_(recipe), facts_(facts), tuned_(problem.dynamic_sizes()) {
    for (const std::string& name : recipe.dynamic_sizes) {
      if (const Parameter* parameter = kernel_template.FindParameter(name)) {
        parameters_.push_back(parameter);
      }
    }
    for (const RecipeStep& step : recipe.steps) {
      if (step.symbol.empty()) continue;
      first_kernel_ = &step;
      break;
    }
    bytes_max_ = std::max(kBytesMax, TotalBytes(tuned_).value_or(0));
  }

  std::vector<SizeBindings> Find() {
    if (first_kernel_ == nullptr) return {};
    SizeBindings base = SmallBase();
    for (const Parameter* parameter : parameters_) GrowBase(*parameter, base);
    std::vector<SizeBindings> found;
    for (const Parameter* parameter : parameters_) {
      for (const Wish& wish : WishesFor(*parameter, base)) {
        std::optional<SizeBindings> sizes = Nearest(*parameter, base, wish);
        if (!sizes.has_value() || *sizes == tuned_) continue;
        if (std::find(found.begin(), found.end(), *sizes) == found.end()) {
          found.push_back(*std::move(sizes));
        }
      }
    }
    return found;
  }

 private:
  // A size, or the nearest one below (-1) or above (+1) that is allowed.
  struct Wish {
    int64_t size = 0;
    int direction = 1;
  };

  // Smallest declared size of at least one element.
  static int64_t Smallest(const Parameter& parameter) {
    return AlignUp(std::max<int64_t>(parameter.min, 1), parameter.multiple_of);
  }

  SizeBindings WithFacts(SizeBindings sizes) const {
    sizes.insert(facts_.begin(), facts_.end());
    return sizes;
  }

  bool Declared(const SizeBindings& sizes) const {
    return std::all_of(parameters_.begin(), parameters_.end(), [&](const Parameter* parameter) {
      const int64_t size = sizes.at(parameter->name);
      return size >= parameter->min && size <= parameter->max && size % parameter->multiple_of == 0;
    });
  }

  bool Allowed(const SizeBindings& sizes) const {
    if (!Declared(sizes)) return false;
    const SizeBindings bound = WithFacts(sizes);
    for (const Expression& guard : recipe_.guards) {
      const absl::StatusOr<int64_t> holds = guard.Evaluate(bound);
      if (!holds.ok() || *holds == 0) return false;
    }
    const std::optional<int64_t> bytes = TotalBytes(sizes);
    return bytes.has_value() && *bytes <= bytes_max_;
  }

  // `base` with the wished size of one dimension; nullopt if nothing near it is allowed.
  std::optional<SizeBindings> Nearest(const Parameter& parameter, const SizeBindings& base,
                                      const Wish& wish) const {
    SizeBindings sizes = base;
    const int64_t multiple = parameter.multiple_of;
    int64_t size =
        wish.direction > 0 ? AlignUp(wish.size, multiple) : wish.size / multiple * multiple;
    for (int i = 0; i < kNeighboursMax && size >= parameter.min; ++i) {
      sizes[parameter.name] = size;
      if (Allowed(sizes)) return sizes;
      size += wish.direction * multiple;
    }
    return std::nullopt;
  }

  // Bytes of all buffers; nullopt if a shape cannot be evaluated.
  std::optional<int64_t> TotalBytes(const SizeBindings& sizes) const {
    int64_t total = 0;
    for (const RecipeArgument& argument : recipe_.arguments) {
      const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind);
      if (buffer == nullptr) continue;
      const absl::StatusOr<int64_t> bytes = BufferSpanBytes(*buffer, WithFacts(sizes));
      if (!bytes.ok() || __builtin_add_overflow(total, *bytes, &total)) return std::nullopt;
    }
    return total;
  }

  // Product of three extents; nullopt where they cannot be evaluated.
  std::optional<int64_t> Product(const std::array<Expression, 3>& extents,
                                 const SizeBindings& sizes) const {
    int64_t product = 1;
    for (const Expression& extent : extents) {
      const absl::StatusOr<int64_t> value = extent.Evaluate(WithFacts(sizes));
      if (!value.ok() || __builtin_mul_overflow(product, *value, &product)) return std::nullopt;
    }
    return product;
  }

  // All sizes as small as domain and guards allow: 3 where possible, because 1 hides what repeats.
  SizeBindings SmallBase() const {
    SizeBindings base = tuned_;
    for (const Parameter* parameter : parameters_) {
      for (int64_t size = 3; size < tuned_.at(parameter->name); size = size < 4 ? 4 : size * 2) {
        SizeBindings smaller = base;
        smaller[parameter->name] = AlignUp(std::max(size, parameter->min), parameter->multiple_of);
        if (smaller[parameter->name] >= tuned_.at(parameter->name)) break;
        if (!Allowed(smaller)) continue;
        base = std::move(smaller);
        break;
      }
    }
    return base;
  }

  // One block and a bit where that is small, so that dimensions are checked with tails together.
  void GrowBase(const Parameter& parameter, SizeBindings& base) const {
    const std::optional<int64_t> coverage = Coverage(parameter, base);
    if (!coverage.has_value()) return;
    std::optional<SizeBindings> grown = Nearest(parameter, base, {*coverage + 1, 1});
    if (grown.has_value() && grown->at(parameter.name) <= kBaseMax) base = *std::move(grown);
  }

  // Largest size of `parameter`, a declared multiple, at which the first kernel launches as many
  // blocks as at the smallest; nullopt if the grid does not grow with it.
  std::optional<int64_t> Coverage(const Parameter& parameter, const SizeBindings& base) const {
    const int64_t step = parameter.multiple_of;
    const int64_t first = Smallest(parameter);
    const auto blocks = [&](int64_t size) {
      SizeBindings sizes = base;
      sizes[parameter.name] = size;
      return Product(first_kernel_->launch.grid, sizes);
    };
    const std::optional<int64_t> least = blocks(first);
    const int64_t last = std::min(parameter.max, kCoverageMax) / step * step;
    if (!least.has_value() || last <= first) return std::nullopt;
    // Invariant of both loops: as many blocks at `same`, more (or no longer computable) at `more`.
    int64_t same = first;
    int64_t more = first;
    for (int64_t reach = step; blocks(more) == least; reach *= 2) {
      same = more;
      if (more == last) return std::nullopt;
      more = std::min(first + reach, last);
    }
    while (more - same > step) {
      const int64_t middle = same + (more - same) / 2 / step * step;
      (blocks(middle) == least ? same : more) = middle;
    }
    return same;
  }

  // Sizes wanted in one dimension, the others as in `base`.
  std::vector<Wish> WishesFor(const Parameter& parameter, const SizeBindings& base) const {
    std::vector<Wish> wishes = {{parameter.min, 1}, {Smallest(parameter), 1}};
    const auto add_around = [&wishes](int64_t block) {
      wishes.push_back({block - 1, -1});
      wishes.push_back({block + 1, 1});
      wishes.push_back({3 * block, 1});
    };
    if (const std::optional<int64_t> coverage = Coverage(parameter, base)) {
      // Of declared multiples the largest in one block need not fill it.
      if (parameter.multiple_of > 1) wishes.push_back({*coverage, -1});
      add_around(*coverage);
      return wishes;
    }
    // The grid does not grow: the dimension is walked by the threads of a block or, where the whole
    // grid is fixed, of all blocks.
    const std::optional<int64_t> threads = Product(first_kernel_->launch.block, base);
    if (!threads.has_value() || *threads < 1 || *threads > kCoverageMax) return wishes;
    add_around(*threads);
    const std::optional<int64_t> blocks = Product(first_kernel_->launch.grid, {});
    if (blocks.has_value() && *blocks > 1 && *blocks < kCoverageMax / *threads) {
      add_around(*blocks * *threads);
    }
    return wishes;
  }

  const LaunchRecipe& recipe_;
  const DeviceFacts& facts_;
  const SizeBindings tuned_;
  std::vector<const Parameter*> parameters_;
  const RecipeStep* first_kernel_ = nullptr;
  int64_t bytes_max_ = kBytesMax;
};

}  // namespace

std::vector<SizeBindings> SmallCheckSizes(const KernelTemplate& kernel_template,
                                          const Problem& problem, const LaunchRecipe& recipe,
                                          const DeviceFacts& facts) {
  return SizeFinder(kernel_template, problem, recipe, facts).Find();
}

}  // namespace hone
