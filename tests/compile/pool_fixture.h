// Compile pools over the real hone-worker.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/files.h"
#include "runtime/base/sanitizers.h"
#include "runtime/compile/compile_pool.h"
#include "runtime/compile/nvrtc_locate.h"
#include "tests/testing/status_matchers.h"

namespace hone {

inline bool HasNvrtc() { return !LocateNvrtc({}).found.empty(); }

// NVRTC only, two workers, at ordinary priority so that limits hold on a busy machine.
inline CompilePoolOptions NvrtcOptions() {
  const char* bin = std::getenv("HONE_BIN");
  CompilePoolOptions options;
  options.worker_program = JoinPath(bin == nullptr ? "." : bin, "hone-worker");
  options.host = false;
  options.parallelism = 2;
  options.idle_priority = false;
  return options;
}

inline Program CudaProgram(const std::string& source, const std::string& architecture = "sm_90") {
  Program program;
  program.name = "k.cu";
  program.source = source;
  program.architecture = architecture;
  return program;
}

inline CompileOptions WithTimeout(absl::Duration timeout) {
  CompileOptions options;
  options.timeout = timeout;
  return options;
}

// Templates that form a binary tree of distinct types: time doubles with every level (P09).
inline std::string TypeTree(int levels) {
  return absl::StrCat(
      "template <int N, int M> struct F { using L = typename F<N-1, 2*M>::T; using R = typename "
      "F<N-1, 2*M+1>::T; struct T : L, R { char c[M % 7 + 1]; }; };\n"
      "template <int M> struct F<0, M> { struct T { int x[M % 5 + 1]; }; };\n"
      "extern \"C\" __global__ void k(unsigned long* a) { a[0] = sizeof(F<",
      levels, ", 1>::T); }\n");
}

// Processes whose parent is this one.
inline std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  const auto names = ListDirectory("/proc");
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(name, &pid)) continue;
    const auto stat = ReadKernelFile(absl::StrCat("/proc/", pid, "/stat"));
    if (!stat.ok()) continue;
    const std::vector<std::string> fields = absl::StrSplit(stat->substr(stat->rfind(')') + 2), ' ');
    if (fields.size() > 1 && fields[1] == absl::StrCat(::getpid())) children.push_back(pid);
  }
  return children;
}

// Waits for something another process does; fails the test after a while that is long on any
// machine.
template <typename Condition>
bool Eventually(Condition condition) {
  const Deadline limit = Deadline::In(absl::Seconds(60));
  while (!limit.passed()) {
    if (condition()) return true;
    ::usleep(1000);
  }
  return false;
}

}  // namespace hone
