// A daemon on this machine's GPU, shared by the tests of a suite, which are skipped without one.
#pragma once

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "runtime/base/files.h"
#include "tests/scenarios/daemon_process.h"
#include "tests/testing/status_matchers.h"

namespace hone {

class DaemonOnGpuTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory(*TemporaryDirectory::Create("/tmp", "hone"));
    auto daemon = DaemonProcess::Start(directory_->path(), {.device = "cuda"});
    ASSERT_THAT(daemon, IsOk());
    daemon_ = daemon->release();
    const v1::GetStatusResponse status = daemon_->WaitForEngine();
    if (status.devices().empty() || status.devices(0).fingerprint().kind() != "cuda") {
      missing_ = new std::string("no CUDA device");
    }
  }
  static void TearDownTestSuite() {
    delete daemon_;
    delete directory_;
    delete missing_;
  }
  void SetUp() override {
    if (missing_ != nullptr) GTEST_SKIP() << *missing_;
  }

  static std::string Endpoint() { return "unix:" + daemon_->socket_path(); }

  inline static TemporaryDirectory* directory_ = nullptr;
  inline static DaemonProcess* daemon_ = nullptr;
  inline static std::string* missing_ = nullptr;
};

}  // namespace hone
