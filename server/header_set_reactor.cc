#include "server/header_set_reactor.h"

#include <utility>

#include "server/call.h"
#include "server/errors.h"
#include "server/request_check.h"

namespace hone {

HeaderSetReactor::HeaderSetReactor(ServiceContext& context, const Caller& caller,
                                   const absl::Status& admitted, grpc::ByteBuffer* response)
    : context_(context),
      client_(caller.connection),
      response_(response),
      upload_(std::make_shared<HeaderSetUpload>(context.limits)) {
  context_.calls.Enter(client_);
  if (admitted.ok()) {
    StartRead(&message_);
  } else {
    End(admitted);
  }
}

void HeaderSetReactor::OnDone() {
  CallsUnderWay& calls = context_.calls;
  const uint64_t client = client_;
  delete this;
  calls.Leave(client);
}

void HeaderSetReactor::End(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (std::exchange(ended_, true)) return;
  }
  Finish(ToGrpc(status));
}

// The store's thread still uses this object while it stores: it ends the call itself then.
void HeaderSetReactor::OnCancel() {
  {
    MutexLock lock(&mutex_);
    if (storing_) return;
  }
  End(absl::CancelledError("the caller has gone"));
}

void HeaderSetReactor::OnReadDone(bool ok) {
  if (!ok) return Store();
  v1::RegisterHeaderSetRequest message;
  absl::Status status = ParseRequest(message_, &message);
  if (status.ok()) status = upload_->Add(std::move(message));
  if (!status.ok()) return End(status);
  StartRead(&message_);
}

void HeaderSetReactor::Store() {
  {
    MutexLock lock(&mutex_);
    if (ended_) return;
    storing_ = true;
  }
  const absl::Status queued = context_.lookups->Submit(client_, [this] {
    auto stored = upload_->Store(*context_.store);
    if (stored.ok()) {
      grpc::ByteBuffer reply = Serialize(*stored);
      response_->Swap(&reply);
      // Templates of the catalog wait for this set, or named the one that had its name before.
      context_.catalog->Reload();
    }
    End(stored.status());
  });
  if (!queued.ok()) End(queued);
}

}  // namespace hone
