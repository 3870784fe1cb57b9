#include "server/template_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "runtime/base/status_macros.h"
#include "runtime/kernel/field_error.h"
#include "runtime/kernel/template_text.h"
#include "runtime/kernel/validate_template.h"

namespace hone {
namespace {

namespace fs = std::filesystem;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

constexpr size_t kTextBytesMax = 1 << 20;  // template.pbtxt, README.md
constexpr size_t kErrorsMax = 20;

// Collects "line:column: message", lines and columns from 1.
class Errors : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (errors_.size() < kErrorsMax) {
      errors_.push_back(absl::StrCat(line + 1, ":", column + 1, ": ", message));
    }
    ++count_;
  }
  void AddWarning(int line, int column, const std::string& message) override {
    AddError(line, column, message);
  }
  std::string Text() const {
    std::string text = absl::StrJoin(errors_, "; ");
    if (count_ > errors_.size()) absl::StrAppend(&text, "; and ", count_ - errors_.size(), " more");
    return text;
  }

 private:
  std::vector<std::string> errors_;
  size_t count_ = 0;
};

absl::Status ReadError(const std::string& path, int error) {
  const std::string text = absl::StrCat(path, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(text) : absl::FailedPreconditionError(text);
}

// A regular file of at most `bytes_max`. Never blocks: a FIFO is opened without waiting and
// refused.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t bytes_max) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return ReadError(path, errno);
  const auto close_file = absl::MakeCleanup([fd] { close(fd); });
  struct stat status;
  if (fstat(fd, &status) != 0) return ReadError(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a regular file"));
  }
  std::string content;
  std::vector<char> chunk(64 * 1024);
  while (true) {
    const ssize_t count = read(fd, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ReadError(path, errno);
    if (count == 0) return content;
    content.append(chunk.data(), static_cast<size_t>(count));
    if (content.size() > bytes_max) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is larger than ", bytes_max, " bytes"));
    }
  }
}

// The file's real path, if it lies in the directory.
absl::StatusOr<std::string> PathWithin(const std::string& directory, const std::string& name) {
  std::error_code error;
  const fs::path root = fs::canonical(directory, error);
  if (error) return ReadError(directory, error.value());
  const fs::path path = fs::canonical(root / name, error);
  if (error) return ReadError((fs::path(directory) / name).string(), error.value());
  if (!absl::StartsWith(path.string(), root.string() + "/")) {
    return absl::FailedPreconditionError(absl::StrCat(name, " is a link out of ", root.string()));
  }
  return path.string();
}

absl::StatusOr<std::string> ReadWithin(const std::string& directory, const std::string& name,
                                       size_t bytes_max) {
  HONE_ASSIGN_OR_RETURN(const std::string path, PathWithin(directory, name));
  return ReadRegularFile(path, bytes_max);
}

struct NamedFile {
  std::string field;
  std::string name;
  size_t bytes_max = 0;
  bool may_be_shared = false;
};

// Files a template names, each with the field that names it first.
std::vector<NamedFile> FilesOf(const v1::KernelTemplate& message) {
  std::vector<NamedFile> files;
  std::set<std::string> seen;
  const auto add = [&](std::string field, const std::string& name, size_t bytes_max,
                       bool may_be_shared = false) {
    if (!name.empty() && seen.insert(name).second)
      files.push_back({std::move(field), name, bytes_max, may_be_shared});
  };
  add("source", message.source(), TemplateLimits::kSourceBytes);
  for (int i = 0; i < message.variants_size(); ++i) {
    add(absl::StrCat("variants[", i, "].source"), message.variants(i).source(),
        TemplateLimits::kSourceBytes);
  }
  for (int i = 0; i < message.headers_size(); ++i) {
    add(absl::StrCat("headers[", i, "]"), message.headers(i), TemplateLimits::kHeaderBytes,
        /*may_be_shared=*/true);
  }
  for (int i = 0; i < message.prebuilt_size(); ++i) {
    add(absl::StrCat("prebuilt[", i, "].file"), message.prebuilt(i).file(),
        TemplateLimits::kPrebuiltBytes);
  }
  return files;
}

absl::Status ReadFiles(const std::string& directory, v1::KernelTemplate& message) {
  if (message.files_size() > 0) {
    return FieldError("files", "must be empty in a catalog directory: files are read from disk");
  }
  // Together they stay below what one template may have; the exact bounds are checked by use later.
  size_t bytes_left = TemplateLimits::kHeaderBytes + TemplateLimits::kPrebuiltBytes +
                      TemplateLimits::kVariants * TemplateLimits::kSourceBytes;
  for (const NamedFile& file : FilesOf(message)) {
    HONE_RETURN_IF_ERROR(CheckFileName(file.field, file.name));
    const size_t bytes_max = std::min(file.bytes_max, bytes_left);
    absl::StatusOr<std::string> content = ReadWithin(directory, file.name, bytes_max);
    if (file.may_be_shared && absl::IsNotFound(content.status())) {
      absl::StatusOr<std::string> shared =
          ReadWithin(fs::path(directory).parent_path().string(), "include/" + file.name, bytes_max);
      if (!absl::IsNotFound(shared.status())) content = std::move(shared);
    }
    if (!content.ok()) return AtField(file.field, content.status());
    bytes_left -= content->size();
    v1::SourceFile& added = *message.add_files();
    added.set_name(file.name);
    added.set_content(*std::move(content));
  }
  return absl::OkStatus();
}

// One step of a field path: "launch", or "steps" with index 0.
struct PathStep {
  std::string field;
  int index = -1;
};

std::vector<PathStep> SplitPath(const std::string& path) {
  std::vector<PathStep> steps;
  for (absl::string_view part : absl::StrSplit(path, '.')) {
    PathStep step;
    const size_t bracket = part.find('[');
    step.field = std::string(part.substr(0, bracket));
    if (bracket != absl::string_view::npos && part.back() == ']') {
      const absl::string_view digits = part.substr(bracket + 1, part.size() - bracket - 2);
      if (!absl::SimpleAtoi(digits, &step.index)) step.index = -1;
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

// Line and column of the deepest part of `path` that the text has.
TextFormat::ParseLocation Locate(const TextFormat::ParseInfoTree* tree, const std::string& path) {
  TextFormat::ParseLocation found;
  const google::protobuf::Descriptor* type = v1::KernelTemplate::descriptor();
  for (const PathStep& step : SplitPath(path)) {
    const FieldDescriptor* field =
        type == nullptr || tree == nullptr ? nullptr : type->FindFieldByName(step.field);
    if (field == nullptr) break;
    const int index = field->is_repeated() ? std::max(step.index, 0) : -1;
    const TextFormat::ParseLocation here = tree->GetLocation(field, index);
    if (here.line < 0) break;
    found = here;
    type = field->message_type();
    tree = type == nullptr ? nullptr : tree->GetTreeForNested(field, index);
  }
  return found;
}

}  // namespace

absl::Status ParseTemplateText(const std::string& text, v1::KernelTemplate& message,
                               TextFormat::ParseInfoTree* locations) {
  Errors errors;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  if (locations != nullptr) parser.WriteLocationsTo(locations);
  if (parser.ParseFromString(text, &message)) return absl::OkStatus();
  return absl::InvalidArgumentError(errors.Text());
}

absl::Status ReadTemplateDirectory(const std::string& directory, TemplateDirectory& out) {
  out.pbtxt_path = directory + "/template.pbtxt";
  HONE_ASSIGN_OR_RETURN(const std::string text,
                        ReadWithin(directory, "template.pbtxt", kTextBytesMax));
  HONE_RETURN_IF_ERROR(ParseTemplateText(text, out.message, &out.locations));
  HONE_RETURN_IF_ERROR(ReadFiles(directory, out.message));
  const absl::StatusOr<std::string> readme = ReadWithin(directory, "README.md", kTextBytesMax);
  if (readme.ok()) {
    // Shown to people and sent as a string, which must be UTF-8.
    out.readme = IsValidUtf8(*readme) ? *readme : "README.md is not valid UTF-8.\n";
  } else if (!absl::IsNotFound(readme.status())) {
    return readme.status();
  }
  return absl::OkStatus();
}

std::string LocateProblem(const TemplateDirectory& directory, const absl::Status& status) {
  const std::optional<std::string> field = FieldOf(status);
  if (!field.has_value()) {
    // A syntax error begins with its line and column.
    const std::vector<absl::string_view> parts =
        absl::StrSplit(status.message(), absl::MaxSplits(':', 2));
    int line = 0, column = 0;
    const bool has_place = parts.size() == 3 && absl::SimpleAtoi(parts[0], &line) &&
                           absl::SimpleAtoi(parts[1], &column);
    return has_place ? absl::StrCat(directory.pbtxt_path, ":", line, ":", column)
                     : directory.pbtxt_path;
  }
  const TextFormat::ParseLocation at = Locate(&directory.locations, *field);
  if (at.line < 0) return absl::StrCat(directory.pbtxt_path, " ", *field);
  return absl::StrCat(directory.pbtxt_path, ":", at.line + 1, ":", at.column + 1, " ", *field);
}

}  // namespace hone
