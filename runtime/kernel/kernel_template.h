// A kernel template: source, parameters, tunables, arguments, steps, work and check.
//
// Expressions are parsed and names resolved when a template is made (KernelTemplate::Create), so
// that every later use can only fail on values. Immutable and content-addressed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/generate/chain.h"
#include "runtime/kernel/value.h"
#include "runtime/launch/launch_recipe.h"

namespace hone {

struct SourceFile {
  std::string name;
  std::string content;
};

enum class ParameterKind { kDtype, kSize, kChoice, kFlag, kChain };
enum class BucketRule { kExact, kPow2, kList };

// A chain under a name, with values of other parameters that go with it.
struct ChainPreset {
  std::string name;
  std::string expression;
  std::map<std::string, std::string> params;
};

struct Parameter {
  std::string name;
  std::string description;
  ParameterKind kind = ParameterKind::kSize;
  std::optional<Value> default_value;
  std::vector<DataType> dtypes;
  std::string default_from;  // a dtype parameter before this one; empty: none
  std::vector<std::string> choices;
  ChainNames chain_names;  // of arguments
  std::vector<ChainPreset> presets;
  bool dynamic = false;
  BucketRule bucket = BucketRule::kExact;
  std::vector<int64_t> bucket_values;
  int64_t min = 1;
  int64_t max = int64_t{1} << 62;
  int64_t multiple_of = 1;
};

struct ArchitectureValues {
  std::vector<std::string> architectures;
  std::vector<int64_t> values;
  int64_t default_value = 0;
};

struct Tunable {
  std::string name;
  std::string description;
  std::vector<int64_t> values;
  int64_t default_value = 0;
  std::vector<ArchitectureValues> per_architecture;
};

enum class InitKind {
  kNormal,
  kUniform,
  kUniformInt,
  kIota,
  kIndex,
  kPermutation,
  kOffsets,
  kZeros,
  kGenerator
};

// One block of one thread, no cluster, no dynamic shared memory.
LaunchShape OneThread();

struct TemplateLaunch {
  LaunchShape shape = OneThread();
};

struct TemplateBuffer {
  std::string dtype;  // a dtype parameter's name or a DataType's
  std::vector<Expression> shape;
  std::vector<Expression> strides;  // empty: dense row-major
  Access access = Access::kRead;
  std::optional<Expression> alignment_bytes;  // absent: element size
  std::vector<std::string> may_alias;
  bool optional = false;
  // Absent: normal for a floating-point input, refused for an integer one. A buffer that is only
  // written has none: it is poisoned.
  std::optional<InitKind> init;
  std::optional<Expression> init_low;
  std::optional<Expression> init_high;
  double init_skew = 0;
  std::string generator_entry;
  TemplateLaunch generator_launch;
};

struct TemplateScalar {
  DataType type = DataType::kI64;
  std::optional<Expression> value;
  double sample = 0;  // used for checks and timing when `value` is absent
};

struct TemplateTensorMap {
  RecipeTensorMap map;  // expressions still mention parameters and tunables; dtype is the buffer's
};

struct TemplateScratch {
  Expression bytes;
  ScratchZeroed zeroed = ScratchZeroed::kNever;
};

struct TemplateArgument {
  std::string name;
  std::variant<TemplateBuffer, TemplateScalar, TemplateTensorMap, TemplateScratch> kind;
};

struct TemplateStep {
  std::string entry;  // with ${NAME}; empty: memset
  TemplateLaunch launch;
  std::vector<std::string> arguments;  // resolved: never empty for a kernel
  std::optional<Expression> when;
  bool programmatic_dependent_launch = false;
  std::string memset_argument;
  int memset_value = 0;
  std::optional<Expression> memset_bytes;
};

enum class NanPolicy { kNanMatchesNan, kNanForbidden };

// |x - reference| <= atol + rtol * |reference|, or equal bits.
struct Tolerance {
  bool exact = false;
  double atol = 0;
  double rtol = 0;
  double mismatch_share_max = 0;
  NanPolicy nan = NanPolicy::kNanMatchesNan;
};

struct TemplateCheck {
  // Entry with ${NAME}. Empty in every check of a template without a reference: the tolerance then
  // serves for comparing candidates with the default config.
  std::string reference;
  TemplateLaunch launch;
  // A chain parameter, whose interpreter then gives the right values; no reference, no tolerance.
  std::string chain;
  std::string output;
  Tolerance tolerance;
  std::map<DataType, Tolerance> by_dtype;
};

struct Prior {
  std::vector<std::string> architectures;
  std::optional<Expression> when;
  std::map<std::string, int64_t> config;
};

enum class Feature { kTensorCores, kTma, kWgmma, kTcgen05, kClusters, kAsyncCopy, kFp8 };

struct Requirements {
  std::string min_architecture;  // "sm_80"; empty: any, the CPU reference device too
  std::vector<Feature> features;
};

// Fields that an architecture variant may replace live here; the base template is one too.
struct TemplateBody {
  std::string source;  // file name
  std::vector<std::string> options;
  std::vector<Tunable> tunables;
  std::vector<Expression> constraints;
  std::vector<TemplateArgument> arguments;
  std::vector<TemplateStep> steps;
};

struct ArchitectureBody {
  std::vector<std::string> architectures;
  TemplateBody body;  // complete: what the variant does not give is the base's
};

struct PrebuiltCandidate {
  std::string file;
  std::string architecture;
  std::map<std::string, int64_t> config;
  std::vector<std::string> symbols;
};

// Everything a template says. Filled by the catalog from a textproto, checked by
// KernelTemplate::Create.
struct TemplateSpec {
  std::string name;
  std::string version;
  std::string description;
  std::vector<std::string> headers;
  std::vector<std::string> header_sets;  // digests
  std::vector<std::pair<std::string, std::string>> defines;
  std::vector<Parameter> params;
  TemplateBody base;
  std::vector<ArchitectureBody> variants;
  Expression work_bytes;
  Expression work_flops;
  std::optional<Expression> work_traffic_bytes;  // may name tunables; for ranking only
  std::string matrix_dtype;
  std::vector<TemplateCheck> checks;
  Requirements requirements;
  std::vector<Prior> priors;
  std::vector<PrebuiltCandidate> prebuilt;
  std::vector<SourceFile> files;
};

class KernelTemplate {
 public:
  // Checks everything that does not depend on values: names unique and well-formed, expressions
  // only over declared names, entries' ${NAME}s declared, arguments of steps and checks declared,
  // tunable defaults among their values, integer inputs with an init, files present, sizes bounded.
  // INVALID_ARGUMENT names the field path ("steps[0].launch.grid_x"), the value and what is right.
  static absl::StatusOr<std::shared_ptr<const KernelTemplate>> Create(TemplateSpec spec);

  const TemplateSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }

  // Identifies the whole template, tunable values and priors included.
  const std::string& digest() const { return digest_; }
  // Identifies what a measurement depends on besides problem and config: name, source, headers,
  // options, arguments, steps, checks. Adding a tunable's value keeps it, so timings survive.
  const std::string& kernel_digest() const { return kernel_digest_; }

  // The body for an architecture ("sm_90a", "cpu").
  const TemplateBody& BodyFor(const std::string& architecture) const;
  const Parameter* FindParameter(const std::string& name) const;
  const SourceFile* FindFile(const std::string& name) const;

  // OK if the template can run there; else FAILED_PRECONDITION saying what is missing.
  absl::Status SupportsArchitecture(const std::string& architecture) const;

 private:
  explicit KernelTemplate(TemplateSpec spec);
  TemplateSpec spec_;
  std::string digest_;
  std::string kernel_digest_;
};

using KernelTemplatePtr = std::shared_ptr<const KernelTemplate>;

// True if `pattern` ("sm_90", "sm_90a", "cpu") covers `architecture`: equal, or `pattern` has no
// suffix and `architecture` is its a or f form.
bool ArchitectureMatches(const std::string& pattern, const std::string& architecture);

}  // namespace hone
