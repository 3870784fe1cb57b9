// Queues of tunes and the lanes that run them: one exclusive lane per device, one queue per kind of
// device, so that equal devices share work.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/cache/kernel_resolver.h"
#include "runtime/cache/tune_run.h"

namespace hone {

// Thread-safe.
class TuneScheduler {
 public:
  struct Counters {
    std::atomic<int64_t> tunes{0}, joined{0}, measurements{0}, rejections{0}, compiles{0};
    // Results that could not be stored; the tune goes on with what it has in memory.
    std::atomic<int64_t> store_write_failures{0};
    // Runs that nobody waited for: begun, and interrupted because the device was wanted.
    std::atomic<int64_t> background_tunes{0}, interrupted_tunes{0};
  };
  // Called on the lane's thread, before the run's last event.
  struct Hooks {
    // A run has measured something and has come to an end, whatever end; it is all stored.
    std::function<void(const TuneRunImpl& run)> on_results;
    // It chose a winner; once for each way of choosing, after on_results.
    std::function<void(const TuneRunImpl& run, const Winner& winner)> on_winner;
  };

  TuneScheduler(CachingCompiler* compiler, KernelStore* store, const KernelResolver* resolver,
                std::vector<KernelCache::DeviceLane> lanes, KernelCache::Options options,
                Hooks hooks);
  ~TuneScheduler();

  // Joins the run of the same key and options under way, else queues a new one. FAILED_PRECONDITION
  // when no lane measures the request's device, UNAVAILABLE while shutting down; else as CheckTune.
  absl::StatusOr<std::shared_ptr<TuneRunImpl>> Start(const ResolvedRequest& request,
                                                     const TuneOptions& options, bool* joined);
  // Tunes the request's bucket when TuneWhen permits it and nobody waits for anything else; does
  // nothing if it does not, or if there is no device for it or too much is waiting already.
  void Offer(const ResolvedRequest& request);
  // See KernelCache.
  void EnsureCeilings(const std::string& device_key, KernelCache::CeilingsDone done);
  // True if a run for this tuning key is queued or running.
  bool IsTuning(const std::string& tuning_key) const;

  const std::vector<DeviceInfo>& devices() const { return devices_; }
  const Counters& counters() const { return counters_; }

  // Cancels every run; queued ones finish with UNAVAILABLE. Returns when the lanes are idle.
  void Shutdown();

 private:
  struct Lane {
    DeviceInfo info;
    std::unique_ptr<Profiler> profiler;
    std::function<absl::StatusOr<DeviceActivity>()> activity;
    absl::Time next_look = absl::InfinitePast();  // at the device's activity; the lane's thread
    std::thread thread;
    // The lane's thread only.
    bool ceilings_tried = false;
    bool ceilings_due = false;
    bool last_was_put_off = false;
  };
  struct Queue {
    std::deque<std::shared_ptr<TuneRunImpl>> runs;     // that callers wait for
    std::deque<std::shared_ptr<TuneRunImpl>> put_off;  // that nobody waits for
    std::vector<KernelCache::CeilingsDone> wants_ceilings;
    int running = 0;  // lanes with a run
    bool idle() const { return runs.empty() && running == 0; }
  };

  absl::Status CheckDevice(const ResolvedRequest& request) const;
  void Loop(Lane* lane);
  // What the lane is to do next; nullptr: give up the device and ask again.
  std::shared_ptr<TuneRunImpl> NextRun(Lane& lane, bool released);
  // Until there may be work, the lane has kept its device for long enough, or it is time to look
  // again whether the device is idle. False: shutting down.
  bool AwaitWork(const Lane& lane, bool released);
  bool MayRunPutOff(Lane& lane, bool own_process);
  // A put-off run makes way; then it is as if it had not begun, but for what it measured.
  bool MakesWay(Lane& lane, const std::shared_ptr<TuneRunImpl>& run);
  // False: it made way, or nothing could be measured.
  bool RunOne(Lane& lane, const std::shared_ptr<TuneRunImpl>& run);
  // Measures the device's ceilings after its first tunes, when no other follows for a while:
  // whoever waits for a tune does not wait for this first.
  void RestWithCeilings(Lane& lane);
  // For those who asked; false if nobody did.
  bool MeasureWantedCeilings(Lane& lane);
  // Of the lane's device, if they are not known.
  absl::Status MeasureCeilings(Lane& lane);
  void Finish(const std::shared_ptr<TuneRunImpl>& run, TuneRun::Event event);
  // To Options::on_tune. `report` says what happened, the run is filled in.
  void Report(const TuneRunImpl& run, TuneReport report) const;
  void ReportEnd(const TuneRunImpl& run, const TuneRun::Event& finished) const;
  absl::StatusOr<TuneOutcome> Measure(Lane& lane, TuneRunImpl& run,
                                      const std::function<bool()>& cancelled);
  // Fills in what is known of the key and whether it stands.
  absl::Status AddKnown(const TuneRunImpl& run, TuneSpec& spec);
  // Has the default measured, or refuses the tune where it is known to be in vain.
  absl::Status AddDefaultForItsBits(const TuneRunImpl& run, TuneSpec& spec) const;
  Provenance PresentOn(const DeviceInfo& device, const KernelTemplate& kernel_template) const;
  absl::Status Choose(const Lane& lane, const TuneRunImpl& run, TuneRun::Event& finished);
  // The best under `numerics`, stored unless the run was cancelled; nullopt: none contends.
  struct Chosen {
    std::shared_ptr<const TunedKernel> kernel;
    Measurement winner;
    std::optional<Measurement> runner_up;
  };
  absl::StatusOr<std::optional<Chosen>> ChooseBy(Numerics numerics, const Provenance& present,
                                                 const TuneRunImpl& run,
                                                 const TuneOutcome& outcome);
  uint64_t Store(const TuneRunImpl& run, Winner winner);

  CachingCompiler* const compiler_;
  KernelStore* const store_;
  const KernelResolver* const resolver_;
  const KernelCache::Options options_;
  const Hooks hooks_;
  std::vector<DeviceInfo> devices_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Counters counters_;

  mutable Mutex mutex_;
  std::map<std::string, Queue> queues_ ABSL_GUARDED_BY(mutex_);  // by fingerprint key
  // Queued and running, by identity of key and options.
  std::map<std::string, std::shared_ptr<TuneRunImpl>> active_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hone
