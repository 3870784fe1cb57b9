#include "client/c/hone.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/c/handles.h"
#include "client/cpp/capturing_source.h"
#include "client/cpp/kernel_pack.h"
#include "client/cpp/pack_kernel_source.h"
#include "client/cpp/rpc_kernel_source.h"
#include "client/cpp/serving_cache.h"
#include "client/cpp/serving_target.h"
#include "runtime/base/status_macros.h"

struct hone_request {
  hone_client* client;
  const hone::GetKernelOptions options;
  std::atomic<hone::ServingSlot*> slot;
  hone_request* next;  // made before it
};

namespace hone {
namespace {

// hone_client_daemon_status takes no longer.
constexpr absl::Duration kStatusWait = absl::Milliseconds(200);

// What is made anew in a forked child: threads and connections do not survive a fork.
struct Process {
  pid_t pid = 0;
  std::unique_ptr<ServingCache> cache;
};

// Reads a struct of a caller who may be older or newer than this library: what the caller's lacks
// is zero, what it has beyond ours must be.
template <class Struct>
absl::StatusOr<Struct> ReadStruct(const Struct* given, absl::string_view name) {
  Struct read{};
  if (given == nullptr) return read;
  const size_t bytes = given->struct_bytes;
  if (bytes < sizeof(size_t)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ".struct_bytes is ", bytes, "; set it to sizeof(", name, "), here ", sizeof(Struct)));
  }
  const auto* raw = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(Struct); i < bytes; ++i) {
    if (raw[i] == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", bytes, " bytes and this libhone knows ", sizeof(Struct),
                     " of them; a later field is set that it would ignore"));
  }
  std::copy_n(raw, std::min(bytes, sizeof(Struct)), reinterpret_cast<unsigned char*>(&read));
  return read;
}

absl::StatusOr<ParamValue> ValueOf(const hone_param& param) {
  switch (param.kind) {
    case HONE_PARAM_SIZE:
      return ParamValue(param.integer);
    case HONE_PARAM_TEXT:
      if (param.text == nullptr)
        return Missing(absl::StrCat("the text of param '", param.name, "'"));
      return ParamValue(std::string(param.text));
    case HONE_PARAM_FLAG:
      return ParamValue(param.integer != 0);
  }
  return absl::InvalidArgumentError(absl::StrCat("param '", param.name, "' has kind ",
                                                 static_cast<int>(param.kind),
                                                 "; size, text and flag are 0, 1 and 2"));
}

absl::StatusOr<GetKernelOptions> ToOptions(const hone_request_options* given) {
  if (given == nullptr) return Missing("options");
  HONE_ASSIGN_OR_RETURN(const hone_request_options options,
                        ReadStruct(given, "hone_request_options"));
  if (options.template_name == nullptr) return Missing("hone_request_options.template_name");
  if (options.params == nullptr && options.param_count > 0) {
    return Missing("hone_request_options.params");
  }
  if (options.max_wait_ms < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("hone_request_options.max_wait_ms is ", options.max_wait_ms,
                     "; it is a number of milliseconds, or 0 for 30,000"));
  }
  GetKernelOptions converted;
  converted.template_name = options.template_name;
  if (options.template_digest != nullptr) converted.template_digest = options.template_digest;
  for (size_t i = 0; i < options.param_count; ++i) {
    const hone_param& param = options.params[i];
    if (param.name == nullptr) return Missing(absl::StrCat("the name of param ", i));
    HONE_ASSIGN_OR_RETURN(ParamValue value, ValueOf(param));
    if (!converted.params.emplace(param.name, std::move(value)).second) {
      return absl::InvalidArgumentError(absl::StrCat("param '", param.name, "' is given twice"));
    }
  }
  converted.numerics = static_cast<v1::Numerics>(options.numerics);
  converted.policy = static_cast<v1::Policy>(options.policy);
  if (options.max_wait_ms > 0) converted.max_wait = absl::Milliseconds(options.max_wait_ms);
  if (options.architecture != nullptr) {
    converted.target.set_architecture(options.architecture);
  } else {
    HONE_ASSIGN_OR_RETURN(converted.target, TargetOfCurrentContext());
  }
  return converted;
}

// The pack a client falls back on; nullptr: none was named. Errors tell who named it.
absl::StatusOr<std::shared_ptr<const KernelPack>> OpenPack(const char* pack_path) {
  const bool named = pack_path != nullptr;
  const char* const path = named ? pack_path : std::getenv("HONE_PACK");
  if (path == nullptr || *path == '\0') return std::shared_ptr<const KernelPack>();
  absl::StatusOr<std::shared_ptr<const KernelPack>> pack = KernelPack::Open(path);
  if (pack.ok()) return pack;
  return absl::Status(pack.status().code(),
                      absl::StrCat(named ? "hone_client_options.pack_path" : "$HONE_PACK", ": ",
                                   pack.status().message()));
}

}  // namespace
}  // namespace hone

struct hone_client {
  hone::RpcKernelSourceOptions options;
  hone::LaunchCapture* capture = nullptr;  // nullptr: launches are not recorded
  // nullptr: none. Takes no lock, so that a forked child may use it.
  std::shared_ptr<const hone::KernelPack> pack;
  // A list that is only added to, without a lock: a child may be forked while a thread adds.
  std::atomic<hone_request*> requests{nullptr};
  std::atomic<hone::Process*> process{nullptr};
  std::atomic<void (*)(void*, uint64_t)> announce{nullptr};
  std::atomic<void*> announce_context{nullptr};

  // This process's cache. A forked child leaves its parent's alone, locks and all.
  absl::StatusOr<hone::ServingCache*> Cache() {
    hone::Process* present = process.load(std::memory_order_acquire);
    const pid_t pid = getpid();
    if (present != nullptr && present->pid == pid) return present->cache.get();
    HONE_ASSIGN_OR_RETURN(auto source, hone::MakeRpcKernelSource(options));
    if (pack != nullptr) {
      source = hone::MakePackFallback(std::move(source), pack, options.enable_cpu_device);
    }
    auto made = std::make_unique<hone::Process>();
    made->pid = pid;
    made->cache =
        std::make_unique<hone::ServingCache>(hone::RecordLaunches(std::move(source), capture));
    if (announce.load() != nullptr) Subscribe(*made->cache);
    if (process.compare_exchange_strong(present, made.get())) return made.release()->cache.get();
    return present->cache.get();  // another thread's
  }

  void Subscribe(hone::ServingCache& cache) {
    cache.OnGeneration([call = announce.load(), context = announce_context.load()](
                           uint64_t generation) { call(context, generation); });
  }
};

using hone::Missing;
using hone::ToC;

extern "C" {

hone_error* hone_client_open(const hone_client_options* options, hone_client** client) {
  if (client == nullptr) return ToC(Missing("client"));
  const auto read = hone::ReadStruct(options, "hone_client_options");
  if (!read.ok()) return ToC(read.status());
  if (read->connect_timeout_ms < 0) {
    return ToC(absl::InvalidArgumentError(
        absl::StrCat("hone_client_options.connect_timeout_ms is ", read->connect_timeout_ms,
                     "; it is a number of milliseconds, or 0 for 5,000")));
  }
  auto made = std::make_unique<hone_client>();
  if (read->endpoint != nullptr) made->options.endpoint = read->endpoint;
  if (read->connect_timeout_ms > 0) {
    made->options.connect_timeout = absl::Milliseconds(read->connect_timeout_ms);
  }
  made->options.enable_cpu_device = read->enable_cpu_device != 0;
  made->capture =
      hone::LaunchCapture::For(hone::CaptureOptions::FromEnvironment(read->capture_dir));
  auto pack = hone::OpenPack(read->pack_path);
  if (!pack.ok()) return ToC(pack.status());
  made->pack = *std::move(pack);
  made->options.has_fallback = made->pack != nullptr;
  if (read->tls_ca_file != nullptr) made->options.tls_ca_file = read->tls_ca_file;
  if (const auto cache = made->Cache(); !cache.ok()) return ToC(cache.status());
  *client = made.release();
  return nullptr;
}

void hone_client_close(hone_client* client) {
  if (client == nullptr) return;
  hone::Process* const process = client->process.load();
  // A child that never used its parent's client leaves it as the fork found it.
  if (process->pid != getpid()) return;
  if (client->capture != nullptr) client->capture->Flush();
  delete process;
  for (hone_request* request = client->requests.load(); request != nullptr;) {
    delete std::exchange(request, request->next);
  }
  delete client;
}

size_t hone_capture_status(const hone_client* client, char* text, size_t text_bytes) {
  const std::string status =
      client == nullptr || client->capture == nullptr ? "" : client->capture->Status();
  if (text != nullptr && text_bytes > 0) {
    const size_t copied = std::min(status.size(), text_bytes - 1);
    std::copy_n(status.begin(), copied, text);
    text[copied] = '\0';
  }
  return status.size();
}

hone_error* hone_client_daemon_status(hone_client* client) {
  if (client == nullptr) return ToC(Missing("client"));
  const auto cache = client->Cache();
  return ToC(cache.ok() ? (*cache)->Reach(hone::kStatusWait) : cache.status());
}

hone_error* hone_request_create(hone_client* client, const hone_request_options* options,
                                hone_request** request) {
  if (client == nullptr) return ToC(Missing("client"));
  if (request == nullptr) return ToC(Missing("request"));
  auto converted = hone::ToOptions(options);
  if (!converted.ok()) return ToC(converted.status());
  const auto cache = client->Cache();
  if (!cache.ok()) return ToC(cache.status());
  hone::ServingSlot* const slot = (*cache)->Slot(*converted);
  auto* const made =
      new hone_request{client, *std::move(converted), {slot}, client->requests.load()};
  while (!client->requests.compare_exchange_weak(made->next, made)) {
  }
  *request = made;
  return nullptr;
}

hone_error* hone_prepare(hone_request* request, const hone_kernel** kernel) {
  if (request == nullptr) return ToC(Missing("request"));
  const auto cache = request->client->Cache();
  if (!cache.ok()) return ToC(cache.status());
  hone::ServingSlot* const slot = (*cache)->Slot(request->options);
  const auto served = (*cache)->Prepare(slot);
  if (!served.ok()) return ToC(served.status());
  request->slot.store(slot, std::memory_order_release);
  if (kernel != nullptr) *kernel = ToC(*served);
  return nullptr;
}

const hone_kernel* hone_find(const hone_request* request) {
  return request == nullptr ? nullptr : ToC(request->slot.load(std::memory_order_acquire)->Find());
}

uint64_t hone_latest_generation(const hone_client* client) {
  return client == nullptr ? 0 : client->process.load()->cache->latest_generation();
}

void hone_watch(hone_client* client, void (*announce)(void* context, uint64_t generation),
                void* context) {
  if (client == nullptr) return;
  client->announce_context = context;
  client->announce = announce;
  const auto cache = client->Cache();
  if (!cache.ok()) return;
  if (announce == nullptr) {
    (*cache)->OnGeneration(nullptr);
  } else {
    client->Subscribe(**cache);
  }
}

hone_error* hone_refresh(hone_client* client, uint64_t generation, int32_t* changed) {
  if (client == nullptr) return ToC(Missing("client"));
  const auto cache = client->Cache();
  if (!cache.ok()) return ToC(cache.status());
  const auto count = (*cache)->Refresh(generation);
  if (!count.ok()) return ToC(count.status());
  if (changed != nullptr) *changed = *count;
  return nullptr;
}

}  // extern "C"
