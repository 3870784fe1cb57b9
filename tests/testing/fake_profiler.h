// A Profiler in memory. Candidates obey by default: they check out and take a time that depends
// only on their config's text. Tests script the exceptions by config ("XBLOCK=256 VEC=4").
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/device/profiler.h"

namespace hone {

// An H200 as its driver would describe it.
DeviceInfo FakeDeviceInfo();

// Scripting and counters are thread-safe; the Profiler's own methods are called by one thread at a
// time, and misuse (Check before Begin, Sample of a candidate that was not checked) is INTERNAL.
class FakeProfiler : public Profiler {
 public:
  explicit FakeProfiler(DeviceInfo info = FakeDeviceInfo());

  // Samples of a config, repeated from the start when more are asked for.
  void SetTiming(const std::string& config, std::vector<double> samples_ns);
  // The time of a config that nobody scripted.
  static double DefaultTimeNs(const std::string& config);
  void RejectOnCheck(const std::string& config, Rejection rejection);
  void RejectOnSample(const std::string& config, Rejection rejection);
  // Bits of its outputs; configs not named all give the same ones.
  void SetOutputHash(const std::string& config, std::string output_sha256);
  // Its outputs differ from launch to launch.
  void SetIrreproducible(const std::string& config);
  // What the device says after every sample from now on.
  void SetSlowedDown(std::string why);
  void FailInfo(absl::Status status);
  // Every Begin fails until it is called with OK.
  void FailBegin(absl::Status status);
  // The lane itself fails while this config is checked or sampled.
  void FailOn(const std::string& config, absl::Status status);

  // What MeasureCeilings gives from now on; without, it is UNIMPLEMENTED.
  void SetCeilings(absl::StatusOr<DeviceCeilings> ceilings);

  // Called in Begin, Check and Sample without any lock held, so that a test can block there.
  void OnBegin(std::function<void(const ProfileProblem&)> hook);
  void OnCheck(std::function<void(const ProfileCandidate&)> hook);
  void OnSample(std::function<void(const Config&)> hook);

  int begins() const;
  int checks() const;
  int samples() const;  // calls of Sample
  int ends() const;
  int releases() const;
  int ceiling_measurements() const;
  int checks_of(const std::string& config) const;
  int samples_of(const std::string& config) const;
  // Candidates loaded now.
  int loaded() const;
  // Configs in the order of their checks.
  std::vector<std::string> checked() const;
  // Configs in the order of their samples.
  std::vector<std::string> sampled() const;
  std::optional<ProfileProblem> problem() const;

  absl::StatusOr<DeviceInfo> Info() override;
  absl::Status Begin(const ProfileProblem& problem) override;
  absl::StatusOr<CheckResult> Check(const ProfileCandidate& candidate) override;
  absl::StatusOr<SampleResult> Sample(int64_t candidate_id, int count) override;
  void Forget(int64_t candidate_id) override;
  void End() override;
  absl::StatusOr<DeviceCeilings> MeasureCeilings(int64_t memory_bytes_max) override;
  void Release() override;

 private:
  struct Script {
    std::vector<double> samples_ns;
    std::optional<Rejection> on_check;
    std::optional<Rejection> on_sample;
    std::string output_sha256;
    bool irreproducible = false;
    absl::Status lane;
  };

  const DeviceInfo info_;
  mutable Mutex mutex_;
  std::string slowed_down_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Script> scripts_ ABSL_GUARDED_BY(mutex_);
  absl::Status info_status_ ABSL_GUARDED_BY(mutex_);
  absl::Status begin_status_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const ProfileProblem&)> on_begin_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const ProfileCandidate&)> on_check_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const Config&)> on_sample_ ABSL_GUARDED_BY(mutex_);
  std::optional<ProfileProblem> problem_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, Config> loaded_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, size_t> next_sample_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> checked_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> sampled_ ABSL_GUARDED_BY(mutex_);
  int begins_ ABSL_GUARDED_BY(mutex_) = 0;
  int ends_ ABSL_GUARDED_BY(mutex_) = 0;
  int releases_ ABSL_GUARDED_BY(mutex_) = 0;
  int ceiling_measurements_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::StatusOr<DeviceCeilings> ceilings_ ABSL_GUARDED_BY(mutex_) =
      absl::UnimplementedError("fake lane: no ceilings");
};

}  // namespace hone
