// A template's parameters bound to values.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/kernel/value.h"

namespace hone {

// Immutable. Ordered and printable: equal problems print equally.
class Problem {
 public:
  // No parameters; for fields filled later.
  Problem() = default;
  // Checks every value against the declared domain and fills defaults. INVALID_ARGUMENT names the
  // parameter, the value and the domain; an unknown name is an error too. Text is read as what the
  // parameter is: "F32", "4096", "true".
  static absl::StatusOr<Problem> Create(const KernelTemplate& kernel_template,
                                        const Values& values);

  // Reads back what ToString wrote; errors as Create's.
  static absl::StatusOr<Problem> Parse(const KernelTemplate& kernel_template,
                                       const std::string& text);

  const Values& values() const { return values_; }
  // Dynamic sizes only.
  const SizeBindings& dynamic_sizes() const { return dynamic_sizes_; }
  // All but the dynamic sizes.
  const Values& specialised() const { return specialised_; }

  // The same problem with every dynamic or static bucketed size replaced by its bucket.
  Problem Bucketed(const KernelTemplate& kernel_template) const;
  // The same problem with other dynamic sizes; names that are no dynamic size are left out. Sizes
  // are not checked against the domain.
  Problem WithSizes(const SizeBindings& sizes) const;

  // "T=F32 n=67108864".
  std::string ToString() const;
  friend bool operator==(const Problem& a, const Problem& b) { return a.values_ == b.values_; }

 private:
  Values values_;
  SizeBindings dynamic_sizes_;
  Values specialised_;
};

// A given value as the parameter's own kind; a chain becomes its canonical text. INVALID_ARGUMENT
// without a path says what is wrong with it and what would be right.
absl::StatusOr<Value> ReadValue(const Parameter& parameter, const Value& value);

// The bucket of `size` under the parameter's rule (see SizeParameter.Bucket in the schema). Always
// a declared value: a power of two is rounded down to a multiple of `multiple_of` and up to the
// smallest declared size. REQUIRES: `size` is in the declared domain.
int64_t BucketOf(const Parameter& parameter, int64_t size);

}  // namespace hone
