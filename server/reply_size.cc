#include "server/reply_size.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "runtime/kernel/measurement.h"
#include "server/errors.h"

namespace hone {
namespace {

// Of a description or a problem of a long list.
constexpr size_t kShortTextBytes = 80;
// Of a rejection's detail in a large tune.
constexpr size_t kShortDetailBytes = 160;
// A field's tag and length, at most.
constexpr size_t kFrameBytes = 12;

// What files' contents may have for the whole reply to stay small enough.
int64_t RoomForFiles(const v1::DescribeTemplateResponse& response) {
  size_t others = response.ByteSizeLong();
  for (const v1::SourceFile& file : response.template_().files()) {
    others -= file.content().size();
    others += file.name().size() + kFrameBytes;  // should it be left out
  }
  return others >= kReplyBytesMax ? 0 : static_cast<int64_t>(kReplyBytesMax - others);
}

// Fastest first, then rejections, last those that the template's own constraints explain.
bool MattersMore(const v1::MeasurementInfo& a, const v1::MeasurementInfo& b) {
  const auto rank = [](const v1::MeasurementInfo& m) {
    if (!m.has_rejection()) return 0;
    return m.rejection().kind() == Name(RejectionKind::kConstraint) ? 2 : 1;
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  return rank(a) == 0 && a.median_ns() < b.median_ns();
}

// Leaves out the candidates that matter least and counts them.
void KeepWhatFits(v1::GetTuningResponse& response) {
  auto& measurements = *response.mutable_measurements();
  std::vector<int> order(static_cast<size_t>(measurements.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return MattersMore(measurements.at(a), measurements.at(b));
  });
  std::vector<bool> kept(order.size(), false);
  size_t bytes = response.summary().ByteSizeLong() + kFrameBytes;
  for (const int index : order) {
    bytes += measurements.at(index).ByteSizeLong() + kFrameBytes;
    if (bytes > kReplyBytesMax) break;
    kept[static_cast<size_t>(index)] = true;
  }
  google::protobuf::RepeatedPtrField<v1::MeasurementInfo> fitting;
  for (int i = 0; i < measurements.size(); ++i) {
    if (kept[static_cast<size_t>(i)]) fitting.Add()->Swap(measurements.Mutable(i));
  }
  response.set_left_out(measurements.size() - fitting.size());
  measurements.Swap(&fitting);
}

}  // namespace

void FitReply(v1::ListTemplatesResponse& response) {
  if (response.ByteSizeLong() <= kReplyBytesMax) return;
  for (v1::TemplateSummary& summary : *response.mutable_templates()) {
    summary.set_description(BoundedUtf8(summary.description(), kShortTextBytes));
  }
  for (v1::TemplateProblem& problem : *response.mutable_problems()) {
    problem.set_message(BoundedUtf8(problem.message(), kShortTextBytes));
  }
}

void FitReply(int64_t files_bytes_max, v1::DescribeTemplateResponse& response) {
  const int64_t bytes_max = files_bytes_max == 0 ? RoomForFiles(response) : files_bytes_max;
  std::vector<v1::SourceFile*> files;
  for (v1::SourceFile& file : *response.mutable_template_()->mutable_files()) {
    files.push_back(&file);
  }
  std::stable_sort(files.begin(), files.end(), [](const auto* a, const auto* b) {
    return a->content().size() < b->content().size();
  });
  int64_t sent = 0;
  for (v1::SourceFile* file : files) {
    sent += static_cast<int64_t>(file->content().size());
    if (file->content().empty() || sent <= bytes_max) continue;
    file->clear_content();
    response.add_files_left_out(file->name());
  }
}

void FitReply(v1::GetTuningResponse& response) {
  if (response.ByteSizeLong() <= kReplyBytesMax) return;
  for (v1::MeasurementInfo& measurement : *response.mutable_measurements()) {
    measurement.clear_samples_ns();
  }
  if (response.ByteSizeLong() <= kReplyBytesMax) return;
  for (v1::MeasurementInfo& measurement : *response.mutable_measurements()) {
    if (!measurement.has_rejection()) continue;
    v1::Rejection& rejection = *measurement.mutable_rejection();
    rejection.set_detail(BoundedUtf8(rejection.detail(), kShortDetailBytes));
  }
  if (response.ByteSizeLong() > kReplyBytesMax) KeepWhatFits(response);
}

}  // namespace hone
