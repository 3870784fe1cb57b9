// `hone` against a scripted daemon.
#pragma once

#include <string>
#include <vector>

#include "client/cli/cli.h"
#include "gtest/gtest.h"
#include "tests/client/fake_service.h"

namespace hone::cli {

class CliTest : public testing::Test {
 protected:
  // Runs `hone ARGUMENTS` against the fake daemon.
  int Hone(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"hone", "--endpoint", daemon_.endpoint()});
    return RunMain(arguments);
  }

  int RunMain(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = Main(static_cast<int>(argv.size()), argv.data());
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }

  FakeService& service() { return daemon_.service(); }

  FakeDaemon daemon_;
  std::string out_;
  std::string err_;
};

inline v1::MeasurementInfo Timed(const std::string& config, double median_ns) {
  v1::MeasurementInfo m;
  m.set_config(config);
  m.set_median_ns(median_ns);
  m.set_gb_per_s(1e6 / median_ns);
  m.set_verified(true);
  m.add_verified_sizes("n=64");
  return m;
}

}  // namespace hone::cli
