// New generations as they are decided.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/errors.h"
#include "server/handlers.h"

namespace hone {
namespace {

constexpr size_t kTemplateNameBytesMax = 64;

// One client's subscription, which may begin after the client has left.
class Watching {
 public:
  void Begin(KernelCache* cache, const std::string& template_name, Numerics numerics,
             const StreamPtr& stream) {
    const int64_t id = cache->Watch(
        template_name, numerics,
        [stream](const std::string& key, const std::string& name, uint64_t generation) {
          v1::WatchEvent event;
          event.set_key(key);
          event.set_template_name(name);
          event.set_generation(generation);
          // Of one key only the newest generation matters to a slow reader.
          stream->Push(key, Serialize(event));
        });
    {
      MutexLock lock(&mutex_);
      if (!ended_) {
        cache_ = cache;
        id_ = id;
        return;
      }
    }
    cache->Unwatch(id);
  }

  void End() {
    KernelCache* cache = nullptr;
    int64_t id = 0;
    {
      MutexLock lock(&mutex_);
      ended_ = true;
      cache = cache_;
      id = id_;
    }
    if (cache != nullptr) cache->Unwatch(id);
  }

 private:
  Mutex mutex_;
  KernelCache* cache_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int64_t id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

StreamCleanup Watch(ServiceContext& context, const Caller& caller, const v1::WatchRequest& request,
                    StreamPtr stream) {
  const std::string& name = request.template_name();
  if (name.size() > kTemplateNameBytesMax) {
    stream->End(InvalidField(
        "template_name",
        absl::StrCat("has ", name.size(), " bytes; names have at most ", kTemplateNameBytesMax)));
    return [] {};
  }
  const auto numerics = static_cast<Numerics>(request.numerics());
  auto watching = std::make_shared<Watching>();
  const absl::Time deadline = absl::Now() + context.limits.wait_default;
  context.gate->WhenReady(deadline, [&context, watching, name, numerics, stream,
                                     client = caller.connection](absl::StatusOr<Engine*> engine) {
    if (!engine.ok()) return stream->End(engine.status());
    const absl::Status queued = context.lookups->Submit(
        client, [&context, watching, name, numerics, stream, cache = (*engine)->cache.get()] {
          if (stream->ended()) return;
          const absl::Status known = CheckTemplateName(context, name);
          if (!known.ok()) return stream->End(known);
          watching->Begin(cache, name, numerics, stream);
        });
    if (!queued.ok()) stream->End(queued);
  });
  return [watching] { watching->End(); };
}

}  // namespace hone
