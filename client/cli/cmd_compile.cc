// hone compile FILE.cu
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/errors.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

struct CompileOptions {
  std::string file;
  std::vector<std::string> headers;
  std::vector<std::string> header_sets;
  std::vector<std::string> options;
  std::vector<std::string> names;
  std::vector<std::string> architectures;
  int driver_version = 0;
};

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  return text.str();
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// "NAME=PATH" or a path, whose last part is then the name.
absl::StatusOr<v1::SourceFile> ReadHeader(const std::string& argument) {
  const size_t equals = argument.find('=');
  const bool named = equals != std::string::npos;
  v1::SourceFile file;
  file.set_name(named ? argument.substr(0, equals) : BaseName(argument));
  HONE_ASSIGN_OR_RETURN(std::string content,
                        ReadFile(named ? argument.substr(equals + 1) : argument));
  file.set_content(std::move(content));
  return file;
}

absl::StatusOr<v1::CompileRequest> MakeCompileRequest(const CompileOptions& options) {
  v1::CompileRequest request;
  HONE_ASSIGN_OR_RETURN(*request.mutable_source(), ReadFile(options.file));
  request.set_name(BaseName(options.file));
  for (const std::string& header : options.headers) {
    HONE_ASSIGN_OR_RETURN(*request.add_headers(), ReadHeader(header));
  }
  for (const std::string& set : options.header_sets) request.add_header_sets(set);
  for (const std::string& option : options.options) request.add_options(option);
  for (const std::string& name : options.names) request.add_name_expressions(name);
  for (const std::string& name : options.architectures) request.add_architectures(name);
  request.set_driver_version(options.driver_version);
  return request;
}

void Print(const v1::CompiledArtifact& artifact) {
  const v1::ArtifactInfo& info = artifact.info();
  std::cout << info.architecture() << "  " << info.format() << "  "
            << FormatBytes(info.size_bytes()) << "  " << info.builder()
            << (artifact.cached() ? "  (from the cache)" : "") << "\n  " << info.sha256() << "\n";
  for (const v1::EntryResources& entry : info.resources()) {
    std::cout << "  " << entry.symbol() << ": " << entry.registers() << " registers, "
              << entry.static_shared_bytes() << " bytes shared, " << entry.local_bytes()
              << " local\n";
  }
  for (const auto& [name, symbol] : info.lowered_names()) {
    std::cout << "  " << name << " is " << symbol << "\n";
  }
  if (!artifact.note().empty()) std::cout << "  note: " << artifact.note() << "\n";
  if (!artifact.not_cached_reason().empty()) {
    std::cout << "  not stored: " << artifact.not_cached_reason() << "\n";
  }
  if (!artifact.log().empty()) std::cout << artifact.log() << "\n";
}

absl::Status RunCompile(const Environment& environment, const CompileOptions& options) {
  HONE_ASSIGN_OR_RETURN(const v1::CompileRequest request, MakeCompileRequest(options));
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(const v1::CompileResponse reply, client.Compile(request));
  if (environment.json) return PrintJson(reply);
  for (const v1::CompiledArtifact& artifact : reply.artifacts()) Print(artifact);
  std::cout << "hone artifact SHA256 FILE writes a binary to a file.\n";
  return absl::OkStatus();
}

}  // namespace

void AddCompile(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand("compile", "Compile a CUDA C++ file without a template");
  command->group("Kernels");
  auto options = std::make_shared<CompileOptions>();
  command->add_option("FILE", options->file, "CUDA C++ source")->required();
  command
      ->add_option(
          "--arch", options->architectures,
          "sm_90a, compute_90 (PTX), cpu, auto (the device's, the default); may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("-n,--name", options->names,
                   "Kernel to instantiate, for example 'ns::axpy<float, 128>'; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--option", options->options,
                   "Compiler option, written --option=-default-device; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--header", options->headers,
                   "Header file, or NAME=PATH for another include name; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--header-set", options->header_sets,
                   "Registered header set, by name or digest; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--driver", options->driver_version,
                      "CUDA driver that will load the binary, for example 12040 for 12.4");
  command->callback([&environment, options] {
    environment.action = [&environment, options] { return RunCompile(environment, *options); };
  });
}

}  // namespace hone::cli
