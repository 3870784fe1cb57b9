// The front door: memory, single flight, get or tune.
//
// A hit is one look-up in memory: no compiler, GPU or disk. Everything else runs on the cache's own
// threads; callers are answered through a callback by the time they named, and the shared work goes
// on without them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/cache/caching_compiler.h"
#include "runtime/compile/compiler.h"
#include "runtime/device/device_activity.h"
#include "runtime/device/profiler.h"
#include "runtime/kernel/keys.h"
#include "runtime/kernel/tuned_kernel.h"
#include "runtime/store/kernel_store.h"
#include "runtime/tune/autotuner.h"

namespace hone {

enum class Policy { kBestAvailable = 0, kWaitTuned = 1, kNoWait = 2, kFrozen = 3 };
// When tunes run that nobody waits for. Tune and WAIT_TUNED run at once, except under kNever.
enum class TuneWhen {
  kOnRequest,  // not at all: misses are recorded
  kIdle,       // misses are tuned while nobody else uses the device
  kAlways,     // misses are tuned after what callers wait for
  kNever,      // no tune at all, whoever asks
};
// "on_request", "idle", "always", "never"; nullopt for anything else.
std::optional<TuneWhen> ParseTuneWhen(absl::string_view name);
enum class AnswerSource { kTuned = 1, kBucket = 2, kNearest = 3, kDefault = 4 };

// What a kernel must run on, resolved against the daemon's devices.
struct TargetSpec {
  std::string architecture;  // empty: the device's
  std::optional<DeviceFingerprint> device;
  int driver_version = 0;  // 0: the daemon's own or unknown
  int device_index = 0;
};

struct KernelRequest {
  KernelTemplatePtr kernel_template;
  Values values;
  TargetSpec target;
  Policy policy = Policy::kBestAvailable;
  absl::Duration max_wait = absl::Seconds(30);
  Numerics numerics = Numerics::kWithinTolerance;
  // Who asks, for instance a connection's number: those who wait for the same queue take turns.
  uint64_t client = 0;
};

// A tuned key beside one that missed.
struct NearKey {
  std::string key;
  std::string problem;  // Problem::ToString()
  std::string architecture;
  std::vector<std::string> differs_in = {};  // names of ingredients
};

struct KernelAnswer {
  std::shared_ptr<const TunedKernel> kernel;
  AnswerSource source = AnswerSource::kDefault;
  std::string key;              // the request's tuning key; empty without a device
  std::string answered_by_key;  // empty for kDefault
  Values answered_by_values;
  Values bucket_values;               // the request's problem, bucketed
  std::vector<NearKey> nearest_keys;  // when not IsTuned; most alike first
  bool stale = false;
  std::string stale_reason;
  // It is stale for its timing (another driver, invalidated), which a tune would take again.
  bool stale_timing = false;
  // The compiler at hand would build another binary: callers who may compile are not served this.
  bool other_build = false;
  bool tuning = false;
  std::optional<WinnerPin> pin;  // set when it answers
};

// Tuned for the request itself or its bucket.
inline bool IsTuned(const KernelAnswer& answer) {
  return answer.source == AnswerSource::kTuned || answer.source == AnswerSource::kBucket;
}

// One tune under way or just ended, shared by everyone who asked for it. Thread-safe.
class TuneRun {
 public:
  struct Event {
    enum class Kind { kStarted, kMeasurement, kProgress, kFinished } kind = Kind::kProgress;
    // kStarted
    int64_t candidates = 0, reused = 0, work_bytes = 0, work_flops = 0;
    double best_known_ns = 0;  // of the stored timings that still count; 0: there is none
    std::string default_config, device;
    // kMeasurement
    std::optional<Measurement> measurement;
    // kProgress
    int64_t done = 0, total = 0;
    std::string phase;
    // kFinished; `status` not OK: the tune failed (no candidate survived, no device, ...).
    absl::Status status;
    std::shared_ptr<const TunedKernel> kernel;
    TuneOutcome outcome;
    std::optional<Measurement> winner, runner_up;
    // The same under kSameBitsAsDefault; nullptr where nothing is known to have the default's bits.
    struct SameBitsChoice {
      std::shared_ptr<const TunedKernel> kernel;
      Measurement winner;
      std::optional<Measurement> runner_up;
    };
    std::shared_ptr<const SameBitsChoice> same_bits;
    std::optional<WinnerPin> pin;  // set when the key is pinned: it is served, not the winner
    double seconds = 0;
  };
  using Listener = std::function<void(const Event&)>;

  virtual ~TuneRun() = default;
  virtual const std::string& key() const = 0;
  // Past events are replayed to the listener first, then new ones follow in order, each exactly
  // once; kFinished is the last. The listener runs on the tune's thread (replay: on the caller's)
  // and must not block. Returns an id for Unsubscribe.
  virtual int64_t Subscribe(Listener listener) = 0;
  // No call of the listener begins after this returns. When the last subscriber leaves a run that
  // only subscribers wanted, the tune stops at the next candidate and keeps what it measured.
  virtual void Unsubscribe(int64_t id) = 0;
  virtual bool finished() const = 0;
};

struct TuneOptions {
  int64_t evaluations_max = 0;
  absl::Duration time_max = absl::InfiniteDuration();
  int64_t patience = 0;
  std::string strategy;
  double ranked_share = 0;  // see TuneSpec
  uint64_t seed = 0;
  bool force = false;
  std::vector<Config> only;  // each with its tunables in whatever order
  // kSameBitsAsDefault with `only`: the default, whose bits the others are compared with, is
  // measured too unless its bits are known. Without `only` it is in the race anyway.
  Numerics numerics = Numerics::kWithinTolerance;
};

// What becomes of one run of a tune, whoever asked for it. For each run that begins on a device
// first a kStarted, last exactly one of kFinished, kStopped and kFailed.
struct TuneReport {
  enum class Kind {
    kStarted,
    kRejected,  // a candidate, except those that a constraint excludes
    kFinished,  // the space or the budget of evaluations was covered
    kStopped,   // before that, with what it had measured
    kFailed,    // nothing could be measured, or nothing survived
  };
  Kind kind = Kind::kStarted;
  const TuneRun* run = nullptr;
  std::string template_name, problem;
  std::string why = {};                     // kStopped, kFailed
  const Measurement* rejected = nullptr;    // kRejected
  const TuneRun::Event* outcome = nullptr;  // kFinished, kFailed, kStopped; nullptr: made way
};

// Both keys of a request with what is stored under them.
struct KeyExplanation {
  std::optional<Key> tuning_key;
  std::optional<Key> artifact_key;
  std::string state;
  Values bucket_values;           // the request's problem, bucketed
  std::optional<Key> bucket_key;  // its tuning key
  // A tune of the bucket ran to its end, and its winner is neither rejected since nor stale.
  bool bucket_tuned = false;
};

// Thread-safe.
class KernelCache {
 public:
  struct DeviceLane {
    DeviceInfo info;
    std::unique_ptr<Profiler> profiler;
    // Who uses the device now; may take a second. Not set: cannot be told, so it is never idle.
    std::function<absl::StatusOr<DeviceActivity>()> activity = {};
  };
  struct Options {
    // For misses; hits need none. At most a few more than the compiler can use.
    int threads = 16;
    // Misses that wait for a thread: look-ups, builds that callers wait for, and builds for the
    // next call each have a queue of this length. Beyond it, or beyond one client's share (see
    // FairQueue), the answer is RESOURCE_EXHAUSTED, at once, with a retry hint.
    int queue_max = 1024;
    absl::Duration compile_timeout = absl::Seconds(60);
    absl::Duration launch_timeout = absl::Seconds(10);  // of one launch while tuning
    absl::Duration worker_idle = absl::Seconds(10);     // a lane releases its device after this
    // Answers kept in memory; the oldest goes first.
    int64_t memory_entries_max = 100'000;
    int64_t memory_bytes_max = int64_t{512} << 20;  // of their binaries
    absl::Duration misses_written_every = absl::Seconds(5);
    MeasuringPolicy policy;
    TuneWhen tune_when = TuneWhen::kOnRequest;
    int64_t tune_memory_bytes_max = 0;  // of device memory, for one tune; 0: what there is
    double tune_duty = 1;               // share of the time in which a tune may use its device
    // Told of every run, for logs; on the lanes' threads, so it must not block.
    std::function<void(const TuneReport&)> on_tune = {};
    // Between two looks at whether a device is idle.
    absl::Duration activity_interval = absl::Seconds(2);
  };

  // `compiler` caches in the same store. Lanes may be empty: no tune then. Both pointers must
  // outlive the cache.
  static std::unique_ptr<KernelCache> Create(CachingCompiler* compiler, KernelStore* store,
                                             std::vector<DeviceLane> lanes, Options options);
  virtual ~KernelCache() = default;

  // Only from memory; nullopt if the answer is not there.
  virtual std::optional<KernelAnswer> Find(const KernelRequest& request) = 0;

  // An answer from memory, kept by those who expect the same request again.
  struct Hit {
    virtual ~Hit() = default;
    KernelAnswer answer;
  };
  // As Find; nullptr if the answer is not there.
  virtual std::shared_ptr<const Hit> FindHit(const KernelRequest& request) = 0;
  // Whether FindHit would find this very answer again, at a small part of its cost. Then it counts
  // as a hit.
  virtual bool Again(const Hit& hit) = 0;

  // Calls `done` exactly once, at the latest shortly after request.max_wait, possibly before
  // returning. DEADLINE_EXCEEDED: nothing could be had within max_wait; the work goes on.
  // RESOURCE_EXHAUSTED: too much waits already, retry as hinted.
  //
  // What is returned may be called once, by a caller who has gone: `done` then gets CANCELLED, and
  // work that is still queued for nobody else is dropped. Work that has begun goes on, and so does
  // a tune.
  using Done = std::function<void(absl::StatusOr<KernelAnswer>)>;
  using Leave = std::function<void()>;
  virtual Leave Get(KernelRequest request, Done done) = 0;
  // Get for callers that may block.
  absl::StatusOr<KernelAnswer> GetBlocking(KernelRequest request);

  // Starts a tune of exactly this problem or joins the one under way for its key.
  // FAILED_PRECONDITION: no device for the target, or tuning is off (TuneWhen::kNever). What is
  // wrong with params and options is said here (see CheckTune), before anything is compiled.
  virtual absl::StatusOr<std::shared_ptr<TuneRun>> Tune(KernelTemplatePtr kernel_template,
                                                        const Values& values,
                                                        const TargetSpec& target,
                                                        const TuneOptions& options,
                                                        bool* joined) = 0;

  // Measures the ceilings of the device with this DeviceFingerprint::Key() and stores them, unless
  // they are stored. Calls `done` exactly once, possibly before returning: FAILED_PRECONDITION when
  // this daemon has no such device, UNAVAILABLE while it is tuning (they are measured when its
  // tunes are over), else the lane's error.
  using CeilingsDone = std::function<void(absl::Status)>;
  virtual void EnsureCeilings(const std::string& device_key, CeilingsDone done) = 0;

  virtual absl::StatusOr<KeyExplanation> Explain(const KernelRequest& request) = 0;

  // As KernelStore's, with what was not written yet. Blocks on the store.
  virtual absl::StatusOr<std::vector<Miss>> ListMisses(const MissFilter& filter) = 0;
  // An artifact that an answer in memory holds, wherever the store's copy is; nullptr if none does.
  // Touches memory only.
  virtual std::shared_ptr<const Artifact> FindArtifact(const std::string& sha256) const = 0;

  // The key is answered with `config`, its tunables in whatever order, from now on, where it is
  // valid for the request and has the bits it asks for. NOT_FOUND for an unknown key,
  // FAILED_PRECONDITION for a config that was never measured under it or was rejected; the texts
  // name what would be right.
  virtual absl::StatusOr<WinnerPin> PinWinner(const std::string& tuning_key, const Config& config,
                                              const std::string& reason) = 0;
  // The pin that is no more, with the new generation. FAILED_PRECONDITION: there is none.
  virtual absl::StatusOr<WinnerPin> UnpinWinner(const std::string& tuning_key) = 0;
  // See KernelStore::InvalidateMeasurements.
  virtual absl::StatusOr<InvalidationCount> Invalidate(const InvalidationFilter& filter,
                                                       const std::string& why, bool dry_run) = 0;

  // What a candidate of this tuning would be measured with here and now; empty without its device.
  virtual Provenance PresentProvenance(const TuningRecord& record) const = 0;

  // New generations of what is answered to `numerics`, from any thread; first the present ones
  // under `template_name` (empty: all).
  using WatchListener = std::function<void(const std::string& key, const std::string& template_name,
                                           uint64_t generation)>;
  virtual int64_t Watch(std::string template_name, Numerics numerics, WatchListener listener) = 0;
  virtual void Unwatch(int64_t id) = 0;

  virtual std::vector<DeviceInfo> Devices() const = 0;
  // memory_hits, store_hits, misses, untuned (requests that nothing tuned answered),
  // joined_waiters, dropped_unwanted (work that everyone who asked for it left while it was
  // queued), refused_full (requests refused because a queue was full), waiting_lookups and
  // waiting_builds (for a thread, now), compiles, tunes, measurements, ...
  virtual std::map<std::string, int64_t> Counters() const = 0;

  // Refuses new work with UNAVAILABLE, stops tunes at the next candidate, answers all waiters.
  virtual void Shutdown() = 0;
};

}  // namespace hone
