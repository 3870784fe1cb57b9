#include "server/daemon.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/default_paths.h"
#include "runtime/base/error_info.h"
#include "runtime/base/files.h"
#include "runtime/base/notification.h"
#include "runtime/base/status_macros.h"
#include "runtime/compile/compile_pool.h"
#include "runtime/store/sqlite_store.h"
#include "server/logging.h"

namespace hone {
namespace {

constexpr char kStoreName[] = "hone.db";
constexpr char kScratchName[] = "scratch";
constexpr char kWorkerName[] = "hone-worker";
// Look-ups are short; eight keep a slow disk from queueing everyone behind one reader.
constexpr int kLookupThreads = 8;
constexpr int kLookupsWaitingMax = 4096;
// More than compile workers, so that the pool, which knows priorities, decides who goes first.
constexpr int kCompileThreads = 32;
constexpr int kCompilesWaitingMax = 512;

// Makes the default socket's directory. Anyone may make names in /tmp, so one there must be our
// own. A path of the administrator's choosing is left as it is: Bind names what is wrong with it.
absl::Status PrepareSocketDirectory(const std::string& socket_path) {
  if (socket_path != DefaultListenSocketPath()) return absl::OkStatus();
  const std::string directory = DirectoryName(socket_path);
  const mode_t mode = directory == "/run/hone" ? 0755 : 0700;
  if (mkdir(directory.c_str(), mode) == 0 || errno != EEXIST) return absl::OkStatus();
  struct stat info {};
  if (lstat(directory.c_str(), &info) != 0) return absl::OkStatus();
  const bool in_tmp = DirectoryName(directory) == "/tmp";
  if (!in_tmp || (S_ISDIR(info.st_mode) && info.st_uid == getuid())) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("socket directory ", directory, " belongs to uid ", info.st_uid,
                   "; choose another socket with --listen unix:PATH"));
}

absl::StatusOr<std::string> FindWorker() {
  const std::string path = JoinPath(DirectoryName(ExecutablePath()), kWorkerName);
  if (access(path.c_str(), X_OK) == 0) return path;
  return absl::NotFoundError(
      absl::StrCat(path, " is missing or not executable; it belongs beside honed"));
}

absl::StatusOr<RolePolicy> RolesOf(const DaemonConfig& config) {
  RolePolicy roles{.own_uid = getuid(), .admin_group_name = config.admin_group};
  if (!config.admin_group.empty()) {
    HONE_ASSIGN_OR_RETURN(roles.admin_group, FindGroup(config.admin_group));
  }
  return roles;
}

}  // namespace

Daemon::Daemon(const DaemonConfig& config)
    : config_(config),
      connections_(ConnectionTable::ForProcessLimit()),
      gate_(&timer_),
      lookups_("look-ups", kLookupThreads, kLookupsWaitingMax),
      compiles_("compiles", kCompileThreads, kCompilesWaitingMax) {}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const DaemonConfig& config,
                                                      const std::string& version) {
  std::unique_ptr<Daemon> daemon(new Daemon(config));
  HONE_ASSIGN_OR_RETURN(daemon->engine_options_.worker_program, FindWorker());
  HONE_RETURN_IF_ERROR(daemon->OpenStore());
  HONE_RETURN_IF_ERROR(daemon->Listen(version));
  daemon->StartEngine();
  return daemon;
}

absl::Status Daemon::OpenStore() {
  HONE_ASSIGN_OR_RETURN(auto store,
                        SqliteStore::Open({.path = JoinPath(config_.cache_dir, kStoreName),
                                           .log_bytes_max = config_.compile_log_bytes,
                                           .bytes_max = config_.store_bytes_max}));
  const OpenReport& report = store->open_report();
  if (!report.moved_aside_to.empty()) {
    LogEvent("store_damaged")
        .Add("moved_to", report.moved_aside_to)
        .Add("reason", report.damage)
        .Write(spdlog::level::err);
  }
  store_ = std::move(store);
  return absl::OkStatus();
}

absl::Status Daemon::Listen(const std::string& version) {
  catalog_ = Catalog::Create(config_.kernels_dir, store_.get());
  for (const CatalogProblem& problem : catalog_->Problems()) {
    LogEvent("template_not_loaded")
        .Add("location", problem.location)
        .Add("reason", problem.message)
        .Write(spdlog::level::warn);
  }
  context_.catalog = catalog_.get();
  context_.store = store_.get();
  context_.gate = &gate_;
  context_.timer = &timer_;
  context_.connections = &connections_;
  HONE_ASSIGN_OR_RETURN(context_.roles, RolesOf(config_));
  context_.lookups = &lookups_;
  context_.compiles = &compiles_;
  context_.limits.compile_timeout = config_.compile_timeout;
  context_.info = {.version = version,
                   .store_path = JoinPath(config_.cache_dir, kStoreName),
                   .kernels_path = config_.kernels_dir,
                   .listen = config_.listen,
                   .started = absl::Now()};

  UnixListenerOptions options{.path = config_.socket_path(), .mode = config_.socket_mode};
  if (!config_.socket_group.empty()) {
    HONE_ASSIGN_OR_RETURN(options.group, FindGroup(config_.socket_group));
  }
  HONE_RETURN_IF_ERROR(PrepareSocketDirectory(options.path));
  HONE_ASSIGN_OR_RETURN(auto listener, UnixListener::Bind(std::move(options)));
  HONE_ASSIGN_OR_RETURN(server_, RpcServer::Start(context_, connections_, std::move(listener)));
  return absl::OkStatus();
}

void Daemon::StartEngine() {
  // Beside the store rather than in /tmp, which may be read-only or small. If it cannot be made,
  // the pool says so.
  engine_options_.scratch_directory = JoinPath(config_.cache_dir, kScratchName);
  MakeDirectories(engine_options_.scratch_directory, 0700).IgnoreError();
  engine_options_.device = config_.device;
  engine_options_.workers = config_.workers;
  engine_options_.compile_timeout = config_.compile_timeout;
  // The setting was checked when it was read.
  engine_options_.policy.cache =
      MeasuringPolicy::ParseCache(config_.measure_cache).value_or(MeasuringPolicy::Cache::kCold);
  engine_options_.launch_timeout = config_.launch_timeout;
  engine_options_.tune_when = ParseTuneWhen(config_.tune_when).value_or(TuneWhen::kOnRequest);
  engine_options_.tune_memory_bytes_max = config_.tune_memory_bytes_max;
  engine_options_.tune_duty = config_.tune_duty_percent / 100.0;
  engine_options_.log_bytes_max = config_.compile_log_bytes;
  engine_thread_ = std::thread([this] { gate_.Open(BuildEngine(engine_options_, store_.get())); });
}

Daemon::~Daemon() {
  if (server_ != nullptr) Drain();
  if (engine_thread_.joinable()) engine_thread_.join();
  lookups_.Shutdown();
  compiles_.Shutdown();
}

void Daemon::Drain() {
  Notification drained;
  // Tunes end at their next candidate; whoever waits for one is told.
  std::thread stop_tunes([this] { gate_.Shutdown(); });
  std::thread stop_compiles([&] {
    if (drained.WaitForNotificationWithTimeout(config_.drain_timeout / 2)) return;
    Engine* engine = gate_.Get();
    auto* pool = engine == nullptr ? nullptr : dynamic_cast<CompilePool*>(engine->pool.get());
    if (pool != nullptr) pool->Shutdown();
  });
  server_->Drain(config_.drain_timeout);
  stop_tunes.join();
  drained.Notify();
  stop_compiles.join();
}

int ExitCodeOf(const absl::Status& status) {
  const auto info = ErrorInfoOf(status);
  const bool owned = status.code() == absl::StatusCode::kAlreadyExists ||
                     (info.has_value() && info->reason == "STORE_IN_USE");
  return owned ? kExitTemporary : kExitConfig;
}

}  // namespace hone
