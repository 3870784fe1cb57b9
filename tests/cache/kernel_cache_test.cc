#include "runtime/cache/kernel_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "runtime/base/notification.h"
#include "tests/cache/kernel_cache_fixture.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/fake_profiler.h"
#include "tests/testing/in_memory_store.h"
#include "tests/testing/simple_template.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;

class KernelCacheTest : public KernelCacheFixture {};

TEST_F(KernelCacheTest, UntunedRequestCompilesTheDefaultAndSaysSo) {
  const KernelAnswer answer = Get(kN);
  EXPECT_EQ(answer.source, AnswerSource::kDefault);
  EXPECT_EQ(WinnerOf(answer), "XBLOCK=64 VEC=1");
  EXPECT_EQ(compiler_.calls(), 1);
  EXPECT_EQ(profiler_->begins(), 0) << "a request alone never uses the GPU";
}

TEST_F(KernelCacheTest, HitTouchesNeitherCompilerNorStoreNorDevice) {
  Get(kN);
  const auto before = store_.counters();
  const KernelAnswer hit = Get(kN);
  EXPECT_EQ(compiler_.calls(), 1);
  EXPECT_EQ(store_.counters().artifact_gets, before.artifact_gets);
  EXPECT_EQ(store_.counters().measurement_gets, before.measurement_gets);
  EXPECT_EQ(Counter("memory_hits"), 1);
  EXPECT_NE(hit.kernel, nullptr);
}

TEST_F(KernelCacheTest, TuneChoosesTheFastestAndLaterRequestsGetIt) {
  const TuneRun::Event finished = Tune(kN);
  ASSERT_THAT(finished.status, IsOk());
  EXPECT_EQ(finished.winner->config.ToString(), "XBLOCK=256 VEC=4");
  const KernelAnswer answer = Get(kN);
  EXPECT_EQ(answer.source, AnswerSource::kTuned);
  EXPECT_EQ(WinnerOf(answer), "XBLOCK=256 VEC=4");
  EXPECT_TRUE(answer.kernel->variants.front().measurement->verified);
  EXPECT_EQ(answer.kernel->generation, finished.kernel->generation);
}

TEST_F(KernelCacheTest, VectorisedWinnerComesWithAVariantThatAcceptsEveryPointer) {
  Tune(kN);
  const KernelAnswer answer = Get(kN);
  ASSERT_THAT(answer.kernel->variants, SizeIs(2));
  EXPECT_EQ(answer.kernel->variants.back().config.ToString(), "XBLOCK=128 VEC=1")
      << "the fastest of those that align to one element";
}

TEST_F(KernelCacheTest, VariantThatRefusesOnlyWhatTheDomainExcludesIsTheFallback) {
  template_ = SimpleTemplate({.n_multiple_of = 8});
  Tune(kN);
  const KernelAnswer answer = Get(kN);
  ASSERT_THAT(answer.kernel->variants, SizeIs(2));
  EXPECT_EQ(answer.kernel->variants.back().config.ToString(), "XBLOCK=128 VEC=1");
}

TEST_F(KernelCacheTest, RestartAnswersFromTheStoreWithoutCompilingOrMeasuring) {
  Tune(kN);
  const int64_t compiles = compiler_.calls();
  Start();
  const KernelAnswer answer = Get(kN);
  EXPECT_EQ(WinnerOf(answer), "XBLOCK=256 VEC=4");
  EXPECT_EQ(answer.source, AnswerSource::kTuned);
  EXPECT_EQ(compiler_.calls(), compiles);
  EXPECT_EQ(profiler_->begins(), 0);
  // scenario P30
  const TuneRun::Event again = Tune(kN);
  EXPECT_EQ(again.outcome.measured, 0);
  EXPECT_EQ(profiler_->begins(), 0);
}

TEST_F(KernelCacheTest, NewWinnerReplacesWhatMemoryHeld) {
  EXPECT_EQ(Get(kN).source, AnswerSource::kDefault);
  Tune(kN);
  EXPECT_EQ(Get(kN).source, AnswerSource::kTuned);
}

// scenario P20
TEST_F(KernelCacheTest, ConcurrentTunesOfOneKeyAreOneTuneWithOneResult) {
  Notification go;
  profiler_->OnBegin([&](const ProfileProblem&) { go.WaitForNotification(); });
  std::vector<std::shared_ptr<TuneRun>> runs;
  int joined_count = 0;
  for (int i = 0; i < 32; ++i) {
    bool joined = false;
    auto run = cache_->Tune(template_, {{"n", kN}}, {}, {}, &joined);
    ASSERT_THAT(run, IsOk());
    joined_count += joined;
    runs.push_back(*run);
  }
  go.Notify();
  std::set<std::string> hashes;
  for (const auto& run : runs) {
    hashes.insert(Finished(*run).kernel->variants.front().artifact->sha256);
  }
  EXPECT_EQ(joined_count, 31);
  EXPECT_EQ(profiler_->begins(), 1);
  EXPECT_THAT(hashes, SizeIs(1));
}

// scenario P20
TEST_F(KernelCacheTest, WaitTunedCallersShareOneTuneAndOneArtifact) {
  std::vector<std::thread> threads;
  Mutex mutex;
  std::set<std::string> hashes;
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([&] {
      const auto answer = cache_->GetBlocking(Request(kN, Policy::kWaitTuned));
      MutexLock lock(&mutex);
      hashes.insert(answer.ok() ? answer->kernel->variants.front().artifact->sha256
                                : std::string(answer.status().message()));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(hashes, SizeIs(1));
  EXPECT_EQ(profiler_->begins(), 1);
  EXPECT_EQ(Counter("tunes"), 1);
  for (const char* config : {"64, 1", "64, 4", "128, 1", "128, 4", "256, 1", "256, 4"}) {
    EXPECT_EQ(compiler_.CallsFor(std::string("copy<float, ") + config + ">"), 1) << config;
  }
}

TEST_F(KernelCacheTest, WaitTunedAnswersByItsDeadlineAndTheTuneGoesOn) {
  Get(kN);  // the default's binary is stored
  Notification go;
  profiler_->OnBegin([&](const ProfileProblem&) { go.WaitForNotification(); });
  KernelRequest request = Request(kN, Policy::kWaitTuned);
  request.max_wait = absl::Milliseconds(20);
  const auto answer = cache_->GetBlocking(request);
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->source, AnswerSource::kDefault);
  EXPECT_TRUE(answer->tuning);
  go.Notify();
  EXPECT_EQ(Get(kN, Policy::kWaitTuned).source, AnswerSource::kTuned);
  EXPECT_EQ(Counter("tunes"), 1);
}

// scenario P41
TEST_F(KernelCacheTest, CallerThatGivesUpLeavesTheCompileToTheOthers) {
  compiler_.Block();
  KernelRequest request = Request(kN);
  request.max_wait = absl::Milliseconds(20);
  EXPECT_THAT(cache_->GetBlocking(request),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("goes on")));
  compiler_.Unblock();
  EXPECT_EQ(Get(kN).source, AnswerSource::kDefault);
  EXPECT_EQ(compiler_.calls(), 1);
}

TEST_F(KernelCacheTest, FrozenAndNoWaitNeverCompileOnTheCallAndRecordTheMiss) {
  EXPECT_THAT(cache_->GetBlocking(Request(kN, Policy::kFrozen)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("n=1048576")));
  EXPECT_EQ(compiler_.calls(), 0);
  const auto misses = cache_->ListMisses({});
  ASSERT_THAT(misses, IsOkAndHolds(SizeIs(1)));
  EXPECT_EQ(misses->front().policy, "FROZEN");
}

// scenario P47
TEST_F(KernelCacheTest, NoWaitMissQueuesTheWorkForTheNextCall) {
  EXPECT_THAT(cache_->GetBlocking(Request(kN, Policy::kNoWait)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("NO_WAIT")));
  // The default goes on to be built; a request that may wait joins or finds it.
  Get(kN);
  EXPECT_EQ(compiler_.calls(), 1);
  EXPECT_THAT(cache_->GetBlocking(Request(kN, Policy::kNoWait)), IsOk());
}

TEST_F(KernelCacheTest, FrozenServesWhatIsStored) {
  Tune(kN);
  Start();
  EXPECT_EQ(Get(kN, Policy::kFrozen).source, AnswerSource::kTuned);
}

// scenario P32
TEST_F(KernelCacheTest, SizesShareTheTuneOfTheirBucket) {
  template_ = SimpleTemplate({.bucket = BucketRule::kList, .bucket_values = {1, 16, 256, 4096}});
  for (const int64_t n : {1, 17, 300, 5000}) {
    const KernelAnswer answer = Get(n, Policy::kWaitTuned);
    EXPECT_EQ(answer.source, n == 1 ? AnswerSource::kTuned : AnswerSource::kBucket) << n;
  }
  for (int64_t n = 1; n <= 200; ++n) Get(n, Policy::kWaitTuned);
  EXPECT_EQ(Counter("tunes"), 4);
  EXPECT_EQ(Get(300).answered_by_values.at("n"), Value(int64_t{256}));
}

TEST_F(KernelCacheTest, NearestTunedProblemAnswersBeforeTheDefault) {
  Tune(4096);
  const KernelAnswer answer = Get(3 * kN);
  EXPECT_EQ(answer.source, AnswerSource::kNearest);
  EXPECT_EQ(WinnerOf(answer), "XBLOCK=256 VEC=4");
  EXPECT_EQ(answer.answered_by_values.at("n"), Value(int64_t{4096}));
}

TEST_F(KernelCacheTest, OtherDtypeIsNoNeighbour) {
  Tune(4096);
  KernelRequest request = Request(4096);
  request.values["T"] = DataType::kF16;
  EXPECT_EQ(cache_->GetBlocking(request)->source, AnswerSource::kDefault);
}

TEST_F(KernelCacheTest, TemplatesOfOneNameAndDifferentBodiesNeverAnswerEachOther) {
  Tune(kN);
  template_ = SimpleTemplate({.body = "second"});
  const KernelAnswer answer = Get(kN);
  EXPECT_EQ(answer.source, AnswerSource::kDefault);
  EXPECT_EQ(answer.kernel->template_digest, template_->digest());
}

// scenario P30
TEST_F(KernelCacheTest, AddedTunableValueKeepsTheTimings) {
  Tune(kN);
  template_ = SimpleTemplate({.xblock = {64, 128, 256, 512}});
  EXPECT_EQ(Get(kN).source, AnswerSource::kTuned) << "the winner is a query over measurements";
  EXPECT_EQ(Tune(kN).outcome.measured, 3) << "two new points and the incumbent";
}

TEST_F(KernelCacheTest, NoSurvivorSaysWhatKilledThem) {
  compiler_.FailFor("copy<float", Rejection{.kind = RejectionKind::kCompile,
                                            .detail = "identifier \"foo\" is undefined"});
  const TuneRun::Event finished = Tune(kN);
  EXPECT_THAT(finished.status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                        AllOf(HasSubstr("compile 6"), HasSubstr("\"foo\""))));
  EXPECT_THAT(store_.GetMeasurements(finished.kernel ? "" : Key({}).id()), IsOk());
}

TEST_F(KernelCacheTest, WithoutADeviceArchitecturesAreServedAndTunesRefused) {
  Start(/*with_device=*/false);
  KernelRequest request = Request(kN);
  request.target.architecture = "sm_90a";
  EXPECT_EQ(cache_->GetBlocking(request)->source, AnswerSource::kDefault);
  bool joined = false;
  EXPECT_THAT(cache_->Tune(template_, {{"n", kN}}, request.target, {}, &joined),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no sm_90a GPU")));
}

// A binary of another build is served, marked, to those who never compile, and rebuilt for others.
TEST_F(KernelCacheTest, AnotherBuildsBinaryIsStaleForTheFrozenAndRebuiltForTheRest) {
  Get(kN);
  std::vector<CompilerInfo> newer = compiler_.Compilers();
  for (CompilerInfo& info : newer) info.headers_digest = "newer headers";
  compiler_.SetCompilers(newer);
  Start();
  for (int i = 0; i < 2; ++i) {
    const KernelAnswer frozen = Get(kN, Policy::kFrozen);
    EXPECT_TRUE(frozen.stale);
    EXPECT_THAT(frozen.stale_reason, HasSubstr("other CUDA headers"));
  }
  EXPECT_EQ(Counter("memory_hits"), 1);
  EXPECT_EQ(compiler_.calls(), 1);
  EXPECT_FALSE(Get(kN).stale);
  EXPECT_EQ(compiler_.calls(), 2);
  EXPECT_FALSE(Get(kN, Policy::kFrozen).stale) << "the rebuilt one";
}

// scenario P06
TEST_F(KernelCacheTest, WithoutACompilerWhatIsStoredIsServedAndMarkedStale) {
  Tune(kN);
  compiler_.SetCompilers({});
  Start();
  const KernelAnswer answer = Get(kN);
  EXPECT_EQ(answer.source, AnswerSource::kTuned);
  EXPECT_TRUE(answer.stale);
  EXPECT_THAT(answer.stale_reason, HasSubstr("no compiler is at hand"));
  Get(kN);
  EXPECT_EQ(Counter("memory_hits"), 1) << "a hit needs no compiler";
  EXPECT_THAT(cache_->GetBlocking(Request(64)), IsOk()) << "the nearest, from the store too";
  const auto explanation = cache_->Explain(Request(kN));
  ASSERT_THAT(explanation, IsOk());
  EXPECT_THAT(explanation->state, AllOf(HasSubstr("stored"), HasSubstr("no key")));
  template_ = SimpleTemplate({.body = "second"});
  EXPECT_EQ(cache_->GetBlocking(Request(kN)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cache_->GetBlocking(Request(kN, Policy::kFrozen)).status().code(),
            absl::StatusCode::kNotFound);
}

// scenario P15
TEST_F(KernelCacheTest, DeviceIndexThatDoesNotExistIsRefused) {
  KernelRequest request = Request(kN);
  request.target.device_index = 3;
  EXPECT_THAT(cache_->GetBlocking(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("device_index: 3")));
}

TEST_F(KernelCacheTest, SourceThatDoesNotCompileIsTheCallersError) {
  compiler_.FailFor("copy<float", Rejection{.kind = RejectionKind::kCompile, .detail = "line 7"});
  EXPECT_THAT(cache_->GetBlocking(Request(kN)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 7")));
}

// scenario P54
TEST_F(KernelCacheTest, FullDiskStillServesTheKernel) {
  store_.FailPuts(absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(Get(kN).source, AnswerSource::kDefault);
}

TEST_F(KernelCacheTest, LastSubscriberLeavingStopsTheTuneAndKeepsWhatItMeasured) {
  Notification two_checked, left;
  std::atomic<int> checked{0};
  profiler_->OnCheck([&](const ProfileCandidate&) {
    if (++checked != 3) return;
    two_checked.Notify();
    left.WaitForNotification();
  });
  bool joined = false;
  auto run = *cache_->Tune(template_, {{"n", kN}}, {}, {}, &joined);
  const int64_t id = run->Subscribe([](const TuneRun::Event&) {});
  two_checked.WaitForNotification();
  run->Unsubscribe(id);
  left.Notify();
  EXPECT_EQ(Finished(*run).outcome.stopped_early, "cancelled");
  EXPECT_THAT(store_.GetMeasurements(run->key()), IsOkAndHolds(SizeIs(3)));
  profiler_->OnCheck(nullptr);
  EXPECT_EQ(Tune(kN).outcome.reused, 3);
}

TEST_F(KernelCacheTest, LateSubscriberSeesEveryEvent) {
  bool joined = false;
  auto run = *cache_->Tune(template_, {{"n", kN}}, {}, {}, &joined);
  Finished(*run);
  int started = 0, measurements = 0, finished = 0;
  run->Subscribe([&](const TuneRun::Event& event) {
    started += event.kind == TuneRun::Event::Kind::kStarted;
    measurements += event.kind == TuneRun::Event::Kind::kMeasurement;
    finished += event.kind == TuneRun::Event::Kind::kFinished;
  });
  EXPECT_EQ(started, 1);
  EXPECT_GE(measurements, 6);
  EXPECT_EQ(finished, 1);
}

TEST_F(KernelCacheTest, WatchAnnouncesPresentAndNewGenerations) {
  Tune(kN);
  Mutex mutex;
  std::vector<uint64_t> generations;
  cache_->Watch("copy", Numerics::kWithinTolerance,
                [&](const std::string&, const std::string&, uint64_t generation) {
                  MutexLock lock(&mutex);
                  generations.push_back(generation);
                });
  Tune(2 * kN);
  MutexLock lock(&mutex);
  ASSERT_THAT(generations, SizeIs(2));
  EXPECT_LT(generations[0], generations[1]);
}

TEST_F(KernelCacheTest, ShutdownAnswersEveryWaiter) {
  compiler_.Block();
  Notification answered;
  absl::Status status;
  cache_->Get(Request(kN), [&](absl::StatusOr<KernelAnswer> answer) {
    status = answer.status();
    answered.Notify();
  });
  compiler_.WaitForBlocked(1);
  cache_->Shutdown();
  answered.WaitForNotification();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  compiler_.Unblock();
}

TEST_F(KernelCacheTest, ExplainNamesTheIngredientsInWhichTheNearestTunedKeyDiffers) {
  Tune(4096);
  const auto explanation = cache_->Explain(Request(kN));
  ASSERT_THAT(explanation, IsOk());
  EXPECT_THAT(explanation->tuning_key->ingredients(), Contains(Pair("param.n", "1048576")));
  EXPECT_THAT(explanation->state, HasSubstr("differs in"));
}

TEST_F(KernelCacheTest, IdleLaneGivesItsDeviceBack) {
  cache_.reset();
  std::vector<KernelCache::DeviceLane> lanes;
  auto profiler = std::make_unique<FakeProfiler>();
  profiler_ = profiler.get();
  lanes.push_back({.info = FakeDeviceInfo(), .profiler = std::move(profiler)});
  cache_ = KernelCache::Create(caching_.get(), &store_, std::move(lanes),
                               {.worker_idle = absl::Milliseconds(1)});
  Tune(kN);
  while (profiler_->releases() == 0) std::this_thread::yield();
  EXPECT_EQ(profiler_->releases(), 1);
}

}  // namespace
}  // namespace hone
