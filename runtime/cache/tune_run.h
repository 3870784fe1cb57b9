// One tune's events, shared by everyone who asked for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/cache/resolved_request.h"

namespace hone {

class TuneRunImpl : public TuneRun {
 public:
  TuneRunImpl(std::string key, ResolvedRequest request, TuneOptions options);

  const std::string& key() const override { return key_; }
  int64_t Subscribe(Listener listener) override;
  void Unsubscribe(int64_t id) override;
  bool finished() const override;

  // A run that goes on without subscribers (a WAIT_TUNED request started it).
  void Detach();
  // A run that nobody waits for; the first who does ends that.
  void PutOff() { put_off_ = true; }
  void Want() { put_off_ = false; }
  bool put_off() const { return put_off_; }
  void Cancel();
  bool cancelled() const;

  // From the tune's thread.
  void Publish(Event event);

  const ResolvedRequest& request() const { return request_; }
  const TuneOptions& options() const { return options_; }

 private:
  const std::string key_;
  const ResolvedRequest request_;
  const TuneOptions options_;
  std::atomic<bool> put_off_{false};

  // Held while listeners run, so that Unsubscribe can promise that none is called after it, and so
  // that replayed and live events keep their order. Listeners must not call back.
  mutable Mutex delivery_mutex_;
  std::vector<Event> events_ ABSL_GUARDED_BY(delivery_mutex_);
  std::map<int64_t, Listener> listeners_ ABSL_GUARDED_BY(delivery_mutex_);
  int64_t next_id_ ABSL_GUARDED_BY(delivery_mutex_) = 1;
  bool had_subscriber_ ABSL_GUARDED_BY(delivery_mutex_) = false;
  bool detached_ ABSL_GUARDED_BY(delivery_mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(delivery_mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(delivery_mutex_) = false;
};

}  // namespace hone
