#include "runtime/cache/caching_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "tests/testing/fake_compiler.h"
#include "tests/testing/in_memory_store.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::HasSubstr;

Program Source(const std::string& source, const std::string& architecture = "sm_90a") {
  Program program;
  program.name = "test.cu";
  program.source = source;
  program.name_expressions = {"k"};
  program.architecture = architecture;
  return program;
}

class CachingCompilerTest : public testing::Test {
 protected:
  CompileOutcome Compile(const Program& program) {
    auto outcome = caching_.Compile(program, {});
    EXPECT_THAT(outcome, IsOk());
    return outcome.ok() ? *std::move(outcome) : CompileOutcome();
  }

  FakeCompiler inner_;
  InMemoryStore store_;
  CachingCompiler caching_{&inner_, &store_};
};

TEST_F(CachingCompilerTest, SecondAskIsAnsweredFromTheStore) {
  const CompileOutcome first = Compile(Source("a"));
  const CompileOutcome second = Compile(Source("a"));
  EXPECT_FALSE(first.cached);
  EXPECT_TRUE(second.cached);
  EXPECT_EQ(first.artifact->sha256, second.artifact->sha256);
  EXPECT_EQ(inner_.calls(), 1);
}

// scenario P20
TEST_F(CachingCompilerTest, ConcurrentAsksForOneKeyCompileOnce) {
  inner_.Block();
  std::vector<std::thread> threads;
  Mutex mutex;
  std::set<std::string> hashes;
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([&] {
      auto outcome = caching_.Compile(Source("a"), {});
      MutexLock lock(&mutex);
      hashes.insert(outcome->artifact->sha256);
    });
  }
  inner_.WaitForBlocked(1);
  while (caching_.joined() < 31) std::this_thread::yield();
  inner_.Unblock();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(inner_.calls(), 1);
  EXPECT_EQ(hashes.size(), 1u);
  EXPECT_EQ(caching_.joined(), 31);
}

// scenario P15
TEST_F(CachingCompilerTest, ArchitecturesNeverAnswerEachOther) {
  const CompileOutcome hopper = Compile(Source("a", "sm_90a"));
  const CompileOutcome ampere = Compile(Source("a", "sm_86"));
  EXPECT_NE(hopper.artifact->sha256, ampere.artifact->sha256);
  EXPECT_EQ(hopper.artifact->architecture, "sm_90a");
  EXPECT_EQ(ampere.artifact->architecture, "sm_86");
}

// scenario P16
TEST_F(CachingCompilerTest, ChangedHeaderOrOptionOrCompilerRebuildsAndRevertingHits) {
  Program program = Source("#include \"a.h\"");
  program.headers = {{"a.h", "#include \"b.h\""}, {"b.h", "constexpr int v = 1;"}};
  Compile(program);
  Program edited = program;
  edited.headers[1].content = "constexpr int v = 2;";
  EXPECT_FALSE(Compile(edited).cached);
  Program defined = program;
  defined.options = {"-DX=2"};
  EXPECT_FALSE(Compile(defined).cached);
  EXPECT_TRUE(Compile(program).cached) << "the reverted header hits the first artefact";
  std::vector<CompilerInfo> newer = inner_.Compilers();
  for (CompilerInfo& info : newer) info.builder = info.kind + " 99.9.9";
  inner_.SetCompilers(newer);
  EXPECT_FALSE(Compile(program).cached);
}

// scenario P12
TEST_F(CachingCompilerTest, AnOptionIsOneHoweverItIsSpelledAndUnknownOnesAreRefused) {
  Program program = Source("a");
  program.options = {"-I", "dir", "-default-device"};
  Compile(program);
  program.options = {"--device-as-default-execution-space", "--include-path=dir/"};
  EXPECT_TRUE(Compile(program).cached);
  program.options = {"--no-such-option"};
  EXPECT_THAT(caching_.Compile(program, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'--no-such-option'")));
}

class OtherBuildTest : public CachingCompilerTest {
 protected:
  // The toolkit's headers and compiler become others, or go.
  void Upgrade() {
    std::vector<CompilerInfo> newer = inner_.Compilers();
    for (CompilerInfo& info : newer) info.headers_digest = "newer headers";
    inner_.SetCompilers(newer);
  }
  std::optional<CachingCompiler::Stored> Lookup(bool any_build, int driver_version = 0) {
    auto found = caching_.Lookup(Source("a"), driver_version, any_build);
    EXPECT_THAT(found, IsOk());
    return found.ok() ? *std::move(found) : std::nullopt;
  }
};

TEST_F(OtherBuildTest, IsFoundOnlyWhenItIsAskedFor) {
  EXPECT_FALSE(Lookup(true).has_value());
  Compile(Source("a"));
  EXPECT_TRUE(Lookup(false)->current);
  Upgrade();
  EXPECT_FALSE(Lookup(false).has_value());
  ASSERT_TRUE(Lookup(true).has_value());
  EXPECT_FALSE(Lookup(true)->current);
  Compile(Source("a"));
  EXPECT_TRUE(Lookup(true)->current);
}

// scenario P06
TEST_F(OtherBuildTest, WithoutACompilerWhatIsStoredIsStillThere) {
  const std::string sha256 = Compile(Source("a")).artifact->sha256;
  inner_.SetCompilers({});
  EXPECT_THAT(caching_.Compile(Source("a"), {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no nvrtc")));
  ASSERT_TRUE(Lookup(false).has_value());
  EXPECT_EQ(Lookup(false)->artifact.sha256, sha256);
  EXPECT_FALSE(Lookup(false)->current);
  EXPECT_THAT(caching_.Lookup(Source("b"), 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no nvrtc")));
}

TEST_F(OtherBuildTest, ADriverThatCannotLoadItIsNotGivenIt) {
  Compile(Source("a"));
  EXPECT_THAT(caching_.Lookup(Source("a"), 12040),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("12040")));
  EXPECT_FALSE(Lookup(true, 12040).has_value());
}

TEST_F(CachingCompilerTest, FailureIsNotRemembered) {
  inner_.FailFor("broken", Rejection{.kind = RejectionKind::kTimeout, .detail = "5 s"});
  EXPECT_TRUE(Compile(Source("broken")).rejection.has_value());
  EXPECT_TRUE(Compile(Source("broken")).rejection.has_value());
  EXPECT_EQ(inner_.calls(), 2);
}

// scenario P54
TEST_F(CachingCompilerTest, FullDiskStillGivesTheArtifactAndSaysWhyItIsNotCached) {
  store_.FailPuts(absl::ResourceExhaustedError("disk full: /cache has 0 bytes free"));
  const CompileOutcome outcome = Compile(Source("a"));
  ASSERT_TRUE(outcome.artifact.has_value());
  EXPECT_THAT(outcome.not_cached_reason, HasSubstr("disk full"));
  store_.FailPuts(absl::OkStatus());
  Compile(Source("a"));
  EXPECT_TRUE(Compile(Source("a")).cached) << "caching resumes by itself";
}

// scenario P14
TEST_F(CachingCompilerTest, DamagedBytesAreCompiledAgainAndCounted) {
  const CompileOutcome first = Compile(Source("a"));
  store_.CorruptArtifact(first.artifact->sha256);
  const CompileOutcome again = Compile(Source("a"));
  EXPECT_EQ(again.artifact->bytes, first.artifact->bytes);
  EXPECT_EQ(caching_.corruptions(), 1);
  EXPECT_TRUE(Compile(Source("a")).cached);
}

TEST_F(CachingCompilerTest, UnreadableStoreCostsACompileNotTheAnswer) {
  store_.FailGets(absl::UnavailableError("busy"));
  EXPECT_TRUE(Compile(Source("a")).artifact.has_value());
}

}  // namespace
}  // namespace hone
