#include "client/cli/pack_export.h"

#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/format.h"
#include "client/cpp/kernel_pack_writer.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

absl::StatusOr<v1::PackedTemplate> Describe(const Client& client, const std::string& digest) {
  HONE_ASSIGN_OR_RETURN(const v1::DescribeTemplateResponse described,
                        client.DescribeTemplate("", digest));
  v1::PackedTemplate packed;
  packed.set_name(described.template_().name());
  packed.set_digest(digest);
  auto& defaults = *packed.mutable_defaults();
  for (const v1::Parameter& parameter : described.template_().params()) {
    const std::string& name = parameter.name();
    if (parameter.has_dtype() && parameter.dtype().default_() != v1::DATA_TYPE_UNSPECIFIED) {
      defaults[name].set_text(v1::DataType_Name(parameter.dtype().default_()));
    }
    if (parameter.has_size()) {
      if (parameter.size().has_default_()) {
        defaults[name].set_integer(parameter.size().default_());
      }
      if (parameter.size().dynamic()) packed.add_dynamic_sizes(name);
    }
    if (parameter.has_choice() && !parameter.choice().default_().empty()) {
      defaults[name].set_text(parameter.choice().default_());
    }
    if (parameter.has_flag() && parameter.flag().has_default_()) {
      defaults[name].set_flag(parameter.flag().default_());
    }
  }
  return packed;
}

class Exporter {
 public:
  Exporter(const Client& client, const PackExportOptions& options, std::string daemon)
      : client_(client),
        options_(options),
        writer_({.made_at_unix_ms = options.made_at_unix_ms,
                 .made_by = std::move(daemon),
                 .allow_host_code = options.allow_host_code}) {}

  // Errors of the connection; what is wrong with one tuning is told in the report.
  absl::Status Take(const v1::TuningSummary& tuning) {
    HONE_RETURN_IF_ERROR(Take(tuning, v1::WITHIN_TOLERANCE));
    if (tuning.same_bits_config().empty()) return absl::OkStatus();
    return Take(tuning, v1::SAME_BITS_AS_DEFAULT);
  }

  absl::StatusOr<v1::PackExport> Write(const std::string& path) {
    if (writer_.empty()) {
      return absl::NotFoundError(absl::StrCat(
          "there is no kernel to export: ",
          report_.left_out().empty()
              ? "nothing is tuned"
              : absl::StrCat(report_.left_out_size(),
                             " left out; the first: ", report_.left_out(0).template_name(), " ",
                             FormatParams(report_.left_out(0).params()), ", ",
                             report_.left_out(0).reason())));
    }
    HONE_ASSIGN_OR_RETURN(
        const WrittenPack written,
        writer_.Write(path, [this](const std::string& sha256) -> absl::StatusOr<std::string> {
          HONE_ASSIGN_OR_RETURN(FetchedArtifact fetched, client_.GetArtifact(sha256));
          return std::move(fetched.bytes);
        }));
    report_.set_path(path);
    report_.set_digest(written.digest);
    report_.set_file_bytes(written.file_bytes);
    report_.set_kernels(written.kernels);
    report_.set_artifacts(written.artifacts);
    return report_;
  }

 private:
  absl::Status Take(const v1::TuningSummary& tuning, v1::Numerics numerics) {
    const auto leave_out = [&](absl::string_view reason) {
      v1::PackLeftOut& left_out = *report_.add_left_out();
      left_out.set_key(tuning.key());
      left_out.set_template_name(tuning.template_name());
      *left_out.mutable_params() = tuning.params();
      left_out.set_reason(absl::StrCat(
          reason, numerics == v1::SAME_BITS_AS_DEFAULT ? " (SAME_BITS_AS_DEFAULT)" : ""));
      return absl::OkStatus();
    };
    if (tuning.device().kind() == "cpu" && !options_.allow_host_code) {
      return leave_out("of the CPU reference device; packs carry no host code");
    }
    if (!tuning.has_winner()) return leave_out("no candidate was timed");
    v1::GetKernelRequest request;
    request.mutable_template_()->set_name(tuning.template_name());
    *request.mutable_params() = tuning.params();
    *request.mutable_target()->mutable_device() = tuning.device();
    request.set_policy(v1::FROZEN);
    request.set_inline_bytes_max(-1);
    request.set_numerics(numerics);
    absl::StatusOr<v1::GetKernelResponse> reply = client_.GetKernel(request);
    if (absl::IsUnavailable(reply.status())) return reply.status();
    if (!reply.ok()) return leave_out(reply.status().message());
    if (reply->key() != tuning.key()) {
      return leave_out("its template, or the daemon's way of measuring, has changed since");
    }
    if (reply->source() != v1::TUNED) {
      return leave_out(absl::StrCat("answered as ", SourceText(reply->source()),
                                    ", because its winner's binary is not stored; hone get "
                                    "compiles it"));
    }
    if (reply->stale() && !options_.stale) {
      return leave_out(absl::StrCat("stale: ", reply->stale_reason(), "; --stale takes it"));
    }
    const std::string& digest = reply->kernel().template_digest();
    if (described_.count(digest) == 0) {
      HONE_ASSIGN_OR_RETURN(described_[digest], Describe(client_, digest));
      HONE_RETURN_IF_ERROR(writer_.AddTemplate(described_[digest]));
    }
    const absl::Status added = writer_.Add(tuning.device(), numerics, *std::move(reply));
    return added.ok() ? added : leave_out(added.message());
  }

  const Client& client_;
  const PackExportOptions& options_;
  KernelPackWriter writer_;
  v1::PackExport report_;
  std::map<std::string, v1::PackedTemplate> described_;  // by digest
};

}  // namespace

absl::StatusOr<v1::PackExport> ExportPack(const Client& client, const std::string& path,
                                          const PackExportOptions& options) {
  HONE_ASSIGN_OR_RETURN(const v1::GetStatusResponse status, client.GetStatus());
  Exporter exporter(client, options, absl::StrCat("honed ", status.version()));
  std::set<std::string> templates(options.templates.begin(), options.templates.end());
  if (templates.empty()) templates.emplace();
  for (const std::string& name : templates) {
    HONE_ASSIGN_OR_RETURN(const std::vector<v1::TuningSummary> tunings,
                          client.ListTunings(name, std::numeric_limits<int>::max()));
    for (const v1::TuningSummary& tuning : tunings) HONE_RETURN_IF_ERROR(exporter.Take(tuning));
  }
  return exporter.Write(path);
}

}  // namespace hone::cli
