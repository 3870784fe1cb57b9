// hone run KEY|NAME k=v..., hone run --from FILE
#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/captures.h"
#include "client/cli/cli.h"
#include "client/cli/errors.h"
#include "client/cli/kernel_run.h"
#include "client/cli/output_compare.h"
#include "client/cli/params.h"
#include "client/cli/problem_options.h"
#include "client/cli/reference_kernel.h"
#include "client/cli/run_report.h"
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
  v1::Numerics numerics = v1::WITHIN_TOLERANCE;
  int64_t offset_elements = 0;
  double max_wait_s = 120;  // people wait longer for a first compile than servers do
  std::string from;
  int number = 1;  // of the problem in `from`
};

// What was asked for, before the daemon is asked for the kernel.
struct Asked {
  v1::DescribeTemplateResponse described;
  Params params;              // of the template
  SizeBindings launch_sizes;  // other than those in `params`
  GivenInputs given;
  v1::Target target;
  v1::Numerics numerics = v1::WITHIN_TOLERANCE;
};

ParamValue FromProto(const v1::Value& value) {
  if (value.has_integer()) return value.integer();
  if (value.has_flag()) return value.flag();
  return value.text();
}

bool IsDynamicSize(const v1::KernelTemplate& kernel_template, const std::string& name) {
  for (const v1::Parameter& parameter : kernel_template.params()) {
    if (parameter.name() == name) return parameter.size().dynamic();
  }
  return false;
}

// With a key the kernel is fixed; only sizes that one binary serves may be others.
absl::Status AssignSize(const std::string& name, const std::string& text, Asked& asked) {
  if (!IsDynamicSize(asked.described.template_(), name)) {
    return UsageError(absl::StrCat(name,
                                   " is part of what the key stands for; to change it, name the "
                                   "template instead of the key"));
  }
  HONE_ASSIGN_OR_RETURN(asked.launch_sizes[name], ParseInteger(text));
  return absl::OkStatus();
}

// Assignments are parameters, or scalars that the template leaves to each launch.
absl::Status Assign(const std::vector<std::string>& arguments, bool by_key, Asked& asked) {
  std::set<std::string> per_launch;
  for (const v1::Argument& argument : asked.described.template_().arguments()) {
    if (argument.scalar().has_per_launch()) per_launch.insert(argument.name());
  }
  HONE_ASSIGN_OR_RETURN(const auto assignments, SplitAssignments(arguments));
  for (const auto& [name, text] : assignments) {
    if (per_launch.count(name) > 0) {
      if (absl::SimpleAtod(text, &asked.given.scalars[name])) continue;
      return UsageError(absl::StrCat(name, "=", text, ": this scalar needs a number"));
    }
    if (by_key) {
      HONE_RETURN_IF_ERROR(AssignSize(name, text, asked));
    } else {
      HONE_ASSIGN_OR_RETURN(asked.params[name], ParseParamValue(text));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Asked> Ask(const Client& client, const ProblemOptions& problem) {
  Asked asked;
  absl::StatusOr<v1::DescribeTemplateResponse> described = client.DescribeTemplate(problem.name);
  bool by_key = false;
  if (!described.ok() && absl::IsNotFound(described.status()) && LooksLikeKey(problem.name)) {
    by_key = true;
    HONE_ASSIGN_OR_RETURN(const v1::GetTuningResponse tuning, client.GetTuning(problem.name));
    for (const auto& [name, value] : tuning.summary().params()) {
      asked.params[name] = FromProto(value);
    }
    described = client.DescribeTemplate("", tuning.summary().template_digest());
    if (!described.ok()) described = client.DescribeTemplate(tuning.summary().template_name());
  }
  if (!described.ok()) return described.status();
  asked.described = *std::move(described);
  HONE_RETURN_IF_ERROR(Assign(problem.assignments, by_key, asked));
  asked.target = problem.ToTarget();
  return asked;
}

// A launch that a process recorded, with its scalars and the contents that were stored.
absl::StatusOr<Asked> AskCaptured(const Client& client, const RunOptions& options) {
  HONE_ASSIGN_OR_RETURN(const Captures captures, ReadCaptures(options.from));
  const auto number = static_cast<size_t>(options.number);
  if (number > captures.problems.size()) {
    return UsageError(absl::StrCat("--problem ", number, ": ", options.from, " has ",
                                   captures.problems.size(),
                                   "; hone tune --from FILE --list shows them"));
  }
  const CapturedLaunches& launches = captures.problems[number - 1];
  const v1::CapturedProblem& problem = launches.problem;
  Asked asked;
  HONE_ASSIGN_OR_RETURN(asked.described, client.DescribeTemplate(problem.template_().name(),
                                                                 problem.template_().digest()));
  for (const auto& [name, value] : problem.params()) asked.params[name] = FromProto(value);
  for (const v1::CapturedScalar& scalar : problem.scalars()) {
    asked.given.scalars[scalar.name()] = scalar.value();
  }
  asked.given.contents = ContentsOf(launches);
  for (const auto& [buffer, file] : asked.given.contents) {
    const auto& arguments = asked.described.template_().arguments();
    const bool known = std::any_of(arguments.begin(), arguments.end(), [&](const auto& argument) {
      return argument.has_buffer() && argument.name() == buffer;
    });
    if (known) continue;
    return InFile(absl::InvalidArgumentError(
        absl::StrCat("the record has contents of buffer '", buffer, "', and template ",
                     problem.template_().name(), " has none of that name")));
  }
  asked.target = problem.target();
  asked.numerics = problem.numerics();
  return asked;
}

absl::StatusOr<SizeBindings> SizesOf(const Kernel& kernel, const SizeBindings& others) {
  SizeBindings sizes = others;
  for (const std::string& name : kernel.dynamic_sizes()) {
    if (others.count(name) > 0) continue;
    const auto found = kernel.response().kernel().params().find(name);
    if (found == kernel.response().kernel().params().end() || !found->second.has_integer()) {
      return absl::InternalError(absl::StrCat("the daemon's answer has no size '", name, "'"));
    }
    sizes[name] = found->second.integer();
  }
  return sizes;
}

absl::Status CheckOutput(const v1::Check& check, const std::string& entry, KernelRun& served,
                         KernelRun& reference, RunReport& report) {
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
  report.Matched(check.output(), entry, tolerance, comparison);
  return absl::OkStatus();
}

// Compiling the reference takes the template's sources and headers.
absl::Status CheckSourcesArrived(const v1::DescribeTemplateResponse& described) {
  const v1::KernelTemplate& kernel_template = described.template_();
  std::set<std::string> needed(kernel_template.headers().begin(), kernel_template.headers().end());
  needed.insert(kernel_template.source());
  for (const v1::ArchitectureVariant& variant : kernel_template.variants()) {
    needed.insert(variant.source());
  }
  for (const std::string& name : described.files_left_out()) {
    if (needed.count(name) == 0) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("the template's files are too large to be sent here, ", name,
                     " among them; verify where they are: hone tune compares every candidate"));
  }
  return absl::OkStatus();
}

bool IsOptional(const v1::KernelTemplate& kernel_template, const std::string& buffer) {
  const auto& arguments = kernel_template.arguments();
  return std::any_of(arguments.begin(), arguments.end(), [&](const v1::Argument& argument) {
    return argument.name() == buffer && argument.buffer().optional();
  });
}

absl::Status Verify(const Client& client, RunDevice& device, const Kernel& kernel,
                    const Asked& asked, const SizeBindings& sizes, const RunOptions& options,
                    bool on_cpu, KernelRun& served, RunReport& report) {
  const v1::KernelTemplate& kernel_template = asked.described.template_();
  if (kernel_template.check_size() == 0) {
    return absl::FailedPreconditionError(
        "this template has no check, so there is nothing to verify against");
  }
  for (const v1::Check& check : kernel_template.check()) {
    if (check.chain().empty()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("'", check.output(), "' is checked by interpreting the chain ", check.chain(),
                     ", which measuring workers do; hone tune checks every candidate so"));
  }
  HONE_RETURN_IF_ERROR(CheckSourcesArrived(asked.described));
  for (int i = 0; i < kernel_template.check_size(); ++i) {
    const std::string& output = kernel_template.check(i).output();
    // An optional output may be none of this problem's.
    if (served.Find(output) == nullptr && IsOptional(kernel_template, output)) continue;
    HONE_ASSIGN_OR_RETURN(const ReferenceKernel reference,
                          CompileReference(client, kernel_template, i, kernel, on_cpu));
    HONE_ASSIGN_OR_RETURN(
        KernelRun run, KernelRun::Create(device, kernel, kernel_template, sizes,
                                         options.offset_elements, asked.given, kReferencePoison));
    HONE_RETURN_IF_ERROR(device.Prepare(reference.kernel));
    HONE_RETURN_IF_ERROR(run.Launch(reference.kernel).status());
    HONE_RETURN_IF_ERROR(
        CheckOutput(kernel_template.check(i), reference.entry, served, run, report));
  }
  report.Verified();
  return absl::OkStatus();
}

absl::Status RunKernelCommand(const Environment& environment, const RunOptions& options) {
  if (options.from.empty() && options.problem->name.empty()) {
    return UsageError("KEY|NAME is required, or --from with a capture directory or file");
  }
  // Whoever asks for a run on the CPU device wants the daemon's code to run here.
  HONE_ASSIGN_OR_RETURN(const Client client, environment.Connect(/*enable_cpu_device=*/true));
  HONE_ASSIGN_OR_RETURN(const Asked asked, options.from.empty() ? Ask(client, *options.problem)
                                                                : AskCaptured(client, options));
  GetKernelOptions get;
  get.template_name = asked.described.summary().name();
  get.template_digest = asked.described.summary().digest();
  get.params = asked.params;
  get.target = asked.target;
  get.numerics = options.from.empty() ? options.numerics : asked.numerics;
  get.max_wait = absl::Seconds(options.max_wait_s);
  HONE_ASSIGN_OR_RETURN(const Kernel kernel, client.GetKernel(get));
  const bool on_cpu = kernel.variants().front().artifact.format() == "HOST_ELF";
  RunReport report(environment.json);
  report.Asked(kernel, on_cpu ? "the CPU reference device"
                              : absl::StrCat("CUDA device ", options.problem->device));
  report.Captured(asked.given.contents);
  std::unique_ptr<RunDevice> device = OpenCpuDevice();
  if (!on_cpu) {
    HONE_ASSIGN_OR_RETURN(device, OpenCudaDevice(options.problem->device));
  }
  HONE_ASSIGN_OR_RETURN(const SizeBindings sizes, SizesOf(kernel, asked.launch_sizes));
  HONE_ASSIGN_OR_RETURN(KernelRun run,
                        KernelRun::Create(*device, kernel, asked.described.template_(), sizes,
                                          options.offset_elements, asked.given, kServedPoison));
  HONE_ASSIGN_OR_RETURN(const int index, kernel.ChooseVariant(run.arguments()));
  HONE_RETURN_IF_ERROR(device->Prepare(kernel));
  HONE_ASSIGN_OR_RETURN(const double ns, run.Launch(kernel));
  report.Launched(kernel, run.arguments(), index, ns);
  if (options.verify) {
    HONE_RETURN_IF_ERROR(
        Verify(client, *device, kernel, asked, sizes, options, on_cpu, run, report));
  }
  return report.Finish();
}

}  // namespace

void AddRun(CLI::App& app, Environment& environment) {
  CLI::App* command = app.add_subcommand(
      "run", "Launch the served kernel once on generated inputs; for profilers and for checking");
  command->group("Kernels");
  auto options = std::make_shared<RunOptions>();
  options->problem = AddProblemOptions(*command, "KEY|NAME",
                                       "Template, or a tuning key whose parameters are taken");
  AddNumericsOption(*command, &options->numerics);
  CLI::Option* const from = command->add_option(
      "--from", options->from,
      "Instead of NAME: a launch that a process with HONE_CAPTURE recorded, on the contents that "
      "were stored");
  from->type_name("DIR|FILE");
  command->get_option("KEY|NAME")->required(false);
  for (const char* other : {"KEY|NAME", "PARAM=VALUE", "--numerics", "--arch", "--driver"}) {
    from->excludes(command->get_option(other));
  }
  command
      ->add_option("--problem", options->number,
                   "Which one, as hone tune --from --list numbers them")
      ->check(CLI::PositiveNumber)
      ->needs(from)
      ->capture_default_str();
  command->add_flag("--verify", options->verify,
                    "Also launch the template's reference and compare every output with its own");
  command
      ->add_option("--offset-elements", options->offset_elements,
                   "Begin every buffer this many elements behind an aligned address")
      ->check(CLI::Range(0, 1 << 20));
  command->add_option("--max-wait", options->max_wait_s, "Seconds until the kernel must be there")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str();
  command->callback([&environment, options] {
    environment.action = [&environment, options] {
      return RunKernelCommand(environment, *options);
    };
  });
}

}  // namespace hone::cli
