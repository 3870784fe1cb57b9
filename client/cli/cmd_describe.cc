// hone describe NAME
#include <algorithm>
#include <iostream>
#include <limits>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

std::string SizeDomain(const v1::SizeParameter& size) {
  std::string text = absl::StrCat("from ", size.has_min() ? size.min() : 1);
  if (size.has_max()) absl::StrAppend(&text, " to ", size.max());
  if (size.multiple_of() > 1) absl::StrAppend(&text, ", multiple of ", size.multiple_of());
  absl::StrAppend(&text, size.dynamic() ? "; one binary for all" : "; specialised");
  if (size.bucket() == v1::SizeParameter::POW2) text += ", tuned by powers of two";
  if (size.bucket() == v1::SizeParameter::LIST) {
    absl::StrAppend(&text, ", tuned at ", absl::StrJoin(size.bucket_values(), ", "));
  }
  return text;
}

std::string DtypeNames(const v1::DtypeParameter& dtype) {
  return absl::StrJoin(dtype.values(), ", ", [](std::string* out, int type) {
    absl::StrAppend(out, v1::DataType_Name(static_cast<v1::DataType>(type)));
  });
}

std::string ChainDomain(const v1::ChainParameter& chain) {
  std::string text = absl::StrCat("expression over ", absl::StrJoin(chain.inputs(), ", "));
  if (chain.scalars_size() > 0) {
    absl::StrAppend(&text, ", scalars ", absl::StrJoin(chain.scalars(), ", "));
  }
  return text;
}

std::vector<std::string> ParameterRow(const v1::Parameter& parameter) {
  switch (parameter.kind_case()) {
    case v1::Parameter::kDtype: {
      const v1::DtypeParameter& dtype = parameter.dtype();
      return {parameter.name(), "data type", DtypeNames(dtype),
              !dtype.default_from().empty() ? absl::StrCat("that of ", dtype.default_from())
              : dtype.default_() == v1::DATA_TYPE_UNSPECIFIED ? ""
                                                              : v1::DataType_Name(dtype.default_()),
              parameter.description()};
    }
    case v1::Parameter::kSize:
      return {parameter.name(), "size", SizeDomain(parameter.size()),
              parameter.size().has_default_() ? absl::StrCat(parameter.size().default_()) : "",
              parameter.description()};
    case v1::Parameter::kChoice:
      return {parameter.name(), "choice", absl::StrJoin(parameter.choice().values(), ", "),
              parameter.choice().default_(), parameter.description()};
    case v1::Parameter::kFlag:
      return {parameter.name(), "flag", "true, false",
              !parameter.flag().has_default_() ? ""
              : parameter.flag().default_()    ? "true"
                                               : "false",
              parameter.description()};
    case v1::Parameter::kChain:
      return {parameter.name(), "chain", ChainDomain(parameter.chain()),
              parameter.chain().default_(), parameter.description()};
    case v1::Parameter::KIND_NOT_SET:
      break;
  }
  return {parameter.name(), "?", "", "", parameter.description()};
}

std::string ArgumentKind(const v1::Argument& argument) {
  switch (argument.kind_case()) {
    case v1::Argument::kBuffer:
      return absl::StrCat("buffer ", argument.buffer().dtype(), "[",
                          absl::StrJoin(argument.buffer().shape(), ", "), "] ",
                          v1::Buffer::Access_Name(argument.buffer().access()));
    case v1::Argument::kScalar:
      return absl::StrCat("scalar ", v1::DataType_Name(argument.scalar().type()),
                          argument.scalar().has_per_launch()
                              ? std::string(", given per launch")
                              : absl::StrCat(" = ", argument.scalar().value()));
    case v1::Argument::kTensorMap:
      return absl::StrCat("tensor map over ", argument.tensor_map().buffer());
    case v1::Argument::kScratch:
      return absl::StrCat("scratch of ", argument.scratch().bytes(), " bytes");
    case v1::Argument::KIND_NOT_SET:
      break;
  }
  return "?";
}

void PrintTables(const v1::KernelTemplate& kernel) {
  Table params({{"parameter"}, {"kind"}, {"values"}, {"default"}, {"description"}});
  for (const v1::Parameter& parameter : kernel.params()) params.Add(ParameterRow(parameter));
  if (!params.empty()) std::cout << "\n" << params.Text();
  Table presets({{"preset"}, {"expression"}, {"with"}, {"description"}});
  for (const v1::Parameter& parameter : kernel.params()) {
    for (const v1::ChainPreset& preset : parameter.chain().presets()) {
      const std::map<std::string, std::string> with(preset.params().begin(), preset.params().end());
      presets.Add({absl::StrCat(parameter.name(), "=", preset.name()), preset.expression(),
                   absl::StrJoin(with, " ", absl::PairFormatter("=")), preset.description()});
    }
  }
  if (!presets.empty()) std::cout << "\n" << presets.Text();
  Table tunables({{"tunable"}, {"values"}, {"default", true}, {"description"}});
  for (const v1::Tunable& tunable : kernel.tunables()) {
    tunables.Add({tunable.name(), absl::StrJoin(tunable.values(), " "),
                  absl::StrCat(tunable.default_()), tunable.description()});
  }
  if (!tunables.empty()) std::cout << "\n" << tunables.Text();
  Table arguments({{"argument"}, {"kind"}});
  for (const v1::Argument& argument : kernel.arguments()) {
    arguments.Add({argument.name(), ArgumentKind(argument)});
  }
  if (!arguments.empty()) std::cout << "\n" << arguments.Text();
  for (const std::string& constraint : kernel.constraints()) {
    std::cout << "\nconstraint  " << constraint;
  }
  for (const v1::Check& check : kernel.check()) {
    if (!check.chain().empty()) {
      std::cout << "\ncheck       " << check.output() << " against the interpreted chain "
                << check.chain();
      continue;
    }
    std::cout << "\ncheck       " << check.output() << " against " << check.reference()
              << (check.exact() ? ", exact"
                                : absl::StrCat(", atol ", check.atol(), ", rtol ", check.rtol()));
  }
  std::cout << "\n";
}

// The command line of a tune with every parameter that has no default.
std::string Example(const v1::KernelTemplate& kernel) {
  std::string line = absl::StrCat("hone tune ", kernel.name());
  const auto sizes = std::count_if(kernel.params().begin(), kernel.params().end(),
                                   [](const v1::Parameter& one) { return one.has_size(); });
  const int exponent = sizes > 1 ? 10 : 20;  // 2^20 elements or so
  for (const v1::Parameter& parameter : kernel.params()) {
    if (parameter.has_size() && !parameter.size().has_default_()) {
      absl::StrAppend(
          &line, " ", parameter.name(), "=2^",
          parameter.size().has_max() && parameter.size().max() < (1 << exponent) ? 8 : exponent);
    } else if (parameter.has_chain()) {
      const v1::ChainParameter& chain = parameter.chain();
      absl::StrAppend(&line, " ", parameter.name(), "=",
                      chain.presets_size() > 0 ? chain.presets(0).name() : chain.inputs(0));
    } else if (parameter.has_dtype() && parameter.dtype().values_size() > 0 &&
               parameter.dtype().default_from().empty()) {
      absl::StrAppend(&line, " ", parameter.name(), "=",
                      v1::DataType_Name(parameter.dtype().values(0)));
    } else if (parameter.has_choice() && parameter.choice().default_().empty() &&
               parameter.choice().values_size() > 0) {
      absl::StrAppend(&line, " ", parameter.name(), "=", parameter.choice().values(0));
    }
  }
  return line;
}

absl::Status RunDescribe(const Environment& environment, const std::string& name) {
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect());
  HONE_ASSIGN_OR_RETURN(v1::DescribeTemplateResponse reply, client.DescribeTemplate(name));
  if (environment.json) return PrintJson(reply);
  const v1::TemplateSummary& summary = reply.summary();
  std::cout << summary.name() << " " << summary.version() << " (" << summary.origin() << ", digest "
            << ShortHash(summary.digest()) << "): " << summary.description() << "\n";
  PrintTables(reply.template_());
  std::cout << "\nTry it: " << Example(reply.template_()) << "\n";
  if (reply.files_left_out_size() > 0) {
    std::cout << "\nToo large to be sent: " << absl::StrJoin(reply.files_left_out(), ", ") << "\n";
  }
  if (!reply.readme().empty()) std::cout << "\n" << reply.readme() << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddDescribe(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand(
      "describe", "A template's parameters, tunables, arguments and how its results are checked");
  command->group("Templates");
  auto name = std::make_shared<std::string>();
  command->add_option("NAME", *name, "Template")->required();
  command->callback([&environment, name] {
    environment.action = [&environment, name] { return RunDescribe(environment, *name); };
  });
}

}  // namespace hone::cli
