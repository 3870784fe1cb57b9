#include "tests/kernels/kernel_samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace hone {
namespace {

bool GuardsHold(const LaunchRecipe& recipe, const SizeBindings& sizes) {
  return std::all_of(recipe.guards.begin(), recipe.guards.end(), [&](const Expression& guard) {
    return guard.Evaluate(sizes).value_or(0) != 0;
  });
}

void AddNames(const Program& from, Program& to) {
  for (const std::string& name : from.name_expressions) {
    auto& names = to.name_expressions;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
}

}  // namespace

Catalog& TheCatalog() {
  static const std::unique_ptr<Catalog> catalog = [] {
    const char* directory = std::getenv("HONE_KERNELS");
    return Catalog::Create(directory == nullptr ? "kernels" : directory, nullptr);
  }();
  return *catalog;
}

KernelTemplatePtr FindTemplate(const Catalog& catalog, const std::string& name) {
  const absl::StatusOr<CatalogEntryPtr> entry = catalog.Find(name, "");
  EXPECT_TRUE(entry.ok()) << entry.status();
  return entry.ok() ? (*entry)->kernel_template : nullptr;
}

Problem ProblemOf(const KernelTemplate& kernel_template, const std::string& params) {
  Values values;
  for (const absl::string_view part : absl::StrSplit(params, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const Parameter* parameter = kernel_template.FindParameter(pair.first);
    EXPECT_NE(parameter, nullptr) << pair.first;
    if (parameter == nullptr) continue;
    int64_t number = 0;
    if (parameter->kind == ParameterKind::kDtype) {
      values[pair.first] = ParseDataType(pair.second).value();
    } else if (absl::SimpleAtoi(pair.second, &number)) {
      values[pair.first] = number;
    } else {
      values[pair.first] = pair.second;
    }
  }
  const absl::StatusOr<Problem> problem = Problem::Create(kernel_template, values);
  EXPECT_TRUE(problem.ok()) << problem.status();
  return problem.value_or(Problem());
}

const std::vector<KernelSample>& KernelSamples() {
  static const std::vector<KernelSample> samples = {
      {"copy_1d", "T=F32 n=65536", {"n=0", "n=1", "n=65535", "n=4099"}},
      {"copy_1d", "T=F16 n=30001", {"n=8", "n=16385"}},
      {"copy_1d", "T=BF16 n=30000", {"n=7", "n=16384"}},
      {"copy_1d", "T=U8 n=100000", {"n=1", "n=15", "n=16385"}},
      {"copy_2d",
       "T=F32 rows=96 cols=512",
       {"rows=1 cols=1 dst_pad=3 src_pad=5", "rows=7 cols=260 dst_pad=4 src_pad=8",
        "rows=129 cols=33 dst_pad=0 src_pad=1"}},
      {"copy_2d", "T=BF16 rows=65 cols=264", {"rows=300 cols=8 dst_pad=8 src_pad=16"}},
      {"copy_2d", "T=F16 rows=33 cols=71", {"rows=0 cols=8"}},
      {"transpose",
       "T=F32 rows=96 cols=160",
       {"rows=0 cols=5", "rows=1 cols=5", "rows=33 cols=129"}},
      {"transpose", "T=F16 rows=128 cols=72", {"rows=8 cols=8", "rows=40 cols=1"}},
      {"transpose", "T=BF16 rows=37 cols=61", {}},
      {"transpose",
       "T=BF16 batch=3 rows=8 cols=264",
       {"batch=0 rows=8 cols=8", "batch=40 rows=8 cols=8", "batch=2 rows=1 cols=3"}},
      {"transpose", "T=U8 batch=2 rows=80 cols=144", {"batch=3 rows=64 cols=400"}},
      {"permute",
       "T=F32 ORDER=213 d0=3 d1=20 d2=7 d3=36",
       {"d0=1 d1=1 d2=40 d3=8", "d0=2 d1=33 d2=70 d3=1", "d0=0 d1=3 d2=3 d3=4"}},
      {"permute",
       "T=BF16 ORDER=231 d0=2 d1=40 d2=9 d3=8",
       {"d0=3 d1=3 d2=50 d3=70", "d0=1 d1=1 d2=1 d3=1", "d0=5 d1=1 d2=6 d3=7",
        "d0=1 d1=8 d2=1000 d3=8"}},
      {"permute",
       "T=U8 ORDER=3210 d0=48 d1=3 d2=5 d3=80",
       {"d0=7 d1=9 d2=11 d3=13", "d0=1 d1=5 d2=1 d3=77", "d0=66 d1=1 d2=2 d3=1"}},
      {"permute", "T=F16 ORDER=2301 d0=3 d1=24 d2=5 d3=16", {"d0=33 d1=3 d2=1 d3=65"}},
      {"gather_rows",
       "T=F32 INDEX=I64 rows=90 cols=72 table_rows=333",
       {"rows=0 cols=5 table_rows=1", "rows=3 cols=0 table_rows=3",
        "rows=33 cols=1001 table_rows=2"}},
      {"gather_rows",
       "T=BF16 INDEX=I32 rows=257 cols=64 table_rows=50",
       {"rows=5 cols=7 table_rows=9"}},
      {"gather_rows", "T=U8 INDEX=I64 rows=31 cols=48 table_rows=50", {}},
      {"scatter_rows",
       "T=F32 INDEX=I64 rows=90 cols=72 table_rows=333",
       {"rows=0 cols=5 table_rows=1", "rows=70 cols=9 table_rows=33",
        "rows=33 cols=1001 table_rows=33"}},
      {"scatter_rows",
       "T=F16 INDEX=I32 rows=64 cols=64 table_rows=64",
       {"rows=5 cols=7 table_rows=9"}},
      {"scatter_rows", "T=U8 INDEX=I64 rows=31 cols=48 table_rows=50", {}},
      {"axpby_act", "T=F32 ACT=gelu_tanh n=20000", {"n=0", "n=1", "n=4097"}},
      {"axpby_act", "T=F32 ACT=sigmoid n=5000", {}},
      {"axpby_act", "T=F16 ACT=silu n=10000", {"n=1031"}},
      {"axpby_act", "T=BF16 ACT=gelu n=10000", {}},
      {"axpby_act", "T=F32 ACT=relu n=1000", {}},
      {"axpby_act", "T=BF16 ACT=identity n=1000", {}},
      {"elementwise",
       "f=swiglu A=F32 rows=60 cols=1000",
       {"rows=0 cols=7", "rows=3 cols=0", "rows=1 cols=1", "rows=33 cols=1023",
        "rows=4097 cols=1"}},
      {"elementwise",
       "f=add_bias_gelu A=BF16 rows=70 cols=512",
       {"rows=31 cols=37", "rows=129 cols=8", "rows=5 cols=4099", "rows=1 cols=3"}},
      {"elementwise", "f=geglu A=F16 rows=33 cols=257", {}},
      {"elementwise",
       "f=scale_residual A=F16 B=F32 rows=64 cols=333",
       {"rows=700 cols=5", "rows=700 cols=8"}},
      {"elementwise",
       "f=swiglu_quantize A=BF16 rows=50 cols=512",
       {"rows=7 cols=133", "rows=1 cols=40000"}},
      {"elementwise",
       "f=clamp(a*b,-alpha,alpha)+c-d A=F8E4M3 B=F32 C=F16 D=BF16 OUT=F32 B_SHAPE=column "
       "C_SHAPE=row D_SHAPE=scalar rows=90 cols=131",
       {"rows=90 cols=128", "rows=300 cols=3", "rows=2 cols=5000"}},
      {"elementwise",
       "f=where(a<0,a*beta,a)/b A=F32 B_SHAPE=column OUT=F8E4M3 rows=40 cols=520",
       {"rows=40 cols=513", "rows=1000 cols=4"}},
      {"elementwise", "f=gelu(a) A=F32 A_SHAPE=row OUT=BF16 rows=300 cols=400", {"rows=9 cols=77"}},
      {"row_reduce", "T=F32 rows=70 cols=1000", {"rows=0", "rows=1", "rows=33"}},
      {"row_reduce", "T=BF16 OP=maximum rows=40 cols=4096", {"rows=3"}},
      {"row_reduce", "T=BF16 OP=argmax rows=40 cols=517", {"rows=3"}},
      {"row_reduce", "T=F16 OP=mean_variance rows=40 cols=1023", {"rows=9"}},
      {"row_reduce", "T=F16 OP=argmax rows=40 cols=37", {}},
      {"softmax", "T=F32 rows=70 cols=1000", {"rows=0", "rows=1", "rows=33"}},
      {"softmax", "T=BF16 rows=20 cols=4096", {"rows=3"}},
      {"softmax", "T=F16 rows=70 cols=1", {}},
      {"softmax", "T=BF16 f=scaled_masked mask_rows=5 rows=41 cols=1027", {"rows=3"}},
      {"softmax", "T=F16 M=F32 f=masked rows=33 cols=510", {"rows=2"}},
      {"log_softmax", "T=F32 rows=70 cols=1001", {"rows=0", "rows=1", "rows=33"}},
      {"log_softmax", "T=BF16 f=scaled rows=20 cols=2048", {"rows=3"}},
      {"log_softmax", "T=F16 f=masked mask_rows=1 rows=70 cols=37", {}},
      {"cross_entropy", "T=F32 INDEX=I32 rows=70 cols=1000", {"rows=0", "rows=1", "rows=33"}},
      {"cross_entropy", "T=BF16 rows=40 cols=4099", {"rows=3"}},
      {"cross_entropy", "T=F16 rows=300 cols=5", {}},
      {"rmsnorm", "T=F32 rows=70 cols=1000", {"rows=0", "rows=1", "rows=33"}},
      {"rmsnorm", "T=BF16 rows=20 cols=2048", {"rows=3"}},
      {"rmsnorm", "T=F16 rows=70 cols=37", {}},
      {"rmsnorm", "T=BF16 RESIDUAL=1 rows=30 cols=1029", {"rows=3"}},
      {"rmsnorm", "T=BF16 OUT=F8E4M3 RESIDUAL=1 rows=30 cols=1032", {"rows=0", "rows=3"}},
      {"rmsnorm", "T=F16 OUT=F8E4M3 SCALES=per_block rows=30 cols=520", {"rows=3"}},
      {"layernorm", "T=F32 rows=70 cols=1000", {"rows=0", "rows=1", "rows=33"}},
      {"layernorm", "T=F16 OUT=F32 RESIDUAL=1 rows=30 cols=1029", {"rows=3"}},
      {"layernorm", "T=BF16 OUT=F8E4M3 rows=20 cols=2047", {"rows=3"}},
      {"layernorm", "T=F32 OUT=F8E4M3 SCALES=per_block RESIDUAL=1 rows=30 cols=333", {}},
      {"rope",
       "T=F32 INDEX=I32 tokens=20 q_heads=8 kv_heads=2 head_dim=64 rotary_dim=64 max_positions=99",
       {"tokens=0", "tokens=1", "tokens=7 max_positions=1"}},
      {"rope",
       "T=BF16 LAYOUT=interleaved tokens=9 q_heads=5 kv_heads=1 head_dim=128 rotary_dim=32",
       {"tokens=3"}},
      {"rope",
       "T=F16 ROTATION=computed tokens=9 q_heads=3 kv_heads=3 head_dim=37 rotary_dim=10",
       {"tokens=2"}},
      {"rope_norm_append",
       "T=F32 INDEX=I32 tokens=20 q_heads=8 kv_heads=2 head_dim=64 rotary_dim=32 cache_slots=30",
       {"tokens=0", "tokens=1", "tokens=9 cache_slots=4"}},
      {"rope_norm_append",
       "T=BF16 LAYOUT=interleaved ROTATION=computed PACKED=1 tokens=9 q_heads=6 kv_heads=3 "
       "head_dim=128 rotary_dim=128 cache_slots=16",
       {"tokens=5 cache_slots=3"}},
      {"rope_norm_append",
       "T=F16 NORM=0 tokens=9 q_heads=3 kv_heads=1 head_dim=37 rotary_dim=10 cache_slots=16",
       {}},
      {"quantize_fp8", "T=BF16 SCALE=row rows=40 cols=1024", {"rows=0", "rows=1", "rows=33"}},
      {"quantize_fp8", "T=F32 SCALE=block rows=40 cols=264", {"rows=3"}},
      {"quantize_fp8", "T=F16 SCALE=block rows=40 cols=37", {}},
      {"quantize_fp8", "T=F16 SCALE=tensor rows=40 cols=520", {"rows=1"}},
      {"dequantize_fp8", "T=BF16 SCALE=row rows=40 cols=1024", {"rows=0", "rows=1", "rows=33"}},
      {"dequantize_fp8", "T=F32 SCALE=block rows=40 cols=264", {"rows=3"}},
      {"dequantize_fp8", "T=F16 SCALE=tensor rows=40 cols=37", {}},
      {"column_reduce",
       "T=F32 OP=sum rows=1000 cols=70",
       {"rows=0 cols=3", "rows=1 cols=1", "rows=33 cols=129"}},
      {"column_reduce", "T=BF16 OP=argmax rows=300 cols=64", {"rows=0 cols=8", "rows=7 cols=8"}},
      {"column_reduce",
       "T=F16 OP=mean_variance rows=300 cols=37",
       {"rows=0 cols=2", "rows=1 cols=8"}},
      {"column_reduce", "T=F16 OP=maximum UNBIASED=0 rows=300 cols=16", {}},
      {"reduce_all", "T=F32 OP=sum n=30001", {"n=0", "n=1", "n=4099"}},
      {"reduce_all", "T=BF16 OP=argmax n=30000", {"n=0", "n=7"}},
      {"reduce_all", "T=F16 OP=mean_variance UNBIASED=0 n=30001", {"n=0", "n=1"}},
      {"reduce_all", "T=F16 OP=maximum n=5000", {}},
      {"matmul_tiled", "T=F32 m=130 n=96 k=68", {"m=0", "m=1", "m=65"}},
      {"matmul_tiled", "T=F16 m=40 n=33 k=37", {"m=3"}},
      {"matmul_tiled", "T=BF16 m=64 n=128 k=64", {}},
      {"matmul_mma", "T=BF16 m=256 n=256 k=128", {"m=0", "m=1", "m=65"}},
      {"matmul_mma", "T=F16 m=130 n=96 k=72", {"m=3"}},
      {"matmul_mma", "T=BF16 m=40 n=33 k=37", {}},
  };
  return samples;
}

std::vector<KernelSample> KernelSamplesFor(const std::string& architecture) {
  std::vector<KernelSample> samples;
  for (const KernelSample& sample : KernelSamples()) {
    const KernelTemplatePtr found = FindTemplate(TheCatalog(), sample.kernel);
    if (found != nullptr && found->SupportsArchitecture(architecture).ok()) {
      samples.push_back(sample);
    }
  }
  return samples;
}

std::string NameOf(const KernelSample& sample) {
  std::string name = sample.kernel + "_" + sample.params;
  for (char& c : name) {
    if (!absl::ascii_isalnum(c)) c = '_';
  }
  return name;
}

std::vector<Config> SampleConfigs(const ConfigSpace& space, size_t count) {
  std::vector<Config> sample;
  const auto add = [&](const Config& config) {
    const bool known = std::find(sample.begin(), sample.end(), config) != sample.end();
    if (!known && sample.size() < count) sample.push_back(config);
  };
  const absl::StatusOr<Config> by_default = space.Default();
  EXPECT_TRUE(by_default.ok()) << by_default.status();
  if (by_default.ok()) add(*by_default);
  const std::vector<Config> priors = space.Priors();
  for (size_t i = 0; i < priors.size() && i < 2; ++i) add(priors[i]);
  const absl::StatusOr<std::vector<Config>> all = space.ValidConfigs(4096);
  EXPECT_TRUE(all.ok()) << all.status();
  if (!all.ok() || all->empty()) return sample;
  for (size_t i = 0; i < count; ++i)
    add((*all)[i * (all->size() - 1) / std::max<size_t>(count - 1, 1)]);
  return sample;
}

Program MergedProgram(const KernelTemplate& kernel_template, const Problem& problem,
                      const std::vector<Config>& configs, const std::string& architecture) {
  absl::StatusOr<Program> merged = InstantiateCheckProgram(kernel_template, problem, architecture);
  EXPECT_TRUE(merged.ok()) << merged.status();
  if (!merged.ok()) return Program();
  for (const Config& config : configs) {
    const absl::StatusOr<Program> program =
        InstantiateProgram(kernel_template, problem, config, architecture);
    EXPECT_TRUE(program.ok()) << config.ToString() << ": " << program.status();
    if (!program.ok()) continue;
    // The checks of a template without any are an empty program.
    if (merged->source.empty()) {
      merged = *program;
    } else {
      AddNames(*program, *merged);
    }
  }
  return *merged;
}

CpuBench::CpuBench(Compiler* compiler, Device* device, KernelTemplatePtr kernel_template,
                   Problem problem, std::vector<Config> configs)
    : template_(std::move(kernel_template)),
      problem_(std::move(problem)),
      configs_(std::move(configs)),
      facts_(device->info().Facts()) {
  const absl::StatusOr<CompileOutcome> outcome =
      compiler->Compile(MergedProgram(*template_, problem_, configs_, "cpu"), {});
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  if (outcome.ok()) outcome_ = *outcome;
}

ProfileProblem CpuBench::ProblemToProfile() const {
  const auto& lowered = outcome_.artifact->lowered_names;
  ProfileProblem problem;
  problem.sizes = problem_.dynamic_sizes();
  problem.check = InstantiateCheckPlan(*template_, problem_, "cpu", facts_, lowered).value();
  if (!problem.check.references.empty()) problem.check_artifact = outcome_.artifact;
  problem.arguments =
      InstantiateRecipe(*template_, problem_, configs_.front(), "cpu", facts_, lowered).value();
  return problem;
}

ProfileCandidate CpuBench::CandidateOf(const Config& config,
                                       const std::vector<SizeBindings>& more) const {
  ProfileCandidate candidate;
  candidate.config = config;
  candidate.artifact = *outcome_.artifact;
  candidate.recipe = InstantiateRecipe(*template_, problem_, config, "cpu", facts_,
                                       outcome_.artifact->lowered_names)
                         .value();
  candidate.check_sizes = SmallCheckSizes(*template_, problem_, candidate.recipe, facts_);
  for (const SizeBindings& sizes : more) {
    if (GuardsHold(candidate.recipe, sizes)) candidate.check_sizes.push_back(sizes);
  }
  return candidate;
}

}  // namespace hone
