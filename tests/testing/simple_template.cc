#include "tests/testing/simple_template.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace hone {
namespace {

Expression Parsed(const std::string& text) {
  auto expression = Expression::Parse(text);
  if (!expression.ok()) {
    std::fprintf(stderr, "%s: %s\n", text.c_str(), expression.status().ToString().c_str());
    std::abort();
  }
  return *std::move(expression);
}

LaunchShape Shape(const std::string& grid_x, const std::string& block_x) {
  const Expression one = Expression::Constant(1);
  return {.grid = {Parsed(grid_x), one, one},
          .block = {Parsed(block_x), one, one},
          .cluster = {one, one, one},
          .dynamic_shared_bytes = Expression::Constant(0)};
}

TemplateArgument CopyBuffer(const std::string& name, Access access) {
  TemplateBuffer buffer;
  buffer.dtype = "T";
  buffer.shape = {Parsed("n")};
  buffer.access = access;
  buffer.alignment_bytes = Parsed("VEC * sizeof(T)");
  return {.name = name, .kind = buffer};
}

}  // namespace

TemplateSpec SimpleSpec(const SimpleTemplateOptions& options) {
  TemplateSpec spec;
  spec.name = options.name;
  Parameter type;
  type.name = "T";
  type.kind = ParameterKind::kDtype;
  type.dtypes = {DataType::kF32, DataType::kF16};
  type.default_value = DataType::kF32;
  Parameter n;
  n.name = "n";
  n.kind = ParameterKind::kSize;
  n.dynamic = true;
  n.min = 0;
  n.multiple_of = options.n_multiple_of;
  n.bucket = options.bucket;
  n.bucket_values = options.bucket_values;
  spec.params = {type, n};

  spec.base.source = "copy.cu";
  spec.base.tunables = {{.name = "XBLOCK",
                         .description = {},
                         .values = options.xblock,
                         .default_value = options.xblock.front(),
                         .per_architecture = {}},
                        {.name = "VEC",
                         .description = {},
                         .values = options.vec,
                         .default_value = options.vec.front(),
                         .per_architecture = {}}};
  if (!options.unused.empty()) {
    spec.base.tunables.push_back({.name = "UNUSED",
                                  .description = {},
                                  .values = options.unused,
                                  .default_value = options.unused.front(),
                                  .per_architecture = {}});
  }
  for (const std::string& constraint : options.constraints) {
    spec.base.constraints.push_back(Parsed(constraint));
  }
  TemplateScalar count;
  count.type = DataType::kI64;
  count.value = Parsed("n");
  spec.base.arguments = {CopyBuffer("dst", Access::kWrite),
                         CopyBuffer("src", Access::kRead),
                         {.name = "n", .kind = count}};
  TemplateStep step;
  step.entry = "copy<${T}, ${XBLOCK}, ${VEC}>";
  step.launch.shape = Shape("ceil_div(n, XBLOCK * VEC)", "XBLOCK");
  step.arguments = {"dst", "src", "n"};
  spec.base.steps = {step};
  spec.work_bytes = Parsed("2 * n * sizeof(T)");
  spec.work_flops = Parsed("0");
  if (options.reference) {
    TemplateCheck check;
    check.reference = "copy_reference<${T}>";
    check.launch.shape = Shape("ceil_div(n, 256)", "256");
    check.output = "dst";
    check.tolerance.exact = true;
    spec.checks = {check};
  }
  spec.files = {{.name = "copy.cu", .content = "// " + options.body + "\n"}};
  return spec;
}

KernelTemplatePtr SimpleTemplate(const SimpleTemplateOptions& options) {
  auto made = KernelTemplate::Create(SimpleSpec(options));
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.status().ToString().c_str());
    std::abort();
  }
  return *std::move(made);
}

}  // namespace hone
