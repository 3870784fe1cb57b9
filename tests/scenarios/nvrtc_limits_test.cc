// Programs that fail, never end, or are large; and a compiler that is not all there.
#include "tests/scenarios/nvrtc_fixture.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// scenario P06
TEST_F(NvrtcScenarioTest, WithoutItsBuiltinsNvrtcIsDownAndWhatIsStoredIsServed) {
  v1::GetKernelResponse before;
  grpc::Status status = Get("copy_1d", "", &before);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_FALSE(before.stale());

  const std::string real = Nvrtc().path();
  const TemporaryDirectory toolkit = *TemporaryDirectory::Create();
  // A copy: a link would lead back to the directory with the builtins.
  const auto library = ReadFile(real, int64_t{1} << 30);
  ASSERT_TRUE(library.ok());
  ASSERT_TRUE(WriteNewFile(JoinPath(toolkit.path(), BaseName(real)), *library, 0755).ok());
  ASSERT_NO_FATAL_FAILURE(Restart({.environment = {"HONE_NVRTC_DIRS=" + toolkit.path()}}));

  const auto says_what_is_missing =
      AllOf(HasSubstr("libnvrtc-builtins.so"), HasSubstr(toolkit.path()));
  EXPECT_FALSE(Nvrtc().available());
  EXPECT_THAT(Nvrtc().detail(), says_what_is_missing);
  status = Error(Source(Storing("1")));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), says_what_is_missing);

  for (const char* policy : {"BEST_AVAILABLE", "NO_WAIT", "FROZEN"}) {
    v1::GetKernelResponse after;
    status = Get("copy_1d", absl::StrCat("policy: ", policy), &after);
    ASSERT_TRUE(status.ok()) << policy << ": " << status.error_message();
    EXPECT_EQ(after.kernel().variants(0).artifact().sha256(),
              before.kernel().variants(0).artifact().sha256());
    EXPECT_TRUE(after.stale());
    EXPECT_THAT(after.stale_reason(), HasSubstr("no compiler is at hand"));
  }
  v1::GetKernelResponse response;
  const std::string other = "params { key: 'T' value { text: 'F16' } }";
  status = Get("copy_1d", other, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), says_what_is_missing);
  EXPECT_EQ(Get("copy_1d", other + " policy: FROZEN", &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(Explain("copy_1d").state(), HasSubstr("stored, built by nvrtc"));
  grpc::ClientContext context;
  v1::ListTuningsResponse tunings;
  EXPECT_TRUE(daemon_->Client()->ListTunings(&context, {}, &tunings).ok());

  // Restored, it is found again without a restart.
  const auto files = ListDirectory(DirectoryName(real));
  ASSERT_TRUE(files.ok());
  for (const std::string& file : *files) {
    if (file.find("libnvrtc-builtins.so.") != 0) continue;
    const auto builtins = ReadFile(JoinPath(DirectoryName(real), file));
    ASSERT_TRUE(WriteNewFile(JoinPath(toolkit.path(), file), *builtins, 0755).ok());
  }
  const absl::Time limit = absl::Now() + absl::Seconds(60);
  do {
    status = Error(Source(Storing("1")));
  } while (!status.ok() && absl::Now() < limit);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

std::string UndeclaredIdentifiers(int count) {
  std::string source;
  for (int i = 1; i <= count; ++i) {
    absl::StrAppend(&source, "__device__ int a", i, " = b", i, ";\n");
  }
  return source;
}

// scenario P08
TEST_F(NvrtcScenarioTest, ErrorsAreCountedWithTheFirstInFullAndTheWholeLogById) {
  const grpc::Status status = Error(Source(UndeclaredIdentifiers(300)));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("100 errors, limit reached; first: k.cu(1): error: identifier \"b1\""));
  const v1::ErrorDetail detail = DetailIn(status);
  EXPECT_EQ(detail.error_count(), 100);
  EXPECT_TRUE(detail.error_limit_reached());
  EXPECT_THAT(detail.excerpt(), HasSubstr(">     1 | __device__ int a1 = b1;"));
  EXPECT_LT(detail.excerpt().size(), 1500u);
  const v1::GetLogResponse log = Log(detail.log_id());
  EXPECT_THAT(log.log(), AllOf(HasSubstr("\"b1\""), HasSubstr("\"b100\"")));
  EXPECT_EQ(log.truncated_bytes(), 0);

  // The daemon's limit, with what it costs.
  ASSERT_NO_FATAL_FAILURE(Restart({.arguments = {"--compile-log-bytes", "4096"}}));
  const grpc::Status cut = Error(Source(UndeclaredIdentifiers(300)));
  EXPECT_EQ(DetailIn(cut).error_count(), 100);
  const v1::GetLogResponse head = Log(DetailIn(cut).log_id());
  EXPECT_LE(head.log().size(), 4096u);
  EXPECT_EQ(static_cast<int64_t>(head.log().size()) + head.truncated_bytes(),
            static_cast<int64_t>(log.log().size()));
}

// scenario P08
TEST_F(NvrtcScenarioTest, WarningsOfASuccessAreKeptWithTheBinary) {
  const v1::CompileRequest request = Source("#warning hello there\n" + Storing("1"));
  for (const bool cached : {false, true}) {
    const v1::CompiledArtifact artifact = Compiled(request);
    EXPECT_EQ(artifact.cached(), cached);
    EXPECT_THAT(artifact.log(), HasSubstr("hello there"));
    EXPECT_THAT(Log(artifact.info().log_id()).log(), HasSubstr("hello there"));
  }
  ASSERT_TRUE(Register(FillTemplate("warns", "#warning hello template\n", "1", "1")).ok());
  v1::GetKernelResponse response;
  ASSERT_TRUE(Get("warns", "", &response).ok());
  EXPECT_THAT(Log(response.kernel().variants(0).artifact().log_id()).log(),
              HasSubstr("hello template"));
}

// scenario P09
TEST_F(NvrtcScenarioTest, ACompileWithoutEndIsADeadlineThatCostsNobodyElse) {
  ASSERT_NO_FATAL_FAILURE(Restart({.arguments = {"--workers", "2"}}, "5s"));
  grpc::Status endless;
  absl::Duration took;
  std::thread bomb([&] {
    const absl::Duration start = MonotonicNow();
    endless = Error(Source(TypeTree(16)));
    took = MonotonicNow() - start;
  });
  // On a busy machine a small compile, too, may not get its processor time within the limit.
  const Deadline limit = Deadline::In(absl::Minutes(2));
  grpc::Status other;
  do {
    other = Error(Source(Storing("1")));
  } while (other.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && !limit.passed());
  EXPECT_TRUE(other.ok()) << other.error_message();
  bomb.join();
  EXPECT_EQ(endless.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(endless.error_message(), HasSubstr("longer than 5s; its worker was killed"));
  EXPECT_GE(took, absl::Seconds(5));
  // The start of a worker is not counted in the limit.
  EXPECT_LT(took, absl::Seconds(30));
  // Its process is gone, and its memory with it: what is left are idle workers.
  EXPECT_LE(WorkersOf(directory_.path()), 3) << "two for NVRTC, one for the host compiler";
  // Asked for again, it is tried again.
  const int64_t compiles = Counter("compiles");
  EXPECT_EQ(Error(Source(TypeTree(16))).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(Counter("compiles"), compiles + 1);
}

// scenario P20
TEST_F(NvrtcScenarioTest, ThirtyTwoClientsOfAColdKeyGetOneCompile) {
  ASSERT_TRUE(Register(FillTemplate("cold", "", "1", "1")).ok());
  std::vector<v1::GetKernelResponse> responses(32);
  std::vector<std::thread> clients;
  for (v1::GetKernelResponse& response : responses) {
    clients.emplace_back([&] {
      const grpc::Status status = Get("cold", "", &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
    });
  }
  for (std::thread& client : clients) client.join();
  std::set<std::string> hashes;
  for (const v1::GetKernelResponse& response : responses) {
    hashes.insert(response.kernel().variants(0).artifact().sha256());
  }
  EXPECT_THAT(hashes, SizeIs(1));
  EXPECT_EQ(Counter("compiles"), 1);
  EXPECT_EQ(Counter("joined_waiters") + Counter("memory_hits"), 31);
}

// scenario P40
TEST_F(NvrtcScenarioTest, SevenMegabytesReachAClientThatWasNeverTuned) {
  const std::string table =
      "__device__ int table[1800000] = {1};\n"
      "__device__ int Look(int at) { return table[at]; }\n";
  const v1::CompiledArtifact artifact = Compiled(
      Source(table + "extern \"C\" __global__ void k(int* a) { a[0] = Look(a[1]); }\n", "sm_90a"));
  EXPECT_GT(artifact.info().size_bytes(), 6 << 20);
  EXPECT_THAT(artifact.data(), IsEmpty());
  EXPECT_EQ(Sha256Hex(Fetch(artifact.info().sha256())), artifact.info().sha256());

  ASSERT_TRUE(Register(FillTemplate("large", table, "Look(i % 3)", "0")).ok());
  for (const char* more : {"", "inline_bytes_max: 100000000"}) {
    v1::GetKernelResponse response;
    const grpc::Status status = Get("large", more, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    const v1::ArtifactInfo& info = response.kernel().variants(0).artifact();
    EXPECT_GT(info.size_bytes(), 6 << 20);
    EXPECT_EQ(Sha256Hex(Fetch(info.sha256())), info.sha256());
  }
}

// scenario P40
TEST_F(NvrtcScenarioTest, FiveMegabytesOfSourceAreToldTheLimit) {
  const std::string source = Storing("1") + "//" + std::string(5 << 20, 'x') + "\n";
  grpc::Status status = Error(Source(source));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("source"), HasSubstr("the limit is 1048576")));
  status =
      Register(FillTemplate("large_source", "//" + std::string(5 << 20, 'x') + "\n", "1", "1"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("fill.cu"), HasSubstr("at most 1048576")));
}

}  // namespace
}  // namespace hone
