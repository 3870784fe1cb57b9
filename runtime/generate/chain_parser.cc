// Text to chains: recursive descent, one method a rank of operators.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/generate/chain.h"

namespace hone {
namespace {

bool IsNameStart(char c) { return absl::ascii_isalpha(c) || c == '_'; }
bool IsNamePart(char c) { return absl::ascii_isalnum(c) || c == '_'; }

struct Token {
  enum class Kind { kEnd, kNumber, kName, kSymbol };
  Kind kind = Kind::kEnd;
  absl::string_view text;
  size_t at = 0;  // byte
  float number = 0;

  bool Is(absl::string_view symbol) const { return kind == Kind::kSymbol && text == symbol; }
};

absl::Status ErrorAt(size_t byte, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("column ", byte + 1, ": ", message));
}

// Printable whatever the bytes are.
std::string Shown(char c) {
  if (absl::ascii_isprint(c)) return absl::StrCat("'", std::string(1, c), "'");
  return absl::StrCat("byte 0x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
}

class Lexer {
 public:
  explicit Lexer(absl::string_view text) : text_(text) {}

  absl::StatusOr<Token> Next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    Token token;
    token.at = at_;
    if (at_ == text_.size()) return token;
    const char c = text_[at_];
    if (IsNameStart(c)) {
      token.kind = Token::Kind::kName;
      while (at_ < text_.size() && IsNamePart(text_[at_])) ++at_;
    } else if (absl::ascii_isdigit(c) || c == '.') {
      HONE_RETURN_IF_ERROR(Number(token));
    } else {
      HONE_RETURN_IF_ERROR(Symbol(token));
    }
    token.text = text_.substr(token.at, at_ - token.at);
    return token;
  }

 private:
  void Digits() {
    while (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) ++at_;
  }

  absl::Status Number(Token& token) {
    token.kind = Token::Kind::kNumber;
    Digits();
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      Digits();
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      Digits();
    }
    const char* const begin = text_.data() + token.at;
    const char* const end = text_.data() + at_;
    const absl::from_chars_result read = absl::from_chars(begin, end, token.number);
    if (read.ptr != end || (at_ < text_.size() && (IsNamePart(text_[at_]) || text_[at_] == '.'))) {
      return ErrorAt(token.at, "not a number like 2, 0.5 or 1e-3");
    }
    if (read.ec != std::errc() || !std::isfinite(token.number)) {
      return ErrorAt(token.at, "a number beyond the range of F32, 1.2e-38 to 3.4e38");
    }
    return absl::OkStatus();
  }

  absl::Status Symbol(Token& token) {
    token.kind = Token::Kind::kSymbol;
    const char c = text_[at_];
    const bool equals = at_ + 1 < text_.size() && text_[at_ + 1] == '=';
    if (absl::string_view("<>=!").find(c) != absl::string_view::npos && equals) {
      at_ += 2;
      return absl::OkStatus();
    }
    if (absl::string_view("+-*/(),<>").find(c) == absl::string_view::npos) {
      return ErrorAt(at_, absl::StrCat(Shown(c), " has no meaning here"));
    }
    ++at_;
    return absl::OkStatus();
  }

  absl::string_view text_;
  size_t at_ = 0;
};

// Whether a node computes by choosing among its operands or flipping a sign.
bool KeepsExactness(ChainOp op) {
  switch (op) {
    case ChainOp::kNegate:
    case ChainOp::kAbs:
    case ChainOp::kRelu:
    case ChainOp::kMin:
    case ChainOp::kMax:
    case ChainOp::kClamp:
    case ChainOp::kWhere:
      return true;
    default:
      return false;
  }
}

}  // namespace

// Not in the anonymous namespace: it makes Chains.
class ChainParser {
 public:
  ChainParser(absl::string_view text, const ChainNames& names) : lexer_(text), names_(names) {}

  absl::StatusOr<std::vector<Chain::Node>> Run() {
    HONE_RETURN_IF_ERROR(Advance());
    // Every node is an operand of this one or of its operands, so it is the last.
    HONE_RETURN_IF_ERROR(ParseValue().status());
    if (token_.kind != Token::Kind::kEnd) {
      return Expected("an operator or the end");
    }
    const bool reads = std::any_of(nodes_.begin(), nodes_.end(), [](const Chain::Node& node) {
      return node.op == ChainOp::kInput;
    });
    if (!reads) {
      return ErrorAt(0,
                     absl::StrCat("reads none of the inputs ", absl::StrJoin(names_.inputs, ", ")));
    }
    return std::move(nodes_);
  }

 private:
  absl::Status Advance() {
    HONE_ASSIGN_OR_RETURN(token_, lexer_.Next());
    return absl::OkStatus();
  }

  absl::Status Expected(absl::string_view what) const {
    const std::string found = token_.kind == Token::Kind::kEnd
                                  ? "the end"
                                  : absl::StrCat("\"", token_.text.substr(0, 40), "\"");
    return ErrorAt(token_.at, absl::StrCat("expected ", what, ", found ", found));
  }

  absl::Status Take(absl::string_view symbol) {
    if (!token_.Is(symbol)) return Expected(absl::StrCat("\"", symbol, "\""));
    return Advance();
  }

  absl::StatusOr<int> Add(size_t at, Chain::Node node) {
    node.exact = node.operands.empty() || KeepsExactness(node.op);
    for (const int operand : node.operands) {
      const Chain::Node& part = nodes_[static_cast<size_t>(operand)];
      node.exact = node.exact && (part.exact || part.condition);
    }
    // A sign is part of a number; -0 and 0 compare equal but are two numbers.
    const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const Chain::Node& other) {
      return other == node && std::signbit(other.number) == std::signbit(node.number);
    });
    if (found != nodes_.end()) return static_cast<int>(found - nodes_.begin());
    if (nodes_.size() >= ChainLimits::kNodes) {
      return ErrorAt(at,
                     absl::StrCat("more than ", ChainLimits::kNodes, " operators and operands"));
    }
    nodes_.push_back(std::move(node));
    return static_cast<int>(nodes_.size()) - 1;
  }

  // A level of nesting, so that no text exhausts the stack. ParsePrefix, through which all
  // recursion goes, opens one.
  class Level {
   public:
    explicit Level(int* depth) : depth_(depth) { ++*depth_; }
    ~Level() { --*depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int* depth_;
  };

  absl::Status CheckDepth() const {
    if (depth_ <= ChainLimits::kDepth) return absl::OkStatus();
    return ErrorAt(token_.at, absl::StrCat("nested more than ", ChainLimits::kDepth, " deep"));
  }

  absl::StatusOr<int> ParseValue() {
    const size_t at = token_.at;
    HONE_ASSIGN_OR_RETURN(const int value, ParseComparison());
    if (!nodes_[static_cast<size_t>(value)].condition) return value;
    return ErrorAt(at, "a condition where a value is expected; where(condition, x, y) makes one");
  }

  absl::StatusOr<int> ParseCondition() {
    const size_t at = token_.at;
    HONE_ASSIGN_OR_RETURN(const int value, ParseComparison());
    if (nodes_[static_cast<size_t>(value)].condition) return value;
    return ErrorAt(at, "a value where a condition like a < 0 is expected");
  }

  absl::StatusOr<int> ParseComparison() {
    const size_t left_at = token_.at;
    HONE_ASSIGN_OR_RETURN(const int left, ParseSum());
    constexpr std::pair<absl::string_view, ChainOp> kComparisons[] = {
        {"<", ChainOp::kLess},          {"<=", ChainOp::kLessEqual}, {">", ChainOp::kGreater},
        {">=", ChainOp::kGreaterEqual}, {"==", ChainOp::kEqual},     {"!=", ChainOp::kNotEqual}};
    for (const auto& [symbol, op] : kComparisons) {
      if (!token_.Is(symbol)) continue;
      HONE_RETURN_IF_ERROR(Advance());
      const size_t right_at = token_.at;
      HONE_ASSIGN_OR_RETURN(const int right, ParseSum());
      HONE_RETURN_IF_ERROR(CheckExact(left_at, left));
      HONE_RETURN_IF_ERROR(CheckExact(right_at, right));
      return Add(left_at, {.op = op, .operands = {left, right}, .condition = true});
    }
    return left;
  }

  absl::Status CheckExact(size_t at, int index) const {
    if (nodes_[static_cast<size_t>(index)].exact) return absl::OkStatus();
    return ErrorAt(at,
                   "a computed value in a comparison, where rounding would decide; compare "
                   "inputs, scalars and numbers, or min, max, abs, clamp of those");
  }

  absl::StatusOr<int> ParseSum() {
    const size_t at = token_.at;
    HONE_ASSIGN_OR_RETURN(int left, ParseProduct());
    while (token_.Is("+") || token_.Is("-")) {
      const ChainOp op = token_.Is("+") ? ChainOp::kAdd : ChainOp::kSubtract;
      HONE_RETURN_IF_ERROR(CheckValue(at, left));
      HONE_RETURN_IF_ERROR(Advance());
      const size_t right_at = token_.at;
      HONE_ASSIGN_OR_RETURN(const int right, ParseProduct());
      HONE_RETURN_IF_ERROR(CheckValue(right_at, right));
      HONE_ASSIGN_OR_RETURN(left, Add(at, {.op = op, .operands = {left, right}}));
    }
    return left;
  }

  absl::StatusOr<int> ParseProduct() {
    const size_t at = token_.at;
    HONE_ASSIGN_OR_RETURN(int left, ParsePrefix());
    while (token_.Is("*") || token_.Is("/")) {
      const ChainOp op = token_.Is("*") ? ChainOp::kMultiply : ChainOp::kDivide;
      HONE_RETURN_IF_ERROR(CheckValue(at, left));
      HONE_RETURN_IF_ERROR(Advance());
      const size_t right_at = token_.at;
      HONE_ASSIGN_OR_RETURN(const int right, ParsePrefix());
      HONE_RETURN_IF_ERROR(CheckValue(right_at, right));
      HONE_ASSIGN_OR_RETURN(left, Add(at, {.op = op, .operands = {left, right}}));
    }
    return left;
  }

  // A condition in parentheses is no operand.
  absl::Status CheckValue(size_t at, int index) const {
    if (!nodes_[static_cast<size_t>(index)].condition) return absl::OkStatus();
    return ErrorAt(at, "a condition where a value is expected; where(condition, x, y) makes one");
  }

  absl::StatusOr<int> ParsePrefix() {
    const Level level(&depth_);
    HONE_RETURN_IF_ERROR(CheckDepth());
    const size_t at = token_.at;
    if (!token_.Is("-")) return ParsePrimary();
    HONE_RETURN_IF_ERROR(Advance());
    const bool literal = token_.kind == Token::Kind::kNumber;
    if (literal) token_.number = -token_.number;
    HONE_ASSIGN_OR_RETURN(const int operand, ParsePrefix());
    if (literal) return operand;
    HONE_RETURN_IF_ERROR(CheckValue(at, operand));
    return Add(at, {.op = ChainOp::kNegate, .operands = {operand}});
  }

  absl::StatusOr<int> ParsePrimary() {
    const Token token = token_;
    if (token.kind == Token::Kind::kNumber) {
      HONE_RETURN_IF_ERROR(Advance());
      return Add(token.at, {.op = ChainOp::kNumber, .number = token.number});
    }
    if (token.Is("(")) {
      HONE_RETURN_IF_ERROR(Advance());
      HONE_ASSIGN_OR_RETURN(const int inner, ParseComparison());
      HONE_RETURN_IF_ERROR(Take(")"));
      return inner;
    }
    if (token.kind != Token::Kind::kName) return Expected("a value");
    HONE_RETURN_IF_ERROR(Advance());
    if (token_.Is("(")) return ParseCall(token);
    return ParseName(token);
  }

  absl::StatusOr<int> ParseName(const Token& name) {
    const auto find = [&](const std::vector<std::string>& names) {
      const auto found = std::find_if(names.begin(), names.end(),
                                      [&](const std::string& one) { return name.text == one; });
      return found == names.end() ? -1 : static_cast<int>(found - names.begin());
    };
    if (const int input = find(names_.inputs); input >= 0) {
      return Add(name.at, {.op = ChainOp::kInput, .index = input});
    }
    if (const int scalar = find(names_.scalars); scalar >= 0) {
      return Add(name.at, {.op = ChainOp::kScalar, .index = scalar});
    }
    if (FindChainFunction(name.text) != nullptr) {
      return ErrorAt(name.at, absl::StrCat(name.text, " needs its operands in parentheses"));
    }
    const std::string scalars =
        names_.scalars.empty() ? ""
                               : absl::StrCat(" and scalars ", absl::StrJoin(names_.scalars, ", "));
    return ErrorAt(name.at, absl::StrCat("\"", name.text.substr(0, 40), "\" is unknown; there are ",
                                         "inputs ", absl::StrJoin(names_.inputs, ", "), scalars));
  }

  absl::StatusOr<int> ParseCall(const Token& name) {
    const ChainFunction* function = FindChainFunction(name.text);
    if (function == nullptr) {
      return ErrorAt(name.at, absl::StrCat("no function \"", name.text.substr(0, 40),
                                           "\"; there are ", ChainFunctionNames()));
    }
    HONE_RETURN_IF_ERROR(Take("("));
    Chain::Node node{.op = function->op};
    while (true) {
      const bool condition = function->op == ChainOp::kWhere && node.operands.empty();
      HONE_ASSIGN_OR_RETURN(const int operand, condition ? ParseCondition() : ParseValue());
      node.operands.push_back(operand);
      if (!token_.Is(",") || node.operands.size() == function->operands) break;
      HONE_RETURN_IF_ERROR(Advance());
    }
    const bool complete = node.operands.size() == function->operands;
    if (!token_.Is(",") && !token_.Is(")")) return Expected(complete ? "\")\"" : "\",\"");
    if (!complete || token_.Is(",")) {
      return ErrorAt(token_.at, absl::StrCat(function->name, " takes ", function->operands,
                                             function->operands == 1 ? " operand" : " operands"));
    }
    HONE_RETURN_IF_ERROR(Take(")"));
    return Add(name.at, std::move(node));
  }

  Lexer lexer_;
  const ChainNames& names_;
  Token token_;
  int depth_ = 0;
  std::vector<Chain::Node> nodes_;
};

absl::StatusOr<Chain> Chain::Parse(absl::string_view text, const ChainNames& names) {
  if (text.size() > ChainLimits::kTextBytes) {
    return ErrorAt(ChainLimits::kTextBytes,
                   absl::StrCat("longer than ", ChainLimits::kTextBytes, " bytes"));
  }
  HONE_ASSIGN_OR_RETURN(std::vector<Node> nodes, ChainParser(text, names).Run());
  Chain chain(std::move(nodes), names);
  // ".1" is spelled "0.1", so this can be the longer of the two; it must be readable again.
  if (chain.text().size() <= ChainLimits::kTextBytes) return chain;
  return ErrorAt(text.size(),
                 absl::StrCat("in canonical form longer than ", ChainLimits::kTextBytes, " bytes"));
}

}  // namespace hone
