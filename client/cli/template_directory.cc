#include "client/cli/template_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/errors.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status_macros.h"

namespace hone::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

constexpr char kFileName[] = "template.pbtxt";
// The daemon takes no larger template; a mistyped path must not fill memory.
constexpr int64_t kFileBytesMax = 16 << 20;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a file"));
  if (info.st_size > kFileBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", info.st_size, " bytes; at most ", kFileBytesMax, " are allowed"));
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::strerror(errno)));
  return text.str();
}

// Keeps the first error of the parser.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  explicit FirstError(const std::string& path) : path_(path) {}
  void AddError(int line, int column, const std::string& message) override {
    if (!text_.empty()) return;
    text_ = line < 0 ? absl::StrCat(path_, ": ", message)
                     : absl::StrCat(path_, ":", line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  const std::string path_;
  std::string text_;
};

void CollectLocations(const google::protobuf::Message& message, TextFormat::ParseInfoTree* tree,
                      const std::string& prefix, std::map<std::string, std::string>& locations) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int index = field->is_repeated() ? i : -1;
      const TextFormat::ParseLocation at = tree->GetLocation(field, index);
      if (at.line < 0) continue;
      const std::string name =
          absl::StrCat(prefix, field->name(), index < 0 ? "" : absl::StrCat("[", index, "]"));
      locations[name] = absl::StrCat(at.line + 1, ":", at.column + 1);
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
      TextFormat::ParseInfoTree* nested = tree->GetTreeForNested(field, index);
      if (nested == nullptr) continue;
      const auto& child = index < 0
                              ? message.GetReflection()->GetMessage(message, field)
                              : message.GetReflection()->GetRepeatedMessage(message, field, index);
      CollectLocations(child, nested, name + ".", locations);
    }
  }
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

absl::Status AttachFiles(LocalTemplate& local) {
  if (local.message.files_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(local.path, ":", local.locations["files[0]"],
                     ": files are read from the directory and must not stand in template.pbtxt"));
  }
  std::set<std::string> names;
  const auto want = [&names](const std::string& name) {
    if (!name.empty()) names.insert(name);
  };
  want(local.message.source());
  for (const auto& variant : local.message.variants()) want(variant.source());
  for (const auto& prebuilt : local.message.prebuilt()) want(prebuilt.file());
  std::set<std::string> headers(local.message.headers().begin(), local.message.headers().end());
  names.insert(headers.begin(), headers.end());
  for (const std::string& name : names) {
    std::string path = absl::StrCat(local.directory, "/", name);
    // Templates side by side share the headers of include/.
    const std::string shared = absl::StrCat(local.directory, "/../include/", name);
    if (headers.count(name) > 0 && !Exists(path) && Exists(shared)) path = shared;
    absl::StatusOr<std::string> content = ReadFile(path);
    if (!content.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(content.status().message(), " (named in ", local.path, ")"));
    }
    v1::SourceFile* file = local.message.add_files();
    file->set_name(name);
    file->set_content(*std::move(content));
  }
  return absl::OkStatus();
}

bool IsDirectory(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// The field path at the beginning of a message: up to ": " or " ".
std::string FieldPath(absl::string_view message) {
  return std::string(message.substr(0, message.find_first_of(": ")));
}

}  // namespace

bool LooksLikePath(const std::string& argument) {
  return argument == "." || argument == ".." || absl::StrContains(argument, '/') ||
         absl::EndsWith(argument, ".pbtxt");
}

std::vector<std::string> FindTemplates(const std::string& path) {
  std::vector<std::string> found;
  std::error_code error;  // an unreadable directory has none; ReadTemplate says why
  if (!std::filesystem::exists(path + "/" + kFileName, error)) {
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      if (std::filesystem::exists(entry.path() / kFileName, error)) found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  if (found.empty()) found.push_back(path);
  return found;
}

absl::StatusOr<LocalTemplate> ReadTemplate(const std::string& path) {
  LocalTemplate local;
  local.path = IsDirectory(path) ? absl::StrCat(path, "/", kFileName) : path;
  const size_t slash = local.path.rfind('/');
  local.directory = slash == std::string::npos ? "." : local.path.substr(0, slash);
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(local.path));

  FirstError error(local.path);
  TextFormat::ParseInfoTree tree;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&tree);
  if (!parser.ParseFromString(text, &local.message)) {
    return absl::InvalidArgumentError(error.text());
  }
  CollectLocations(local.message, &tree, "", local.locations);
  HONE_RETURN_IF_ERROR(AttachFiles(local));
  return local;
}

absl::Status Located(const LocalTemplate& local, const absl::Status& status) {
  if (status.ok()) return status;
  std::string field = FieldPath(status.message());
  while (!field.empty()) {
    const auto found = local.locations.find(field);
    if (found != local.locations.end()) {
      absl::Status located(status.code(),
                           absl::StrCat(local.path, ":", found->second, ": ", status.message()));
      status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
        located.SetPayload(url, payload);
      });
      return InFile(std::move(located));
    }
    const size_t dot = field.rfind('.');
    field = dot == std::string::npos ? "" : field.substr(0, dot);
  }
  return status;
}

v1::KernelTemplate WithDevelopmentVersion(const v1::KernelTemplate& message) {
  // Maps must not make the same template look like another one.
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  v1::KernelTemplate renamed = message;
  renamed.set_version(absl::StrCat(message.version().empty() ? "0" : message.version(), "+dev.",
                                   Sha256Hex(bytes).substr(0, 8)));
  return renamed;
}

}  // namespace hone::cli
