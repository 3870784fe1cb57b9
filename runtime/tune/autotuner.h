// Tunes one problem on one device: compile workers feed one exclusive measuring lane.
//
// For each candidate: constraints on the host, compile, resource check from the artifact's own
// metadata, guarded launch and output check, first samples; then interleaved rounds over the
// survivors, so that drift hits all alike. A candidate's failure is a measurement with a rejection.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/compile/compiler.h"
#include "runtime/device/profiler.h"
#include "runtime/kernel/config_space.h"
#include "runtime/kernel/measurement.h"
#include "runtime/kernel/problem.h"

namespace hone {

struct TuneSpec {
  KernelTemplatePtr kernel_template;
  Problem problem;
  DeviceInfo device;
  MeasuringPolicy policy;

  int64_t evaluations_max = 0;  // 0: no limit
  absl::Duration time_max = absl::InfiniteDuration();
  // Evaluations in a row without a candidate faster by more than kTieMargin after which no more are
  // tried; 0: no limit. The race among what was found takes place.
  int64_t patience = 0;
  absl::Duration compile_timeout = absl::Seconds(60);  // of one candidate
  absl::Duration launch_timeout = absl::Seconds(10);   // of one launch
  int64_t memory_bytes_max = 0;                        // of device memory; 0: what there is
  std::string strategy;                                // empty: chosen from the budget
  // Of the configs of a strategy that lists them all beforehand, only this share, the best by an
  // analytic estimate, is tried, with a few others as controls; 0 and 1: all of them.
  double ranked_share = 0;
  uint64_t seed = 0;
  std::vector<Config> only;  // empty: the whole space
  // To look at first, after the default and the priors: winners of neighbouring problems and of
  // other devices. Those that are not valid here are passed over.
  std::vector<Config> seeds;
  // What is known already: valid samples are not taken again, expired rejections and what was
  // invalidated are.
  std::vector<Measurement> known;
  // What a candidate measured now is measured with. Known timings made with something else are
  // stale.
  Provenance present;
  // The winner was chosen under another provenance: `incumbents`, who won so far, and the front of
  // the stale timings are measured again (revalidation.h), whatever the budget.
  bool revalidate = false;
  std::vector<Config> incumbents;
  // A tune over `known` ran to its end and chose a winner. When false, known candidates that are
  // not clearly behind race again, because the tune that measured them may have been killed
  // half-way.
  bool known_race_finished = false;
};

// Called from the tuning thread, in order.
class TuneObserver {
 public:
  virtual ~TuneObserver() = default;
  // `candidates`: configs to look at; `reused`: of these, known already.
  virtual void OnStarted(int64_t candidates, int64_t reused, const Config& default_config,
                         int64_t work_bytes, int64_t work_flops) = 0;
  // A candidate was rejected or got (more) samples. To be kept at once: a killed tune resumes from
  // it.
  virtual void OnMeasurement(const Measurement& measurement) = 0;
  virtual void OnProgress(int64_t done, int64_t total, const std::string& phase) = 0;
};

struct TuneOutcome {
  std::vector<Measurement> measurements;  // known and new, in declaration order
  int64_t measured = 0;                   // newly sampled
  int64_t rejected = 0;                   // newly rejected
  int64_t reused = 0;
  int64_t identical = 0;  // not sampled: the same work as another candidate
  int64_t left_out = 0;   // for their estimate; see TuneSpec::ranked_share
  // By how much the best that the ranking kept is slower than the best known, controls and earlier
  // results included: at least so much a ranked tune loses. 0: nothing known to be lost.
  double ranking_regret = 0;
  int64_t revalidated = 0;  // of `measured`: known ones whose timing was stale
  int64_t compiled = 0;     // compiles that were not answered from the cache
  bool unverified = false;
  std::string stopped_early;  // why; empty when the space or the budget was covered
};

class Autotuner {
 public:
  // `compiler` must outlive this object.
  explicit Autotuner(Compiler* compiler);

  // Blocks. Uses `profiler` exclusively. Stops at the next candidate once `cancelled` returns true
  // and then returns what it has. An error means that nothing could be tried (no such device,
  // reference does not compile or run); a tune in which no candidate survived is OK here and has no
  // samples.
  absl::StatusOr<TuneOutcome> Tune(const TuneSpec& spec, Profiler& profiler, TuneObserver& observer,
                                   const std::function<bool()>& cancelled);

 private:
  Compiler* const compiler_;
};

}  // namespace hone
