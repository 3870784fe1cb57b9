// A KernelCache over fakes for compiler, device and store.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/notification.h"
#include "runtime/cache/kernel_cache.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/fake_profiler.h"
#include "tests/testing/in_memory_store.h"
#include "tests/testing/simple_template.h"
#include "tests/testing/status_matchers.h"

namespace hone {

constexpr int64_t kN = int64_t{1} << 20;

class KernelCacheFixture : public testing::Test {
 protected:
  KernelCacheFixture() { Start(); }

  // A fresh cache over the same store: a restart.
  void Start(bool with_device = true) {
    cache_.reset();
    caching_ = std::make_unique<CachingCompiler>(&compiler_, &store_);
    std::vector<KernelCache::DeviceLane> lanes;
    if (with_device) {
      auto profiler = std::make_unique<FakeProfiler>();
      profiler_ = profiler.get();
      Script(*profiler_);
      lanes.push_back({.info = FakeDeviceInfo(), .profiler = std::move(profiler)});
    }
    cache_ = KernelCache::Create(caching_.get(), &store_, std::move(lanes), {});
  }
  // The vectorised config is fastest, the scalar one a fair second.
  static void Script(FakeProfiler& profiler) {
    profiler.SetTiming("XBLOCK=64 VEC=1", {2000});
    profiler.SetTiming("XBLOCK=128 VEC=1", {1500});
    profiler.SetTiming("XBLOCK=256 VEC=4", {1000});
  }

  KernelRequest Request(int64_t n, Policy policy = Policy::kBestAvailable) {
    KernelRequest request;
    request.kernel_template = template_;
    request.values = {{"n", n}};
    request.policy = policy;
    return request;
  }
  KernelAnswer Get(int64_t n, Policy policy = Policy::kBestAvailable) {
    auto answer = cache_->GetBlocking(Request(n, policy));
    EXPECT_THAT(answer, IsOk());
    return answer.ok() ? *std::move(answer) : KernelAnswer();
  }
  TuneRun::Event Tune(int64_t n, TuneOptions options = {}) {
    bool joined = false;
    auto run = cache_->Tune(template_, {{"n", n}}, {}, options, &joined);
    EXPECT_THAT(run, IsOk());
    return run.ok() ? Finished(**run) : TuneRun::Event();
  }
  static TuneRun::Event Finished(TuneRun& run) {
    Notification done;
    TuneRun::Event last;
    run.Subscribe([&](const TuneRun::Event& event) {
      if (event.kind != TuneRun::Event::Kind::kFinished) return;
      last = event;
      done.Notify();
    });
    done.WaitForNotification();
    return last;
  }
  static std::string WinnerOf(const KernelAnswer& answer) {
    return answer.kernel->variants.front().config.ToString();
  }
  int64_t Counter(const std::string& name) { return cache_->Counters().at(name); }

  KernelTemplatePtr template_ = SimpleTemplate();
  FakeCompiler compiler_;
  InMemoryStore store_;
  std::unique_ptr<CachingCompiler> caching_;
  FakeProfiler* profiler_ = nullptr;  // owned by cache_
  std::unique_ptr<KernelCache> cache_;
};

}  // namespace hone
