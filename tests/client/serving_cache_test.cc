#include "client/cpp/serving_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "absl/synchronization/notification.h"
#include "client/cpp/kernel_state.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"
#include "tests/client/fake_service.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using enum absl::StatusCode;

// A daemon in memory: one kernel of the CPU device, whose generation tests change.
class FakeSource : public KernelSource {
 public:
  absl::StatusOr<Kernel> GetKernel(const GetKernelOptions& options) override {
    MutexLock lock(&mutex_);
    ++calls_;
    last_policy_ = options.policy;
    const auto open = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return open_; };
    mutex_.Await(absl::Condition(&open));
    HONE_RETURN_IF_ERROR(failure_);
    v1::GetKernelResponse response;
    response.set_key(unreachable_ ? "the pack's key" : "key");
    response.set_answered_by_key(response.key());
    response.set_exact(exact_);
    response.set_source(unreachable_ ? pack_kind_ : kind_);
    response.mutable_kernel()->set_architecture("cpu");
    response.mutable_kernel()->set_generation(unreachable_ ? 0 : generation_);
    *response.mutable_kernel()->add_variants() = CopyVariant("plain", 4, "", true);
    if (another_argument_) {
      response.mutable_kernel()->mutable_variants(0)->mutable_recipe()->add_dynamic_sizes("m");
    }
    return MakeKernel(response, {{Sha256Hex("plain"), "plain"}}, /*cpu_device_enabled=*/true,
                      /*from_pack=*/unreachable_);
  }

  absl::Status Reach(absl::Duration) override {
    MutexLock lock(&mutex_);
    return unreachable_ ? absl::UnavailableError("no daemon") : absl::OkStatus();
  }

  absl::Status Watch(v1::Numerics numerics, const OnWatchEvent& on_event) override {
    while (true) {
      v1::WatchEvent event;
      {
        MutexLock lock(&mutex_);
        const auto news = [this, numerics]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
          return closed_ || broken_ || !events_[numerics].empty();
        };
        mutex_.Await(absl::Condition(&news));
        if (closed_) return absl::CancelledError("closed");
        if (std::exchange(broken_, false)) return absl::UnavailableError("the daemon is gone");
        event = events_[numerics].front();
        events_[numerics].pop_front();
      }
      if (!on_event(event)) return absl::OkStatus();
      MutexLock lock(&mutex_);
      ++handled_;
    }
  }

  void Close() override {
    MutexLock lock(&mutex_);
    closed_ = true;
  }

  void SetGeneration(uint64_t generation) {
    MutexLock lock(&mutex_);
    generation_ = generation;
  }
  void SetFailure(absl::Status failure) {
    MutexLock lock(&mutex_);
    failure_ = std::move(failure);
  }
  // While the daemon is not there, a pack answers.
  void SetUnreachable(bool unreachable) {
    MutexLock lock(&mutex_);
    unreachable_ = unreachable;
  }
  // What the daemon and what the pack have for the problem.
  void SetKinds(v1::Source daemon, v1::Source pack) {
    MutexLock lock(&mutex_);
    kind_ = daemon;
    pack_kind_ = pack;
  }
  void SetExact(bool exact) {
    MutexLock lock(&mutex_);
    exact_ = exact;
  }
  void AddArgument() {
    MutexLock lock(&mutex_);
    another_argument_ = true;
  }
  // While it is closed, GetKernel does not return.
  void SetOpen(bool open) {
    MutexLock lock(&mutex_);
    open_ = open;
  }
  void Break() {
    MutexLock lock(&mutex_);
    broken_ = true;
  }
  // Announces what GetKernel gives from now on.
  void Announce(uint64_t generation, const std::string& key = "key",
                v1::Numerics numerics = v1::WITHIN_TOLERANCE) {
    MutexLock lock(&mutex_);
    generation_ = generation;
    v1::WatchEvent event;
    event.set_key(key);
    event.set_template_name("copy_1d");
    event.set_generation(generation);
    events_[numerics].push_back(event);
  }
  void AwaitCalls(int calls) {
    MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return calls_ >= calls; };
    mutex_.Await(absl::Condition(&enough));
  }
  // Until the follower is done with this many announcements.
  void AwaitHandled(int events) {
    MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return handled_ >= events; };
    mutex_.Await(absl::Condition(&enough));
  }
  int calls() const {
    MutexLock lock(&mutex_);
    return calls_;
  }
  v1::Policy last_policy() const {
    MutexLock lock(&mutex_);
    return last_policy_;
  }

 private:
  mutable Mutex mutex_;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool exact_ ABSL_GUARDED_BY(mutex_) = true;
  bool unreachable_ ABSL_GUARDED_BY(mutex_) = false;
  v1::Source kind_ ABSL_GUARDED_BY(mutex_) = v1::TUNED;
  v1::Source pack_kind_ ABSL_GUARDED_BY(mutex_) = v1::TUNED;
  bool another_argument_ ABSL_GUARDED_BY(mutex_) = false;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<v1::Numerics, std::deque<v1::WatchEvent>> events_ ABSL_GUARDED_BY(mutex_);
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int handled_ ABSL_GUARDED_BY(mutex_) = 0;
  v1::Policy last_policy_ ABSL_GUARDED_BY(mutex_) = v1::BEST_AVAILABLE;
};

class ServingCacheTest : public testing::Test {
 protected:
  ServingCacheTest() {
    auto source = std::make_unique<FakeSource>();
    source_ = source.get();
    cache_ = std::make_unique<ServingCache>(std::move(source));
    slot_ = cache_->Slot(Request(1024));
  }
  static GetKernelOptions Request(int64_t n) {
    GetKernelOptions request;
    request.template_name = "copy_1d";
    request.params = {{"T", "F32"}, {"n", n}};
    return request;
  }
  uint64_t InUse() const { return slot_->Find()->generation; }

  FakeSource* source_ = nullptr;
  std::unique_ptr<ServingCache> cache_;
  ServingSlot* slot_ = nullptr;
};

TEST_F(ServingCacheTest, FindGivesWhatPrepareFetched) {
  EXPECT_EQ(slot_->Find(), nullptr);
  const auto served = cache_->Prepare(slot_);
  ASSERT_THAT(served, IsOk());
  EXPECT_EQ(slot_->Find(), *served);
  EXPECT_EQ(InUse(), 1u);
  EXPECT_EQ(cache_->latest_generation(), 1u);
  ASSERT_THAT(cache_->Prepare(slot_), IsOk());
  EXPECT_EQ(source_->calls(), 1);
}

TEST_F(ServingCacheTest, EqualRequestsShareASlot) {
  EXPECT_EQ(cache_->Slot(Request(1024)), slot_);
  EXPECT_NE(cache_->Slot(Request(2048)), slot_);
  GetKernelOptions other = Request(1024);
  other.numerics = v1::SAME_BITS_AS_DEFAULT;
  EXPECT_NE(cache_->Slot(other), slot_);
}

TEST_F(ServingCacheTest, ThreadsThatPrepareAtOnceAskOnce) {
  source_->SetOpen(false);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] { EXPECT_THAT(cache_->Prepare(slot_), IsOk()); });
  }
  source_->AwaitCalls(1);
  source_->SetOpen(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(source_->calls(), 1);
}

TEST_F(ServingCacheTest, AFailureIsNotKept) {
  source_->SetFailure(absl::UnavailableError("no daemon"));
  EXPECT_THAT(cache_->Prepare(slot_), StatusIs(kUnavailable, testing::HasSubstr("no daemon")));
  EXPECT_EQ(slot_->Find(), nullptr);
  source_->SetFailure(absl::OkStatus());
  EXPECT_THAT(cache_->Prepare(slot_), IsOk());
}

TEST_F(ServingCacheTest, ANewGenerationIsUsedAfterRefreshOnly) {
  ASSERT_THAT(cache_->Prepare(slot_), IsOk());
  const ServedKernel* const before = slot_->Find();
  absl::Notification announced;
  cache_->OnGeneration([&](uint64_t generation) {
    EXPECT_EQ(generation, 7u);
    announced.Notify();
  });
  source_->Announce(7);
  announced.WaitForNotification();
  EXPECT_EQ(source_->last_policy(), v1::NO_WAIT);
  EXPECT_EQ(slot_->Find(), before);
  EXPECT_EQ(cache_->latest_generation(), 7u);
  EXPECT_THAT(cache_->Refresh(6), IsOkAndHolds(0));
  EXPECT_THAT(cache_->Refresh(7), IsOkAndHolds(1));
  EXPECT_EQ(InUse(), 7u);
  // What a captured graph may still replay is not freed.
  EXPECT_EQ(before->generation, 1u);
  EXPECT_EQ(before->kernel.variants().size(), 1u);
}

TEST_F(ServingCacheTest, NewsAreThoseOfTheNumericsThatWereAskedFor) {
  GetKernelOptions request = Request(1024);
  request.numerics = v1::SAME_BITS_AS_DEFAULT;
  ServingSlot* const same_bits = cache_->Slot(request);
  ASSERT_THAT(cache_->Prepare(slot_), IsOk());
  ASSERT_THAT(cache_->Prepare(same_bits), IsOk());
  source_->Announce(4, "key", v1::SAME_BITS_AS_DEFAULT);
  source_->AwaitHandled(1);
  EXPECT_THAT(cache_->Refresh(4), IsOkAndHolds(1));
  EXPECT_EQ(same_bits->Find()->generation, 4u);
  EXPECT_EQ(InUse(), 1u);
  source_->Announce(6);
  source_->AwaitHandled(2);
  EXPECT_THAT(cache_->Refresh(6), IsOkAndHolds(1));
  EXPECT_EQ(same_bits->Find()->generation, 4u);
  EXPECT_EQ(InUse(), 6u);
}

TEST_F(ServingCacheTest, RefreshTakesTheNewestUpToWhatWasAgreed) {
  ASSERT_THAT(cache_->Prepare(slot_), IsOk());
  source_->Announce(3);
  source_->AwaitHandled(1);
  source_->Announce(5);
  source_->AwaitHandled(2);
  EXPECT_THAT(cache_->Refresh(4), IsOkAndHolds(1));
  EXPECT_EQ(InUse(), 3u);
  EXPECT_THAT(cache_->Refresh(9), IsOkAndHolds(1));
  EXPECT_EQ(InUse(), 5u);
  EXPECT_THAT(cache_->Refresh(4), IsOkAndHolds(0)) << "never back";
  EXPECT_EQ(InUse(), 5u);
}

// scenario P45
TEST_F(ServingCacheTest, WhatIsPreparedOutlivesTheDaemonAndNewsComeAfterIt) {
  ASSERT_THAT(cache_->Prepare(slot_), IsOk());
  source_->SetFailure(absl::UnavailableError("no daemon"));
  source_->Break();
  EXPECT_THAT(cache_->Prepare(slot_), IsOk());
  source_->SetFailure(absl::OkStatus());
  source_->Announce(2);
  source_->AwaitHandled(1);
  EXPECT_THAT(cache_->Refresh(2), IsOkAndHolds(1));
}

TEST_F(ServingCacheTest, AnotherKeysWinnerConcernsWhatHasNoneOfItsOwn) {
  ASSERT_THAT(cache_->Prepare(slot_), IsOk());
  source_->Announce(2, "another");
  source_->AwaitHandled(1);
  EXPECT_EQ(cache_->latest_generation(), 1u);
  source_->SetExact(false);
  source_->Announce(3);
  source_->AwaitHandled(2);
  source_->Announce(4, "another");
  source_->AwaitHandled(3);
  EXPECT_EQ(cache_->latest_generation(), 4u);
}

TEST_F(ServingCacheTest, AnAnnouncementDuringTheFirstFetchIsNotLost) {
  ServingSlot* const other = cache_->Slot(Request(2048));
  ASSERT_THAT(cache_->Prepare(other), IsOk());  // starts following
  source_->SetOpen(false);
  std::thread preparing([this] { EXPECT_THAT(cache_->Prepare(slot_), IsOk()); });
  source_->AwaitCalls(2);
  source_->Announce(8, "another");  // concerns neither, but may have been this slot's
  source_->AwaitHandled(1);
  source_->SetGeneration(1);
  source_->SetOpen(true);
  preparing.join();
  EXPECT_EQ(source_->calls(), 3) << "asked again";
}

TEST_F(ServingCacheTest, AKernelOfOtherArgumentsIsNotTaken) {
  ASSERT_THAT(cache_->Prepare(slot_), IsOk());
  source_->AddArgument();
  source_->Announce(2);
  source_->AwaitHandled(1);
  EXPECT_THAT(cache_->Refresh(2), IsOkAndHolds(0));
}

// scenario P45
TEST_F(ServingCacheTest, WhatAPackAnsweredIsReplacedWhenTheDaemonIsThere) {
  source_->SetUnreachable(true);
  source_->SetGeneration(5);
  ASSERT_THAT(cache_->Prepare(slot_), IsOk());
  const ServedKernel* const packed = slot_->Find();
  EXPECT_TRUE(packed->kernel.from_pack());
  EXPECT_EQ(packed->generation, 0u);
  EXPECT_EQ(cache_->latest_generation(), 0u);
  EXPECT_THAT(cache_->Reach(absl::ZeroDuration()), StatusIs(kUnavailable, "no daemon"));
  absl::Notification announced;
  cache_->OnGeneration([&](uint64_t generation) {
    EXPECT_EQ(generation, 5u);
    announced.Notify();
  });
  source_->SetUnreachable(false);
  announced.WaitForNotification();  // without any event
  EXPECT_EQ(slot_->Find(), packed);
  EXPECT_THAT(cache_->Refresh(5), IsOkAndHolds(1));
  EXPECT_FALSE(slot_->Find()->kernel.from_pack());
  EXPECT_EQ(InUse(), 5u);
}

TEST_F(ServingCacheTest, ThePacksOwnWinnerIsNotReplacedByANeighboursOrADefault) {
  source_->SetUnreachable(true);
  source_->SetKinds(v1::NEAREST, v1::TUNED);
  source_->SetGeneration(5);
  ASSERT_THAT(cache_->Prepare(slot_), IsOk());
  GetKernelOptions behind = Request(1024);
  behind.template_name = "copy_2d";
  ASSERT_THAT(cache_->Prepare(cache_->Slot(behind)), IsOk());
  source_->SetUnreachable(false);
  source_->AwaitCalls(4);  // one after the other: the first has been answered
  EXPECT_THAT(cache_->Refresh(5), IsOkAndHolds(0));
  source_->SetKinds(v1::TUNED, v1::TUNED);
  source_->Announce(6, "another");
  source_->AwaitHandled(1);
  EXPECT_EQ(source_->calls(), 4) << "the daemon's key of this request is known by now";
  source_->Announce(7);  // it was tuned meanwhile
  source_->AwaitHandled(2);
  EXPECT_THAT(cache_->Refresh(6), IsOkAndHolds(0));
  EXPECT_THAT(cache_->Refresh(7), IsOkAndHolds(1));
}

TEST_F(ServingCacheTest, APacksNeighbourIsReplacedByTheDaemons) {
  source_->SetUnreachable(true);
  source_->SetKinds(v1::NEAREST, v1::NEAREST);
  ASSERT_THAT(cache_->Prepare(slot_), IsOk());
  absl::Notification announced;
  cache_->OnGeneration([&](uint64_t) { announced.Notify(); });
  source_->SetUnreachable(false);
  announced.WaitForNotification();
  EXPECT_THAT(cache_->Refresh(1), IsOkAndHolds(1));
}

// Who waits for announcements must hear of it although the number has not grown.
TEST_F(ServingCacheTest, AReplacementOlderThanTheNewestIsAnnouncedAgain) {
  source_->SetGeneration(50);
  ASSERT_THAT(cache_->Prepare(slot_), IsOk());
  source_->SetUnreachable(true);
  ServingSlot* const other = cache_->Slot(Request(2048));
  ASSERT_THAT(cache_->Prepare(other), IsOk());
  absl::Notification announced;
  cache_->OnGeneration([&](uint64_t generation) {
    EXPECT_EQ(generation, 50u);
    announced.Notify();
  });
  source_->SetGeneration(12);
  source_->SetUnreachable(false);
  announced.WaitForNotification();
  EXPECT_THAT(cache_->Refresh(50), IsOkAndHolds(1));
  EXPECT_EQ(other->Find()->generation, 12u);
}

TEST_F(ServingCacheTest, AFrozenRequestStaysFrozen) {
  GetKernelOptions request = Request(4096);
  request.policy = v1::FROZEN;
  ASSERT_THAT(cache_->Prepare(cache_->Slot(request)), IsOk());
  source_->Announce(2);
  source_->AwaitHandled(1);
  EXPECT_EQ(source_->last_policy(), v1::FROZEN);
  EXPECT_EQ(cache_->latest_generation(), 2u);
}

TEST_F(ServingCacheTest, ATuneThatWasAskedForIsStartedWhenTheDaemonIsThere) {
  source_->SetUnreachable(true);
  source_->SetKinds(v1::NEAREST, v1::TUNED);
  GetKernelOptions request = Request(4096);
  request.policy = v1::WAIT_TUNED;
  ASSERT_THAT(cache_->Prepare(cache_->Slot(request)), IsOk());
  source_->SetUnreachable(false);
  source_->AwaitCalls(3);
  EXPECT_EQ(source_->last_policy(), v1::WAIT_TUNED);
}

TEST_F(ServingCacheTest, ACacheWhoseDaemonNeverComesEndsAtOnce) {
  source_->SetUnreachable(true);
  ASSERT_THAT(cache_->Prepare(slot_), IsOk());
  ASSERT_THAT(cache_->Prepare(cache_->Slot(Request(2048))), IsOk());
  cache_.reset();
}

}  // namespace
}  // namespace hone
