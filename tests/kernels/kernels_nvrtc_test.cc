// Every kernel of the catalog compiles for every architecture that is promised, by the real NVRTC.
#include <gtest/gtest.h>

#include "runtime/base/files.h"
#include "runtime/compile/nvrtc_locate.h"
#include "runtime/cuda/nvrtc_compiler.h"
#include "tests/kernels/kernel_samples.h"

namespace hone {
namespace {

constexpr const char* kArchitectures[] = {"sm_80",  "sm_86",   "sm_89",
                                          "sm_90a", "sm_100a", "sm_120a"};

class KernelsNvrtcTest : public testing::Test {
 protected:
  void SetUp() override {
    const NvrtcSearch search = LocateNvrtc({});
    for (const NvrtcLocation& location : search.found) {
      if (location.include_directories.empty()) continue;
      absl::StatusOr<std::unique_ptr<NvrtcLibrary>> library = NvrtcLibrary::Open(location.library);
      if (!library.ok()) continue;
      const auto& known = (*library)->architectures();
      if (std::find(known.begin(), known.end(), "sm_120a") == known.end()) continue;
      scratch_ = TemporaryDirectory::Create("", "kernels_nvrtc_test").value();
      compiler_ = NvrtcCompiler::Create(*std::move(library),
                                        {location.include_directories, scratch_.path()})
                      .value();
      return;
    }
    GTEST_SKIP() << "no NVRTC with headers that knows sm_120a was found";
  }

  TemporaryDirectory scratch_;
  std::unique_ptr<Compiler> compiler_;
};

// A sample, not the product: each sample's configs are dealt over the architectures.
TEST_F(KernelsNvrtcTest, SampledConfigsCompileForAllArchitectures) {
  const DeviceFacts facts = {{"device.sm_count", 132},
                             {"device.shared_bytes_per_block_max", 101376}};
  size_t turn = 0;
  std::map<std::string, std::set<std::string>> compiled;  // kernel -> architectures
  for (const KernelSample& sample : KernelSamples()) {
    const KernelTemplatePtr found = FindTemplate(TheCatalog(), sample.kernel);
    ASSERT_NE(found, nullptr);
    const Problem problem = ProblemOf(*found, sample.params);
    // Three samples of a kernel, two architectures each: all six.
    for (int i = 0; i < 2; ++i) {
      const std::string architecture = kArchitectures[turn++ % 6];
      const absl::StatusOr<ConfigSpace> space =
          ConfigSpace::Create(found, problem, architecture, facts);
      ASSERT_TRUE(space.ok()) << space.status();
      const Program program =
          MergedProgram(*found, problem, SampleConfigs(*space, 4), architecture);
      const absl::StatusOr<CompileOutcome> outcome = compiler_->Compile(program, {});
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      ASSERT_TRUE(outcome->artifact.has_value())
          << NameOf(sample) << " for " << architecture << ":\n"
          << outcome->log;
      EXPECT_EQ(outcome->artifact->lowered_names.size(), program.name_expressions.size());
      compiled[sample.kernel].insert(architecture);
    }
  }
  for (const auto& [kernel, architectures] : compiled)
    EXPECT_EQ(architectures.size(), 6u) << kernel;
}

}  // namespace
}  // namespace hone
