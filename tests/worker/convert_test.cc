#include "runtime/worker/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/sha256.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// Through bytes, as between processes.
template <typename Message>
Message OverTheWire(const Message& message) {
  Message received;
  EXPECT_TRUE(received.ParseFromString(message.SerializeAsString()));
  return received;
}

Artifact Sample() {
  Artifact artifact;
  artifact.format = ArtifactFormat::kPtx;
  artifact.bytes = std::string("bytes\0\xff", 7);
  artifact.sha256 = Sha256Hex(artifact.bytes);
  artifact.architecture = "compute_90";
  artifact.builder = "nvrtc 13.0.88";
  artifact.min_driver = 13000;
  artifact.lowered_names = {{"f<float>", "_Z1fIfEvv"}};
  artifact.resources.push_back({"_Z1fIfEvv", 40, 1024, 16, 256});
  artifact.log = "warning";
  artifact.log_truncated_bytes = 3;
  artifact.built_at_unix_ms = 1234;
  return artifact;
}

TEST(ConvertTest, AProgramArrivesWithDirectoriesForItsHeaderSets) {
  Program program;
  program.name = "k.cu";
  program.source = "source";
  program.headers = {{"a.h", "content"}};
  program.header_sets = {"5e7"};
  program.options = {"--std=c++20"};
  program.defines = {{"X", "1"}};
  program.name_expressions = {"f<float>"};
  program.architecture = "sm_90a";
  const Program received = FromWire(OverTheWire(ToWire(program, {{"5e7", "/sets/5e7"}})));
  EXPECT_EQ(received.name, "k.cu");
  EXPECT_EQ(received.source, "source");
  ASSERT_EQ(received.headers.size(), 1u);
  EXPECT_EQ(received.headers[0].name, "a.h");
  EXPECT_EQ(received.headers[0].content, "content");
  EXPECT_THAT(received.header_sets, ElementsAre("/sets/5e7"));
  EXPECT_THAT(received.options, ElementsAre("--std=c++20"));
  EXPECT_THAT(received.defines, ElementsAre(Pair("X", "1")));
  EXPECT_THAT(received.name_expressions, ElementsAre("f<float>"));
  EXPECT_EQ(received.architecture, "sm_90a");
}

TEST(ConvertTest, AnArtifactArrivesWhole) {
  const auto received = FromWire(OverTheWire(ToWire(Sample())));
  ASSERT_THAT(received, IsOk());
  EXPECT_EQ(received->format, ArtifactFormat::kPtx);
  EXPECT_EQ(received->bytes, Sample().bytes);
  EXPECT_EQ(received->builder, "nvrtc 13.0.88");
  EXPECT_EQ(received->min_driver, 13000);
  EXPECT_EQ(received->lowered_names.at("f<float>"), "_Z1fIfEvv");
  ASSERT_EQ(received->resources.size(), 1u);
  EXPECT_EQ(received->resources[0].registers, 40);
  EXPECT_EQ(received->resources[0].static_shared_bytes, 1024);
  EXPECT_EQ(received->resources[0].local_bytes, 16);
  EXPECT_EQ(received->resources[0].max_threads_per_block, 256);
  EXPECT_EQ(received->log, "warning");
  EXPECT_EQ(received->log_truncated_bytes, 3);
  EXPECT_EQ(received->built_at_unix_ms, 1234);
}

TEST(ConvertTest, DamagedBytesAreDataLoss) {
  auto wire = ToWire(Sample());
  (*wire.mutable_data())[0] ^= 1;
  EXPECT_THAT(FromWire(wire), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(Sample().sha256)));
}

TEST(ConvertTest, UnknownFormatsAndKindsAreRefused) {
  auto artifact = ToWire(Sample());
  artifact.mutable_info()->set_format("ELF");
  EXPECT_THAT(FromWire(artifact), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'ELF'")));
  v1::Rejection rejection;
  rejection.set_kind("bored");
  EXPECT_THAT(FromWire(rejection),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'bored'")));
}

TEST(ConvertTest, EveryRejectionKindArrives) {
  for (int kind = 1; kind <= static_cast<int>(RejectionKind::kCrash); ++kind) {
    const Rejection sent{static_cast<RejectionKind>(kind), "detail", 10, 5, "log"};
    const auto received = FromWire(OverTheWire(ToWire(sent)));
    ASSERT_THAT(received, IsOk());
    EXPECT_EQ(received->kind, sent.kind);
    EXPECT_EQ(received->detail, "detail");
    EXPECT_EQ(received->needed, 10);
    EXPECT_EQ(received->limit, 5);
    EXPECT_EQ(received->log_id, "log");
  }
}

// Compilers echo sources, and a log may be cut inside a character.
TEST(ConvertTest, LogsThatAreNotUtf8StillArrive) {
  CompileOutcome outcome;
  outcome.rejection = Rejection{RejectionKind::kCompile, "bad \xff"};
  outcome.log = "caf\xc3";
  outcome.excerpt = "\xe2\x86";
  outcome.error_count = 100;
  outcome.error_limit_reached = true;
  outcome.log_truncated_bytes = 9;
  const auto received = FromWire(OverTheWire(ToWire(absl::StatusOr<CompileOutcome>(outcome))));
  ASSERT_THAT(received, IsOk());
  EXPECT_EQ(received->log, "caf?");
  EXPECT_EQ(received->excerpt, "??");
  EXPECT_EQ(received->rejection->detail, "bad ?");
  EXPECT_EQ(received->error_count, 100);
  EXPECT_TRUE(received->error_limit_reached);
  EXPECT_EQ(received->log_truncated_bytes, 9);
}

TEST(ConvertTest, AnErrorStandsForTheOutcome) {
  const absl::StatusOr<CompileOutcome> error = absl::FailedPreconditionError("no library");
  EXPECT_THAT(FromWire(OverTheWire(ToWire(error))),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no library")));
}

TEST(ConvertTest, AReplyWithoutAnythingIsInternal) {
  EXPECT_THAT(FromWire(v1::worker::CompileReply()),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("neither")));
}

TEST(ConvertTest, ACompilersDescriptionArrives) {
  CompilerInfo info;
  info.kind = "nvrtc";
  info.build = "13.0.88";
  info.builder = "nvrtc 13.0.88";
  info.path = "/lib";
  info.cuda_version = 13000;
  info.available = true;
  info.detail = "note";
  info.architectures = {"sm_90", "sm_90a"};
  info.headers_path = "/include";
  info.headers_version = "13.0";
  info.headers_digest = "abc";
  info.sandbox = "landlock abi 7";
  const CompilerInfo received = FromWire(OverTheWire(ToWire(info)));
  EXPECT_EQ(received.builder, info.builder);
  EXPECT_EQ(received.cuda_version, 13000);
  EXPECT_TRUE(received.available);
  EXPECT_THAT(received.architectures, ElementsAre("sm_90", "sm_90a"));
  EXPECT_EQ(received.headers_digest, "abc");
  EXPECT_EQ(received.sandbox, "landlock abi 7");
}

}  // namespace
}  // namespace hone
