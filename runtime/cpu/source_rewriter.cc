#include "runtime/cpu/source_rewriter.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hone {
namespace {

constexpr absl::string_view kShared = "__shared__";

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// End of the comment or literal that starts at `at`, or `at` if none does.
size_t SkipOpaque(absl::string_view text, size_t at) {
  const absl::string_view rest = text.substr(at);
  const auto after = [&](size_t found, size_t length) {
    return found == absl::string_view::npos ? text.size() : found + length;
  };
  if (absl::StartsWith(rest, "//")) return after(text.find('\n', at), 0);
  if (absl::StartsWith(rest, "/*")) return after(text.find("*/", at + 2), 2);
  if (absl::StartsWith(rest, "R\"") && (at == 0 || !IsWord(text[at - 1]))) {
    const size_t open = text.find('(', at);
    if (open == absl::string_view::npos) return text.size();
    const std::string close = absl::StrCat(")", text.substr(at + 2, open - at - 2), "\"");
    return after(text.find(close, open), close.size());
  }
  // A quote within a number is a digit separator.
  const bool quote = rest[0] == '"' || (rest[0] == '\'' && (at == 0 || !IsWord(text[at - 1])));
  if (!quote) return at;
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == rest[0] || text[i] == '\n') {
      return i + 1;
    }
  }
  return text.size();
}

size_t WordEnd(absl::string_view text, size_t at) {
  while (at < text.size() && IsWord(text[at])) ++at;
  return at;
}

size_t SkipSpace(absl::string_view text, size_t at) {
  while (at < text.size()) {
    if (std::isspace(static_cast<unsigned char>(text[at])) != 0) {
      ++at;
    } else if (absl::StartsWith(text.substr(at), "//") || absl::StartsWith(text.substr(at), "/*")) {
      at = SkipOpaque(text, at);
    } else {
      break;
    }
  }
  return at;
}

// Past the ')' of the '(' at `at`; npos if it never closes.
size_t PastParentheses(absl::string_view text, size_t at) {
  int depth = 0;
  for (size_t i = at; i < text.size();) {
    const size_t skipped = SkipOpaque(text, i);
    if (skipped != i) {
      i = skipped;
      continue;
    }
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0) return i + 1;
    ++i;
  }
  return absl::string_view::npos;
}

std::string NewlinesOf(absl::string_view text) {
  return std::string(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), '\n');
}

// `declaration` without the words that only place the variable, and without comments.
std::string WithoutPlacement(absl::string_view declaration) {
  std::string result;
  for (size_t at = 0; at < declaration.size();) {
    const size_t skipped = SkipOpaque(declaration, at);
    if (skipped != at) {
      result += ' ';
      at = skipped;
      continue;
    }
    if (!IsWord(declaration[at]) || (at > 0 && IsWord(declaration[at - 1]))) {
      result += declaration[at] == '\n' ? ' ' : declaration[at];
      ++at;
      continue;
    }
    const size_t end = WordEnd(declaration, at);
    const absl::string_view word = declaration.substr(at, end - at);
    at = end;
    if (word == "extern" || word == kShared || word == "static") continue;
    if (word == "alignas" || word == "__align__" || word == "__attribute__") {
      const size_t open = SkipSpace(declaration, end);
      const size_t close = PastParentheses(declaration, open);
      if (close != absl::string_view::npos) at = close;
      continue;
    }
    absl::StrAppend(&result, word);
  }
  return result;
}

// What `extern ... ;` becomes, or nullopt if it does not declare shared memory of open size.
std::optional<std::string> RewriteExtern(absl::string_view declaration) {
  if (!absl::StrContains(declaration, kShared)) return std::nullopt;
  std::string text = WithoutPlacement(declaration);
  const size_t bracket = text.rfind('[');
  if (bracket == std::string::npos) return std::nullopt;
  const std::string after(absl::StripAsciiWhitespace(text.substr(bracket + 1)));
  if (after.empty() || after.front() != ']') return std::nullopt;
  text = std::string(absl::StripAsciiWhitespace(text.substr(0, bracket)));
  size_t name = text.size();
  while (name > 0 && IsWord(text[name - 1])) --name;
  if (name == 0 || name == text.size()) return std::nullopt;
  const std::string type(absl::StripAsciiWhitespace(text.substr(0, name)));
  return absl::StrCat(type, "* const ", text.substr(name), " = reinterpret_cast<", type,
                      "*>(::hone_cpu::dynamic_shared)", NewlinesOf(declaration), ";");
}

// Declarations end at ';' outside of brackets; a '{' means that this was something else.
size_t DeclarationEnd(absl::string_view text, size_t at) {
  while (at < text.size()) {
    const size_t skipped = SkipOpaque(text, at);
    if (skipped != at) {
      at = skipped;
    } else if (text[at] == ';') {
      return at + 1;
    } else if (text[at] == '{' || text[at] == '}') {
      return absl::string_view::npos;
    } else {
      ++at;
    }
  }
  return absl::string_view::npos;
}

}  // namespace

std::string RewriteForHost(absl::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (size_t at = 0; at < source.size();) {
    const size_t skipped = SkipOpaque(source, at);
    if (skipped != at) {
      absl::StrAppend(&result, source.substr(at, skipped - at));
      at = skipped;
      continue;
    }
    if (!IsWord(source[at])) {
      result += source[at++];
      continue;
    }
    const size_t end = WordEnd(source, at);
    const absl::string_view word = source.substr(at, end - at);
    if (word == "extern" || word == kShared) {
      const size_t stop = DeclarationEnd(source, at);
      if (stop != absl::string_view::npos) {
        const absl::string_view declaration = source.substr(at, stop - at);
        if (absl::StrContains(declaration, "extern")) {
          if (std::optional<std::string> rewritten = RewriteExtern(declaration)) {
            absl::StrAppend(&result, *rewritten);
            at = stop;
            continue;
          }
        }
      }
      const size_t next = SkipSpace(source, end);
      if (word == kShared && absl::StartsWith(source.substr(next), "alignas")) {
        const size_t close = PastParentheses(source, source.find('(', next));
        if (close != absl::string_view::npos) {
          absl::StrAppend(&result, source.substr(next, close - next), " ", kShared,
                          source.substr(end, next - end));
          at = close;
          continue;
        }
      }
    }
    absl::StrAppend(&result, word);
    at = end;
  }
  return result;
}

}  // namespace hone
