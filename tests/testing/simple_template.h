// A small copy template for tests of the tuner and the cache: no file is read, nothing is compiled
// for real.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/kernel/kernel_template.h"

namespace hone {

struct SimpleTemplateOptions {
  std::string name = "copy";
  std::vector<int64_t> xblock = {64, 128, 256};
  std::vector<int64_t> vec = {1, 4};
  // Values of a third tunable, UNUSED, that changes nothing; empty: there is none.
  std::vector<int64_t> unused = {};
  // A comment in the source, so that two templates of one name differ.
  std::string body = "first";
  bool reference = true;
  std::vector<std::string> constraints = {};
  BucketRule bucket = BucketRule::kPow2;
  std::vector<int64_t> bucket_values = {};
  int64_t n_multiple_of = 1;
};

// Parameters T (F32 F16, default F32) and dynamic n; tunables XBLOCK (default 64) and VEC (default
// 1, aligns both buffers); buffers dst and src; one step "copy<T, XBLOCK, VEC>".
TemplateSpec SimpleSpec(const SimpleTemplateOptions& options);
// Aborts the test if the template is not accepted.
KernelTemplatePtr SimpleTemplate(const SimpleTemplateOptions& options = {});

}  // namespace hone
