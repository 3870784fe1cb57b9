// The daemon first, a pack when it cannot be reached.
#include <utility>

#include "client/cpp/kernel_state.h"
#include "client/cpp/pack_kernel_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_macros.h"
#include "tests/client/pack_fixture.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using enum absl::StatusCode;

// A daemon that answers everything with one status, or with one kernel.
class ScriptedDaemon : public KernelSource {
 public:
  explicit ScriptedDaemon(absl::Status status) : status_(std::move(status)) {}

  absl::StatusOr<Kernel> GetKernel(const GetKernelOptions&) override {
    HONE_RETURN_IF_ERROR(status_);
    v1::GetKernelResponse reply = CopyReply(8);
    std::map<std::string, std::string> bytes;
    for (const v1::KernelVariant& variant : reply.kernel().variants()) {
      bytes[variant.artifact().sha256()] = FetchCopy(variant.artifact().sha256());
    }
    return MakeKernel(std::move(reply), bytes, /*cpu_device_enabled=*/false);
  }
  absl::Status Watch(v1::Numerics, const OnWatchEvent&) override { return status_; }
  absl::Status Reach(absl::Duration) override { return status_; }
  void Close() override {}

 private:
  const absl::Status status_;
};

class PackFallbackTest : public testing::Test {
 protected:
  PackFallbackTest() { pack_.Add(CopyReply(1024)); }

  std::unique_ptr<KernelSource> Source(absl::Status daemon, bool cpu = false) {
    return MakePackFallback(std::make_unique<ScriptedDaemon>(std::move(daemon)), pack_.Open(), cpu);
  }
  static absl::Status Unreachable() {
    return MarkUnreachable(absl::UnavailableError("no hone daemon at /s"));
  }
  static GetKernelOptions Asking(int64_t n) {
    GetKernelOptions request;
    request.template_name = "copy_1d";
    request.params = {{"T", "F32"}, {"n", n}};
    *request.target.mutable_device() = Gpu();
    return request;
  }

  PackFixture pack_{/*allow_host_code=*/true};
};

TEST_F(PackFallbackTest, WhatTheDaemonAnswersIsTheAnswer) {
  const auto kernel = Source(absl::OkStatus())->GetKernel(Asking(1024));
  ASSERT_THAT(kernel, IsOk());
  EXPECT_FALSE(kernel->from_pack());
  EXPECT_EQ(kernel->response().kernel().generation(), 1000u);
  EXPECT_THAT(Source(absl::NotFoundError("a miss"))->GetKernel(Asking(1024)),
              StatusIs(kNotFound, "a miss"));
  EXPECT_THAT(Source(absl::UnavailableError("draining"))->GetKernel(Asking(1024)),
              StatusIs(kUnavailable, "draining"));
}

TEST_F(PackFallbackTest, AnUnreachableDaemonsKernelsComeFromThePackAndSaySo) {
  const auto source = Source(Unreachable());
  const auto kernel = source->GetKernel(Asking(1024));
  ASSERT_THAT(kernel, IsOk());
  EXPECT_TRUE(kernel->from_pack());
  EXPECT_EQ(kernel->response().source(), v1::TUNED);
  EXPECT_TRUE(kernel->response().exact());
  EXPECT_EQ(kernel->response().key(), CopyReply(1024).key());
  EXPECT_EQ(kernel->response().kernel().generation(), 0u) << "of another store";
  ASSERT_EQ(kernel->variants().size(), 2u);
  EXPECT_EQ(kernel->variants()[0].bytes, CopyBinary(1024, "F32"));
  EXPECT_THAT(source->Reach(absl::ZeroDuration()), StatusIs(kUnavailable, HasSubstr("/s")));
}

TEST_F(PackFallbackTest, AnotherSizeIsAnsweredByTheNearest) {
  const auto kernel = Source(Unreachable())->GetKernel(Asking(5000));
  ASSERT_THAT(kernel, IsOk());
  const v1::GetKernelResponse& answer = kernel->response();
  EXPECT_EQ(answer.source(), v1::NEAREST);
  EXPECT_FALSE(answer.exact());
  EXPECT_EQ(answer.key(), "") << "the request's own is not known";
  EXPECT_EQ(answer.answered_by_key(), CopyReply(1024).key());
  EXPECT_EQ(answer.answered_by_params().at("n").integer(), 1024);
  EXPECT_EQ(answer.kernel().params().at("n").integer(), 5000);
}

TEST_F(PackFallbackTest, AKernelTimedOnAnotherDeviceIsStale) {
  GetKernelOptions request = Asking(1024);
  *request.target.mutable_device() = Gpu(78);
  const auto kernel = Source(Unreachable())->GetKernel(request);
  ASSERT_THAT(kernel, IsOk());
  EXPECT_TRUE(kernel->response().stale());
  EXPECT_THAT(kernel->response().stale_reason(), HasSubstr("sm_90a with 132 SMs"));
}

TEST_F(PackFallbackTest, WhenNeitherHasAnAnswerBothReasonsAreTold) {
  GetKernelOptions request = Asking(1024);
  request.params["T"] = "F16";
  const auto kernel = Source(Unreachable())->GetKernel(request);
  EXPECT_THAT(kernel, StatusIs(kNotFound, AllOf(HasSubstr(pack_.path()), HasSubstr("it has T=F32"),
                                                HasSubstr("no hone daemon at /s"))));
  EXPECT_TRUE(IsUnreachable(kernel.status()));
}

TEST_F(PackFallbackTest, ADamagedBinaryIsNotLaunched) {
  const auto source = Source(Unreachable());
  std::string bytes = *ReadFile(pack_.path());
  bytes[bytes.find(CopyBinary(1024, "F32"))] ^= 1;
  // In place, as a failing disk would.
  FILE* const file = std::fopen(pack_.path().c_str(), "r+");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
  ASSERT_EQ(std::fclose(file), 0);
  EXPECT_THAT(source->GetKernel(Asking(1024)), StatusIs(kDataLoss, HasSubstr(pack_.path())));
}

TEST_F(PackFallbackTest, HostCodeIsRefusedWhateverTheIndexCallsIt) {
  v1::GetKernelResponse disguised = CopyReply(4096);
  disguised.mutable_kernel()->mutable_variants(0)->mutable_artifact()->set_format("HOST_ELF");
  pack_.Add(disguised);
  EXPECT_THAT(Source(Unreachable())->GetKernel(Asking(4096)),
              StatusIs(kFailedPrecondition, HasSubstr("enable_cpu_device")));
  EXPECT_THAT(Source(Unreachable(), /*cpu=*/true)->GetKernel(Asking(4096)), IsOk());
}

}  // namespace
}  // namespace hone
