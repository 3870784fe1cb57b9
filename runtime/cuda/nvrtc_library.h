// NVRTC bound at run time by path. Only worker processes load it.
#pragma once

#include <nvrtc.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hone {

// The functions of one libnvrtc. Stays loaded for the life of the process: NVRTC keeps state that
// unloading would leave behind.
class NvrtcLibrary {
 public:
  // Opens libnvrtc-builtins beside the library first, so that NVRTC finds it in memory when the
  // file system is closed to it. FAILED_PRECONDITION names the library and the directory searched.
  static absl::StatusOr<std::unique_ptr<NvrtcLibrary>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  int cuda_version() const { return cuda_version_; }  // 13000
  // "sm_75", "sm_90", "sm_90a", "sm_100f", ascending.
  const std::vector<std::string>& architectures() const { return architectures_; }

  decltype(&nvrtcGetErrorString) GetErrorString = nullptr;
  decltype(&nvrtcVersion) Version = nullptr;
  decltype(&nvrtcGetNumSupportedArchs) GetNumSupportedArchs = nullptr;
  decltype(&nvrtcGetSupportedArchs) GetSupportedArchs = nullptr;
  decltype(&nvrtcCreateProgram) CreateProgram = nullptr;
  decltype(&nvrtcDestroyProgram) DestroyProgram = nullptr;
  decltype(&nvrtcCompileProgram) CompileProgram = nullptr;
  decltype(&nvrtcAddNameExpression) AddNameExpression = nullptr;
  decltype(&nvrtcGetLoweredName) GetLoweredName = nullptr;
  decltype(&nvrtcGetPTXSize) GetPTXSize = nullptr;
  decltype(&nvrtcGetPTX) GetPTX = nullptr;
  decltype(&nvrtcGetCUBINSize) GetCUBINSize = nullptr;
  decltype(&nvrtcGetCUBIN) GetCUBIN = nullptr;
  decltype(&nvrtcGetProgramLogSize) GetProgramLogSize = nullptr;
  decltype(&nvrtcGetProgramLog) GetProgramLog = nullptr;

 private:
  explicit NvrtcLibrary(std::string path) : path_(std::move(path)) {}
  absl::Status Bind(void* handle);
  absl::Status ReadFacts();

  const std::string path_;
  int cuda_version_ = 0;
  std::vector<std::string> architectures_;
};

}  // namespace hone
