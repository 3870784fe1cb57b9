#include "runtime/cache/explain_keys.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/cache/provenance.h"

namespace hone {
namespace {

absl::StatusOr<bool> IsTunedToTheEnd(const ResolvedRequest& request, const std::string& key,
                                     const CachingCompiler& compiler, KernelStore& store) {
  HONE_ASSIGN_OR_RETURN(const std::optional<Winner> winner,
                        store.GetWinner(key, request.kernel_template->digest(), request.numerics));
  if (!winner || winner->variants.empty()) return false;
  HONE_ASSIGN_OR_RETURN(const auto measurements, store.GetMeasurements(key));
  const auto measured =
      std::find_if(measurements.begin(), measurements.end(), [&](const Measurement& measurement) {
        return measurement.config == winner->variants.front().config;
      });
  if (measured == measurements.end() || measured->rejection) return false;
  const Provenance present =
      ProvenanceOf(compiler, request.architecture, request.driver_version, request.driver);
  return StaleReason(*measured, present).empty();
}

}  // namespace

absl::StatusOr<KeyExplanation> ExplainKeys(const ResolvedRequest& request,
                                           const KernelAssembler& assembler,
                                           CachingCompiler& compiler, KernelStore& store) {
  KeyExplanation explanation;
  explanation.tuning_key = request.TuningKeyOf(request.problem);
  const Problem bucketed = request.problem.Bucketed(*request.kernel_template);
  explanation.bucket_values = bucketed.values();
  explanation.bucket_key = request.TuningKeyOf(bucketed);
  if (explanation.bucket_key) {
    HONE_ASSIGN_OR_RETURN(explanation.bucket_tuned,
                          IsTunedToTheEnd(request, explanation.bucket_key->id(), compiler, store));
  }
  HONE_ASSIGN_OR_RETURN(const Config config, assembler.Untuned(request));
  HONE_ASSIGN_OR_RETURN(
      const Program program,
      InstantiateProgram(*request.kernel_template, request.problem, config, request.architecture));
  const auto artifact_key = compiler.KeyFor(program, request.driver_version);
  if (artifact_key.ok()) {
    explanation.artifact_key = *artifact_key;
  } else if (!absl::IsFailedPrecondition(artifact_key.status())) {
    return artifact_key.status();
  }
  HONE_ASSIGN_OR_RETURN(const auto stored, compiler.Lookup(program, request.driver_version,
                                                           /*any_build=*/!artifact_key.ok()));
  absl::StrAppend(
      &explanation.state, "binary of ", config.ToString(), ": ",
      stored ? absl::StrCat("stored, built by ", stored->artifact.builder) : "not stored");
  // Its key has a digest of the compiler's headers.
  if (!artifact_key.ok()) {
    absl::StrAppend(&explanation.state, "; no key: ", artifact_key.status().message());
  }
  if (!explanation.tuning_key) {
    absl::StrAppend(&explanation.state, "; timings need a device");
    return explanation;
  }
  HONE_ASSIGN_OR_RETURN(const auto measurements,
                        store.GetMeasurements(explanation.tuning_key->id()));
  absl::StrAppend(&explanation.state, "; measurements: ", measurements.size());
  if (!measurements.empty()) return explanation;
  // A miss: the stored key that differs in the fewest ingredients says why.
  std::string nearest;
  size_t fewest = 0;
  HONE_ASSIGN_OR_RETURN(const TuningPage page,
                        store.ListTunings(request.kernel_template->name(), 1000, ""));
  for (const TuningRecord& record : page.records) {
    const auto difference = explanation.tuning_key->Difference(Key(record.ingredients));
    if (nearest.empty() || difference.size() < fewest) {
      fewest = difference.size();
      nearest =
          absl::StrCat(record.key.substr(0, 12), " differs in ", absl::StrJoin(difference, ", "));
    }
  }
  absl::StrAppend(&explanation.state, nearest.empty() ? "; nothing of this template is tuned"
                                                      : "; nearest tuned key " + nearest);
  return explanation;
}

}  // namespace hone
