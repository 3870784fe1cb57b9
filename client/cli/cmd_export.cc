// hone export KEY|NAME k=v... --repro -o FILE|DIR
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/errors.h"
#include "client/cli/problem_options.h"
#include "client/cli/repro_program.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

struct ExportOptions {
  std::shared_ptr<ProblemOptions> problem;
  bool repro = false;
  std::string out;
  double max_wait_s = 120;
};

ParamValue ValueOf(const v1::Value& value) {
  if (value.has_integer()) return value.integer();
  if (value.has_flag()) return value.flag();
  return value.text();
}

absl::Status Save(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  if (!file) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be written"));
  std::cout << "wrote " << path << ", " << bytes.size() << " bytes\n";
  return absl::OkStatus();
}

// The program; into a directory also what it was made of, to be looked at.
absl::Status SaveAll(const std::string& out, const std::string& program,
                     const Kernel::Variant& variant, const v1::KernelTemplate& kernel_template) {
  if (out == "-") {
    std::cout << program << std::flush;
    return absl::OkStatus();
  }
  std::error_code error;
  if (!absl::EndsWith(out, "/") && !std::filesystem::is_directory(out, error)) {
    return Save(out, program);
  }
  std::filesystem::create_directories(out, error);
  const auto in = [&](const std::string& name) {
    return (std::filesystem::path(out) / name).string();
  };
  const std::string& name = kernel_template.name();
  HONE_RETURN_IF_ERROR(Save(in(name + "_repro.cc"), program));
  HONE_RETURN_IF_ERROR(
      Save(in(name + (variant.artifact.format() == "PTX" ? ".ptx" : ".cubin")), variant.bytes));
  for (const v1::SourceFile& file : kernel_template.files()) {
    // Names may have directories; the files are to be read, not compiled.
    const std::string flat = std::filesystem::path(file.name()).filename().string();
    HONE_RETURN_IF_ERROR(Save(in(flat), file.content()));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::KernelTemplate> TemplateOf(const Client& client,
                                              const v1::TuningSummary& summary) {
  if (summary.template_digest().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("template '", summary.template_name(), "' has changed or is gone since key ",
                     summary.key(), " was tuned: how its inputs look is not known any more"));
  }
  HONE_ASSIGN_OR_RETURN(v1::DescribeTemplateResponse described,
                        client.DescribeTemplate("", summary.template_digest()));
  return std::move(*described.mutable_template_());
}

absl::StatusOr<size_t> WinnerIn(const Kernel& kernel, const v1::TuningSummary& summary) {
  for (size_t i = 0; i < kernel.variants().size(); ++i) {
    if (kernel.variants()[i].config == summary.winner().config()) return i;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the daemon serves ", kernel.variants().front().config, " for this problem, not ",
      summary.winner().config(), ", which the key's winner is"));
}

absl::Status RunExport(const Environment& environment, const ExportOptions& options) {
  if (!options.repro) return UsageError("say what to export: --repro");
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const std::string key, TuningKeyOf(client, *options.problem));
  const absl::StatusOr<v1::GetTuningResponse> tuning = client.GetTuning(key);
  if (!tuning.ok()) return NotTuned(tuning.status(), *options.problem);
  const v1::TuningSummary& summary = tuning->summary();
  if (!summary.has_winner()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no candidate of key ", summary.key(), " survived: there is no winner"));
  }
  HONE_ASSIGN_OR_RETURN(const v1::KernelTemplate kernel_template, TemplateOf(client, summary));
  GetKernelOptions get;
  get.template_name = summary.template_name();
  get.template_digest = summary.template_digest();
  for (const auto& [name, value] : summary.params()) get.params[name] = ValueOf(value);
  *get.target.mutable_device() = summary.device();
  get.max_wait = absl::Seconds(options.max_wait_s);
  HONE_ASSIGN_OR_RETURN(const Kernel kernel, client.GetKernel(get));
  ReproRequest request{.kernel = &kernel, .kernel_template = &kernel_template, .summary = &summary};
  HONE_ASSIGN_OR_RETURN(request.variant, WinnerIn(kernel, summary));
  for (const std::string& name : kernel.dynamic_sizes()) {
    const auto found = summary.params().find(name);
    if (found != summary.params().end()) request.sizes[name] = found->second.integer();
  }
  HONE_ASSIGN_OR_RETURN(const std::string program, ReproProgram(request));
  return SaveAll(options.out, program, kernel.variants()[request.variant], kernel_template);
}

}  // namespace

void AddExport(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand(
      "export", "Write a winner as a program of its own, to be handed on or profiled");
  command->group("Results");
  auto options = std::make_shared<ExportOptions>();
  options->problem = AddProblemOptions(
      *command, "KEY|NAME", "Tuning key from `hone list`, 6 digits at least, or a template");
  command->add_flag("--repro", options->repro,
                    "One C++ file that launches the winner on the check's inputs and times it; "
                    "needs cuda.h and libcuda, nothing of hone");
  command
      ->add_option(
          "-o,--out", options->out,
          "File; or a directory, which also gets the binary and the sources; - is standard "
          "output")
      ->required();
  command->add_option("--max-wait", options->max_wait_s, "Seconds until the kernel must be there")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str();
  command->callback([&environment, options] {
    environment.action = [&environment, options] { return RunExport(environment, *options); };
  });
}

}  // namespace hone::cli
