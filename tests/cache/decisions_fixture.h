// A cache over fakes that restarts with other devices, for tests of what it serves.
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

class DecisionsTest : public testing::Test {
 protected:
  static constexpr int64_t kN = int64_t{1} << 20;

  DecisionsTest() { Start({FakeDeviceInfo()}); }

  // A daemon with these devices over the store as it is.
  void Start(const std::vector<DeviceInfo>& devices) {
    cache_.reset();
    caching_ = std::make_unique<CachingCompiler>(&compiler_, store_.get());
    profilers_.clear();
    std::vector<KernelCache::DeviceLane> lanes;
    for (const DeviceInfo& info : devices) {
      auto profiler = std::make_unique<FakeProfiler>(info);
      profilers_.push_back(profiler.get());
      lanes.push_back({.info = info, .profiler = std::move(profiler)});
    }
    cache_ = KernelCache::Create(caching_.get(), store_.get(), std::move(lanes), options_);
  }
  FakeProfiler& profiler(size_t device = 0) { return *profilers_.at(device); }

  KernelRequest Request(int64_t n, Numerics numerics = Numerics::kWithinTolerance) {
    KernelRequest request;
    request.kernel_template = template_;
    request.values = {{"n", n}};
    request.numerics = numerics;
    return request;
  }
  KernelAnswer Get(KernelRequest request) {
    auto answer = cache_->GetBlocking(std::move(request));
    EXPECT_THAT(answer, IsOk());
    return answer.ok() ? *std::move(answer) : KernelAnswer();
  }
  KernelAnswer Get(int64_t n, Numerics numerics = Numerics::kWithinTolerance) {
    return Get(Request(n, numerics));
  }
  TuneRun::Event Tune(int64_t n, const TuneOptions& options = {}, int device = 0) {
    bool joined = false;
    TargetSpec target;
    target.device_index = device;
    auto run = cache_->Tune(template_, {{"n", n}}, target, options, &joined);
    EXPECT_THAT(run, IsOk());
    if (!run.ok()) return {};
    Notification done;
    TuneRun::Event last;
    (*run)->Subscribe([&](const TuneRun::Event& event) {
      if (event.kind != TuneRun::Event::Kind::kFinished) return;
      last = event;
      done.Notify();
    });
    done.WaitForNotification();
    key_ = (*run)->key();
    return last;
  }
  static std::string ConfigOf(const KernelAnswer& answer) {
    return answer.kernel == nullptr ? "" : answer.kernel->variants.front().config.ToString();
  }
  static Config Parse(const std::string& config) { return *Config::Parse(config); }

  KernelCache::Options options_;  // from the next Start on
  KernelTemplatePtr template_ = SimpleTemplate();
  FakeCompiler compiler_;
  std::unique_ptr<InMemoryStore> store_ = std::make_unique<InMemoryStore>();
  std::unique_ptr<CachingCompiler> caching_;
  std::vector<FakeProfiler*> profilers_;  // owned by cache_
  std::unique_ptr<KernelCache> cache_;
  std::string key_;  // of the last tune
};

}  // namespace hone
