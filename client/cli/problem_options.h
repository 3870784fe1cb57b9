// What several subcommands are asked about: a template, parameters, a target.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/cpp/hone/client.h"
#include "hone/v1/kernel_service.pb.h"

namespace hone::cli {

struct ProblemOptions {
  std::string name;
  std::vector<std::string> assignments;
  std::string architecture;
  int device = 0;
  int driver_version = 0;

  v1::Target ToTarget() const;
  absl::StatusOr<v1::ExplainKeyRequest> ToExplainKeyRequest() const;
};

// Adds NAME, the assignments and the target's options. `name_help` says what NAME may be.
std::shared_ptr<ProblemOptions> AddProblemOptions(CLI::App& command, const std::string& name,
                                                  const std::string& name_help);

// Adds --numerics.
void AddNumericsOption(CLI::App& command, v1::Numerics* numerics);

// The tuning key that is meant: the name itself when it stands alone and looks like one, else that
// of the template's problem, whether or not it is tuned.
absl::StatusOr<std::string> TuningKeyOf(const Client& client, const ProblemOptions& problem);
// What a NOT_FOUND about such a key means to whoever named a template; other errors as they are.
absl::Status NotTuned(const absl::Status& status, const ProblemOptions& problem);

// Whether the text can be a tuning key or its beginning.
bool LooksLikeKey(const std::string& text);

}  // namespace hone::cli
