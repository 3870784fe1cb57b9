#include "runtime/kernel/template_digest.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/sha256.h"
#include "runtime/generate/chain_source.h"

namespace hone {
namespace {

// Hashes labelled fields. Labels and lengths keep different specs apart whatever their texts hold.
class DigestWriter {
 public:
  void Add(absl::string_view label, absl::string_view value) {
    sha_.Update(absl::StrCat(label, "=", value.size(), ":")).Update(value).Update("\n");
  }
  void Add(absl::string_view label, int64_t value) { Add(label, absl::StrCat(value)); }
  void Add(absl::string_view label, double value) { Add(label, absl::StrFormat("%.17g", value)); }
  void Add(absl::string_view label, const Expression& value) { Add(label, value.ToString()); }
  void Add(absl::string_view label, const std::optional<Expression>& value) {
    Add(label, value.has_value() ? value->ToString() : std::string());
  }
  template <typename T>
  void AddAll(absl::string_view label, const std::vector<T>& values) {
    Add(label, static_cast<int64_t>(values.size()));
    for (const T& value : values) Add(label, value);
  }
  std::string Finish() { return sha_.FinishHex(); }

 private:
  Sha256 sha_;
};

void AddLaunch(DigestWriter& out, const TemplateLaunch& launch) {
  for (const Expression& extent : launch.shape.grid) out.Add("grid", extent);
  for (const Expression& extent : launch.shape.block) out.Add("block", extent);
  for (const Expression& extent : launch.shape.cluster) out.Add("cluster", extent);
  out.Add("dynamic_shared_bytes", launch.shape.dynamic_shared_bytes);
}

void AddKind(DigestWriter& out, const TemplateBuffer& buffer) {
  out.Add("buffer", buffer.dtype);
  out.AddAll("shape", buffer.shape);
  out.AddAll("strides", buffer.strides);
  out.Add("access", static_cast<int64_t>(buffer.access));
  out.Add("alignment_bytes", buffer.alignment_bytes);
  out.AddAll("may_alias", buffer.may_alias);
  out.Add("optional", int64_t{buffer.optional});
  out.Add("init", buffer.init.has_value() ? static_cast<int64_t>(*buffer.init) : int64_t{-1});
  out.Add("init_low", buffer.init_low);
  out.Add("init_high", buffer.init_high);
  out.Add("init_skew", buffer.init_skew);
  out.Add("generator", buffer.generator_entry);
  if (!buffer.generator_entry.empty()) AddLaunch(out, buffer.generator_launch);
}

void AddKind(DigestWriter& out, const TemplateScalar& scalar) {
  out.Add("scalar", Name(scalar.type));
  out.Add("value", scalar.value);
  out.Add("sample", scalar.sample);
}

void AddKind(DigestWriter& out, const TemplateTensorMap& tensor_map) {
  const RecipeTensorMap& map = tensor_map.map;
  out.Add("tensor_map", map.buffer);
  out.AddAll("dims", map.dims);
  out.AddAll("strides_bytes", map.strides_bytes);
  out.AddAll("box", map.box);
  out.AddAll("element_strides", map.element_strides);
  out.Add("swizzle", int64_t{map.swizzle});
  out.Add("interleave", int64_t{map.interleave});
  out.Add("l2_promotion", int64_t{map.l2_promotion});
  out.Add("fill_nan", int64_t{map.fill_nan});
}

void AddKind(DigestWriter& out, const TemplateScratch& scratch) {
  out.Add("scratch", scratch.bytes);
  out.Add("zeroed", static_cast<int64_t>(scratch.zeroed));
}

void AddStep(DigestWriter& out, const TemplateStep& step) {
  out.Add("entry", step.entry);
  AddLaunch(out, step.launch);
  out.AddAll("step_arguments", step.arguments);
  out.Add("when", step.when);
  out.Add("programmatic_dependent_launch", int64_t{step.programmatic_dependent_launch});
  out.Add("memset", step.memset_argument);
  out.Add("memset_value", int64_t{step.memset_value});
  out.Add("memset_bytes", step.memset_bytes);
}

// The part of a body that measurements depend on.
void AddMeasuredBody(DigestWriter& out, const TemplateBody& body) {
  out.Add("source", body.source);
  out.AddAll("options", body.options);
  for (const TemplateArgument& argument : body.arguments) {
    out.Add("argument", argument.name);
    std::visit([&out](const auto& kind) { AddKind(out, kind); }, argument.kind);
  }
  for (const TemplateStep& step : body.steps) AddStep(out, step);
}

void AddTunables(DigestWriter& out, const TemplateBody& body) {
  for (const Tunable& tunable : body.tunables) {
    out.Add("tunable", tunable.name);
    out.Add("description", tunable.description);
    out.AddAll("values", tunable.values);
    out.Add("default", tunable.default_value);
    for (const ArchitectureValues& special : tunable.per_architecture) {
      out.AddAll("architectures", special.architectures);
      out.AddAll("values", special.values);
      out.Add("default", special.default_value);
    }
  }
}

void AddTolerance(DigestWriter& out, const Tolerance& tolerance) {
  out.Add("exact", int64_t{tolerance.exact});
  out.Add("atol", tolerance.atol);
  out.Add("rtol", tolerance.rtol);
  out.Add("mismatch_share_max", tolerance.mismatch_share_max);
  out.Add("nan", static_cast<int64_t>(tolerance.nan));
}

void AddChecks(DigestWriter& out, const TemplateSpec& spec) {
  for (const TemplateCheck& check : spec.checks) {
    out.Add("check", check.output);
    out.Add("reference", check.reference);
    if (!check.chain.empty()) out.Add("chain", check.chain);
    AddLaunch(out, check.launch);
    AddTolerance(out, check.tolerance);
    for (const auto& [type, tolerance] : check.by_dtype) {
      out.Add("by_dtype", Name(type));
      AddTolerance(out, tolerance);
    }
  }
}

void AddFiles(DigestWriter& out, const TemplateSpec& spec) {
  // By name: the order of `files` says nothing.
  std::map<std::string, std::string> files;
  for (const SourceFile& file : spec.files) files[file.name] = Sha256Hex(file.content);
  for (const auto& [name, sha256] : files) {
    out.Add("file", name);
    out.Add("sha256", sha256);
  }
}

bool MentionsDynamicSize(const TemplateSpec& spec, const Expression& expression) {
  const std::set<std::string> names = expression.Variables();
  for (const Parameter& parameter : spec.params) {
    if (parameter.kind == ParameterKind::kSize && parameter.dynamic &&
        names.count(parameter.name) > 0) {
      return true;
    }
  }
  return false;
}

// Everything common to both digests but the bodies.
void AddProgram(DigestWriter& out, const TemplateSpec& spec) {
  out.Add("name", spec.name);
  out.AddAll("headers", spec.headers);
  out.AddAll("header_sets", spec.header_sets);
  for (const auto& [name, value] : spec.defines) {
    out.Add("define", name);
    out.Add("value", value);
  }
  AddFiles(out, spec);
  AddChecks(out, spec);
}

// Templates without chains keep the digests they had before there were any.
void AddChain(DigestWriter& out, const Parameter& parameter) {
  if (parameter.kind != ParameterKind::kChain) return;
  out.Add("chain_source", int64_t{kChainSourceVersion});
  out.AddAll("inputs", parameter.chain_names.inputs);
  out.AddAll("scalars", parameter.chain_names.scalars);
}

void AddParameterKinds(DigestWriter& out, const TemplateSpec& spec) {
  for (const Parameter& parameter : spec.params) {
    out.Add("param", parameter.name);
    out.Add("kind", static_cast<int64_t>(parameter.kind));
    AddChain(out, parameter);
    out.Add("dynamic", int64_t{parameter.dynamic});
    if (!parameter.dynamic) continue;
    out.Add("min", parameter.min);
    out.Add("max", parameter.max);
    out.Add("multiple_of", parameter.multiple_of);
  }
}

void AddParameters(DigestWriter& out, const TemplateSpec& spec) {
  for (const Parameter& parameter : spec.params) {
    out.Add("param", parameter.name);
    out.Add("description", parameter.description);
    out.Add("kind", static_cast<int64_t>(parameter.kind));
    out.Add("default", parameter.default_value ? ToString(*parameter.default_value) : "");
    for (const DataType type : parameter.dtypes) out.Add("dtype", Name(type));
    out.AddAll("choices", parameter.choices);
    if (!parameter.default_from.empty()) out.Add("default_from", parameter.default_from);
    AddChain(out, parameter);
    for (const ChainPreset& preset : parameter.presets) {
      out.Add("preset", preset.name);
      out.Add("expression", preset.expression);
      for (const auto& [name, value] : preset.params) out.Add(name, value);
    }
    out.Add("dynamic", int64_t{parameter.dynamic});
    out.Add("bucket", static_cast<int64_t>(parameter.bucket));
    out.AddAll("bucket_values", parameter.bucket_values);
    out.Add("min", parameter.min);
    out.Add("max", parameter.max);
    out.Add("multiple_of", parameter.multiple_of);
  }
}

void AddPrebuilt(DigestWriter& out, const TemplateSpec& spec) {
  for (const PrebuiltCandidate& candidate : spec.prebuilt) {
    out.Add("prebuilt", candidate.file);
    out.Add("architecture", candidate.architecture);
    for (const auto& [name, value] : candidate.config) {
      out.Add("tunable", name);
      out.Add("value", value);
    }
    out.AddAll("symbols", candidate.symbols);
  }
}

void AddMeta(DigestWriter& out, const TemplateSpec& spec) {
  out.Add("version", spec.version);
  out.Add("description", spec.description);
  out.Add("work_bytes", spec.work_bytes);
  out.Add("work_flops", spec.work_flops);
  out.Add("matrix_dtype", spec.matrix_dtype);
  if (spec.work_traffic_bytes) out.Add("work_traffic_bytes", *spec.work_traffic_bytes);
  out.Add("min_architecture", spec.requirements.min_architecture);
  for (const Feature feature : spec.requirements.features) {
    out.Add("feature", static_cast<int64_t>(feature));
  }
  for (const Prior& prior : spec.priors) {
    out.AddAll("prior", prior.architectures);
    out.Add("when", prior.when);
    for (const auto& [name, value] : prior.config) {
      out.Add("tunable", name);
      out.Add("value", value);
    }
  }
}

template <typename AddBody>
void AddBodies(DigestWriter& out, const TemplateSpec& spec, const AddBody& add) {
  out.Add("body", "base");
  add(spec.base);
  for (const ArchitectureBody& variant : spec.variants) {
    out.AddAll("body", variant.architectures);
    add(variant.body);
  }
}

}  // namespace

std::string TemplateDigest(const TemplateSpec& spec) {
  DigestWriter out;
  out.Add("hone_template", int64_t{1});
  AddMeta(out, spec);
  AddProgram(out, spec);
  AddParameters(out, spec);
  AddPrebuilt(out, spec);
  AddBodies(out, spec, [&out](const TemplateBody& body) {
    AddMeasuredBody(out, body);
    AddTunables(out, body);
    out.AddAll("constraints", body.constraints);
  });
  return out.Finish();
}

std::string KernelDigest(const TemplateSpec& spec) {
  DigestWriter out;
  out.Add("hone_kernel", int64_t{1});
  AddProgram(out, spec);
  AddParameterKinds(out, spec);
  AddPrebuilt(out, spec);
  AddBodies(out, spec, [&](const TemplateBody& body) {
    AddMeasuredBody(out, body);
    for (const Expression& constraint : body.constraints) {
      if (MentionsDynamicSize(spec, constraint)) out.Add("guard", constraint);
    }
  });
  return out.Finish();
}

}  // namespace hone
