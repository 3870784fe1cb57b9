// Template specs for tests of the kernel room, changed one field at a time.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/kernel/instantiate.h"
#include "runtime/kernel/kernel_template.h"
#include "runtime/kernel/problem.h"
#include "tests/testing/simple_template.h"
#include "tests/testing/status_matchers.h"

namespace hone {

inline Expression Parsed(const std::string& text) {
  auto parsed = Expression::Parse(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status();
  return parsed.ok() ? *parsed : Expression();
}

inline KernelTemplatePtr Made(TemplateSpec spec) {
  auto made = KernelTemplate::Create(std::move(spec));
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : nullptr;
}

// The copy template of SimpleSpec, changed.
inline TemplateSpec Changed(const std::function<void(TemplateSpec&)>& change) {
  TemplateSpec spec = SimpleSpec({});
  change(spec);
  return spec;
}

inline TemplateBuffer& BufferOf(TemplateBody& body, size_t index) {
  return std::get<TemplateBuffer>(body.arguments[index].kind);
}

inline Tunable MakeTunable(const std::string& name, std::vector<int64_t> values) {
  const int64_t first = values.front();
  return {.name = name,
          .description = {},
          .values = std::move(values),
          .default_value = first,
          .per_architecture = {}};
}

inline Problem ProblemOf(const KernelTemplate& kernel_template, const std::string& text) {
  auto problem = Problem::Parse(kernel_template, text);
  EXPECT_TRUE(problem.ok()) << problem.status();
  return problem.ok() ? *problem : Problem();
}

inline Config ConfigOf(const std::string& text) {
  auto config = Config::Parse(text);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : Config();
}

// Every name expression stands for itself.
inline std::map<std::string, std::string> SelfNames(const Program& program) {
  std::map<std::string, std::string> names;
  for (const std::string& name : program.name_expressions) names[name] = "sym:" + name;
  return names;
}

// The recipe of a config, its symbols "sym:ENTRY".
inline absl::StatusOr<LaunchRecipe> RecipeOf(const KernelTemplate& kernel_template,
                                             const Problem& problem, const Config& config,
                                             const std::string& architecture = "sm_90a",
                                             const DeviceFacts& facts = {}) {
  auto program = InstantiateProgram(kernel_template, problem, config, architecture);
  if (!program.ok()) return program.status();
  return InstantiateRecipe(kernel_template, problem, config, architecture, facts,
                           SelfNames(*program));
}

}  // namespace hone
