// Exported programs: what stands in them, and that they compile.
#include "client/cli/repro_program.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cpp/kernel_state.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/base/files.h"
#include "runtime/launch/recipe_proto.h"
#include "tests/client/fake_service.h"
#include "tests/testing/status_matchers.h"

namespace hone::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReproTest : public testing::Test {
 protected:
  ReproTest() {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"pb(
          name: "copy"
          arguments {
            name: "dst"
            buffer { dtype: "F32" shape: "n" access: WRITE }
          }
          arguments {
            name: "src"
            buffer { dtype: "F32" shape: "n" access: READ init: NORMAL }
          }
          arguments {
            name: "n"
            scalar { type: I64 value: "n" }
          }
          arguments {
            name: "eps"
            scalar {
              type: F32
              per_launch { sample: 1 }
            }
          }
          arguments {
            name: "sum"
            buffer { dtype: "F32" shape: "n" access: READ_WRITE init: UNIFORM }
          }
          arguments {
            name: "scratch"
            scratch { bytes: "16 * n" zeroed: EVERY_LAUNCH }
          }
          arguments {
            name: "map"
            tensor_map { buffer: "src" }
          }
        )pb",
        &template_));
    summary_.set_key("0123456789abcdef");
    summary_.mutable_winner()->set_median_ns(31250);
    summary_.mutable_winner()->set_driver("580.1");
    summary_.mutable_winner()->set_clock_mhz(1980);
    variant_ = CopyVariant(std::string("\x7f") + "ELF \xff", 16, "", true);
    variant_.mutable_artifact()->set_architecture("sm_90a");
    (*variant_.mutable_artifact()->mutable_lowered_names())["copy<float, \"4\">"] = "copy";
  }

  void Change(const std::function<void(LaunchRecipe&)>& change) {
    LaunchRecipe recipe = *FromProto(variant_.recipe());
    change(recipe);
    *variant_.mutable_recipe() = ToProto(recipe);
  }

  absl::StatusOr<std::string> Program() {
    v1::GetKernelResponse response;
    v1::TunedKernel& kernel = *response.mutable_kernel();
    kernel.set_template_name("copy");
    kernel.set_architecture("sm_90a");
    (*kernel.mutable_params())["n"].set_integer(4096);
    *kernel.add_variants() = variant_;
    const std::string bytes = variant_.artifact_bytes();
    const std::string sha256 = variant_.artifact().sha256();
    kernel.mutable_variants(0)->clear_artifact_bytes();
    const absl::StatusOr<Kernel> made = MakeKernel(std::move(response), {{sha256, bytes}}, false);
    if (!made.ok()) return made.status();
    return ReproProgram({.kernel = &*made,
                         .kernel_template = &template_,
                         .sizes = {{"n", 4096}},
                         .summary = &summary_});
  }

  // Whether a compiler with every warning finds nothing to say.
  static void ExpectCompiles(const std::string& program) {
    if (std::system("g++ --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no g++";
    const TemporaryDirectory directory = TemporaryDirectory::Create().value();
    const std::string file = JoinPath(directory.path(), "repro.cc");
    ASSERT_THAT(WriteNewFile(file, program), IsOk());
    const std::string command = absl::StrCat(
        "g++ -std=c++17 -fsyntax-only -Wall -Wextra -Werror -isystem ", HONE_CUDA_H, " ", file);
    EXPECT_EQ(std::system(command.c_str()), 0) << program;
  }

  v1::KernelTemplate template_;
  v1::TuningSummary summary_;
  v1::KernelVariant variant_;
};

TEST_F(ReproTest, HoldsTheLaunchTheInputsAndTheBinary) {
  const auto program = Program();
  ASSERT_THAT(program, IsOk());
  EXPECT_THAT(
      *program,
      AllOf(HasSubstr("// copy n=4096: VEC=4"), HasSubstr("0123456789abcdef"),
            HasSubstr("// copy<float, \"4\">"), HasSubstr("CUdeviceptr dst_ = set.buffers[0];"),
            HasSubstr("CUdeviceptr src_ = set.buffers[1];"), HasSubstr("int64_t n_ = 4096;"),
            HasSubstr("{\"copy\", {4, 1, 1}, {256, 1, 1}")));
  EXPECT_THAT(*program, AllOf(HasSubstr("{\"src\", 16384, kRead, {kInitNormal, kTypeF32, 0, 0, "),
                              HasSubstr("{\"dst\", 16384, kWrite, {kInitZeros"),
                              HasSubstr("127, 69, 76, 70, 32, 255, 0,"), HasSubstr("31.25 us")));
  // Nothing that is only here.
  EXPECT_THAT(*program, AllOf(Not(HasSubstr("#include \"")), Not(HasSubstr("@@"))));
  ExpectCompiles(*program);
}

// The seed of the check's input of this name: FNV-1a.
TEST_F(ReproTest, InputsAreTheChecks) {
  uint64_t seed = 14695981039346656037u;
  for (const char c : std::string("src")) {
    seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  EXPECT_THAT(*Program(), HasSubstr(absl::StrCat(seed, "u, 4096}")));
}

TEST_F(ReproTest, ScalarsScratchInPlaceBuffersAndMapsCompileToo) {
  Change([](LaunchRecipe& recipe) {
    recipe.arguments.push_back({"eps", RecipeScalar{.type = DataType::kF32, .value = {}}});
    RecipeBuffer sum = std::get<RecipeBuffer>(recipe.arguments[0].kind);
    sum.access = Access::kReadWrite;
    recipe.arguments.push_back({"sum", sum});
    recipe.arguments.push_back(
        {"scratch", RecipeScratch{.bytes = Expression::Parse("16 * n").value(),
                                  .zeroed = ScratchZeroed::kEveryLaunch}});
    RecipeTensorMap map;
    map.buffer = "src";
    map.dims = {Expression::Constant(64), Expression::Constant(64)};
    map.strides_bytes = {Expression::Constant(256)};
    map.box = {Expression::Constant(32), Expression::Constant(8)};
    map.element_strides = {Expression::Constant(1), Expression::Constant(1)};
    recipe.arguments.push_back({"map", map});
    recipe.steps[0].arguments = {0, 6, 2, 3, 4, 5};
    recipe.steps[0].launch.cluster[0] = Expression::Constant(2);
  });
  const auto program = Program();
  ASSERT_THAT(program, IsOk());
  EXPECT_THAT(
      *program,
      AllOf(HasSubstr("float eps_ = 1.00000000f;"),
            HasSubstr("EncodeMap(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, set.buffers[1], {64, 64}"),
            HasSubstr("cuMemsetD8Async(set.scratch[0], 0, 65536, stream)"),
            HasSubstr("{\"sum\", 16384, kReadWrite, {kInitUniform"), HasSubstr("{2, 1, 1}")));
  ExpectCompiles(*program);
}

TEST_F(ReproTest, AKeyOfTheCpuDeviceIsRefusedInSoManyWords) {
  variant_.mutable_artifact()->set_format("HOST_ELF");
  EXPECT_THAT(Program(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  AllOf(HasSubstr("CPU reference device"), HasSubstr("hone run"))));
}

TEST_F(ReproTest, InputsThatAKernelMakesAreRefused) {
  template_.mutable_arguments(1)->mutable_buffer()->set_init(v1::Buffer::GENERATOR);
  EXPECT_THAT(Program(), StatusIs(absl::StatusCode::kUnimplemented,
                                  AllOf(HasSubstr("'src'"), HasSubstr("GENERATOR"))));
}

}  // namespace
}  // namespace hone::cli
