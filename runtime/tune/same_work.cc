#include "runtime/tune/same_work.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/sha256.h"
#include "runtime/compile/cubin.h"

namespace hone {
namespace {

// Symbols tell configs apart that their code does not; a binary with one kernel needs none.
bool NamesDoNotMatter(const Artifact& artifact) {
  return artifact.format == ArtifactFormat::kCubin && artifact.resources.size() == 1;
}

std::string CodeIdentity(const Artifact& artifact) {
  if (NamesDoNotMatter(artifact)) {
    if (auto code = CubinCodeSha256(artifact.bytes); code.ok()) return *std::move(code);
  }
  return artifact.sha256;
}

void AddStep(const ResolvedStep& step, bool with_symbol, Sha256& hash) {
  hash.Update(absl::StrCat(with_symbol ? step.symbol : "", " ", step.symbol.empty(), " grid ",
                           absl::StrJoin(step.grid, " "), " block ", absl::StrJoin(step.block, " "),
                           " cluster ", absl::StrJoin(step.cluster, " "), " shared ",
                           step.dynamic_shared_bytes, " pdl ", step.programmatic_dependent_launch,
                           " memset ", step.memset_address, " ", step.memset_bytes, " ",
                           step.memset_value, "\n"));
  for (const PackedArgument& argument : step.arguments) {
    hash.Update(absl::StrCat(argument.bytes.size(), " ", argument.tensor_map, " "));
    hash.Update({reinterpret_cast<const char*>(argument.bytes.data()), argument.bytes.size()});
  }
}

void AddTensorMap(const ResolvedTensorMap& map, Sha256& hash) {
  const RecipeTensorMap& recipe = *map.recipe;
  hash.Update(absl::StrCat(
      "map ", map.address, " ", absl::StrJoin(map.dims, " "), " strides ",
      absl::StrJoin(map.strides_bytes, " "), " box ", absl::StrJoin(map.box, " "), " steps ",
      absl::StrJoin(map.element_strides, " "), " ", recipe.swizzle, " ", recipe.interleave, " ",
      recipe.l2_promotion, " ", recipe.fill_nan, " ", static_cast<int>(recipe.dtype)));
}

}  // namespace

std::string WorkIdentity(const BuiltCandidate& built, const std::vector<SizeBindings>& sizes,
                         const DeviceFacts& facts) {
  const bool with_symbols = !NamesDoNotMatter(built.artifact);
  Sha256 hash;
  hash.Update(CodeIdentity(built.artifact));
  for (const SizeBindings& binding : sizes) {
    const auto launch = ResolveLaunch(built.recipe, OutlineArguments(built.recipe, binding, facts));
    if (!launch.ok()) return "";
    hash.Update(absl::StrCat("\nat ", absl::StrJoin(binding, " ", absl::PairFormatter("=")), "\n"));
    for (const ResolvedStep& step : launch->steps) AddStep(step, with_symbols, hash);
    for (const ResolvedTensorMap& map : launch->tensor_maps) AddTensorMap(map, hash);
  }
  return hash.FinishHex();
}

const Twins::Twin* Twins::Find(const BuiltCandidate& built, const std::vector<SizeBindings>& sizes,
                               const DeviceFacts& facts) {
  const std::string identity = WorkIdentity(built, sizes, facts);
  if (identity.empty()) return nullptr;
  const auto [known, first] = first_.emplace(identity, built.config);
  if (first) return nullptr;
  return &twins_.emplace_back(Twin{built.config, known->second, built.artifact.sha256});
}

}  // namespace hone
