#include "runtime/device/check_case.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/output_check.h"
#include "runtime/launch/buffer_extent.h"

namespace hone {
namespace {

// A buffer's name in the set of this number; 0 is the case's own.
std::string SetName(const std::string& buffer, int set) { return absl::StrCat(buffer, "#", set); }

std::string ReferenceKey(size_t source, const std::string& output) {
  return absl::StrCat(source, ":", output);
}

bool HasScratchZeroedOnce(const LaunchRecipe& recipe) {
  return std::any_of(recipe.arguments.begin(), recipe.arguments.end(), [](const auto& argument) {
    const auto* scratch = std::get_if<RecipeScratch>(&argument.kind);
    return scratch != nullptr && scratch->zeroed == ScratchZeroed::kOnce;
  });
}

// A device that died keeps its code; anything else means that it did not run.
absl::Status SourceFailed(const absl::Status& status, const std::string& what) {
  const std::string text = absl::StrCat(what, " failed: ", status.message());
  if (absl::IsAborted(status)) return absl::AbortedError(text);
  return absl::FailedPreconditionError(text);
}

}  // namespace

CheckCase::CheckCase(const ProblemContext* context, CaseSpec spec, Role role,
                     std::vector<CaseBuffer> buffers)
    : context_(context),
      spec_(std::move(spec)),
      role_(role),
      buffers_(std::move(buffers)),
      pristine_(context->memory),
      references_(context->memory),
      own_work_(context->memory),
      more_sets_(context->memory) {}

absl::StatusOr<std::unique_ptr<CheckCase>> CheckCase::Create(const ProblemContext* context,
                                                             CaseSpec spec, Role role) {
  HONE_ASSIGN_OR_RETURN(std::vector<CaseBuffer> buffers,
                        EvaluateBuffers(context->problem, context->facts, spec));
  return std::unique_ptr<CheckCase>(
      new CheckCase(context, std::move(spec), role, std::move(buffers)));
}

const CaseBuffer* CheckCase::Find(const std::string& name) const {
  const auto found = std::find_if(buffers_.begin(), buffers_.end(),
                                  [&](const CaseBuffer& buffer) { return buffer.name == name; });
  return found == buffers_.end() ? nullptr : &*found;
}

// ---- Layout -------------------------------------------------------------------------------------

std::vector<GuardedBuffer> CheckCase::PristineLayout() const {
  std::vector<GuardedBuffer> layout;
  for (const CaseBuffer& buffer : buffers_) {
    if (buffer.access != Access::kWrite) layout.push_back(Guarded(buffer, 0));
  }
  return layout;
}

std::vector<GuardedBuffer> CheckCase::ReferenceLayout(
    const std::vector<ReferenceSource>& sources) const {
  std::vector<GuardedBuffer> layout;
  for (size_t i = 0; i < sources.size(); ++i) {
    for (const ReferenceCheck::Output& output : sources[i].outputs) {
      const CaseBuffer* buffer = Find(output.argument);
      if (buffer == nullptr) continue;  // absent in this case
      GuardedBuffer guarded = Guarded(*buffer, 0);
      guarded.name = ReferenceKey(i, output.argument);
      layout.push_back(std::move(guarded));
    }
  }
  return layout;
}

// With a recipe, at the least alignment it accepts.
std::vector<GuardedBuffer> CheckCase::WorkLayout(const LaunchRecipe* recipe) const {
  std::vector<GuardedBuffer> layout;
  for (const CaseBuffer& buffer : buffers_) {
    if (role_ == Role::kTuned && buffer.access == Access::kRead) continue;
    layout.push_back(Guarded(buffer, recipe == nullptr ? 0 : LeastAlignment(*recipe, buffer)));
  }
  return layout;
}

int64_t CheckCase::NeededBytes(const std::vector<ReferenceSource>& sources) const {
  int64_t bytes =
      GuardedArena::BytesFor(PristineLayout()) + GuardedArena::BytesFor(ReferenceLayout(sources));
  if (role_ == Role::kTuned) bytes += GuardedArena::BytesFor(WorkLayout(nullptr));
  return bytes;
}

std::vector<GuardedBuffer> CheckCase::MoreSetsLayout(int count) const {
  std::vector<GuardedBuffer> layout;
  for (int set = 1; set <= count; ++set) {
    for (const CaseBuffer& buffer : buffers_) {
      layout.push_back(Guarded(buffer, 0));
      layout.back().name = SetName(buffer.name, set);
    }
  }
  return layout;
}

int64_t CheckCase::SetBytes() const { return GuardedArena::BytesFor(MoreSetsLayout(1)); }

absl::Status CheckCase::PlaceMoreSets(int count) {
  if (count <= more_sets_count_) return absl::OkStatus();
  more_sets_count_ = 0;
  HONE_RETURN_IF_ERROR(more_sets_.Place(MoreSetsLayout(count)));
  HONE_RETURN_IF_ERROR(more_sets_.WriteGuards());
  more_sets_count_ = count;
  for (int set = 1; set <= count; ++set) {
    for (const CaseBuffer& buffer : buffers_) {
      if (buffer.access == Access::kWrite) continue;
      HONE_RETURN_IF_ERROR(
          context_->device->CopyOnDevice(more_sets_.address(SetName(buffer.name, set)),
                                         pristine_.address(buffer.name), buffer.bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCase::PlaceWork(const LaunchRecipe* recipe) {
  const bool least = role_ == Role::kSmall && recipe != nullptr;
  return work().Place(WorkLayout(least ? recipe : nullptr));
}

LaunchArguments CheckCase::Arguments(const std::map<std::string, uint64_t>& overrides) {
  LaunchArguments arguments;
  arguments.sizes = spec_.sizes;
  arguments.sizes.insert(context_->facts.begin(), context_->facts.end());
  arguments.scalars = context_->problem.check.scalar_samples;
  for (const CaseBuffer& buffer : buffers_) {
    const bool pristine = role_ == Role::kTuned && buffer.access == Access::kRead;
    const auto other = overrides.find(buffer.name);
    arguments.buffers[buffer.name].address = other != overrides.end() ? other->second
                                             : pristine ? pristine_.address(buffer.name)
                                                        : work().address(buffer.name);
  }
  return arguments;
}

// Scratch never holds zeros by luck: what is not declared zeroed is poisoned.
absl::Status CheckCase::PlaceScratch(const LaunchRecipe& recipe, LaunchArguments& arguments) {
  const SizeBindings bindings = LaunchBindings(recipe, arguments);
  std::vector<GuardedBuffer> layout;
  for (const RecipeArgument& argument : recipe.arguments) {
    const auto* scratch = std::get_if<RecipeScratch>(&argument.kind);
    if (scratch == nullptr) continue;
    HONE_ASSIGN_OR_RETURN(const int64_t bytes, ScratchBytes(*scratch, bindings));
    layout.push_back({.name = argument.name, .bytes = bytes, .alignment = 0, .guard_value = 0xb7});
  }
  if (layout.empty()) return absl::OkStatus();
  HONE_RETURN_IF_ERROR(context_->scratch->Place(layout));
  HONE_RETURN_IF_ERROR(context_->scratch->WriteGuards());
  for (const RecipeArgument& argument : recipe.arguments) {
    const auto* scratch = std::get_if<RecipeScratch>(&argument.kind);
    if (scratch == nullptr) continue;
    const uint64_t address = context_->scratch->address(argument.name);
    arguments.scratch[argument.name] = address;
    HONE_ASSIGN_OR_RETURN(const int64_t bytes, ScratchBytes(*scratch, bindings));
    const int value = scratch->zeroed == ScratchZeroed::kOnce ? 0 : 0xff;
    HONE_RETURN_IF_ERROR(context_->device->Memset(address, value, bytes));
  }
  return absl::OkStatus();
}

// ---- Right outputs ------------------------------------------------------------------------------

absl::Status CheckCase::Build(const std::vector<ReferenceSource>& sources) {
  built_ = false;
  more_sets_count_ = 0;
  HONE_RETURN_IF_ERROR(pristine_.Place(PristineLayout()));
  HONE_RETURN_IF_ERROR(pristine_.WriteGuards());
  HONE_RETURN_IF_ERROR(references_.Place(ReferenceLayout(sources)));
  HONE_RETURN_IF_ERROR(references_.WriteGuards());
  HONE_RETURN_IF_ERROR(PlaceWork(nullptr));
  HONE_RETURN_IF_ERROR(work().WriteGuards());
  HONE_RETURN_IF_ERROR(FillInputs());
  expected_.clear();
  chains_.clear();
  for (size_t i = 0; i < sources.size(); ++i) HONE_RETURN_IF_ERROR(RunSource(sources[i], i));
  built_ = true;
  return absl::OkStatus();
}

absl::Status CheckCase::FillInputs() {
  for (const CaseBuffer& buffer : buffers_) {
    if (buffer.access == Access::kWrite) continue;
    HONE_RETURN_IF_ERROR(
        context_->device->Fill(pristine_.address(buffer.name), buffer.elements, buffer.fill));
  }
  for (const BufferInit& init : context_->problem.check.inits) {
    const CaseBuffer* buffer = Find(init.argument);
    if (buffer == nullptr || !buffer->generated) continue;
    HONE_RETURN_IF_ERROR(RunGenerator(init));
  }
  pristine_checksums_.clear();
  for (const CaseBuffer& buffer : buffers_) {
    if (buffer.access == Access::kWrite) continue;
    HONE_ASSIGN_OR_RETURN(pristine_checksums_[buffer.name],
                          context_->device->Checksum(pristine_.address(buffer.name), buffer.bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckCase::RunGenerator(const BufferInit& init) {
  const std::string what = absl::StrCat("the generator of ", init.argument, " at ", label());
  if (context_->check_module == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(what, " has no compiled entry"));
  }
  LaunchArguments arguments = Arguments(PristineAddresses());
  HONE_RETURN_IF_ERROR(PlaceScratch(init.generator, arguments));
  const auto launch = ResolveLaunch(init.generator, arguments);
  absl::Status status = launch.status();
  if (status.ok()) status = LaunchAndWait(*context_->check_module, *launch, what);
  if (!status.ok()) return SourceFailed(status, what);
  return absl::OkStatus();
}

std::map<std::string, uint64_t> CheckCase::PristineAddresses() const {
  std::map<std::string, uint64_t> addresses;
  for (const CaseBuffer& buffer : buffers_) {
    if (buffer.access != Access::kWrite) addresses[buffer.name] = pristine_.address(buffer.name);
  }
  return addresses;
}

absl::Status CheckCase::InterpretChain(const ChainCheck& check) {
  auto right = ChainExpectation::Compute(*context_->device, check, buffers_, PristineAddresses(),
                                         context_->problem.check.scalar_samples);
  if (!right.ok()) return SourceFailed(right.status(), "the chain's interpreter");
  chains_.push_back(*std::move(right));
  return absl::OkStatus();
}

absl::Status CheckCase::RunSource(const ReferenceSource& source, size_t index) {
  if (source.chain != nullptr) return InterpretChain(*source.chain);
  const std::string what =
      source.baseline.empty() ? absl::StrCat("the reference at ", label()) : source.baseline;
  HONE_RETURN_IF_ERROR(RestoreAll());
  std::map<std::string, uint64_t> addresses;
  for (const CaseBuffer& buffer : buffers_) {
    // Read-write buffers it does not answer for are the work copies that RestoreAll made.
    if (buffer.access == Access::kRead) addresses[buffer.name] = pristine_.address(buffer.name);
  }
  for (const ReferenceCheck::Output& output : source.outputs) {
    const CaseBuffer* buffer = Find(output.argument);
    if (buffer == nullptr) continue;
    const uint64_t address = references_.address(ReferenceKey(index, output.argument));
    addresses[output.argument] = address;
    HONE_RETURN_IF_ERROR(
        buffer->access == Access::kReadWrite
            ? context_->device->CopyOnDevice(address, pristine_.address(buffer->name),
                                             buffer->bytes)
            : context_->device->Memset(address, PoisonByte(buffer->dtype), buffer->bytes));
  }
  LaunchArguments arguments = Arguments(addresses);
  HONE_RETURN_IF_ERROR(PlaceScratch(*source.run.recipe, arguments));
  const auto launch = ResolveLaunch(*source.run.recipe, arguments);
  absl::Status status = launch.status();
  if (status.ok()) status = LaunchAndWait(*source.run.module, *launch, what);
  if (!status.ok()) return SourceFailed(status, what);
  return CheckWritten(source, index);
}

// A reference that skips elements or leaves its buffers would let wrong candidates pass.
absl::Status CheckCase::CheckWritten(const ReferenceSource& source, size_t index) {
  const std::string who = source.baseline.empty() ? "the reference" : source.baseline;
  HONE_ASSIGN_OR_RETURN(const auto damage, references_.FindDamage());
  if (damage) {
    return absl::OutOfRangeError(absl::StrCat(who, " ", OutOfBounds(*damage, label()).detail));
  }
  for (const ReferenceCheck::Output& output : source.outputs) {
    const CaseBuffer* buffer = Find(output.argument);
    if (buffer == nullptr) continue;
    const std::string key = ReferenceKey(index, output.argument);
    const uint64_t address = references_.address(key);
    // In one byte, poison is as likely as any other result.
    if (buffer->access == Access::kWrite && SizeBytes(buffer->dtype) > 1) {
      // This output's work buffer still holds poison from RestoreAll: the source did not get it.
      HONE_ASSIGN_OR_RETURN(
          const CompareResult result,
          context_->device->Compare(work().address(buffer->name), address, buffer->elements,
                                    buffer->dtype, Tolerance{.exact = true}));
      const int64_t gaps = buffer->elements - std::min(buffer->elements, buffer->own_elements);
      const int64_t unwritten = result.elements - result.mismatches - gaps;
      if (unwritten > 0) {
        return absl::DataLossError(absl::StrCat(who, " leaves ", unwritten, " of ",
                                                buffer->own_elements, " elements of ",
                                                output.argument, " unwritten at ", label()));
      }
    }
    Expected expected{output.argument, key, output.tolerance, source.baseline};
    HONE_ASSIGN_OR_RETURN(expected.checksum, context_->device->Checksum(address, buffer->bytes));
    expected_.push_back(std::move(expected));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CheckCase::Intact() {
  for (const auto& [name, checksum] : pristine_checksums_) {
    HONE_ASSIGN_OR_RETURN(const uint64_t now,
                          context_->device->Checksum(pristine_.address(name), Find(name)->bytes));
    if (now != checksum) return false;
  }
  for (const Expected& expected : expected_) {
    HONE_ASSIGN_OR_RETURN(const uint64_t now,
                          context_->device->Checksum(references_.address(expected.key),
                                                     Find(expected.output)->bytes));
    if (now != expected.checksum) return false;
  }
  return true;
}

// ---- Candidates ---------------------------------------------------------------------------------

absl::Status CheckCase::Accepts(const LaunchRecipe& recipe) {
  HONE_RETURN_IF_ERROR(PlaceWork(&recipe));
  return CheckGuards(recipe, Arguments({}));
}

absl::Status CheckCase::Restore() {
  for (const CaseBuffer& buffer : buffers_) {
    if (buffer.access != Access::kReadWrite) continue;
    const uint64_t pristine = pristine_.address(buffer.name);
    HONE_RETURN_IF_ERROR(
        context_->device->CopyOnDevice(work().address(buffer.name), pristine, buffer.bytes));
    for (int set = 1; set <= more_sets_count_; ++set) {
      HONE_RETURN_IF_ERROR(context_->device->CopyOnDevice(
          more_sets_.address(SetName(buffer.name, set)), pristine, buffer.bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCase::RestoreAll() {
  HONE_RETURN_IF_ERROR(Restore());
  for (const CaseBuffer& buffer : buffers_) {
    if (buffer.access == Access::kWrite) {
      HONE_RETURN_IF_ERROR(context_->device->Memset(work().address(buffer.name),
                                                    PoisonByte(buffer.dtype), buffer.bytes));
    } else if (buffer.access == Access::kRead && role_ == Role::kSmall) {
      HONE_RETURN_IF_ERROR(context_->device->CopyOnDevice(
          work().address(buffer.name), pristine_.address(buffer.name), buffer.bytes));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ResolvedLaunch> CheckCase::Prepare(const Runnable& candidate) {
  HONE_RETURN_IF_ERROR(PlaceWork(candidate.recipe));
  LaunchArguments arguments = Arguments({});
  HONE_RETURN_IF_ERROR(PlaceScratch(*candidate.recipe, arguments));
  return ResolveLaunch(*candidate.recipe, arguments);
}

absl::StatusOr<std::vector<ResolvedLaunch>> CheckCase::PrepareSets(const Runnable& candidate,
                                                                   int sets) {
  HONE_RETURN_IF_ERROR(PlaceMoreSets(sets - 1));
  HONE_RETURN_IF_ERROR(PlaceWork(candidate.recipe));
  LaunchArguments arguments = Arguments({});
  HONE_RETURN_IF_ERROR(PlaceScratch(*candidate.recipe, arguments));
  std::vector<ResolvedLaunch> launches;
  for (int set = 0; set < sets; ++set) {
    for (const CaseBuffer& buffer : buffers_) {
      if (set == 0) break;
      arguments.buffers[buffer.name].address = more_sets_.address(SetName(buffer.name, set));
    }
    HONE_ASSIGN_OR_RETURN(ResolvedLaunch launch, ResolveLaunch(*candidate.recipe, arguments));
    launches.push_back(std::move(launch));
  }
  return launches;
}

absl::Status CheckCase::LaunchAndWait(LoadedModule& module, const ResolvedLaunch& launch,
                                      const std::string& what) {
  // What is queued already ends under the limit for our own work, not the kernel's.
  HONE_RETURN_IF_ERROR(context_->device->Synchronize());
  context_->on_phase(true, what);
  absl::Status status = context_->device->Launch(module, launch);
  if (status.ok()) status = context_->device->Synchronize();
  context_->on_phase(false, what);
  return status;
}

absl::StatusOr<std::optional<Rejection>> CheckCase::Run(const Runnable& candidate) {
  const auto launch = Prepare(candidate);
  if (absl::IsAborted(launch.status())) return launch.status();
  if (!launch.ok()) return LaunchFailed(launch.status(), label());
  HONE_RETURN_IF_ERROR(work().WriteGuards());
  HONE_RETURN_IF_ERROR(context_->scratch->WriteGuards());
  // Scratch zeroed once must be left so that the next launch is right too.
  const int launches = HasScratchZeroedOnce(*candidate.recipe) ? 2 : 1;
  for (int i = 0; i < launches; ++i) {
    HONE_RETURN_IF_ERROR(RestoreAll());
    const absl::Status status = LaunchAndWait(*candidate.module, *launch, label());
    if (absl::IsAborted(status)) return status;
    if (!status.ok()) return LaunchFailed(status, label());
    HONE_ASSIGN_OR_RETURN(auto rejection, Inspect());
    if (rejection) return rejection;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<Rejection>> CheckCase::FindDamage() {
  std::vector<const GuardedArena*> arenas = {&work(), context_->scratch, &pristine_};
  if (more_sets_count_ > 0) arenas.push_back(&more_sets_);
  for (const GuardedArena* arena : arenas) {
    HONE_ASSIGN_OR_RETURN(auto damage, arena->FindDamage());
    if (!damage) continue;
    damage->name = damage->name.substr(0, damage->name.find('#'));
    return OutOfBounds(*damage, label());
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<Rejection>> CheckCase::Inspect() {
  HONE_ASSIGN_OR_RETURN(auto rejection, FindDamage());
  if (rejection) return rejection;
  const LaunchArguments arguments = Arguments({});
  for (const CaseBuffer& buffer : buffers_) {
    if (buffer.access != Access::kRead) continue;
    HONE_ASSIGN_OR_RETURN(
        const uint64_t now,
        context_->device->Checksum(arguments.buffers.at(buffer.name).address, buffer.bytes));
    if (now != pristine_checksums_.at(buffer.name)) return InputChanged(buffer.name, label());
  }
  return CompareOutputs();
}

absl::StatusOr<std::optional<Rejection>> CheckCase::CompareOutputs() {
  for (const Expected& expected : expected_) {
    const CaseBuffer& buffer = *Find(expected.output);
    HONE_ASSIGN_OR_RETURN(
        const CompareResult result,
        context_->device->Compare(work().address(buffer.name), references_.address(expected.key),
                                  buffer.elements, buffer.dtype, expected.tolerance));
    if (WithinTolerance(result, expected.tolerance)) continue;
    return Wrong(buffer, result, expected.baseline);
  }
  for (const ChainExpectation& chain : chains_) {
    const CaseBuffer& buffer = *Find(chain.output());
    HONE_ASSIGN_OR_RETURN(const CompareResult result,
                          chain.Compare(*context_->device, work().address(buffer.name)));
    if (result.mismatches > 0) return Wrong(buffer, result, "");
  }
  return std::nullopt;
}

absl::StatusOr<Rejection> CheckCase::Wrong(const CaseBuffer& buffer, const CompareResult& result,
                                           const std::string& compared_with) {
  HONE_ASSIGN_OR_RETURN(const bool unwritten, StillPoison(buffer, result.first_mismatch));
  return WrongResult({buffer.name, result, unwritten, label(), compared_with});
}

absl::StatusOr<bool> CheckCase::StillPoison(const CaseBuffer& buffer, int64_t element) {
  if (buffer.access != Access::kWrite || element < 0) return false;
  const int64_t size = SizeBytes(buffer.dtype);
  HONE_ASSIGN_OR_RETURN(const int64_t other,
                        context_->device->FindByteNot(
                            work().address(buffer.name) + static_cast<uint64_t>(element * size),
                            PoisonByte(buffer.dtype), size));
  return other < 0;
}

absl::StatusOr<std::string> CheckCase::RepeatedDigest(const Runnable& candidate) {
  HONE_ASSIGN_OR_RETURN(const ResolvedLaunch launch, Prepare(candidate));
  HONE_RETURN_IF_ERROR(RestoreAll());
  HONE_RETURN_IF_ERROR(LaunchAndWait(*candidate.module, launch, label()));
  return OutputDigest();
}

absl::StatusOr<std::string> CheckCase::OutputDigest() {
  Sha256 digest;
  for (const CaseBuffer& buffer : buffers_) {
    if (buffer.access == Access::kRead) continue;
    HONE_ASSIGN_OR_RETURN(const uint64_t checksum,
                          context_->device->Checksum(work().address(buffer.name), buffer.bytes));
    digest.Update(absl::StrCat(buffer.name, "=", absl::Hex(checksum, absl::kZeroPad16), "\n"));
  }
  return digest.FinishHex();
}

}  // namespace hone
