// What the daemon says about a GPU's kernels, and a winner as a program of its own, on that GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cpp/hone/client.h"
#include "tests/gpu/daemon_on_gpu.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class GpuExplainTest : public DaemonOnGpuTest {
 protected:
  int Hone(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"hone", "--endpoint", Endpoint()});
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = cli::Main(static_cast<int>(argv.size()), argv.data());
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }

  // Tunes and explains.
  v1::ExplainTuningResponse Explain(const std::string& name, const Params& params,
                                    const std::vector<std::string>& configs,
                                    const std::string& subject = "") {
    const auto client = Client::Connect({.endpoint = Endpoint()});
    EXPECT_THAT(client, IsOk());
    v1::TuneRequest request;
    request.mutable_template_()->set_name(name);
    for (const auto& [key, value] : params) (*request.mutable_params())[key] = ToValue(value);
    for (const std::string& config : configs) request.add_configs(config);
    std::string key;
    const auto finished = client->Tune(request, [&](const v1::TuneEvent& event) {
      if (event.has_started()) key = event.started().key();
      return true;
    });
    EXPECT_THAT(finished, IsOk());
    auto reply = client->ExplainTuning(key, subject);
    EXPECT_THAT(reply, IsOk());
    return reply.ok() ? *std::move(reply) : v1::ExplainTuningResponse();
  }

  std::string out_, err_;
};

std::map<std::string, double> ValuesOf(const v1::DeviceCeilings& ceilings) {
  std::map<std::string, double> values;
  for (const v1::Ceiling& ceiling : ceilings.ceilings()) values[ceiling.name()] = ceiling.value();
  return values;
}

TEST_F(GpuExplainTest, CeilingsAreThoseOfAGpu) {
  const auto reply = Explain("copy_1d", {{"T", "F32"}, {"n", int64_t{1} << 26}},
                             {"XBLOCK=256 VEC=4 ITEMS=2 CACHE=0 BLOCKS_PER_SM=0 STAGES=0",
                              "XBLOCK=256 VEC=4 ITEMS=4 CACHE=0 BLOCKS_PER_SM=0 STAGES=0"});
  ASSERT_EQ(reply.ceilings_missing(), "");
  const auto values = ValuesOf(reply.ceilings());
  for (const auto& [name, value] : values) {
    RecordProperty(name, absl::StrCat(value));
    std::printf("%-16s %10.1f\n", name.c_str(), value);
  }
  // The memory's own rate bounds a copy, and any copy is no worse than half of it.
  const v1::DeviceFingerprint& device = reply.summary().device();
  const double peak =
      2.0 * static_cast<double>(device.memory_clock_khz()) * device.memory_bus_bits() / 8 / 1e6;
  EXPECT_LT(values.at("copy"), peak);
  EXPECT_GT(values.at("copy"), 0.5 * peak);
  // 128 multiply-adds a clock on each multiprocessor of recent architectures.
  const double f32_peak =
      128.0 * 2 * device.sm_count() * static_cast<double>(device.clock_khz()) / 1e9;
  EXPECT_LT(values.at("f32"), 1.02 * f32_peak);
  EXPECT_GT(values.at("f32"), 0.5 * f32_peak);
  EXPECT_GT(values.at("mma_sync_bf16"), 2 * values.at("f32"));
  EXPECT_GT(values.at("mma_sync_bf16"), values.at("mma_sync_tf32"));
  if (device.architecture() == "sm_90a") {
    EXPECT_GT(values.at("wgmma_bf16"), values.at("mma_sync_bf16"));
    EXPECT_GT(values.at("wgmma_fp8"), 1.5 * values.at("wgmma_bf16"));
  }
  EXPECT_LT(values.at("launch"), 20e3);
  EXPECT_EQ(reply.bound(), "memory");
}

TEST_F(GpuExplainTest, ACopyInTheWrongOrderIsFarFromEveryCeiling) {
  const auto reply = Explain(
      "copy_2d", {{"T", "F32"}, {"rows", int64_t{8192}}, {"cols", int64_t{8192}}},
      {"ORDER=0 XBLOCK=128 YBLOCK=1 VEC=1 ITEMS=4", "ORDER=1 XBLOCK=128 YBLOCK=1 VEC=1 ITEMS=4"},
      "ORDER=1");
  EXPECT_EQ(reply.bound(), "none") << reply.bound_reason();
  ASSERT_FALSE(reply.tunables().empty());
  EXPECT_EQ(reply.tunables(0).name(), "ORDER");
  EXPECT_GT(reply.tunables(0).matters(), 2);
}

TEST_F(GpuExplainTest, TheExportedProgramAgreesWithTheTune) {
  if (std::system("g++ --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no g++";
  const auto reply = Explain("copy_1d", {{"T", "F32"}, {"n", int64_t{1} << 26}},
                             {"XBLOCK=256 VEC=4 ITEMS=2 CACHE=0 BLOCKS_PER_SM=0 STAGES=0",
                              "XBLOCK=256 VEC=4 ITEMS=4 CACHE=0 BLOCKS_PER_SM=0 STAGES=0"});
  ASSERT_EQ(Hone({"artifact", reply.summary().key(), "--ptx"}), cli::kExitOk) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr(".target sm_"), HasSubstr(".entry")));
  const std::string source = JoinPath(directory_->path(), "repro.cc");
  const std::string program = JoinPath(directory_->path(), "repro");
  const std::string output = JoinPath(directory_->path(), "repro.out");
  ASSERT_EQ(Hone({"export", reply.summary().key(), "--repro", "-o", source}), cli::kExitOk) << err_;
  const std::string build = absl::StrCat("g++ -std=c++17 -O2 -isystem ", HONE_CUDA_H, " ", source,
                                         " -o ", program, " -l:libcuda.so.1 -lpthread");
  ASSERT_EQ(std::system(build.c_str()), 0) << build;
  ASSERT_EQ(std::system(absl::StrCat(program, " >", output, " 2>&1").c_str()), 0)
      << ReadFile(output).value_or("");
  const std::string text = ReadFile(output).value_or("");
  std::printf("%s", text.c_str());
  EXPECT_THAT(text, AllOf(HasSubstr("checksum of dst"), HasSubstr("cold"), HasSubstr("warm"),
                          HasSubstr("GB/s")));
  const size_t at = text.find("cold");
  double cold_ns = 0;
  ASSERT_TRUE(absl::SimpleAtod(text.substr(at + 4, text.find(" ns", at) - at - 4), &cold_ns))
      << text;
  EXPECT_NEAR(cold_ns / reply.subject().median_ns(), 1, 0.1);
}

}  // namespace
}  // namespace hone
