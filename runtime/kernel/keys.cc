#include "runtime/kernel/keys.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/sha256.h"

namespace hone {
namespace {

using Ingredients = std::vector<std::pair<std::string, std::string>>;

// Printable text for one side of a line; distinct inputs stay distinct.
std::string Escape(absl::string_view text, bool is_name) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\') {
      escaped += "\\\\";
    } else if (c == '\n') {
      escaped += "\\n";
    } else if (byte < 0x20 || byte == 0x7f || (is_name && c == '=')) {
      absl::StrAppend(&escaped, "\\x", std::string(1, kHex[byte >> 4]),
                      std::string(1, kHex[byte & 15]));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Indexed(absl::string_view name, size_t index) {
  return absl::StrCat(name, "[", index, "]");
}

void AddSource(const Program& program, const std::string& toolkit_headers_digest,
               Ingredients& ingredients) {
  ingredients.emplace_back("source", Sha256Hex(program.source));
  for (size_t i = 0; i < program.headers.size(); ++i) {
    // The name is what the source's #include finds it by; where it came from is not known here.
    ingredients.emplace_back(
        Indexed("header", i),
        absl::StrCat(program.headers[i].name, " ", Sha256Hex(program.headers[i].content)));
  }
  for (size_t i = 0; i < program.header_sets.size(); ++i) {
    ingredients.emplace_back(Indexed("header_set", i), program.header_sets[i]);
  }
  for (size_t i = 0; i < program.options.size(); ++i) {
    ingredients.emplace_back(Indexed("option", i), program.options[i]);
  }
  for (size_t i = 0; i < program.defines.size(); ++i) {
    ingredients.emplace_back(Indexed("define", i), absl::StrCat(program.defines[i].first, "=",
                                                                program.defines[i].second));
  }
  for (size_t i = 0; i < program.name_expressions.size(); ++i) {
    ingredients.emplace_back(Indexed("entry", i), program.name_expressions[i]);
  }
  ingredients.emplace_back("toolkit_headers", toolkit_headers_digest);
}

void AddPrebuilt(const Program& program, Ingredients& ingredients) {
  ingredients.emplace_back("prebuilt", Sha256Hex(program.prebuilt_bytes));
  for (size_t i = 0; i < program.prebuilt_symbols.size(); ++i) {
    ingredients.emplace_back(Indexed("symbol", i), program.prebuilt_symbols[i]);
  }
}

}  // namespace

Key::Key(std::vector<std::pair<std::string, std::string>> ingredients)
    : ingredients_(std::move(ingredients)), id_(Sha256Hex(Canonical())) {}

std::string Key::Canonical() const {
  std::string text;
  for (const auto& [name, value] : ingredients_) {
    absl::StrAppend(&text, Escape(name, true), "=", Escape(value, false), "\n");
  }
  return text;
}

std::vector<std::string> Key::Difference(const Key& other) const {
  std::map<std::string, std::string> theirs(other.ingredients_.begin(), other.ingredients_.end());
  std::vector<std::string> names;
  for (const auto& [name, value] : ingredients_) {
    const auto it = theirs.find(name);
    if (it == theirs.end() || it->second != value) names.push_back(name);
    if (it != theirs.end()) theirs.erase(it);
  }
  for (const auto& [name, value] : theirs) names.push_back(name);
  return names;
}

Key ArtifactKey(const Program& program, const std::string& toolkit_headers_digest) {
  Ingredients ingredients = {{"schema", absl::StrCat(kKeySchemaVersion)},
                             {"kind", "artifact"},
                             {"architecture", program.architecture}};
  if (program.prebuilt_bytes.empty()) {
    AddSource(program, toolkit_headers_digest, ingredients);
  } else {
    AddPrebuilt(program, ingredients);
  }
  return Key(std::move(ingredients));
}

Key TuningKey(const KernelTemplate& kernel_template, const Problem& problem,
              const DeviceFingerprint& device, const std::string& measuring_policy) {
  Ingredients ingredients = {{"schema", absl::StrCat(kKeySchemaVersion)},
                             {"kind", "tuning"},
                             {"template", kernel_template.name()},
                             {"kernel", kernel_template.kernel_digest()}};
  for (const auto& [name, value] : problem.values()) {
    ingredients.emplace_back(absl::StrCat("param.", name), ToString(value));
  }
  for (absl::string_view line : absl::StrSplit(device.Canonical(), '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> fact = absl::StrSplit(line, absl::MaxSplits('=', 1));
    ingredients.emplace_back(absl::StrCat("device.", fact.first), fact.second);
  }
  ingredients.emplace_back("policy", measuring_policy);
  return Key(std::move(ingredients));
}

}  // namespace hone
