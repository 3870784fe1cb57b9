// copy_1d as it is served against the driver's device-to-device copy, on one GPU in one run: cold
// L2, CUDA events, sides interleaved, medians. usage: copy_bench [daemon endpoint]
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/hone/client.h"
#include "runtime/base/status_macros.h"
#include "tests/bench/bench_report.h"
#include "tests/gpu/bench_gpu.h"

namespace hone {
namespace {

constexpr int kRepetitions = 31;

absl::Status Measure(const Client& client, const BenchGpu& gpu, int64_t mib) {
  const int64_t bytes = mib << 20;
  const int64_t n = bytes / 4;
  const Params params{{"T", std::string("F32")}, {"n", n}};
  v1::TuneRequest tune;
  tune.mutable_template_()->set_name("copy_1d");
  for (const auto& [name, value] : params) (*tune.mutable_params())[name] = ToValue(value);
  HONE_ASSIGN_OR_RETURN(const v1::TuneFinished tuned,
                        client.Tune(tune, [](const v1::TuneEvent&) { return true; }));
  std::printf("%lld MiB: %lld candidates tuned in %.2f s, winner %s\n", static_cast<long long>(mib),
              static_cast<long long>(tuned.measured()), tuned.seconds(),
              tuned.winner().config().c_str());
  HONE_ASSIGN_OR_RETURN(const Kernel kernel,
                        client.GetKernel({.template_name = "copy_1d", .params = params}));

  HONE_ASSIGN_OR_RETURN(const CUdeviceptr src, gpu.Allocate(bytes));
  HONE_ASSIGN_OR_RETURN(const CUdeviceptr dst, gpu.Allocate(bytes));
  std::vector<uint32_t> sent(static_cast<size_t>(n)), received(sent.size());
  uint32_t state = 1;
  for (uint32_t& word : sent) word = state = state * 1664525u + 1013904223u;
  HONE_RETURN_IF_ERROR(gpu.Upload(src, sent));
  LaunchArguments arguments;
  arguments.sizes = {{"n", n}};
  arguments.buffers["dst"] = {.address = dst, .shape = {}, .strides = {}};
  arguments.buffers["src"] = {.address = src, .shape = {}, .strides = {}};
  const auto served = [&] { return kernel.Launch(arguments, nullptr); };
  const auto driver = [&] { return gpu.DriverCopy(dst, src, bytes); };
  HONE_RETURN_IF_ERROR(served());
  HONE_RETURN_IF_ERROR(gpu.Download(received, dst));
  if (received != sent) return absl::InternalError("the served copy_1d copied wrongly");
  HONE_RETURN_IF_ERROR(gpu.ColdTimeUs(driver).status());

  std::vector<double> ours, theirs;
  for (int i = 0; i < kRepetitions; ++i) {
    HONE_ASSIGN_OR_RETURN(const double a, gpu.ColdTimeUs(served));
    HONE_ASSIGN_OR_RETURN(const double b, gpu.ColdTimeUs(driver));
    ours.push_back(a);
    theirs.push_back(b);
  }
  gpu.Free(src);
  gpu.Free(dst);
  const auto gb_per_s = [bytes](double us) { return 2.0 * static_cast<double>(bytes) / us / 1e3; };
  PrintFigure({.figure = absl::StrCat("copy_1d_f32_", mib, "mib"),
               .value = gb_per_s(Percentile(ours, 0.5)),
               .unit = "GB/s",
               .peer = "cuMemcpyDtoDAsync",
               .peer_value = gb_per_s(Percentile(theirs, 0.5))});
  return absl::OkStatus();
}

absl::Status Run(const std::string& endpoint) {
  HONE_ASSIGN_OR_RETURN(const Client client, Client::Connect({.endpoint = endpoint}));
  HONE_ASSIGN_OR_RETURN(const BenchGpu gpu, BenchGpu::Open());
  for (const int64_t mib : {1, 16, 256, 4096}) HONE_RETURN_IF_ERROR(Measure(client, gpu, mib));
  return absl::OkStatus();
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  hone::PrintMachine();
  const absl::Status status = hone::Run(argc > 1 ? argv[1] : "");
  if (!status.ok()) std::fprintf(stderr, "copy_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
