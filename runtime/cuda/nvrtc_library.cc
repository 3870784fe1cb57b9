#include "runtime/cuda/nvrtc_library.h"

#include <dlfcn.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

constexpr int kFirstAcceleratedArchitecture = 90;  // sm_90a
constexpr int kFirstFamilyArchitecture = 100;      // sm_100f
constexpr int kFirstFamilyVersion = 12090;

std::string LastDlError() {
  const char* error = ::dlerror();
  return error == nullptr ? "unknown error" : error;
}

// "13" of "/usr/local/cuda/lib/libnvrtc.so.13.0.88".
std::string MajorOf(const std::string& path) {
  const std::string name = BaseName(path);
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, "libnvrtc.so.")) return "";
  return std::string(rest.substr(0, rest.find('.')));
}

// The builtins of this NVRTC's major version in its directory; their minor version is not known
// before the library is open, and must be open before it.
absl::Status OpenBuiltins(const std::string& path) {
  const std::string directory = DirectoryName(path);
  const std::string wanted = absl::StrCat("libnvrtc-builtins.so.", MajorOf(path));
  std::string failure = "no such file";
  bool opened = false;
  const auto names = ListDirectory(directory);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, wanted)) continue;
    if (::dlopen(JoinPath(directory, name).c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) {
      opened = true;
    } else {
      failure = LastDlError();
    }
  }
  if (opened) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("NVRTC at ", path, " cannot compile without ",
                                                    wanted, ".*: ", failure, "; searched ",
                                                    directory));
}

template <typename Function>
absl::Status BindOne(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (function == nullptr) return absl::FailedPreconditionError(LastDlError());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<NvrtcLibrary>> NvrtcLibrary::Open(const std::string& path) {
  HONE_RETURN_IF_ERROR(OpenBuiltins(path));
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("NVRTC cannot be loaded: ", LastDlError()));
  }
  std::unique_ptr<NvrtcLibrary> library(new NvrtcLibrary(path));
  HONE_RETURN_IF_ERROR(library->Bind(handle));
  HONE_RETURN_IF_ERROR(library->ReadFacts());
  return library;
}

absl::Status NvrtcLibrary::Bind(void* handle) {
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcGetErrorString", GetErrorString));
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcVersion", Version));
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcGetNumSupportedArchs", GetNumSupportedArchs));
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcGetSupportedArchs", GetSupportedArchs));
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcCreateProgram", CreateProgram));
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcDestroyProgram", DestroyProgram));
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcCompileProgram", CompileProgram));
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcAddNameExpression", AddNameExpression));
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcGetLoweredName", GetLoweredName));
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcGetPTXSize", GetPTXSize));
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcGetPTX", GetPTX));
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcGetCUBINSize", GetCUBINSize));
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcGetCUBIN", GetCUBIN));
  HONE_RETURN_IF_ERROR(BindOne(handle, "nvrtcGetProgramLogSize", GetProgramLogSize));
  return BindOne(handle, "nvrtcGetProgramLog", GetProgramLog);
}

absl::Status NvrtcLibrary::ReadFacts() {
  int major = 0;
  int minor = 0;
  int count = 0;
  if (Version(&major, &minor) != NVRTC_SUCCESS || GetNumSupportedArchs(&count) != NVRTC_SUCCESS) {
    return absl::FailedPreconditionError(absl::StrCat("NVRTC at ", path_, " does not answer"));
  }
  cuda_version_ = major * 1000 + minor * 10;
  std::vector<int> numbers(static_cast<size_t>(std::max(count, 1)));
  if (GetSupportedArchs(numbers.data()) != NVRTC_SUCCESS) {
    return absl::FailedPreconditionError(absl::StrCat("NVRTC at ", path_, " does not answer"));
  }
  numbers.resize(static_cast<size_t>(count));
  std::sort(numbers.begin(), numbers.end());
  for (const int number : numbers) {
    const std::string name = absl::StrCat("sm_", number);
    architectures_.push_back(name);
    if (number >= kFirstAcceleratedArchitecture) architectures_.push_back(name + "a");
    if (number >= kFirstFamilyArchitecture && cuda_version_ >= kFirstFamilyVersion) {
      architectures_.push_back(name + "f");
    }
  }
  return absl::OkStatus();
}

}  // namespace hone
