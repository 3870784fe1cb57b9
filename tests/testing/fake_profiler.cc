#include "tests/testing/fake_profiler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/sha256.h"

namespace hone {
namespace {

std::string SizesText(const SizeBindings& sizes) {
  return absl::StrJoin(sizes, " ", absl::PairFormatter("="));
}

}  // namespace

DeviceInfo FakeDeviceInfo() {
  DeviceInfo info;
  info.index = 0;
  info.name = "Fake H200";
  info.architecture = "sm_90a";
  info.fingerprint.kind = "cuda";
  info.fingerprint.architecture = "sm_90a";
  info.fingerprint.sm_count = 132;
  info.fingerprint.clock_khz = 1'980'000;
  info.fingerprint.memory_clock_khz = 3'201'000;
  info.fingerprint.memory_bus_bits = 6144;
  info.fingerprint.l2_bytes = 60 << 20;
  info.fingerprint.memory_bytes = int64_t{139} << 30;
  info.limits.shared_bytes_per_block_max = 232'448;
  info.limits.shared_bytes_per_sm = 233'472;
  info.limits.max_cluster_size = 16;
  info.driver_version = 13000;
  info.driver = "580.0";
  return info;
}

FakeProfiler::FakeProfiler(DeviceInfo info) : info_(std::move(info)) {}

double FakeProfiler::DefaultTimeNs(const std::string& config) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : config) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return 10'000.0 + static_cast<double>(hash % 90'000);
}

void FakeProfiler::SetTiming(const std::string& config, std::vector<double> samples_ns) {
  MutexLock lock(&mutex_);
  scripts_[config].samples_ns = std::move(samples_ns);
}

void FakeProfiler::SetSlowedDown(std::string why) {
  MutexLock lock(&mutex_);
  slowed_down_ = std::move(why);
}

void FakeProfiler::RejectOnCheck(const std::string& config, Rejection rejection) {
  MutexLock lock(&mutex_);
  scripts_[config].on_check = std::move(rejection);
}

void FakeProfiler::RejectOnSample(const std::string& config, Rejection rejection) {
  MutexLock lock(&mutex_);
  scripts_[config].on_sample = std::move(rejection);
}

void FakeProfiler::SetIrreproducible(const std::string& config) {
  MutexLock lock(&mutex_);
  scripts_[config].irreproducible = true;
}

void FakeProfiler::SetOutputHash(const std::string& config, std::string output_sha256) {
  MutexLock lock(&mutex_);
  scripts_[config].output_sha256 = std::move(output_sha256);
}

void FakeProfiler::FailInfo(absl::Status status) {
  MutexLock lock(&mutex_);
  info_status_ = std::move(status);
}

void FakeProfiler::FailBegin(absl::Status status) {
  MutexLock lock(&mutex_);
  begin_status_ = std::move(status);
}

void FakeProfiler::FailOn(const std::string& config, absl::Status status) {
  MutexLock lock(&mutex_);
  scripts_[config].lane = std::move(status);
}

void FakeProfiler::SetCeilings(absl::StatusOr<DeviceCeilings> ceilings) {
  MutexLock lock(&mutex_);
  ceilings_ = std::move(ceilings);
}

int FakeProfiler::ceiling_measurements() const {
  MutexLock lock(&mutex_);
  return ceiling_measurements_;
}

absl::StatusOr<DeviceCeilings> FakeProfiler::MeasureCeilings(int64_t) {
  MutexLock lock(&mutex_);
  ++ceiling_measurements_;
  return ceilings_;
}

void FakeProfiler::OnBegin(std::function<void(const ProfileProblem&)> hook) {
  MutexLock lock(&mutex_);
  on_begin_ = std::move(hook);
}

void FakeProfiler::OnCheck(std::function<void(const ProfileCandidate&)> hook) {
  MutexLock lock(&mutex_);
  on_check_ = std::move(hook);
}

void FakeProfiler::OnSample(std::function<void(const Config&)> hook) {
  MutexLock lock(&mutex_);
  on_sample_ = std::move(hook);
}

int FakeProfiler::begins() const {
  MutexLock lock(&mutex_);
  return begins_;
}

int FakeProfiler::checks() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(checked_.size());
}

int FakeProfiler::samples() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(sampled_.size());
}

int FakeProfiler::ends() const {
  MutexLock lock(&mutex_);
  return ends_;
}

int FakeProfiler::releases() const {
  MutexLock lock(&mutex_);
  return releases_;
}

int FakeProfiler::checks_of(const std::string& config) const {
  MutexLock lock(&mutex_);
  return static_cast<int>(std::count(checked_.begin(), checked_.end(), config));
}

int FakeProfiler::samples_of(const std::string& config) const {
  MutexLock lock(&mutex_);
  return static_cast<int>(std::count(sampled_.begin(), sampled_.end(), config));
}

int FakeProfiler::loaded() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(loaded_.size());
}

std::vector<std::string> FakeProfiler::checked() const {
  MutexLock lock(&mutex_);
  return checked_;
}

std::vector<std::string> FakeProfiler::sampled() const {
  MutexLock lock(&mutex_);
  return sampled_;
}

std::optional<ProfileProblem> FakeProfiler::problem() const {
  MutexLock lock(&mutex_);
  return problem_;
}

absl::StatusOr<DeviceInfo> FakeProfiler::Info() {
  MutexLock lock(&mutex_);
  if (!info_status_.ok()) return info_status_;
  return info_;
}

absl::Status FakeProfiler::Begin(const ProfileProblem& problem) {
  std::function<void(const ProfileProblem&)> hook;
  {
    MutexLock lock(&mutex_);
    ++begins_;
    hook = on_begin_;
  }
  if (hook) hook(problem);
  MutexLock lock(&mutex_);
  if (!begin_status_.ok()) return begin_status_;
  problem_ = problem;
  loaded_.clear();
  next_sample_.clear();
  return absl::OkStatus();
}

absl::StatusOr<CheckResult> FakeProfiler::Check(const ProfileCandidate& candidate) {
  const std::string config = candidate.config.ToString();
  std::function<void(const ProfileCandidate&)> hook;
  {
    MutexLock lock(&mutex_);
    if (!problem_) return absl::InternalError("Check before Begin");
    checked_.push_back(config);
    hook = on_check_;
  }
  if (hook) hook(candidate);

  MutexLock lock(&mutex_);
  const Script& script = scripts_[config];
  if (!script.lane.ok()) return script.lane;
  CheckResult result;
  if (script.on_check) {
    result.rejection = script.on_check;
    return result;
  }
  loaded_[candidate.id] = candidate.config;
  result.verified = problem_->check.verifies();
  result.verified_sizes.push_back(SizesText(problem_->sizes));
  for (const SizeBindings& sizes : candidate.check_sizes) {
    result.verified_sizes.push_back(SizesText(sizes));
  }
  result.output_sha256 =
      script.output_sha256.empty() ? Sha256Hex("the right outputs") : script.output_sha256;
  result.irreproducible = script.irreproducible;
  if (script.irreproducible) result.output_sha256.clear();
  return result;
}

absl::StatusOr<SampleResult> FakeProfiler::Sample(int64_t candidate_id, int count) {
  std::function<void(const Config&)> hook;
  Config config;
  {
    MutexLock lock(&mutex_);
    const auto found = loaded_.find(candidate_id);
    if (found == loaded_.end()) {
      return absl::InternalError(absl::StrCat("Sample of candidate ", candidate_id,
                                              ", which was not checked or was rejected"));
    }
    config = found->second;
    sampled_.push_back(config.ToString());
    hook = on_sample_;
  }
  if (hook) hook(config);

  MutexLock lock(&mutex_);
  const Script& script = scripts_[config.ToString()];
  if (!script.lane.ok()) return script.lane;
  SampleResult result;
  if (script.on_sample) {
    result.rejection = script.on_sample;
    loaded_.erase(candidate_id);
    return result;
  }
  size_t& next = next_sample_[candidate_id];
  for (int i = 0; i < count; ++i) {
    result.samples_ns.push_back(script.samples_ns.empty()
                                    ? DefaultTimeNs(config.ToString())
                                    : script.samples_ns[next++ % script.samples_ns.size()]);
  }
  result.clock_mhz = 1980;
  result.slowed_down = slowed_down_;
  return result;
}

void FakeProfiler::Forget(int64_t candidate_id) {
  MutexLock lock(&mutex_);
  loaded_.erase(candidate_id);
}

void FakeProfiler::End() {
  MutexLock lock(&mutex_);
  ++ends_;
  problem_.reset();
  loaded_.clear();
}

void FakeProfiler::Release() {
  MutexLock lock(&mutex_);
  ++releases_;
  problem_.reset();
  loaded_.clear();
}

}  // namespace hone
