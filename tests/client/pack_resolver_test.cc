#include "client/cpp/pack_resolver.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/pack_fixture.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using enum absl::StatusCode;

GetKernelOptions Asking(int64_t n, const v1::DeviceFingerprint& device = Gpu()) {
  GetKernelOptions request;
  request.template_name = "copy_1d";
  request.params = {{"T", "F32"}, {"n", n}};
  *request.target.mutable_device() = device;
  return request;
}

class PackResolverTest : public testing::Test {
 protected:
  absl::StatusOr<PackMatch> Resolve(const GetKernelOptions& request, bool cpu = false) {
    if (pack_ == nullptr) {
      pack_ = fixture_.Open();
      resolver_.emplace(pack_->index());
    }
    return resolver_->Resolve(request, cpu);
  }
  // The n and the device of the kernel that answers.
  int64_t SizeOf(const PackMatch& match) const {
    return pack_->index().kernels(match.kernel).params().at("n").integer();
  }
  int MultiprocessorsOf(const PackMatch& match) const {
    return pack_->index().devices(pack_->index().kernels(match.kernel).device_index()).sm_count();
  }

  PackFixture fixture_{/*allow_host_code=*/true};
  std::shared_ptr<const KernelPack> pack_;
  std::optional<PackResolver> resolver_;
};

TEST_F(PackResolverTest, EqualSizesAreExactAndOthersTakeTheNearest) {
  fixture_.Add(CopyReply(1024)).Add(CopyReply(1 << 20)).Add(CopyReply(4096, "F16"));
  const auto exact = Resolve(Asking(1024));
  ASSERT_THAT(exact, IsOk());
  EXPECT_TRUE(exact->exact);
  EXPECT_EQ(exact->stale_reason, "");
  struct Case {
    int64_t asked, answered;
  };
  for (const auto [asked, answered] :
       {Case{0, 1024}, Case{1, 1024}, Case{1025, 1024}, Case{32768 - 1, 1024},
        Case{32768 + 1, 1 << 20}, Case{int64_t{1} << 62, 1 << 20}}) {
    const auto match = Resolve(Asking(asked));
    ASSERT_THAT(match, IsOk());
    EXPECT_EQ(SizeOf(*match), answered) << asked;
    EXPECT_FALSE(match->exact);
    EXPECT_EQ(match->params.at("n").integer(), asked);
  }
}

TEST_F(PackResolverTest, AParameterThatIsLeftOutHasTheTemplatesDefault) {
  fixture_.Add(CopyReply(1024)).Add(CopyReply(1024, "F16"));
  GetKernelOptions request = Asking(1024);
  request.params.erase("T");
  const auto match = Resolve(request);
  ASSERT_THAT(match, IsOk());
  EXPECT_EQ(match->params.at("T").text(), "F32");
  EXPECT_EQ(pack_->index().kernels(match->kernel).params().at("T").text(), "F32");
  request.params.erase("n");
  EXPECT_THAT(Resolve(request), StatusIs(kInvalidArgument, HasSubstr("params.n")));
  request.params["n"] = "many";
  EXPECT_THAT(Resolve(request), StatusIs(kInvalidArgument, HasSubstr("'many'")));
}

TEST_F(PackResolverTest, WhatThePackHasInsteadIsSaid) {
  fixture_.Add(CopyReply(1024));
  GetKernelOptions request = Asking(1024);
  request.params["T"] = "F64";
  EXPECT_THAT(Resolve(request),
              StatusIs(kNotFound, AllOf(HasSubstr("no kernel of copy_1d for T=F64"),
                                        HasSubstr("it has T=F32"))));
  request = Asking(1024);
  request.params["size"] = int64_t{3};
  EXPECT_THAT(Resolve(request), StatusIs(kNotFound, HasSubstr("for T=F32 size=3")));
  request = Asking(1024);
  request.template_name = "copy_2d";
  EXPECT_THAT(Resolve(request), StatusIs(kNotFound, HasSubstr("'copy_2d'; it has copy_1d")));
  request = Asking(1024);
  request.template_digest = Sha256Hex("another");
  EXPECT_THAT(Resolve(request), StatusIs(kNotFound, HasSubstr(Sha256Hex("copy_1d"))));
  request.template_digest = Sha256Hex("copy_1d");
  EXPECT_THAT(Resolve(request), IsOk());
}

TEST_F(PackResolverTest, TheCallersDeviceComesFirstAndAnotherOfItsArchitectureIsStale) {
  fixture_.Add(CopyReply(1024), Gpu(132)).Add(CopyReply(4096), Gpu(78));
  const auto own = Resolve(Asking(4096, Gpu(132)));
  ASSERT_THAT(own, IsOk());
  EXPECT_EQ(MultiprocessorsOf(*own), 132) << "although the other one is of that size";
  EXPECT_FALSE(own->exact);
  EXPECT_EQ(own->stale_reason, "");
  const auto foreign = Resolve(Asking(4096, Gpu(16)));
  ASSERT_THAT(foreign, IsOk());
  EXPECT_EQ(MultiprocessorsOf(*foreign), 78);
  EXPECT_TRUE(foreign->exact);
  EXPECT_THAT(foreign->stale_reason, HasSubstr("another device: sm_90a with 78 SMs"));
  EXPECT_THAT(Resolve(Asking(4096, Gpu(132, "sm_80"))),
              StatusIs(kNotFound, AllOf(HasSubstr("sm_80 with 132 SMs"),
                                        HasSubstr("sm_90a with 132 SMs, sm_90a with 78 SMs"))));
}

TEST_F(PackResolverTest, ATargetMayNameAnArchitectureOnlyOrNothing) {
  fixture_.Add(CopyReply(1024), Gpu(132));
  GetKernelOptions request = Asking(1024);
  request.target.Clear();
  EXPECT_THAT(Resolve(request), IsOk()) << "the pack knows one device";
  request.target.set_architecture("sm_90a");
  EXPECT_THAT(Resolve(request), IsOk());
  request.target.set_architecture("sm_100a");
  EXPECT_THAT(Resolve(request),
              StatusIs(kNotFound, HasSubstr("for sm_100a; it has it for sm_90a")));
}

TEST_F(PackResolverTest, WithoutADeviceAPackOfSeveralDoesNotGuess) {
  fixture_.Add(CopyReply(1024), Gpu(132)).Add(CopyReply(1024), Gpu(78));
  GetKernelOptions request = Asking(1024);
  request.target.Clear();
  EXPECT_THAT(Resolve(request), StatusIs(kNotFound, HasSubstr("names no device")));
}

TEST_F(PackResolverTest, BitsArePromisedForTheSizesTheyWereCheckedAt) {
  fixture_.Add(CopyReply(1024)).Add(CopyReply(4096), Gpu(), v1::SAME_BITS_AS_DEFAULT);
  GetKernelOptions request = Asking(4096);
  request.numerics = v1::SAME_BITS_AS_DEFAULT;
  const auto match = Resolve(request);
  ASSERT_THAT(match, IsOk());
  EXPECT_TRUE(match->exact);
  request.params["n"] = int64_t{1024};
  EXPECT_THAT(Resolve(request), StatusIs(kNotFound, HasSubstr("it has T=F32 n=4096")));
  // And the tolerant request is not answered by the other choice.
  const auto tolerant = Resolve(Asking(4096));
  ASSERT_THAT(tolerant, IsOk());
  EXPECT_EQ(SizeOf(*tolerant), 1024);
}

TEST_F(PackResolverTest, ABinaryForALaterDriverIsRefusedWithBothVersions) {
  fixture_.Add(CopyReply(1024));
  GetKernelOptions request = Asking(1024);
  request.target.set_driver_version(11080);
  EXPECT_THAT(Resolve(request), StatusIs(kFailedPrecondition,
                                         AllOf(HasSubstr("12000 or later"), HasSubstr("11080"))));
  request.target.set_driver_version(12000);
  EXPECT_THAT(Resolve(request), IsOk());
}

TEST_F(PackResolverTest, HostCodeIsForThoseWhoEnabledIt) {
  v1::DeviceFingerprint cpu = Gpu(8, "x86-64-v3");
  cpu.set_kind("cpu");
  fixture_.Add(CopyReply(1024, "F32", "cpu"), cpu);
  GetKernelOptions request = Asking(1024);
  request.target.Clear();
  request.target.set_architecture("cpu");
  EXPECT_THAT(Resolve(request), StatusIs(kFailedPrecondition, HasSubstr("enable_cpu_device")));
  EXPECT_THAT(Resolve(request, /*cpu=*/true), IsOk());
  EXPECT_THAT(Resolve(Asking(1024), /*cpu=*/true),
              StatusIs(kNotFound, Not(HasSubstr("enable_cpu_device"))));
}

}  // namespace
}  // namespace hone
