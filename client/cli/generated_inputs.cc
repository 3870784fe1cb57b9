#include "client/cli/generated_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>
#include <numeric>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/scalar_encoding.h"

namespace hone::cli {
namespace {

// Prime, so that no block or row length makes two rows equal.
constexpr int64_t kPeriod = 1'000'003;

using Generator = std::function<double(int64_t index)>;

absl::StatusOr<std::string> Encode(DataType dtype, int64_t elements, const Generator& value) {
  const auto size = static_cast<size_t>(SizeBytes(dtype));
  std::string bytes(static_cast<size_t>(elements) * size, '\0');
  for (int64_t i = 0; i < elements; ++i) {
    const absl::StatusOr<uint64_t> bits = EncodeScalar(dtype, value(i));
    if (!bits.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("element ", i, ": ", bits.status().message()));
    }
    std::memcpy(bytes.data() + static_cast<size_t>(i) * size, &*bits, size);
  }
  return bytes;
}

// `pattern` again and again.
std::string Repeat(const std::string& pattern, size_t bytes) {
  std::string repeated;
  repeated.reserve(bytes);
  while (repeated.size() < bytes) {
    repeated.append(pattern, 0, std::min(pattern.size(), bytes - repeated.size()));
  }
  return repeated;
}

absl::StatusOr<std::string> Random(const InputSpec& spec, int64_t elements,
                                   const std::function<double(std::mt19937_64&)>& draw) {
  std::mt19937_64 random(spec.seed);
  HONE_ASSIGN_OR_RETURN(const std::string pattern, Encode(spec.dtype, std::min(elements, kPeriod),
                                                          [&](int64_t) { return draw(random); }));
  return Repeat(pattern, static_cast<size_t>(elements * SizeBytes(spec.dtype)));
}

absl::StatusOr<std::string> UniformInt(const InputSpec& spec, int64_t elements, int64_t low,
                                       int64_t high) {
  if (low > high) {
    return absl::InvalidArgumentError(absl::StrCat("no integer lies in [", low, ", ", high, "]"));
  }
  std::uniform_int_distribution<int64_t> distribution(low, high);
  return Random(spec, elements,
                [&](std::mt19937_64& random) { return static_cast<double>(distribution(random)); });
}

absl::StatusOr<std::string> Permutation(const InputSpec& spec, int64_t elements) {
  std::vector<int64_t> order(static_cast<size_t>(elements));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(spec.seed));
  return Encode(spec.dtype, elements,
                [&](int64_t i) { return static_cast<double>(order[static_cast<size_t>(i)]); });
}

// From 0 to `high` without falling; with skew s the i-th of n is at high * (i / (n-1))^(1 + s).
absl::StatusOr<std::string> Offsets(const InputSpec& spec, int64_t elements) {
  const auto last = static_cast<double>(std::max<int64_t>(elements - 1, 1));
  return Encode(spec.dtype, elements, [&](int64_t i) {
    const double share = std::pow(static_cast<double>(i) / last, 1 + spec.skew);
    return std::floor(static_cast<double>(spec.high) * share);
  });
}

}  // namespace

absl::StatusOr<std::string> GenerateInput(const InputSpec& spec, int64_t elements) {
  v1::Buffer::Init init = spec.init;
  if (init == v1::Buffer::INIT_UNSPECIFIED) {
    init = IsFloatingPoint(spec.dtype) ? v1::Buffer::NORMAL : v1::Buffer::ZEROS;
  }
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(-1, 1);
  switch (init) {
    case v1::Buffer::NORMAL:
      return Random(spec, elements, [&](std::mt19937_64& random) { return normal(random); });
    case v1::Buffer::UNIFORM:
      return Random(spec, elements, [&](std::mt19937_64& random) { return uniform(random); });
    case v1::Buffer::UNIFORM_INT:
      return UniformInt(spec, elements, spec.low, spec.high);
    case v1::Buffer::INDEX:
      return UniformInt(spec, elements, 0, spec.high - 1);
    case v1::Buffer::IOTA:
      return Encode(spec.dtype, elements, [](int64_t i) { return static_cast<double>(i); });
    case v1::Buffer::PERMUTATION:
      return Permutation(spec, elements);
    case v1::Buffer::OFFSETS:
      return Offsets(spec, elements);
    case v1::Buffer::ZEROS:
      return std::string(static_cast<size_t>(elements * SizeBytes(spec.dtype)), '\0');
    default:
      return absl::UnimplementedError(absl::StrCat("inputs of init ", v1::Buffer::Init_Name(init),
                                                   " cannot be generated here"));
  }
}

}  // namespace hone::cli
