// hone run KEY|NAME k=v...
#include <iostream>
#include <memory>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/errors.h"
#include "client/cli/format.h"
#include "client/cli/kernel_run.h"
#include "client/cli/output_compare.h"
#include "client/cli/params.h"
#include "client/cli/problem_options.h"
#include "client/cli/reference_kernel.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

// Outputs of the served kernel and of the reference begin differently, so that an element neither
// wrote cannot look right.
constexpr unsigned char kServedPoison = 0xFF;
constexpr unsigned char kReferencePoison = 0xA5;

struct RunOptions {
  std::shared_ptr<ProblemOptions> problem;
  bool verify = false;
  int64_t offset_elements = 0;
};

// What was asked for, before the daemon is asked for the kernel.
struct Asked {
  v1::DescribeTemplateResponse described;
  Params params;                          // of the template
  std::map<std::string, double> scalars;  // per launch
};

bool LooksLikeKey(const std::string& text) {
  return text.size() >= 6 && text.size() <= 64 &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

ParamValue FromProto(const v1::Value& value) {
  if (value.has_integer()) return value.integer();
  if (value.has_flag()) return value.flag();
  return value.text();
}

// Assignments are parameters, or scalars that the template leaves to each launch.
absl::Status Assign(const std::vector<std::string>& arguments, Asked& asked) {
  std::set<std::string> per_launch;
  for (const v1::Argument& argument : asked.described.template_().arguments()) {
    if (argument.scalar().has_per_launch()) per_launch.insert(argument.name());
  }
  HONE_ASSIGN_OR_RETURN(const auto assignments, SplitAssignments(arguments));
  for (const auto& [name, text] : assignments) {
    if (per_launch.count(name) == 0) {
      HONE_ASSIGN_OR_RETURN(asked.params[name], ParseParamValue(text));
      continue;
    }
    if (!absl::SimpleAtod(text, &asked.scalars[name])) {
      return UsageError(absl::StrCat(name, "=", text, ": this scalar needs a number"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Asked> Ask(const Client& client, const ProblemOptions& problem) {
  Asked asked;
  absl::StatusOr<v1::DescribeTemplateResponse> described = client.DescribeTemplate(problem.name);
  if (!described.ok() && absl::IsNotFound(described.status()) && LooksLikeKey(problem.name)) {
    HONE_ASSIGN_OR_RETURN(const v1::GetTuningResponse tuning, client.GetTuning(problem.name));
    for (const auto& [name, value] : tuning.summary().params()) {
      asked.params[name] = FromProto(value);
    }
    described = client.DescribeTemplate("", tuning.summary().template_digest());
    if (!described.ok()) described = client.DescribeTemplate(tuning.summary().template_name());
  }
  if (!described.ok()) return described.status();
  asked.described = *std::move(described);
  HONE_RETURN_IF_ERROR(Assign(problem.assignments, asked));
  return asked;
}

absl::StatusOr<SizeBindings> SizesOf(const Kernel& kernel) {
  SizeBindings sizes;
  for (const std::string& name : kernel.dynamic_sizes()) {
    const auto found = kernel.response().kernel().params().find(name);
    if (found == kernel.response().kernel().params().end() || !found->second.has_integer()) {
      return absl::InternalError(absl::StrCat("the daemon's answer has no size '", name, "'"));
    }
    sizes[name] = found->second.integer();
  }
  return sizes;
}

std::string DescribeLaunch(const Kernel& kernel, const LaunchArguments& arguments, int index) {
  const Kernel::Variant& variant = kernel.variants()[static_cast<size_t>(index)];
  std::string text = absl::StrCat("variant ", index + 1, " of ", kernel.variants().size(), "  ",
                                  variant.config, "\n");
  for (int i = 0; i < index; ++i) {
    const Kernel::Variant& passed = kernel.variants()[static_cast<size_t>(i)];
    absl::StrAppend(&text, "  not ", passed.config, ": ",
                    CheckGuards(passed.recipe, arguments).message(), "\n");
  }
  const absl::StatusOr<ResolvedLaunch> launch = ResolveLaunch(variant.recipe, arguments);
  if (!launch.ok()) return text;
  for (const ResolvedStep& step : launch->steps) {
    if (step.symbol.empty()) continue;
    absl::StrAppend(&text, "grid ", absl::StrJoin(step.grid, "x"), "  block ",
                    absl::StrJoin(step.block, "x"), "\n");
  }
  return text;
}

absl::Status CheckOutput(const v1::Check& check, const std::string& entry, KernelRun& served,
                         KernelRun& reference) {
  const KernelRun::Buffer* buffer = served.Find(check.output());
  const KernelRun::Buffer* wanted = reference.Find(check.output());
  if (buffer == nullptr || wanted == nullptr) {
    return absl::InternalError(absl::StrCat("there is no output '", check.output(), "'"));
  }
  HONE_ASSIGN_OR_RETURN(const std::string values, served.Read(*buffer));
  HONE_ASSIGN_OR_RETURN(const std::string right, reference.Read(*wanted));
  const OutputTolerance tolerance = OutputTolerance::Of(check, buffer->dtype);
  const OutputComparison comparison =
      CompareOutputs(values, right, buffer->extent, buffer->dtype, tolerance);
  if (!comparison.right) {
    return absl::DataLossError(absl::StrCat("output '", check.output(),
                                            "' is wrong: ", comparison.mismatches, " of ",
                                            comparison.elements, " elements differ from ", entry,
                                            ", the first ", comparison.first_mismatch));
  }
  std::cout << check.output() << ": " << comparison.elements << " elements match " << entry << " "
            << tolerance.ToString();
  if (!tolerance.exact) std::cout << " (largest error " << comparison.max_abs_error << ")";
  std::cout << "\n";
  return absl::OkStatus();
}

absl::Status Verify(const Client& client, RunDevice& device, const Kernel& kernel,
                    const Asked& asked, const SizeBindings& sizes, const RunOptions& options,
                    bool on_cpu, KernelRun& served) {
  const v1::KernelTemplate& kernel_template = asked.described.template_();
  if (kernel_template.check_size() == 0) {
    return absl::FailedPreconditionError(
        "this template has no check, so there is nothing to verify against");
  }
  for (int i = 0; i < kernel_template.check_size(); ++i) {
    HONE_ASSIGN_OR_RETURN(const ReferenceKernel reference,
                          CompileReference(client, kernel_template, i, kernel, on_cpu));
    HONE_ASSIGN_OR_RETURN(
        KernelRun run, KernelRun::Create(device, kernel, kernel_template, sizes,
                                         options.offset_elements, asked.scalars, kReferencePoison));
    HONE_RETURN_IF_ERROR(device.Prepare(reference.kernel));
    HONE_RETURN_IF_ERROR(run.Launch(reference.kernel).status());
    HONE_RETURN_IF_ERROR(CheckOutput(kernel_template.check(i), reference.entry, served, run));
  }
  std::cout << "verified\n";
  return absl::OkStatus();
}

absl::Status Run(const Environment& environment, const RunOptions& options) {
  // Whoever asks for a run on the CPU device wants the daemon's code to run here.
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect(/*enable_cpu_device=*/true));
  HONE_ASSIGN_OR_RETURN(const Asked asked, Ask(client, *options.problem));
  GetKernelOptions get;
  get.template_name = asked.described.summary().name();
  get.template_digest = asked.described.summary().digest();
  get.params = asked.params;
  get.target = options.problem->ToTarget();
  HONE_ASSIGN_OR_RETURN(const Kernel kernel, client.GetKernel(get));
  const v1::TunedKernel& tuned = kernel.response().kernel();
  const bool on_cpu = kernel.variants().front().artifact.format() == "HOST_ELF";
  std::cout << tuned.template_name() << " " << FormatParams(tuned.params()) << " on "
            << (on_cpu ? "the CPU reference device"
                       : absl::StrCat("CUDA device ", options.problem->device))
            << " (" << tuned.architecture() << ", " << v1::Source_Name(kernel.response().source())
            << ")\n";
  std::unique_ptr<RunDevice> device = OpenCpuDevice();
  if (!on_cpu) {
    HONE_ASSIGN_OR_RETURN(device, OpenCudaDevice(options.problem->device));
  }
  HONE_ASSIGN_OR_RETURN(const SizeBindings sizes, SizesOf(kernel));
  HONE_ASSIGN_OR_RETURN(KernelRun run,
                        KernelRun::Create(*device, kernel, asked.described.template_(), sizes,
                                          options.offset_elements, asked.scalars, kServedPoison));
  HONE_ASSIGN_OR_RETURN(const int index, kernel.ChooseVariant(run.arguments()));
  HONE_RETURN_IF_ERROR(device->Prepare(kernel));
  HONE_ASSIGN_OR_RETURN(const double ns, run.Launch(kernel));
  std::cout << DescribeLaunch(kernel, run.arguments(), index) << "one launch took "
            << FormatDuration(ns) << "\n";
  if (!options.verify) return absl::OkStatus();
  return Verify(client, *device, kernel, asked, sizes, options, on_cpu, run);
}

}  // namespace

void AddRun(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand(
      "run", "Launch the served kernel once on generated inputs; for profilers and for checking");
  command->group("Kernels");
  auto options = std::make_shared<RunOptions>();
  options->problem = AddProblemOptions(*command, "KEY|NAME",
                                       "Template, or a tuning key whose parameters are taken");
  command->add_flag("--verify", options->verify,
                    "Also launch the template's reference and compare every output with its own");
  command
      ->add_option("--offset-elements", options->offset_elements,
                   "Begin every buffer this many elements behind an aligned address")
      ->check(CLI::Range(0, 1 << 20));
  command->callback([&environment, options] {
    environment.action = [&environment, options] { return Run(environment, *options); };
  });
}

}  // namespace hone::cli
