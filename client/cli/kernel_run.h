// One launch of a served kernel on generated inputs, and its check.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/run_device.h"
#include "client/cpp/hone/kernel.h"
#include "hone/v1/kernel_template.pb.h"
#include "runtime/launch/buffer_extent.h"

namespace hone::cli {

// Inputs of a launch that are not generated.
struct GivenInputs {
  std::map<std::string, double> scalars;        // given per launch; others have their sample value
  std::map<std::string, std::string> contents;  // files with the bytes of buffers that are read
};

// Buffers of one launch on one device: laid out, filled, launched, read back. Every buffer lies
// between guard zones that a right kernel leaves alone.
class KernelRun {
 public:
  // `sizes`: the dynamic sizes. `offset_elements`: how far each buffer begins behind an aligned
  // address. `poison`: the byte outputs are filled with. Equal arguments give equal inputs.
  // Contents that are missing, or of another size than the buffer, are InFile errors.
  static absl::StatusOr<KernelRun> Create(RunDevice& device, const Kernel& kernel,
                                          const v1::KernelTemplate& kernel_template,
                                          const SizeBindings& sizes, int64_t offset_elements,
                                          const GivenInputs& given, unsigned char poison);

  const LaunchArguments& arguments() const { return arguments_; }
  // The device's time in ns. DATA_LOSS names a buffer around which the kernel wrote.
  absl::StatusOr<double> Launch(const Kernel& kernel);

  struct Buffer {
    DataType dtype;
    BufferExtent extent;
    int64_t span_bytes = 0;
    uint64_t address = 0;  // of the first element
  };
  // nullptr when there is none of that name.
  const Buffer* Find(const std::string& name) const;
  absl::StatusOr<std::string> Read(const Buffer& buffer);

 private:
  explicit KernelRun(RunDevice& device) : device_(&device) {}
  // `contents`: a file; empty: generated.
  absl::Status AddBuffer(const std::string& name, const RecipeBuffer& recipe,
                         const v1::Buffer& declared, const ExpressionBindings& bindings,
                         int64_t offset_elements, const std::string& contents,
                         unsigned char poison);
  absl::Status AddScratch(const std::string& name, const RecipeScratch& recipe);
  absl::Status CheckGuardZones();

  RunDevice* device_;
  LaunchArguments arguments_;
  std::map<std::string, Buffer> buffers_;
};

// How the template declares an argument on an architecture; nullptr: it does not.
const v1::Argument* FindArgument(const v1::KernelTemplate& kernel_template,
                                 const std::string& architecture, const std::string& name);

// An init's bound: an expression over parameters; empty is 0.
absl::StatusOr<int64_t> EvaluateBound(const std::string& text, const ExpressionBindings& bindings);

}  // namespace hone::cli
