#include "client/cli/reference_kernel.h"

#include "client/cpp/kernel_state.h"
#include "runtime/base/sha256.h"
#include "tests/client/fake_service.h"
#include "tests/testing/status_matchers.h"

namespace hone::cli {
namespace {

using testing::HasSubstr;
using enum absl::StatusCode;

v1::Value Text(const std::string& text) {
  v1::Value value;
  value.set_text(text);
  return value;
}

v1::Value Integer(int64_t integer) {
  v1::Value value;
  value.set_integer(integer);
  return value;
}

TEST(SubstituteTest, ParametersAreSpelledAsInCuda) {
  google::protobuf::Map<std::string, v1::Value> params;
  params["T"] = Text("BF16");
  params["cols"] = Integer(128);
  params["ACT"] = Text("relu");
  params["flag"].set_flag(true);
  EXPECT_THAT(Substitute("f<${T}, ${cols}, ${ACT}, ${flag}>", params),
              IsOkAndHolds("f<__nv_bfloat16, 128, relu, true>"));
  EXPECT_THAT(Substitute("plain", params), IsOkAndHolds("plain"));
  EXPECT_THAT(Substitute("f<${U}>", params),
              StatusIs(kInvalidArgument, HasSubstr("U is no parameter")));
  EXPECT_THAT(Substitute("f<${T", params), StatusIs(kInvalidArgument, HasSubstr("without '}'")));
}

TEST(CoversArchitectureTest, AFamilyWithoutSuffixCoversItsForms) {
  EXPECT_TRUE(CoversArchitecture("sm_90", "sm_90"));
  EXPECT_TRUE(CoversArchitecture("sm_90", "sm_90a"));
  EXPECT_FALSE(CoversArchitecture("sm_90a", "sm_90"));
  EXPECT_FALSE(CoversArchitecture("sm_9", "sm_90"));
  EXPECT_TRUE(CoversArchitecture("cpu", "cpu"));
}

TEST(CompileReferenceTest, LaunchesTheReferenceWithTheServedArguments) {
  FakeDaemon daemon;
  absl::StatusOr<Client> client = Client::Connect({.endpoint = daemon.endpoint()});
  ASSERT_THAT(client, IsOk());
  v1::CompiledArtifact* artifact = daemon.service().compiled.add_artifacts();
  artifact->set_data("reference");
  artifact->mutable_info()->set_sha256(Sha256Hex("reference"));
  (*artifact->mutable_info()->mutable_lowered_names())["reference<float>"] = "_Z9reference";

  v1::KernelTemplate kernel_template;
  kernel_template.set_source("k.cu");
  v1::Check* check = kernel_template.add_check();
  check->set_reference("reference<${T}>");
  check->mutable_launch()->set_grid_x("ceil_div(n, 256)");
  check->mutable_launch()->set_block_x("64 * sizeof(T)");
  kernel_template.add_check()->set_output("second");

  v1::GetKernelResponse response;
  (*response.mutable_kernel()->mutable_params())["T"] = Text("F32");
  (*response.mutable_kernel()->mutable_params())["n"] = Integer(1000);
  *response.mutable_kernel()->add_variants() = CopyVariant("served", 16, "n % 4 == 0", true);
  absl::StatusOr<Kernel> served = MakeKernel(response, {{Sha256Hex("served"), "served"}}, false);
  ASSERT_THAT(served, IsOk());

  // A check without reference uses the one before it.
  for (const int index : {0, 1}) {
    absl::StatusOr<ReferenceKernel> reference =
        CompileReference(*client, kernel_template, index, *served, false);
    ASSERT_THAT(reference, IsOk());
    EXPECT_EQ(reference->entry, "reference<float>");
    LaunchArguments arguments;
    arguments.sizes = {{"n", 1001}};
    arguments.buffers = {{"dst", {.address = 0x100004}}, {"src", {.address = 0x200004}}};
    ASSERT_THAT(reference->kernel.ChooseVariant(arguments), IsOkAndHolds(0));
    absl::StatusOr<ResolvedLaunch> launch =
        ResolveLaunch(reference->kernel.variants()[0].recipe, arguments);
    ASSERT_THAT(launch, IsOk());
    EXPECT_EQ(launch->steps[0].symbol, "_Z9reference");
    EXPECT_EQ(launch->steps[0].grid[0], 4u);
    EXPECT_EQ(launch->steps[0].block[0], 256u);
    EXPECT_EQ(launch->steps[0].arguments.size(), 3u);
  }
}

}  // namespace
}  // namespace hone::cli
