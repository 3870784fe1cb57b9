#include "client/cli/captures.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/errors.h"
#include "client/cli/format.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "runtime/base/files.h"

namespace hone::cli {
namespace {

constexpr absl::string_view kPrefix = "capture-";
constexpr absl::string_view kSuffix = ".pbtxt";

// Deeper than any record; what is unknown is skipped level by level, on the stack.
constexpr int kNestingMax = 100;
// Longer than any template's or parameter's name, and than a chain's text.
constexpr size_t kTextBytesMax = 4096;

// Keeps the first error instead of printing it; what is unknown is a newer library's.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat("column ", column + 1, ": ", message);
  }
  void AddWarning(int, int, const std::string&) override {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// A record is printed, and sent to the daemon: whoever may write into the directory should have no
// say over the terminal. Returns the first text that is unfit, escaped; empty: none is.
std::string UnfitText(const v1::CapturedProblem& problem) {
  std::vector<absl::string_view> texts = {problem.template_().name(), problem.template_().digest(),
                                          problem.launched_digest(),
                                          problem.target().architecture(), problem.architecture()};
  for (const auto& [name, value] : problem.params()) {
    texts.push_back(name);
    texts.push_back(value.text());
  }
  for (const v1::CapturedBuffer& buffer : problem.buffers()) {
    texts.push_back(buffer.name());
    texts.push_back(buffer.contents_file());
  }
  for (const v1::CapturedScalar& scalar : problem.scalars()) texts.push_back(scalar.name());
  for (const absl::string_view text : texts) {
    const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
      return absl::ascii_isprint(static_cast<unsigned char>(c));
    });
    if (printable && text.size() <= kTextBytesMax) continue;
    return absl::StrCat("'", absl::CHexEscape(text.substr(0, 60)), "' (", text.size(),
                        " bytes) is no name or value: printable ASCII of at most ", kTextBytesMax,
                        " bytes is");
  }
  return "";
}

bool IsRegularFile(const std::string& path) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool HasContents(const v1::CapturedProblem& problem) {
  return std::any_of(
      problem.buffers().begin(), problem.buffers().end(),
      [](const v1::CapturedBuffer& buffer) { return !buffer.contents_file().empty(); });
}

// What a tune looks at, as text: maps are printed in the order of their keys.
std::string TuneIdentity(const v1::CapturedProblem& problem) {
  v1::CapturedProblem looked_at;
  *looked_at.mutable_template_() = problem.template_();
  *looked_at.mutable_params() = problem.params();
  *looked_at.mutable_target() = problem.target();
  looked_at.set_numerics(problem.numerics());
  std::string text;
  google::protobuf::TextFormat::PrintToString(looked_at, &text);
  return text;
}

class Merger {
 public:
  void Add(const std::string& file, const v1::CapturedProblem& problem) {
    const auto [found, is_new] = index_.try_emplace(TuneIdentity(problem), problems_.size());
    if (is_new) problems_.push_back({.problem = problem, .directory = DirectoryName(file)});
    CapturedLaunches& launches = problems_[found->second];
    if (files_[found->second].insert(file).second) ++launches.processes;
    if (is_new) return;
    v1::CapturedProblem& known = launches.problem;
    // Counts are the file's word.
    const int64_t room =
        std::numeric_limits<int64_t>::max() - std::max<int64_t>(0, known.launches());
    const int64_t together = known.launches() + std::min(room, problem.launches());
    const int64_t first = std::min(known.first_at_unix_ms(), problem.first_at_unix_ms());
    const int64_t last = std::max(known.last_at_unix_ms(), problem.last_at_unix_ms());
    if (HasContents(problem) && !HasContents(known)) {
      known = problem;
      launches.directory = DirectoryName(file);
    }
    known.set_launches(together);
    known.set_first_at_unix_ms(first);
    known.set_last_at_unix_ms(last);
  }

  std::vector<CapturedLaunches> Finish() && {
    std::stable_sort(problems_.begin(), problems_.end(), [](const auto& a, const auto& b) {
      return a.problem.launches() > b.problem.launches();
    });
    return std::move(problems_);
  }

 private:
  std::vector<CapturedLaunches> problems_;
  std::map<std::string, size_t> index_;
  std::map<size_t, std::set<std::string>> files_;
};

void AddLines(const std::string& file, absl::string_view text, Merger& merger,
              std::vector<std::string>& notes) {
  // What follows the last line's end was being written when the process was killed.
  const size_t end = text.rfind('\n');
  text = text.substr(0, end == absl::string_view::npos ? 0 : end + 1);
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    FirstError error;
    google::protobuf::TextFormat::Parser parser;
    parser.RecordErrorsTo(&error);
    parser.AllowUnknownField(true);
    parser.SetRecursionLimit(kNestingMax);
    v1::Capture capture;
    if (!parser.ParseFromString(std::string(line), &capture)) {
      notes.push_back(absl::StrCat(file, ":", number, ": ", error.text()));
      continue;
    }
    for (const v1::CapturedProblem& problem : capture.problem()) {
      if (const std::string unfit = UnfitText(problem); !unfit.empty()) {
        notes.push_back(absl::StrCat(file, ":", number, ": ", unfit));
      } else {
        merger.Add(file, problem);
      }
    }
  }
}

}  // namespace

std::string CapturedLaunches::Text() const {
  return absl::StrCat(problem.template_().name(), " ", FormatParams(problem.params()));
}

absl::StatusOr<Captures> ReadCaptures(const std::string& path) {
  Captures captures;
  Merger merger;
  if (!IsDirectory(path)) {
    const absl::StatusOr<std::string> text = ReadFile(path);
    if (!text.ok()) return InFile(text.status());
    AddLines(path, *text, merger, captures.notes);
    captures.problems = std::move(merger).Finish();
    return captures;
  }
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(path);
  if (!names.ok()) return InFile(names.status());
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, kPrefix) || !absl::EndsWith(name, kSuffix)) continue;
    const std::string file = JoinPath(path, name);
    if (!IsRegularFile(file)) {
      captures.notes.push_back(absl::StrCat(file, ": not a regular file"));
      continue;
    }
    const absl::StatusOr<std::string> text = ReadFile(file);
    if (text.ok()) {
      AddLines(file, *text, merger, captures.notes);
    } else {
      captures.notes.push_back(std::string(text.status().message()));
    }
  }
  captures.problems = std::move(merger).Finish();
  return captures;
}

std::map<std::string, std::string> ContentsOf(const CapturedLaunches& launches) {
  std::map<std::string, std::string> contents;
  for (const v1::CapturedBuffer& buffer : launches.problem.buffers()) {
    if (buffer.contents_file().empty()) continue;
    // Whoever wrote the record chose a name, not a way out of the directory.
    contents[buffer.name()] = JoinPath(launches.directory, BaseName(buffer.contents_file()));
  }
  return contents;
}

}  // namespace hone::cli
