#include "runtime/base/default_paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace hone {
namespace {

constexpr absl::string_view kSocketName = "/hone/honed.sock";

bool IsSocket(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

std::string Parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Anyone may create names in /tmp: a directory there is ours only if we own it and it is no link.
bool IsOwnDirectory(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == getuid();
}

std::string TemporarySocketPath() { return absl::StrCat("/tmp/hone-", getuid(), "/honed.sock"); }

bool MayListenAt(const std::string& path) {
  const std::string directory = Parent(path);
  if (access(directory.c_str(), F_OK) == 0) return access(directory.c_str(), W_OK) == 0;
  return access(Parent(directory).c_str(), W_OK) == 0;
}

}  // namespace

std::vector<std::string> DefaultSocketPaths() {
  std::vector<std::string> paths;
  const char* runtime_directory = std::getenv("XDG_RUNTIME_DIR");
  if (runtime_directory != nullptr && runtime_directory[0] == '/') {
    paths.push_back(absl::StrCat(runtime_directory, kSocketName));
  }
  paths.push_back(absl::StrCat("/run", kSocketName));
  paths.push_back(TemporarySocketPath());
  return paths;
}

std::string DefaultTlsCaFile() {
  const char* file = std::getenv("HONE_TLS_CA_FILE");
  return file != nullptr ? file : "";
}

std::string DefaultEndpoint() {
  const char* endpoint = std::getenv("HONE_ENDPOINT");
  if (endpoint != nullptr && endpoint[0] != '\0') return endpoint;
  const std::vector<std::string> paths = DefaultSocketPaths();
  for (const std::string& path : paths) {
    if (path == TemporarySocketPath() && !IsOwnDirectory(Parent(path))) continue;
    if (IsSocket(path)) return absl::StrCat("unix:", path);
  }
  return absl::StrCat("unix:", paths.front());
}

std::string DefaultListenSocketPath() {
  for (const std::string& path : DefaultSocketPaths()) {
    if (MayListenAt(path)) return path;
  }
  return TemporarySocketPath();
}

}  // namespace hone
