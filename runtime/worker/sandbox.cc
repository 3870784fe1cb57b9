#include "runtime/worker/sandbox.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/base/files.h"
#include "runtime/base/sanitizers.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unique_fd.h"

namespace hone {
namespace {

// The kernel's structures and constants as of ABI 7; headers of older systems lack the later ones,
// and an older kernel is asked for no more than its ABI knows.
struct RulesetAttributes {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;  // ABI 4
  uint64_t scoped;              // ABI 6
};
constexpr uint64_t kAccessRefer = uint64_t{1} << 13;     // ABI 2
constexpr uint64_t kAccessTruncate = uint64_t{1} << 14;  // ABI 3
constexpr uint64_t kAccessIoctlDev = uint64_t{1} << 15;  // ABI 5
constexpr uint64_t kAllOfAbi1 = (uint64_t{1} << 13) - 1;
constexpr uint64_t kNetBindAndConnect = 3;
constexpr uint64_t kScopeAbstractSocketsAndSignals = 3;

constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kExecute = kRead | LANDLOCK_ACCESS_FS_EXECUTE;
constexpr uint64_t kWrite = kRead | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                            LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
                            LANDLOCK_ACCESS_FS_MAKE_REG | kAccessRefer | kAccessTruncate;
// What makes sense for a single file.
constexpr uint64_t kFileRights = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE |
                                 LANDLOCK_ACCESS_FS_WRITE_FILE | kAccessTruncate;

uint64_t HandledAccess(long abi) {
  uint64_t handled = kAllOfAbi1;
  if (abi >= 2) handled |= kAccessRefer;
  if (abi >= 3) handled |= kAccessTruncate;
  if (abi >= 5) handled |= kAccessIoctlDev;
  return handled;
}

absl::Status Allow(int ruleset, const std::vector<std::string>& paths, uint64_t access) {
  for (const std::string& path : paths) {
    UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
    if (!fd.valid() && errno == ENOENT) continue;
    struct stat info = {};
    if (!fd.valid() || ::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "open", path);
    struct landlock_path_beneath_attr rule = {};
    rule.allowed_access = S_ISDIR(info.st_mode) ? access : access & kFileRights;
    rule.parent_fd = fd.get();
    if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
      return ErrnoStatus(errno, "landlock rule for", path);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ApplyLandlock(const SandboxOptions& options) {
  const long abi =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 1) return "none";
  RulesetAttributes attributes = {};
  attributes.handled_access_fs = HandledAccess(abi);
  if (abi >= 4) attributes.handled_access_net = kNetBindAndConnect;
  if (abi >= 6) attributes.scoped = kScopeAbstractSocketsAndSignals;
  // A kernel refuses a structure with bytes set that it does not know; these are zero for it.
  UniqueFd ruleset(
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0)));
  if (!ruleset.valid()) return ErrnoStatus(errno, "landlock ruleset");
  const uint64_t handled = attributes.handled_access_fs;
  HONE_RETURN_IF_ERROR(Allow(ruleset.get(), options.read, kRead & handled));
  HONE_RETURN_IF_ERROR(Allow(ruleset.get(), options.execute, kExecute & handled));
  HONE_RETURN_IF_ERROR(Allow(ruleset.get(), options.write, kWrite & handled));
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) {
    return ErrnoStatus(errno, "landlock");
  }
  return absl::StrCat("landlock abi ", abi);
}

absl::Status SetLimit(int resource, int64_t value, const char* name) {
  struct rlimit limit = {};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) {
    return ErrnoStatus(errno, "getrlimit", name);
  }
  const auto wanted = static_cast<rlim_t>(value);
  // An inherited hard limit that is lower stays.
  limit.rlim_max = std::min(limit.rlim_max, wanted);
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) {
    return ErrnoStatus(errno, "setrlimit", name);
  }
  return absl::OkStatus();
}

absl::Status ApplyLimits(const SandboxOptions& options) {
  HONE_RETURN_IF_ERROR(SetLimit(RLIMIT_CORE, 0, "RLIMIT_CORE"));
  if (options.file_bytes_max > 0) {
    HONE_RETURN_IF_ERROR(SetLimit(RLIMIT_FSIZE, options.file_bytes_max, "RLIMIT_FSIZE"));
  }
#ifndef HONE_SANITIZED
  if (options.memory_bytes_max > 0) {
    HONE_RETURN_IF_ERROR(SetLimit(RLIMIT_AS, options.memory_bytes_max, "RLIMIT_AS"));
  }
#endif
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> EnterSandbox(const SandboxOptions& options) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return ErrnoStatus(errno, "no_new_privs");
  HONE_RETURN_IF_ERROR(ApplyLimits(options));
  return ApplyLandlock(options);
}

absl::Status LimitProcessorTime(int64_t cpu_ms) {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_CPU, &limit) != 0) return ErrnoStatus(errno, "getrlimit", "RLIMIT_CPU");
  limit.rlim_cur = limit.rlim_max;
  if (cpu_ms > 0) {
    struct rusage used = {};
    ::getrusage(RUSAGE_SELF, &used);
    const int64_t used_s = used.ru_utime.tv_sec + used.ru_stime.tv_sec;
    // Whole seconds, rounded up, and one for the part of a second used before.
    const auto wanted = static_cast<rlim_t>(used_s + (cpu_ms + 999) / 1000 + 1);
    limit.rlim_cur = std::min(limit.rlim_max, wanted);
  }
  if (::setrlimit(RLIMIT_CPU, &limit) != 0) return ErrnoStatus(errno, "setrlimit", "RLIMIT_CPU");
  return absl::OkStatus();
}

void ExitWhenPeerCloses(int socket) {
  std::thread([socket] {
    // Requests waiting to be read are not this thread's concern: it asks for hang-ups only.
    struct pollfd watched = {socket, POLLRDHUP, 0};
    while (true) {
      const int ready = ::poll(&watched, 1, -1);
      if (ready > 0 && (watched.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0) {
        // The job's thread may be deep in a compiler; nothing of this process is worth saving.
        // Tools that it started are in its group.
        if (::getpgrp() == ::getpid()) ::kill(0, SIGKILL);
        ::_exit(0);
      }
      if (ready < 0 && errno != EINTR) ::_exit(1);
    }
  }).detach();
}

}  // namespace hone
