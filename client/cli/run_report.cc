#include "client/cli/run_report.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/format.h"
#include "client/cli/json.h"

namespace hone::cli {
namespace {

google::protobuf::Value Text(const std::string& text) {
  google::protobuf::Value value;
  value.set_string_value(text);
  return value;
}

google::protobuf::Value Number(double number) {
  google::protobuf::Value value;
  value.set_number_value(number);
  return value;
}

std::string Shape(const ResolvedStep& step) {
  return absl::StrCat("grid ", absl::StrJoin(step.grid, "x"), "  block ",
                      absl::StrJoin(step.block, "x"));
}

}  // namespace

void RunReport::Asked(const Kernel& kernel, const std::string& device) {
  const v1::TunedKernel& tuned = kernel.response().kernel();
  const std::string source = SourceText(kernel.response().source());
  auto& fields = *object_.mutable_fields();
  fields["template"] = Text(tuned.template_name());
  fields["params"] = Text(FormatParams(tuned.params()));
  fields["architecture"] = Text(tuned.architecture());
  fields["device"] = Text(device);
  fields["source"] = Text(source);
  fields["key"] = Text(kernel.response().key());
  if (json_) return;
  std::cout << tuned.template_name() << " " << FormatParams(tuned.params()) << " on " << device
            << " (" << tuned.architecture() << ", " << source << ")\n";
}

void RunReport::Captured(const std::map<std::string, std::string>& contents) {
  for (const auto& [buffer, file] : contents) {
    (*(*object_.mutable_fields())["captured"].mutable_struct_value()->mutable_fields())[buffer] =
        Text(file);
    if (!json_) std::cout << buffer << " as captured in " << file << "\n";
  }
}

void RunReport::Launched(const Kernel& kernel, const LaunchArguments& arguments, int index,
                         double ns) {
  const Kernel::Variant& variant = kernel.variants()[static_cast<size_t>(index)];
  auto& fields = *object_.mutable_fields();
  fields["variant"] = Number(index + 1);
  fields["variants"] = Number(static_cast<double>(kernel.variants().size()));
  fields["config"] = Text(variant.config);
  fields["artifact"] = Text(variant.artifact.sha256());
  fields["launch_ns"] = Number(ns);
  for (const auto& [name, size] : arguments.sizes) {
    (*fields["sizes"].mutable_struct_value()->mutable_fields())[name] =
        Number(static_cast<double>(size));
  }
  if (json_) return;
  std::cout << "variant " << index + 1 << " of " << kernel.variants().size() << "  "
            << variant.config << "\n";
  for (int i = 0; i < index; ++i) {
    const Kernel::Variant& passed = kernel.variants()[static_cast<size_t>(i)];
    std::cout << "  not " << passed.config << ": "
              << CheckGuards(passed.recipe, arguments).message() << "\n";
  }
  // It was launched, so it resolves.
  const absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(variant.recipe, arguments);
  if (launch.ok()) {
    for (const ResolvedStep& step : launch->steps) {
      std::cout << (step.symbol.empty() ? absl::StrCat("memset of ", step.memset_bytes, " bytes")
                                        : Shape(step))
                << "\n";
    }
    if (launch->steps.empty()) std::cout << "nothing to launch for these sizes\n";
  }
  std::cout << "one launch took " << FormatDuration(ns) << "\n";
}

void RunReport::Matched(const std::string& output, const std::string& reference,
                        const OutputTolerance& tolerance, const OutputComparison& comparison) {
  google::protobuf::Struct match;
  auto& fields = *match.mutable_fields();
  fields["output"] = Text(output);
  fields["reference"] = Text(reference);
  fields["elements"] = Number(static_cast<double>(comparison.elements));
  fields["max_abs_error"] = Number(comparison.max_abs_error);
  *(*object_.mutable_fields())["outputs"]
       .mutable_list_value()
       ->add_values()
       ->mutable_struct_value() = std::move(match);
  if (json_) return;
  std::cout << output << ": " << comparison.elements << " elements match " << reference << " "
            << tolerance.ToString();
  if (!tolerance.exact) std::cout << " (largest error " << comparison.max_abs_error << ")";
  std::cout << "\n";
}

void RunReport::Verified() {
  (*object_.mutable_fields())["verified"].set_bool_value(true);
  if (!json_) std::cout << "verified\n";
}

absl::Status RunReport::Finish() { return json_ ? PrintJson(object_) : absl::OkStatus(); }

}  // namespace hone::cli
