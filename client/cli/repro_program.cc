#include "client/cli/repro_program.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/format.h"
#include "client/cli/kernel_run.h"
#include "client/cli/reference_kernel.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/buffer_extent.h"
#include "runtime/launch/scalar_encoding.h"

namespace hone {

// Embedded when the library is built.
const char* ReproElementMathText();
const char* ReproHostText();

}  // namespace hone

namespace hone::cli {
namespace {

// Stand-ins for addresses, which only the program knows: far apart, aligned, like no scalar.
constexpr uint64_t kPlaceholder = uint64_t{0x5a5} << 48;
constexpr uint64_t kPlaceholderStep = uint64_t{1} << 40;

// What the program writes instead of an address: "set.buffers[0]".
struct Place {
  uint64_t address = 0;
  std::string text;
};

// As hone's check seeds its inputs.
uint64_t FnvSeed(const std::string& name) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

// element::Init's name.
absl::StatusOr<std::string> InitName(v1::Buffer::Init init, const std::string& buffer) {
  switch (init) {
    case v1::Buffer::INIT_UNSPECIFIED:
    case v1::Buffer::NORMAL:
      return "kInitNormal";
    case v1::Buffer::UNIFORM:
      return "kInitUniform";
    case v1::Buffer::UNIFORM_INT:
      return "kInitUniformInt";
    case v1::Buffer::IOTA:
      return "kInitIota";
    case v1::Buffer::INDEX:
      return "kInitIndex";
    case v1::Buffer::PERMUTATION:
      return "kInitPermutation";
    case v1::Buffer::OFFSETS:
      return "kInitOffsets";
    case v1::Buffer::ZEROS:
      return "kInitZeros";
    default:
      return absl::UnimplementedError(absl::StrCat("buffer '", buffer, "' is filled by ",
                                                   v1::Buffer::Init_Name(init),
                                                   ", which a program on its own cannot do"));
  }
}

const char* AccessName(Access access) {
  switch (access) {
    case Access::kRead:
      return "kRead";
    case Access::kWrite:
      return "kWrite";
    case Access::kReadWrite:
      break;
  }
  return "kReadWrite";
}

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

// A scalar's declaration with its value.
std::string ScalarText(DataType type, const std::string& name, const PackedArgument& packed) {
  uint64_t bits = 0;
  std::memcpy(&bits, packed.bytes.data(), std::min(sizeof(bits), packed.bytes.size()));
  switch (type) {
    case DataType::kI8:
    case DataType::kI16:
    case DataType::kI32:
    case DataType::kI64: {
      const int unused = 64 - 8 * SizeBytes(type);
      return absl::StrFormat("int%d_t %s = %d;", 8 * SizeBytes(type), name,
                             static_cast<int64_t>(bits << unused) >> unused);
    }
    case DataType::kF32:
      return absl::StrFormat("float %s = %#.9gf;", name, DecodeScalar(type, bits));
    case DataType::kF64:
      return absl::StrFormat("double %s = %#.17g;", name, DecodeScalar(type, bits));
    default:
      return absl::StrFormat("uint%d_t %s = 0x%x;  // the bits of a %s", 8 * SizeBytes(type), name,
                             bits, std::string(Name(type)));
  }
}

const char* TensorMapTypeName(DataType type) {
  switch (type) {
    case DataType::kU16:
    case DataType::kI16:
      return "CU_TENSOR_MAP_DATA_TYPE_UINT16";
    case DataType::kU32:
      return "CU_TENSOR_MAP_DATA_TYPE_UINT32";
    case DataType::kI32:
      return "CU_TENSOR_MAP_DATA_TYPE_INT32";
    case DataType::kU64:
      return "CU_TENSOR_MAP_DATA_TYPE_UINT64";
    case DataType::kI64:
      return "CU_TENSOR_MAP_DATA_TYPE_INT64";
    case DataType::kF16:
      return "CU_TENSOR_MAP_DATA_TYPE_FLOAT16";
    case DataType::kF32:
      return "CU_TENSOR_MAP_DATA_TYPE_FLOAT32";
    case DataType::kF64:
      return "CU_TENSOR_MAP_DATA_TYPE_FLOAT64";
    case DataType::kBF16:
      return "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16";
    default:
      return "CU_TENSOR_MAP_DATA_TYPE_UINT8";
  }
}

constexpr char kEncodeMap[] = R"(// A tensor map as cuTensorMapEncodeTiled makes it.
CUtensorMap EncodeMap(CUtensorMapDataType type, CUdeviceptr address, std::vector<cuuint64_t> dims,
                      std::vector<cuuint64_t> strides_bytes, std::vector<cuuint32_t> box,
                      std::vector<cuuint32_t> element_strides, int interleave, int swizzle,
                      int promotion, bool fill_nan) {
  CUtensorMap map;
  CHECK(cuTensorMapEncodeTiled(&map, type, static_cast<cuuint32_t>(dims.size()),
                               reinterpret_cast<void*>(address), dims.data(), strides_bytes.data(),
                               box.data(), element_strides.data(),
                               static_cast<CUtensorMapInterleave>(interleave),
                               static_cast<CUtensorMapSwizzle>(swizzle),
                               static_cast<CUtensorMapL2promotion>(promotion),
                               fill_nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                                        : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

)";

class ReproWriter {
 public:
  explicit ReproWriter(const ReproRequest& request)
      : request_(request),
        variant_(request.kernel->variants()[request.variant]),
        recipe_(variant_.recipe) {}

  absl::StatusOr<std::string> Write() {
    if (variant_.artifact.format() == "HOST_ELF") {
      return absl::FailedPreconditionError(
          "this key is of the CPU reference device, and the program would launch a CUDA kernel; "
          "`hone run` launches it here, with the same inputs each time");
    }
    HONE_RETURN_IF_ERROR(AddArguments());
    HONE_ASSIGN_OR_RETURN(const ResolvedLaunch launch, ResolveLaunch(recipe_, arguments_));
    HONE_RETURN_IF_ERROR(CheckGuards(recipe_, arguments_));
    HONE_ASSIGN_OR_RETURN(const std::string steps, Steps(launch));
    HONE_ASSIGN_OR_RETURN(const int64_t bytes, recipe_.work_bytes.Evaluate(request_.sizes));
    HONE_ASSIGN_OR_RETURN(const int64_t flops, recipe_.work_flops.Evaluate(request_.sizes));
    const std::string launch_text = absl::StrCat(
        "// ---- The launch ", std::string(81, '-'), "\n\nnamespace {\n\n",
        uses_maps_ ? kEncodeMap : "", "void Launch(const Set& set, CUstream stream) {\n", steps,
        "}\n\n}  // namespace");
    return absl::StrCat(Head(), Generators(), Tables(bytes, flops),
                        absl::StrReplaceAll(ReproHostText(), {{"@@LAUNCH@@", launch_text}}),
                        Binary());
  }

 private:
  absl::Status AddArguments() {
    arguments_.sizes = request_.sizes;
    ExpressionBindings bindings = BindingsOf(request_.kernel->response().kernel().params());
    for (const auto& [name, size] : request_.sizes) bindings[name] = size;
    const std::string& architecture = request_.kernel->response().kernel().architecture();
    std::vector<std::pair<const RecipeArgument*, const v1::Argument*>> declared;
    for (const RecipeArgument& argument : recipe_.arguments) {
      const v1::Argument* found =
          FindArgument(*request_.kernel_template, architecture, argument.name);
      if (found == nullptr) {
        return absl::InternalError(
            absl::StrCat("the template does not declare argument '", argument.name, "'"));
      }
      declared.emplace_back(&argument, found);
      const auto* scalar = std::get_if<RecipeScalar>(&argument.kind);
      if (scalar == nullptr || scalar->value) continue;
      const auto given = request_.scalars.find(argument.name);
      arguments_.scalars[argument.name] =
          given != request_.scalars.end() ? given->second : found->scalar().per_launch().sample();
    }
    // Shapes may mention scalars, so those come first.
    for (const auto& [argument, declaration] : declared) {
      if (const auto* buffer = std::get_if<RecipeBuffer>(&argument->kind)) {
        HONE_RETURN_IF_ERROR(AddBuffer(argument->name, *buffer, declaration->buffer(), bindings));
      } else if (const auto* scratch = std::get_if<RecipeScratch>(&argument->kind)) {
        HONE_RETURN_IF_ERROR(AddScratch(argument->name, *scratch));
      }
    }
    return absl::OkStatus();
  }

  uint64_t NextPlace(const std::string& text) {
    const uint64_t address = kPlaceholder + kPlaceholderStep * places_.size();
    places_.push_back({address, text});
    return address;
  }

  absl::Status AddBuffer(const std::string& name, const RecipeBuffer& buffer,
                         const v1::Buffer& declaration, const ExpressionBindings& bindings) {
    HONE_ASSIGN_OR_RETURN(const BufferExtent extent,
                          EvaluateExtent(buffer, LaunchBindings(recipe_, arguments_)));
    HONE_ASSIGN_OR_RETURN(const int64_t bytes, SpanBytes(extent, buffer.dtype));
    std::string init = "kInitZeros";
    int64_t low = 0, high = 0;
    if (buffer.access != Access::kWrite) {
      HONE_ASSIGN_OR_RETURN(init, InitName(declaration.init(), name));
      HONE_ASSIGN_OR_RETURN(low, EvaluateBound(declaration.init_low(), bindings));
      HONE_ASSIGN_OR_RETURN(high, EvaluateBound(declaration.init_high(), bindings));
    }
    absl::StrAppend(
        &buffers_,
        absl::StrFormat("    {%s, %d, %s, {%s, kType%s, %d, %d, %.17g, %uu, %d}},\n", Quoted(name),
                        bytes, AccessName(buffer.access), init, TypeSuffix(buffer.dtype), low, high,
                        declaration.init_skew(), FnvSeed(name), bytes / SizeBytes(buffer.dtype)));
    arguments_.buffers[name] = {
        .address = NextPlace(absl::StrCat("set.buffers[", buffer_count_++, "]")),
        .shape = extent.shape,
        .strides = extent.strides};
    return absl::OkStatus();
  }

  // element::Type has DataType's names but for the one that is a word.
  static std::string TypeSuffix(DataType type) {
    return type == DataType::kBool ? "Bool" : std::string(Name(type));
  }

  absl::Status AddScratch(const std::string& name, const RecipeScratch& scratch) {
    HONE_ASSIGN_OR_RETURN(const int64_t bytes,
                          ScratchBytes(scratch, LaunchBindings(recipe_, arguments_)));
    absl::StrAppend(&scratch_,
                    absl::StrFormat("    {%s, %d, %s},\n", Quoted(name), bytes,
                                    scratch.zeroed == ScratchZeroed::kOnce ? "true" : "false"));
    arguments_.scratch[name] = NextPlace(absl::StrCat("set.scratch[", scratch_count_++, "]"));
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> PlaceOf(uint64_t address) const {
    for (const Place& place : places_) {
      if (place.address == address) return place.text;
    }
    return absl::InternalError("a launch has an address that no buffer has");
  }

  absl::StatusOr<std::string> Steps(const ResolvedLaunch& launch) {
    std::string text;
    size_t next = 0;  // in the recipe, whose steps come in the same order
    for (const ResolvedStep& step : launch.steps) {
      if (step.symbol.empty()) {
        HONE_ASSIGN_OR_RETURN(const std::string place, PlaceOf(step.memset_address));
        absl::StrAppend(&text, "  CHECK(cuMemsetD8Async(", place, ", ", step.memset_value, ", ",
                        step.memset_bytes, ", stream));\n");
        continue;
      }
      while (next < recipe_.steps.size() &&
             (recipe_.steps[next].symbol != step.symbol ||
              recipe_.steps[next].arguments.size() != step.arguments.size())) {
        ++next;
      }
      if (next == recipe_.steps.size()) {
        return absl::InternalError(absl::StrCat("no step of the recipe launches ", step.symbol));
      }
      HONE_ASSIGN_OR_RETURN(const std::string one,
                            KernelStep(step, recipe_.steps[next++].arguments, launch));
      text += one;
    }
    return text;
  }

  absl::StatusOr<std::string> KernelStep(const ResolvedStep& step, const std::vector<int>& indices,
                                         const ResolvedLaunch& launch) {
    std::string text = absl::StrCat("  {\n    // ", EntryOf(step.symbol), "\n");
    std::vector<std::string> names;
    for (size_t i = 0; i < indices.size(); ++i) {
      const RecipeArgument& argument = recipe_.arguments[static_cast<size_t>(indices[i])];
      const PackedArgument& packed = step.arguments[i];
      // A name of the template may be a word of C++.
      const std::string name = absl::StrCat(argument.name, "_");
      names.push_back(absl::StrCat("&", name));
      if (packed.tensor_map >= 0) {
        HONE_ASSIGN_OR_RETURN(const std::string map,
                              MapText(launch.tensor_maps[static_cast<size_t>(packed.tensor_map)]));
        absl::StrAppend(&text, "    CUtensorMap ", name, " = ", map, ";\n");
      } else if (const auto* scalar = std::get_if<RecipeScalar>(&argument.kind)) {
        absl::StrAppend(&text, "    ", ScalarText(scalar->type, name, packed), "\n");
      } else {
        uint64_t address = 0;
        std::memcpy(&address, packed.bytes.data(), std::min(sizeof(address), packed.bytes.size()));
        HONE_ASSIGN_OR_RETURN(const std::string place, PlaceOf(address));
        absl::StrAppend(&text, "    CUdeviceptr ", name, " = ", place, ";\n");
      }
    }
    absl::StrAppend(&text, "    static const Kernel kernel = {", Quoted(step.symbol), ", {",
                    absl::StrJoin(step.grid, ", "), "}, {", absl::StrJoin(step.block, ", "), "}, {",
                    absl::StrJoin(step.cluster, ", "), "}, ", step.dynamic_shared_bytes, ", ",
                    step.programmatic_dependent_launch ? "true" : "false", "};\n");
    if (names.empty()) {
      absl::StrAppend(&text, "    LaunchKernel(kernel, nullptr, stream);\n  }\n");
    } else {
      absl::StrAppend(&text, "    void* arguments[] = {", absl::StrJoin(names, ", "),
                      "};\n    LaunchKernel(kernel, arguments, stream);\n  }\n");
    }
    return text;
  }

  absl::StatusOr<std::string> MapText(const ResolvedTensorMap& map) {
    uses_maps_ = true;
    HONE_ASSIGN_OR_RETURN(const std::string place, PlaceOf(map.address));
    const auto list = [](const auto& values) {
      return absl::StrCat("{", absl::StrJoin(values, ", "), "}");
    };
    return absl::StrCat("EncodeMap(", TensorMapTypeName(map.recipe->dtype), ", ", place, ", ",
                        list(map.dims), ", ", list(map.strides_bytes), ", ", list(map.box), ", ",
                        list(map.element_strides), ", ", map.recipe->interleave, ", ",
                        map.recipe->swizzle, ", ", map.recipe->l2_promotion, ", ",
                        map.recipe->fill_nan ? "true" : "false", ")");
  }

  std::string EntryOf(const std::string& symbol) const {
    for (const auto& [entry, lowered] : variant_.artifact.lowered_names()) {
      if (lowered == symbol) return entry;
    }
    return symbol;
  }

  std::string Title() const {
    const v1::TunedKernel& kernel = request_.kernel->response().kernel();
    return absl::StrCat(kernel.template_name(), " ", FormatParams(kernel.params()), ": ",
                        variant_.config);
  }

  std::string Measured() const {
    const v1::MeasurementInfo& m = request_.summary->winner();
    std::string text = FormatDuration(m.median_ns());
    if (!m.driver().empty()) absl::StrAppend(&text, " with driver ", m.driver());
    if (m.clock_mhz() > 0) absl::StrAppend(&text, " at ", m.clock_mhz(), " MHz");
    return absl::StrCat(text, " on ", FormatDevice(request_.summary->device()));
  }

  std::string Head() const {
    return absl::StrCat(
        "// ", Title(), "\n// for ", variant_.artifact.architecture(), ", built by ",
        variant_.artifact.builder(), ", tuning key ", request_.summary->key(),
        "\n//\n// Launches the kernel on generated inputs and times it with a cold and with a warm "
        "cache. Written by\n// hone, of which it needs nothing:\n"
        "//   g++ -std=c++17 -O2 -I$CUDA_HOME/include FILE -o repro -lcuda -lpthread   (or nvcc)\n"
        "//   ./repro [device]\n"
        "#include <cuda.h>\n\n#include <algorithm>\n#include <cstdint>\n#include <cstdio>\n"
        "#include <cstdlib>\n#include <cstring>\n#include <iterator>\n#include <map>\n"
        "#include <string>\n#include <thread>\n#include <vector>\n\n");
  }

  static std::string Generators() {
    return absl::StrCat("// ---- How inputs are generated ", std::string(68, '-'), "\n\n",
                        absl::StrReplaceAll(ReproElementMathText(), {{"#pragma once\n", ""}}),
                        "\n");
  }

  std::string Tables(int64_t bytes, int64_t flops) const {
    return absl::StrCat(
        "// ---- The problem ", std::string(80, '-'), "\n\n", "using namespace hone::element;\n\n",
        "// The binary; its bytes are at the end.\n",
        "alignas(64) extern const unsigned char kBinary[];\n\nnamespace {\n\n",
        "enum Access { kRead, kWrite, kReadWrite };\n",
        "struct Buffer {\n  const char* name;\n  uint64_t bytes;\n  Access access;\n"
        "  FillParameters fill;\n};\n",
        "struct Scratch {\n  const char* name;\n  uint64_t bytes;\n  bool zeroed;\n};\n",
        "// The addresses of one launch.\n",
        "struct Set {\n  std::vector<CUdeviceptr> buffers, scratch;\n};\n\n",
        "const char kTitle[] = ", Quoted(Title()),
        ";\nconst char kMeasured[] = ", Quoted(Measured()), ";\nconst double kWorkBytes = ", bytes,
        ", kWorkFlops = ", flops, ";\n",
        "// Name, bytes, access, how it is filled: init, type, low, high, skew, seed, elements.\n",
        "const std::vector<Buffer> kBuffers = {\n", buffers_, "};\n",
        "const std::vector<Scratch> kScratch = {\n", scratch_, "};\n\n}  // namespace\n\n");
  }

  std::string Binary() const {
    std::string text = absl::StrCat("\n// ---- The binary ", std::string(81, '-'), "\n\n",
                                    "alignas(64) const unsigned char kBinary[] = {");
    constexpr size_t kPerLine = 20;
    size_t count = 0;
    // A text of PTX ends with a zero.
    for (const char c : variant_.bytes + std::string(1, '\0')) {
      text += count++ % kPerLine == 0 ? "\n    " : " ";
      absl::StrAppend(&text, static_cast<int>(static_cast<unsigned char>(c)), ",");
    }
    return absl::StrCat(text, "\n};\n");
  }

  const ReproRequest& request_;
  const Kernel::Variant& variant_;
  const LaunchRecipe& recipe_;
  LaunchArguments arguments_;
  std::vector<Place> places_;
  std::string buffers_, scratch_;  // rows of the tables
  int buffer_count_ = 0, scratch_count_ = 0;
  bool uses_maps_ = false;
};

}  // namespace

absl::StatusOr<std::string> ReproProgram(const ReproRequest& request) {
  return ReproWriter(request).Write();
}

}  // namespace hone::cli
