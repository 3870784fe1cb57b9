#include "client/cpp/pack_resolver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/kernel_pack_format.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/device_fingerprint_proto.h"

namespace hone {
namespace {

using ParamMap = google::protobuf::Map<std::string, v1::Value>;

// In a message that names what there is.
constexpr size_t kNamedMax = 5;

std::string Listed(const std::set<std::string>& names) {
  const auto end = names.size() <= kNamedMax ? names.end() : std::next(names.begin(), kNamedMax);
  return absl::StrCat(
      absl::StrJoin(names.begin(), end, ", "),
      names.size() > kNamedMax ? absl::StrCat(" and ", names.size() - kNamedMax, " more") : "");
}

ParamMap FixedParams(const v1::PackedTemplate& packed, ParamMap params) {
  for (const std::string& name : packed.dynamic_sizes()) params.erase(name);
  return params;
}

std::string GroupKey(int template_index, v1::Numerics numerics, const ParamMap& fixed) {
  return absl::StrCat(template_index, "\n", static_cast<int>(numerics), "\n",
                      PackedParamsText(fixed));
}

double Log2(int64_t size) { return std::log2(static_cast<double>(std::max<int64_t>(size, 1))); }

// How far a kernel's dynamic sizes are from those asked for; 0 for equal ones only.
double Distance(const v1::PackedTemplate& packed, const ParamMap& asked, const ParamMap& has) {
  double distance = 0;
  for (const std::string& name : packed.dynamic_sizes()) {
    const auto there = has.find(name);
    if (there == has.end()) return std::numeric_limits<double>::infinity();
    const int64_t a = asked.at(name).integer(), b = there->second.integer();
    if (a == b) continue;
    // Sizes 0 and 1, or very large neighbours, are not the same.
    distance += std::max(std::abs(Log2(a) - Log2(b)), 1e-9);
  }
  return distance;
}

std::string Described(const v1::DeviceFingerprint& device) {
  return absl::StrCat(device.architecture(), " with ", device.sm_count(),
                      device.kind() == "cpu" ? " cores" : " SMs",
                      device.slice().empty() ? "" : absl::StrCat(", ", device.slice()));
}

// How a kernel fits the target: 0 as if made for it, 1 for another device of its architecture;
// nullopt: not at all.
std::optional<int> Fit(const v1::Target& target, const v1::PackedKernel& kernel,
                       const v1::KernelPackIndex& index) {
  const v1::DeviceFingerprint& device = index.devices(kernel.device_index());
  const bool named = !target.architecture().empty() && target.architecture() != "auto";
  if (target.has_device()) {
    if (named && target.architecture() != kernel.architecture()) return std::nullopt;
    if (FromProto(target.device()) == FromProto(device)) return 0;
    const bool same = target.device().kind() == device.kind() &&
                      target.device().architecture() == device.architecture();
    return same ? std::optional<int>(1) : std::nullopt;
  }
  const bool fits = named ? target.architecture() == kernel.architecture() ||
                                target.architecture() == device.architecture()
                          : index.devices_size() == 1;
  return fits ? std::optional<int>(0) : std::nullopt;
}

std::string Described(const v1::Target& target) {
  if (target.has_device()) return absl::StrCat("a device ", Described(target.device()));
  if (!target.architecture().empty() && target.architecture() != "auto") {
    return target.architecture();
  }
  return "a request that names no device";
}

}  // namespace

PackResolver::PackResolver(const v1::KernelPackIndex& index) : index_(index) {
  for (int i = 0; i < index_.templates_size(); ++i) templates_[index_.templates(i).name()] = i;
  for (int i = 0; i < index_.kernels_size(); ++i) {
    const v1::PackedKernel& kernel = index_.kernels(i);
    const ParamMap fixed = FixedParams(index_.templates(kernel.template_index()), kernel.params());
    groups_[GroupKey(kernel.template_index(), kernel.numerics(), fixed)].push_back(i);
  }
}

absl::StatusOr<PackMatch> PackResolver::Resolve(const GetKernelOptions& request,
                                                bool cpu_device_enabled) const {
  const std::string& name = request.template_name;
  const auto found = templates_.find(name);
  if (found == templates_.end()) {
    std::set<std::string> names;
    for (const v1::PackedTemplate& each : index_.templates()) names.insert(each.name());
    return absl::NotFoundError(absl::StrCat("has no kernel of template '", name, "'; it has ",
                                            names.empty() ? "none at all" : Listed(names)));
  }
  const v1::PackedTemplate& packed = index_.templates(found->second);
  if (!request.template_digest.empty() && request.template_digest != packed.digest()) {
    return absl::NotFoundError(absl::StrCat("has template ", name, " with digest ", packed.digest(),
                                            ", not ", request.template_digest));
  }
  PackMatch match;
  match.params = packed.defaults();
  for (const auto& [param, value] : request.params) match.params[param] = ToValue(value);
  for (const std::string& size : packed.dynamic_sizes()) {
    const auto given = match.params.find(size);
    if (given == match.params.end() || !given->second.has_integer()) {
      return absl::InvalidArgumentError(
          absl::StrCat("has template ", name, ", which needs params.", size, ", a number that is ",
                       given == match.params.end()
                           ? "not given"
                           : absl::StrCat("'", PackedValueText(given->second), "' here")));
    }
    // The template's own domain is not in a pack; no size of any template is below 0.
    if (given->second.integer() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("params.", size, " is ",
                                                     given->second.integer(),
                                                     ", which is not an integer of at least 0"));
    }
  }
  const ParamMap fixed = FixedParams(packed, match.params);
  const auto group = groups_.find(GroupKey(found->second, request.numerics, fixed));
  if (group == groups_.end()) {
    std::set<std::string> others;
    for (const v1::PackedKernel& kernel : index_.kernels()) {
      if (kernel.template_index() != found->second) continue;
      others.insert(absl::StrCat(
          PackedParamsText(FixedParams(packed, kernel.params())),
          kernel.numerics() == v1::SAME_BITS_AS_DEFAULT ? " (SAME_BITS_AS_DEFAULT)" : ""));
    }
    return absl::NotFoundError(
        absl::StrCat("has no kernel of ", name, " for ", PackedParamsText(fixed),
                     request.numerics == v1::SAME_BITS_AS_DEFAULT ? " (SAME_BITS_AS_DEFAULT)" : "",
                     "; it has ", Listed(others)));
  }

  std::tuple<int, double> best{std::numeric_limits<int>::max(), 0};
  std::set<std::string> devices, sizes;
  std::optional<int> later_driver;
  bool for_cpu = false;
  for (const int candidate : group->second) {
    const v1::PackedKernel& kernel = index_.kernels(candidate);
    const std::optional<int> fit = Fit(request.target, kernel, index_);
    const double distance = Distance(packed, match.params, kernel.params());
    const int32_t driver = request.target.driver_version();
    if (!fit || std::isinf(distance)) {
      devices.insert(Described(index_.devices(kernel.device_index())));
    } else if (request.numerics == v1::SAME_BITS_AS_DEFAULT && distance > 0) {
      sizes.insert(PackedParamsText(kernel.params()));
    } else if (kernel.architecture() == "cpu" && !cpu_device_enabled) {
      for_cpu = true;
    } else if (driver > 0 && driver < kernel.min_driver()) {
      later_driver = std::min(later_driver.value_or(kernel.min_driver()), kernel.min_driver());
    } else if (const std::tuple<int, double> rank{*fit, distance}; rank < best) {
      best = rank;
      match.kernel = candidate;
    }
  }
  const std::string asked = absl::StrCat(name, " ", PackedParamsText(match.params));
  if (std::get<0>(best) != std::numeric_limits<int>::max()) {
    match.exact = std::get<1>(best) == 0;
    if (std::get<0>(best) > 0) {
      match.stale_reason =
          absl::StrCat("timed on another device: ",
                       Described(index_.devices(index_.kernels(match.kernel).device_index())));
    }
    return match;
  }
  if (later_driver) {
    return absl::FailedPreconditionError(
        absl::StrCat("has ", asked, " for a CUDA driver of version ", *later_driver,
                     " or later, this one is ", request.target.driver_version()));
  }
  if (for_cpu) {
    return absl::FailedPreconditionError(absl::StrCat(
        "has ", asked, " for the CPU reference device, which enable_cpu_device would allow"));
  }
  if (!sizes.empty()) {
    return absl::NotFoundError(absl::StrCat("has no kernel with the default's bits for ", asked,
                                            "; it has ", Listed(sizes),
                                            ", and bits are promised for these sizes only"));
  }
  return absl::NotFoundError(absl::StrCat("has no kernel of ", asked, " for ",
                                          Described(request.target), "; it has it for ",
                                          Listed(devices)));
}

}  // namespace hone
