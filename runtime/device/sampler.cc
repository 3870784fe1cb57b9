#include "runtime/device/sampler.h"

#include <algorithm>
#include <utility>

#include "runtime/base/status_macros.h"

namespace hone {
namespace {

using Cache = MeasuringPolicy::Cache;

// Events count in steps of half a microsecond, and about one lies between them and the kernel.
constexpr double kShortNs = 30e3;
constexpr int kSequenceLaunches = 20;
constexpr int kSequenceLaunchesMin = 4;
// A slow candidate of a short problem is timed by itself.
constexpr double kSequenceNsMax = 20e6;
// Sets that take turns when long launches rotate: by the time the first comes again, two others
// went through the cache.
constexpr int kRotatingSets = 3;
constexpr int64_t kSetsBytesMax = int64_t{1} << 30;

// No kernel that moves these bytes and does these operations is faster than this.
double LeastNs(const DeviceFingerprint& device, int64_t bytes, int64_t flops) {
  const double bytes_per_ns = device.PeakMemoryGbPerS();
  const double flops_per_ns = device.PeakFlopPerNs();
  double least = 0;
  if (bytes_per_ns > 0) least = std::max(least, static_cast<double>(bytes) / bytes_per_ns);
  if (flops_per_ns > 0) least = std::max(least, static_cast<double>(flops) / flops_per_ns);
  return least;
}

}  // namespace

Sampler::Sampler(const ProblemContext* context, CheckCase* tuned)
    : context_(context),
      device_(context->device),
      tuned_(tuned),
      cache_(context->problem.policy.cache) {
  sequence_length_ = SequenceLength();
  if (cache_ == Cache::kWarm) {
    // One set stays in the cache; what it is made of must be the same before every launch.
    if (WritesInPlace()) sequence_length_ = 1;
    return;
  }
  if (sequence_length_ > 1) {
    sets_ = SetsThatFit(sequence_length_);
    if (sets_ < kSequenceLaunchesMin) sets_ = 1;
    sequence_length_ = sets_;
  }
  if (sets_ == 1 && cache_ == Cache::kRotating) sets_ = SetsThatFit(kRotatingSets);
}

int Sampler::SequenceLength() const {
  if (!device_->makes_sequences()) return 1;
  const ProfileProblem& problem = context_->problem;
  SizeBindings sizes = problem.sizes;
  sizes.insert(context_->facts.begin(), context_->facts.end());
  const auto bytes = problem.arguments.work_bytes.Evaluate(sizes);
  const auto flops = problem.arguments.work_flops.Evaluate(sizes);
  if (!bytes.ok() || !flops.ok()) return 1;
  return LeastNs(device_->info().fingerprint, *bytes, *flops) < kShortNs ? kSequenceLaunches : 1;
}

int Sampler::SetsThatFit(int wanted) const {
  const int64_t available = context_->memory->Available().value_or(0);
  const int64_t more =
      std::min(kSetsBytesMax, available / 4) / std::max<int64_t>(tuned_->SetBytes(), 1);
  return static_cast<int>(std::min<int64_t>(wanted, 1 + more));
}

bool Sampler::WritesInPlace() const {
  return std::any_of(context_->problem.arguments.arguments.begin(),
                     context_->problem.arguments.arguments.end(), [](const auto& argument) {
                       const auto* buffer = std::get_if<RecipeBuffer>(&argument.kind);
                       return buffer != nullptr && buffer->access == Access::kReadWrite;
                     });
}

absl::StatusOr<std::vector<ResolvedLaunch>> Sampler::Launches(const Runnable& candidate, int sets) {
  auto launches = tuned_->PrepareSets(candidate, sets);
  if (!absl::IsResourceExhausted(launches.status()) || sets == 1) return launches;
  // Somebody else took the memory meanwhile.
  sets_ = 1;
  if (cache_ != Cache::kWarm) sequence_length_ = 1;
  return tuned_->PrepareSets(candidate, 1);
}

absl::StatusOr<Sampler::Plan> Sampler::MakePlan(const Runnable& candidate) {
  Plan plan;
  HONE_ASSIGN_OR_RETURN(plan.launches, Launches(candidate, 1));
  // The first launch of a module pays for its loading.
  HONE_RETURN_IF_ERROR(tuned_->Restore());
  HONE_RETURN_IF_ERROR(device_->Launch(*candidate.module, plan.launches.front()));
  HONE_RETURN_IF_ERROR(device_->Synchronize());
  bool in_sequence = sequence_length_ > 1;
  if (in_sequence) {
    HONE_RETURN_IF_ERROR(tuned_->Restore());
    HONE_ASSIGN_OR_RETURN(const double single_ns,
                          device_->TimeNs(*candidate.module, plan.launches.front()));
    in_sequence = single_ns * sequence_length_ <= kSequenceNsMax;
  }
  if (sets_ > 1 && (in_sequence || cache_ == Cache::kRotating)) {
    HONE_ASSIGN_OR_RETURN(plan.launches, Launches(candidate, sets_));
  }
  if (!in_sequence || sequence_length_ == 1) return plan;
  if (plan.launches.size() == 1) {
    plan.launches.resize(static_cast<size_t>(sequence_length_), plan.launches.front());
  }
  HONE_ASSIGN_OR_RETURN(plan.sequence, device_->MakeSequence(*candidate.module, plan.launches));
  return plan;
}

absl::StatusOr<std::vector<double>> Sampler::Take(const Runnable& candidate, int count) {
  context_->on_phase(true, tuned_->label());
  HONE_ASSIGN_OR_RETURN(const Plan plan, MakePlan(candidate));
  std::vector<double> samples_ns;
  for (int i = 0; i < count; ++i) {
    // The limit on a launch begins anew.
    context_->on_phase(true, tuned_->label());
    HONE_RETURN_IF_ERROR(tuned_->Restore());
    if (cache_ == Cache::kCold) HONE_RETURN_IF_ERROR(device_->FlushCache());
    if (plan.sequence == nullptr) {
      const ResolvedLaunch& launch = plan.launches[static_cast<size_t>(i) % plan.launches.size()];
      HONE_ASSIGN_OR_RETURN(const double ns, device_->TimeNs(*candidate.module, launch));
      samples_ns.push_back(ns);
    } else {
      HONE_ASSIGN_OR_RETURN(const double ns, device_->TimeSequenceNs(*plan.sequence));
      samples_ns.push_back(ns / static_cast<double>(plan.launches.size()));
    }
  }
  context_->on_phase(false, tuned_->label());
  return samples_ns;
}

}  // namespace hone
