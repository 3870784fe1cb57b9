// Artifacts of every size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/sha256.h"
#include "tests/testing/test_server.h"

namespace hone {
namespace {

using ::testing::HasSubstr;

class ArtifactTest : public ::testing::Test {
 protected:
  std::string Store(std::string bytes) {
    Artifact artifact;
    artifact.bytes = std::move(bytes);
    artifact.sha256 = Sha256Hex(artifact.bytes);
    artifact.architecture = "sm_90a";
    artifact.builder = "nvrtc 13.0.88";
    EXPECT_TRUE(server_.store().PutArtifact(Key({{"test", artifact.sha256}}), artifact).ok());
    return artifact.sha256;
  }

  struct Fetched {
    std::vector<v1::ArtifactChunk> chunks;
    std::string bytes;
    grpc::Status status;
  };
  Fetched Fetch(const std::string& sha256) {
    Fetched fetched;
    grpc::ClientContext context;
    v1::GetArtifactRequest request;
    request.set_sha256(sha256);
    auto client = server_.Client();
    auto reader = client->GetArtifact(&context, request);
    v1::ArtifactChunk chunk;
    while (reader->Read(&chunk)) {
      fetched.bytes += chunk.data();
      fetched.chunks.push_back(chunk);
    }
    fetched.status = reader->Finish();
    return fetched;
  }

  TestServer server_;
};

// scenario P18
TEST_F(ArtifactTest, WhatIsBeingSentIsNotEvicted) {
  server_.store().SetBytesMax(10 << 20);
  // More than the stream's buffers take, so that it is under way while the store fills up.
  const std::string sha256 = Store(std::string(8 << 20, 'a'));
  grpc::ClientContext context;
  v1::GetArtifactRequest request;
  request.set_sha256(sha256);
  auto client = server_.Client();
  auto reader = client->GetArtifact(&context, request);
  v1::ArtifactChunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  for (const char c : {'b', 'c', 'd'}) Store(std::string(1 << 20, c));
  EXPECT_GT(server_.store().Room().evictions, 0);
  EXPECT_TRUE(server_.store().GetArtifactBySha256(sha256)->has_value());
  size_t bytes = chunk.data().size();
  while (reader->Read(&chunk)) bytes += chunk.data().size();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(bytes, size_t{8} << 20);
}

// scenario P18
TEST_F(ArtifactTest, AKernelAnsweredFromMemoryIsFetchedAfterItsEviction) {
  v1::GetKernelRequest request = FromText<v1::GetKernelRequest>(
      "template { name: 'copy' } params { key: 'n' value { integer: 1000 } } inline_bytes_max: -1");
  v1::GetKernelResponse answer;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(server_.Client()->GetKernel(&context, request, &answer).ok());
  }
  const std::string& sha256 = answer.kernel().variants(0).artifact().sha256();
  ASSERT_TRUE(server_.store().QuarantineArtifact(sha256).ok());
  const Fetched fetched = Fetch(sha256);
  ASSERT_TRUE(fetched.status.ok()) << fetched.status.error_message();
  EXPECT_EQ(Sha256Hex(fetched.bytes), sha256);
}

// scenario P40
TEST_F(ArtifactTest, SevenMegabytesReachAnUntunedClientInChunks) {
  std::string bytes(7'000'001, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 >> 3);
  const std::string sha256 = Store(bytes);
  const Fetched fetched = Fetch(sha256);
  ASSERT_TRUE(fetched.status.ok()) << fetched.status.error_message();
  EXPECT_EQ(Sha256Hex(fetched.bytes), sha256);
  EXPECT_EQ(fetched.chunks.size(), 7u);
  EXPECT_EQ(fetched.chunks[0].info().size_bytes(), 7'000'001);
  EXPECT_FALSE(fetched.chunks[1].has_info());
  for (const auto& chunk : fetched.chunks) EXPECT_LE(chunk.data().size(), size_t{1} << 20);
}

TEST_F(ArtifactTest, AnEmptyArtifactStillTellsAboutItself) {
  const Fetched fetched = Fetch(Store(""));
  ASSERT_TRUE(fetched.status.ok());
  ASSERT_EQ(fetched.chunks.size(), 1u);
  EXPECT_EQ(fetched.chunks[0].info().builder(), "nvrtc 13.0.88");
}

TEST_F(ArtifactTest, DamagedBytesAreNeverSent) {
  const std::string sha256 = Store("good bytes");
  server_.store().CorruptArtifact(sha256);
  const Fetched fetched = Fetch(sha256);
  EXPECT_EQ(fetched.status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_TRUE(fetched.bytes.empty());
  EXPECT_EQ(Fetch(sha256).status.error_code(), grpc::StatusCode::NOT_FOUND) << "put aside";
}

TEST_F(ArtifactTest, ErrorsNameTheField) {
  const Fetched unknown = Fetch(std::string(64, 'a'));
  EXPECT_EQ(unknown.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.status.error_message(), HasSubstr("sha256"));
  const Fetched malformed = Fetch("../../etc/passwd");
  EXPECT_EQ(malformed.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(malformed.status.error_message(), HasSubstr("64 lower-case hex digits"));
}

}  // namespace
}  // namespace hone
