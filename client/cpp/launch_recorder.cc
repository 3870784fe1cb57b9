#include "client/cpp/launch_recorder.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/buffer_contents.h"
#include "google/protobuf/text_format.h"
#include "hone/v1/capture.pb.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// More than any template asks for.
constexpr uint64_t kAlignmentMax = 256;

uint64_t AlignmentOf(uint64_t address) {
  return address == 0 ? 0 : std::min(address & -address, kAlignmentMax);
}

template <class Number>
void AppendBytes(std::string& key, Number number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// Row-major, without gaps.
bool IsDense(const BufferExtent& extent) {
  if (extent.strides.size() != extent.shape.size()) return false;
  int64_t dense = 1;
  for (size_t i = extent.shape.size(); i-- > 0;) {
    if (extent.shape[i] == 0) return true;
    if (extent.shape[i] != 1 && extent.strides[i] != dense) return false;
    dense *= extent.shape[i];
  }
  return true;
}

absl::string_view AccessName(Access access) {
  switch (access) {
    case Access::kRead:
      return "READ";
    case Access::kWrite:
      return "WRITE";
    case Access::kReadWrite:
      return "READ_WRITE";
  }
  return "ACCESS_UNSPECIFIED";
}

std::string Quoted(absl::string_view text) { return absl::StrCat("\"", absl::CEscape(text), "\""); }

}  // namespace

LaunchRecorder::LaunchRecorder(LaunchCapture* capture, const Kernel& kernel,
                               const GetKernelOptions& asked)
    : capture_(capture), kernel_(kernel), outline_(KernelOutline::Of(kernel)) {
  const v1::TunedKernel& served = kernel.response().kernel();
  v1::CapturedProblem problem;
  problem.mutable_template_()->set_name(asked.template_name);
  problem.mutable_template_()->set_digest(asked.template_digest);
  problem.set_launched_digest(served.template_digest());
  *problem.mutable_params() = served.params();
  for (const std::string& name : kernel.dynamic_sizes()) problem.mutable_params()->erase(name);
  *problem.mutable_target() = asked.target;
  problem.set_architecture(served.architecture());
  problem.set_numerics(asked.numerics);
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.PrintToString(problem, &text_);
  identity_ = Sha256Hex(text_);
}

absl::Status LaunchRecorder::Record(const PlanInputs& inputs, const Place& place,
                                    absl::FunctionRef<bool()> accepts,
                                    absl::FunctionRef<absl::Status()> launch) const {
  std::string key;
  bool claimed = false;
  std::vector<BufferFacts> buffers;
  const auto drop_contents = [&] {
    for (const BufferFacts& buffer : buffers) {
      if (buffer.contents_file.empty()) continue;
      capture_->DropContents(buffer.contents_file, buffer.contents_bytes);
    }
  };
  const auto give_up = [&] {
    drop_contents();
    if (claimed) capture_->GiveUp(key);
  };
  // Whoever runs out of memory here still launches.
  try {
    key = KeyOf(inputs);
    claimed = capture_->with_contents() && capture_->Claim(key);
    if (claimed && accepts()) {
      buffers = FactsOf(inputs);
      StoreContents(place, buffers);
    }
  } catch (const std::bad_alloc&) {
    give_up();
    capture_->Stop("no memory is left");
    return launch();
  }
  const absl::Status status = launch();
  if (!status.ok()) {
    give_up();
    return status;
  }
  try {
    const bool recorded = capture_->Count(key, claimed, [&] {
      return Describe(inputs, buffers.empty() ? FactsOf(inputs) : buffers);
    });
    if (!recorded) drop_contents();
  } catch (const std::bad_alloc&) {
    capture_->Stop("no memory is left");
  }
  return status;
}

std::string LaunchRecorder::KeyOf(const PlanInputs& inputs) const {
  const size_t sizes = kernel_.names().sizes.size();
  std::string key;
  key.reserve(identity_.size() + sizes * sizeof(int64_t) +
              outline_.buffers.size() * sizeof(uint16_t));
  key = identity_;
  for (size_t i = 0; i < sizes; ++i) AppendBytes(key, inputs.sizes[i]);
  for (size_t i = 0; i < outline_.buffers.size(); ++i) {
    AppendBytes(key, static_cast<uint16_t>(AlignmentOf(inputs.buffers[i].address)));
  }
  return key;
}

std::vector<LaunchRecorder::BufferFacts> LaunchRecorder::FactsOf(const PlanInputs& inputs) const {
  const LaunchRecipe& recipe = kernel_.variants().front().recipe;
  const SizeBindings sizes = LaunchBindings(recipe, ArgumentsOf(kernel_.names(), inputs));
  std::vector<BufferFacts> buffers;
  for (const RecipeArgument& argument : recipe.arguments) {
    const auto* declared = std::get_if<RecipeBuffer>(&argument.kind);
    if (declared == nullptr) continue;
    const PlanBuffer& given = inputs.buffers[buffers.size()];
    BufferFacts& buffer = buffers.emplace_back();
    buffer.address = given.address;
    if (given.address == 0) continue;
    buffer.extent = EvaluateExtent(*declared, sizes).value_or(BufferExtent());
    if (given.rank < 1) continue;
    if (given.shape != nullptr) buffer.extent.shape.assign(given.shape, given.shape + given.rank);
    if (given.strides != nullptr) {
      buffer.extent.strides.assign(given.strides, given.strides + given.rank);
    }
  }
  return buffers;
}

void LaunchRecorder::StoreContents(const Place& place, std::vector<BufferFacts>& buffers) const {
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (outline_.buffers[i].access == Access::kWrite || buffers[i].address == 0) continue;
    const absl::Status status = StoreContents(place, outline_.buffers[i], buffers[i]);
    if (!status.ok()) buffers[i].contents_missing = std::string(status.message());
  }
}

absl::Status LaunchRecorder::StoreContents(const Place& place, const BufferOutline& outline,
                                           BufferFacts& buffer) const {
  if (!IsDense(buffer.extent)) return absl::FailedPreconditionError("it is not dense");
  HONE_ASSIGN_OR_RETURN(const int64_t bytes, SpanBytes(buffer.extent, outline.dtype));
  HONE_RETURN_IF_ERROR(capture_->FitsContents(bytes));
  const auto store = [&](absl::string_view read) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(buffer.contents_file, capture_->StoreContents(outline.name, read));
    buffer.contents_bytes = bytes;
    return absl::OkStatus();
  };
  return ReadContents(buffer.address, bytes, place.on_cpu, place.stream, store);
}

std::string LaunchRecorder::Describe(const PlanInputs& inputs,
                                     const std::vector<BufferFacts>& buffers) const {
  const LaunchNames& names = kernel_.names();
  std::string text = text_;
  for (size_t i = 0; i < names.sizes.size(); ++i) {
    absl::StrAppend(&text, " params { key: ", Quoted(names.sizes[i]),
                    " value { integer: ", inputs.sizes[i], " } }");
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BufferOutline& outline = outline_.buffers[i];
    const BufferFacts& buffer = buffers[i];
    absl::StrAppend(&text, " buffers { name: ", Quoted(outline.name),
                    " dtype: ", Name(outline.dtype), " access: ", AccessName(outline.access));
    for (const int64_t extent : buffer.extent.shape) absl::StrAppend(&text, " shape: ", extent);
    for (const int64_t stride : buffer.extent.strides) absl::StrAppend(&text, " strides: ", stride);
    absl::StrAppend(&text, " alignment_bytes: ", AlignmentOf(buffer.address));
    if (!buffer.contents_file.empty()) {
      absl::StrAppend(&text, " contents_file: ", Quoted(buffer.contents_file),
                      " contents_bytes: ", buffer.contents_bytes);
    }
    if (!buffer.contents_missing.empty()) {
      absl::StrAppend(&text, " contents_missing: ", Quoted(buffer.contents_missing));
    }
    text += " }";
  }
  for (size_t i = 0; i < names.scalars.size(); ++i) {
    absl::StrAppend(&text, " scalars { name: ", Quoted(names.scalars[i]),
                    " value: ", absl::StrFormat("%.17g", inputs.scalars[i]), " }");
  }
  return text;
}

Kernel Recorded(Kernel kernel, LaunchCapture* capture, const GetKernelOptions& asked) {
  if (capture == nullptr) return kernel;
  return kernel.Recorded(std::make_shared<const LaunchRecorder>(capture, kernel, asked));
}

}  // namespace hone
