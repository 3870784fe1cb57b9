#include "runtime/compile/compile_options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

// OK or an INVALID_ARGUMENT whose text says what is right.
using CheckValue = absl::Status (*)(absl::string_view value);

struct AllowedOption {
  absl::string_view name;    // without dashes, the normalised one
  absl::string_view alias;   // another long name; empty: none
  absl::string_view letter;  // attached or separate short form; empty: none
  CheckValue check;          // nullptr: a flag without a value
  bool repeats;
};

absl::Status Need(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("takes ", what));
}

absl::Status CheckBool(absl::string_view value) {
  return value == "true" || value == "false" ? absl::OkStatus() : Need("true or false");
}

absl::Status CheckStandard(absl::string_view value) {
  constexpr std::array<absl::string_view, 4> kKnown = {"c++11", "c++14", "c++17", "c++20"};
  return std::find(kKnown.begin(), kKnown.end(), value) != kKnown.end()
             ? absl::OkStatus()
             : Need(absl::StrJoin(kKnown, ", "));
}

absl::Status CheckNumber(absl::string_view value, int low, int high) {
  int number = 0;
  return absl::SimpleAtoi(value, &number) && number >= low && number <= high
             ? absl::OkStatus()
             : Need(absl::StrCat("a number from ", low, " to ", high));
}

absl::Status CheckRegisters(absl::string_view value) { return CheckNumber(value, 16, 255); }

absl::Status CheckDiagnostics(absl::string_view value) {
  for (absl::string_view number : absl::StrSplit(value, ',')) {
    if (!CheckNumber(number, 1, 99999).ok()) return Need("diagnostic numbers, as in 177,550");
  }
  return absl::OkStatus();
}

absl::Status CheckFastCompile(absl::string_view value) {
  constexpr std::array<absl::string_view, 4> kKnown = {"0", "min", "mid", "max"};
  return std::find(kKnown.begin(), kKnown.end(), value) != kKnown.end()
             ? absl::OkStatus()
             : Need(absl::StrJoin(kKnown, ", "));
}

absl::Status CheckUndefine(absl::string_view value) {
  return IsMacroName(value) ? absl::OkStatus() : Need("an identifier");
}

absl::Status CheckDefine(absl::string_view value) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(value, absl::MaxSplits('=', 1));
  const bool one_line = std::none_of(value.begin(), value.end(),
                                     [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  return IsMacroName(parts.first) && one_line ? absl::OkStatus()
                                              : Need("NAME or NAME=VALUE on one line");
}

absl::Status CheckInclude(absl::string_view value) {
  if (value == ".") return absl::OkStatus();
  if (absl::Status status = CheckRelativePath(value); !status.ok()) {
    return Need(absl::StrCat("a directory relative to the headers sent with the program; ",
                             status.message()));
  }
  return absl::OkStatus();
}

absl::Status CheckAssembler(absl::string_view value) {
  constexpr std::array<absl::string_view, 16> kKnown = {"-v",
                                                        "--verbose",
                                                        "--warn-on-spills",
                                                        "--warn-on-local-memory-usage",
                                                        "-O0",
                                                        "-O1",
                                                        "-O2",
                                                        "-O3",
                                                        "-dlcm=ca",
                                                        "-dlcm=cg",
                                                        "-dlcm=cs",
                                                        "-dlcm=cv",
                                                        "-dscm=cg",
                                                        "-dscm=cs",
                                                        "--allow-expensive-optimizations=true",
                                                        "--allow-expensive-optimizations=false"};
  for (absl::string_view part : absl::StrSplit(value, ',')) {
    if (std::find(kKnown.begin(), kKnown.end(), part) != kKnown.end()) continue;
    if (absl::ConsumePrefix(&part, "--register-usage-level=") && CheckNumber(part, 0, 10).ok()) {
      continue;
    }
    return Need(absl::StrCat(absl::StrJoin(kKnown, ", "), ", --register-usage-level=0..10"));
  }
  return absl::OkStatus();
}

// In the order of the result. Left out on purpose: everything that names a file (--pre-include,
// --time, --fdevice-time-trace, --create-pch, --use-pch, --pch-dir), everything that changes what
// the binary is (--gpu-architecture, --dlto, --relocatable-device-code), and NVRTC's own cache.
constexpr std::array<AllowedOption, 25> kAllowed = {{
    {"std", "", "", CheckStandard, false},
    {"include-path", "", "I", CheckInclude, true},
    {"define-macro", "", "D", CheckDefine, true},
    {"undefine-macro", "", "U", CheckUndefine, true},
    {"device-as-default-execution-space", "default-device", "", nullptr, false},
    {"device-int128", "", "", nullptr, false},
    {"device-float128", "", "", nullptr, false},
    {"builtin-move-forward", "", "", CheckBool, false},
    {"builtin-initializer-list", "", "", CheckBool, false},
    {"use_fast_math", "", "", nullptr, false},
    {"extra-device-vectorization", "", "", nullptr, false},
    {"fmad", "", "", CheckBool, false},
    {"ftz", "", "", CheckBool, false},
    {"prec-sqrt", "", "", CheckBool, false},
    {"prec-div", "", "", CheckBool, false},
    {"restrict", "", "", nullptr, false},
    {"maxrregcount", "", "", CheckRegisters, false},
    {"generate-line-info", "lineinfo", "", nullptr, false},
    {"device-debug", "G", "", nullptr, false},
    {"disable-warnings", "w", "", nullptr, false},
    {"diag-error", "", "", CheckDiagnostics, true},
    {"diag-suppress", "", "", CheckDiagnostics, true},
    {"diag-warn", "", "", CheckDiagnostics, true},
    {"ptxas-options", "Xptxas", "", CheckAssembler, true},
    {"Ofast-compile", "", "", CheckFastCompile, false},
}};

struct Match {
  size_t index = 0;
  absl::string_view spelling;
  std::optional<std::string> value;
};

std::string AllowedList() {
  std::vector<std::string> names;
  for (const AllowedOption& option : kAllowed) {
    names.push_back(absl::StrCat("--", option.name, option.check != nullptr ? "=" : ""));
    if (!option.alias.empty()) names.back() += absl::StrCat(" (-", option.alias, ")");
    if (!option.letter.empty()) names.back() += absl::StrCat(" (-", option.letter, ")");
  }
  return absl::StrJoin(names, ", ");
}

std::optional<Match> FindOption(absl::string_view token) {
  absl::string_view body = token;
  if (!absl::ConsumePrefix(&body, "-")) return std::nullopt;
  const bool two_dashes = absl::ConsumePrefix(&body, "-");
  const size_t equals = body.find('=');
  const absl::string_view name = body.substr(0, equals);
  for (size_t i = 0; i < kAllowed.size(); ++i) {
    if (name != kAllowed[i].name && (kAllowed[i].alias.empty() || name != kAllowed[i].alias)) {
      continue;
    }
    Match match{i, token, std::nullopt};
    if (equals != absl::string_view::npos) match.value = std::string(body.substr(equals + 1));
    return match;
  }
  for (size_t i = 0; i < kAllowed.size() && !two_dashes; ++i) {
    absl::string_view rest = body;
    if (kAllowed[i].letter.empty() || !absl::ConsumePrefix(&rest, kAllowed[i].letter)) continue;
    Match match{i, token, std::nullopt};
    if (!rest.empty()) match.value = std::string(rest);
    return match;
  }
  return std::nullopt;
}

std::string TrimDirectory(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  while (path.size() > 2 && absl::string_view(path).substr(0, 2) == "./") path.erase(0, 2);
  return path;
}

// Takes the value from the next element where the option needs one and has none.
absl::Status CompleteValue(const std::vector<std::string>& options, size_t& position,
                           Match& match) {
  const AllowedOption& allowed = kAllowed[match.index];
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("option '", match.spelling, "': ", what));
  };
  if (allowed.check == nullptr) {
    return match.value.has_value() ? error("takes no value") : absl::OkStatus();
  }
  if (!match.value.has_value()) {
    if (position + 1 >= options.size()) return error("needs a value");
    match.value = options[++position];
  }
  if (allowed.name == "include-path") match.value = TrimDirectory(*match.value);
  if (absl::Status status = allowed.check(*match.value); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("option '", match.spelling, "': value '",
                                                   *match.value, "': ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsMacroName(absl::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
         });
}

absl::StatusOr<std::vector<std::string>> NormalizeOptions(const std::vector<std::string>& options) {
  std::array<std::vector<std::string>, kAllowed.size()> found;
  for (size_t i = 0; i < options.size(); ++i) {
    std::optional<Match> match = FindOption(options[i]);
    if (!match.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("option '", options[i], "' is not allowed; allowed are ", AllowedList()));
    }
    HONE_RETURN_IF_ERROR(CompleteValue(options, i, *match));
    const AllowedOption& allowed = kAllowed[match->index];
    std::string text = absl::StrCat("--", allowed.name);
    if (match->value.has_value()) absl::StrAppend(&text, "=", *match->value);
    std::vector<std::string>& list = found[match->index];
    if (!allowed.repeats && !list.empty() && list.front() != text) {
      return absl::InvalidArgumentError(
          absl::StrCat("option '", text, "' contradicts '", list.front(), "'"));
    }
    // A second mention of the same thing changes nothing.
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
  }
  std::vector<std::string> normalized;
  for (std::vector<std::string>& list : found) {
    std::move(list.begin(), list.end(), std::back_inserter(normalized));
  }
  return normalized;
}

ParsedOption SplitOption(absl::string_view normalized) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(normalized, absl::MaxSplits('=', 1));
  return {parts.first, parts.second};
}

}  // namespace hone
