// What `hone run` tells: lines as things happen, or one JSON object at the end.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "client/cli/output_compare.h"
#include "client/cpp/hone/kernel.h"
#include "google/protobuf/struct.pb.h"

namespace hone::cli {

class RunReport {
 public:
  explicit RunReport(bool json) : json_(json) {}

  // `device`: "CUDA device 0".
  void Asked(const Kernel& kernel, const std::string& device);
  // These buffers hold what was captured, by file.
  void Captured(const std::map<std::string, std::string>& contents);
  // Variant `index` was launched once and took `ns`; why earlier variants were not taken.
  void Launched(const Kernel& kernel, const LaunchArguments& arguments, int index, double ns);
  // An output was right.
  void Matched(const std::string& output, const std::string& reference,
               const OutputTolerance& tolerance, const OutputComparison& comparison);
  void Verified();
  // Ends a run that went well.
  absl::Status Finish();

 private:
  const bool json_;
  google::protobuf::Struct object_;
};

}  // namespace hone::cli
