#include "runtime/tune/compile_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/fake_compiler.h"
#include "tests/testing/fake_profiler.h"
#include "tests/testing/simple_template.h"

namespace hone {
namespace {

using testing::ElementsAre;

class CompileOrderTest : public testing::Test {
 protected:
  // The names of the configs in the order in which they would be compiled.
  std::vector<std::string> Order(const std::vector<std::string>& names, size_t kept) {
    std::vector<Config> configs;
    for (const std::string& name : names) configs.push_back(*Config::Parse(name));
    OrderForCompiling(builder_, problem_, device_.Facts(), kept, configs);
    std::vector<std::string> ordered;
    for (const Config& config : configs) ordered.push_back(config.ToString());
    return ordered;
  }

  const DeviceInfo device_ = FakeDeviceInfo();
  const KernelTemplatePtr template_ = SimpleTemplate({.xblock = {64, 128, 256}, .vec = {1, 2, 4}});
  const Problem problem_ = *Problem::Create(*template_, {{"n", int64_t{8192}}});
  FakeCompiler compiler_;
  const CandidateBuilder builder_{&compiler_,           template_,       problem_,
                                  device_.architecture, device_.Facts(), {}};
};

// XBLOCK is the block's threads, so that only VEC makes a thread's code longer.
TEST_F(CompileOrderTest, MoreWorkOfAThreadCompilesEarlier) {
  EXPECT_THAT(
      Order({"XBLOCK=64 VEC=1", "XBLOCK=256 VEC=1", "XBLOCK=64 VEC=4", "XBLOCK=128 VEC=2"},
            /*kept=*/0),
      ElementsAre("XBLOCK=64 VEC=4", "XBLOCK=128 VEC=2", "XBLOCK=64 VEC=1", "XBLOCK=256 VEC=1"));
}

TEST_F(CompileOrderTest, WhatIsKeptStaysInFront) {
  EXPECT_THAT(Order({"XBLOCK=64 VEC=1", "XBLOCK=64 VEC=2", "XBLOCK=64 VEC=4"}, /*kept=*/1),
              ElementsAre("XBLOCK=64 VEC=1", "XBLOCK=64 VEC=4", "XBLOCK=64 VEC=2"));
}

}  // namespace
}  // namespace hone
