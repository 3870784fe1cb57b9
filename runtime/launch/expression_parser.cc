// Expression::Parse: a recursive-descent parser with C's precedences.
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/expression.h"
#include "runtime/launch/operators.h"

namespace hone {
namespace {

using Op = Expression::Op;

constexpr size_t kTextBytesMax = 4096;
// Each pair of parentheses counts twice, as an expression and as an operand of a prefix sign.
constexpr int kParserDepthMax = 2 * kExpressionDepthMax + 2;

// Longer signs first: "<" must not hide "<=".
constexpr std::array<std::pair<absl::string_view, Op>, 13> kInfix{{
    {"==", Op::kEq},
    {"!=", Op::kNe},
    {"<=", Op::kLe},
    {">=", Op::kGe},
    {"&&", Op::kAnd},
    {"||", Op::kOr},
    {"<", Op::kLt},
    {">", Op::kGt},
    {"+", Op::kAdd},
    {"-", Op::kSub},
    {"*", Op::kMul},
    {"/", Op::kDiv},
    {"%", Op::kMod},
}};

bool IsNameStart(char c) { return absl::ascii_isalpha(c) || c == '_'; }
bool IsNameRest(char c) { return absl::ascii_isalnum(c) || c == '_'; }

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Expression> ParseAll() {
    HONE_ASSIGN_OR_RETURN(Expression e, ParseSelect());
    SkipBlanks();
    if (at_ < text_.size()) return Expected("an operator or the end");
    return e;
  }

 private:
  void SkipBlanks() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }
  absl::string_view Rest() const { return text_.substr(at_); }
  bool StartsWith(absl::string_view sign) const { return Rest().substr(0, sign.size()) == sign; }
  bool Accept(absl::string_view sign) {
    SkipBlanks();
    if (!StartsWith(sign)) return false;
    at_ += sign.size();
    return true;
  }

  absl::Status ErrorAt(size_t at, absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat("column ", at + 1, ": ", message));
  }
  // What stands at the cursor, for messages: a name or number whole, else one character.
  std::string Found() const {
    if (at_ >= text_.size()) return "the end";
    size_t length = 1;
    if (IsNameRest(text_[at_])) {
      while (at_ + length < text_.size() && IsNameRest(text_[at_ + length])) ++length;
    }
    return absl::StrCat("'", text_.substr(at_, length), "'");
  }
  absl::Status Expected(absl::string_view what) {
    SkipBlanks();
    std::string message = absl::StrCat("expected ", what, " but found ", Found());
    if (StartsWith("=")) absl::StrAppend(&message, " (comparison is '==')");
    if (StartsWith("&")) absl::StrAppend(&message, " (and is '&&')");
    if (StartsWith("|")) absl::StrAppend(&message, " (or is '||')");
    return ErrorAt(at_, message);
  }
  absl::StatusOr<Expression> Make(size_t at, Op op, std::vector<Expression> operands) const {
    absl::StatusOr<Expression> made = Expression::Make(op, std::move(operands));
    if (!made.ok()) return ErrorAt(at, made.status().message());
    return made;
  }

  // Counts nesting for as long as it lives.
  class Level {
   public:
    explicit Level(int* depth) : depth_(depth) { ++*depth_; }
    ~Level() { --*depth_; }

   private:
    int* const depth_;
  };
  absl::Status CheckDepth() const {
    if (depth_ <= kParserDepthMax) return absl::OkStatus();
    return ErrorAt(at_, absl::StrCat("nested more than ", kExpressionDepthMax, " levels deep"));
  }

  absl::StatusOr<Expression> ParseSelect() {
    const Level level(&depth_);
    HONE_RETURN_IF_ERROR(CheckDepth());
    HONE_ASSIGN_OR_RETURN(Expression condition, ParseInfix(FactsOf(Op::kOr).precedence));
    SkipBlanks();
    const size_t at = at_;
    if (!Accept("?")) return condition;
    HONE_ASSIGN_OR_RETURN(Expression yes, ParseSelect());
    if (!Accept(":")) return Expected("':' of '?:'");
    HONE_ASSIGN_OR_RETURN(Expression no, ParseSelect());
    return Make(at, Op::kSelect, {std::move(condition), std::move(yes), std::move(no)});
  }

  // The infix sign at the cursor if it binds at least this tightly; not consumed.
  std::optional<std::pair<absl::string_view, Op>> PeekInfix(int precedence_min) {
    SkipBlanks();
    for (const auto& [sign, op] : kInfix) {
      if (!StartsWith(sign)) continue;
      if (FactsOf(op).precedence < precedence_min) return std::nullopt;
      return std::make_pair(sign, op);
    }
    return std::nullopt;
  }

  absl::StatusOr<Expression> ParseInfix(int precedence_min) {
    HONE_ASSIGN_OR_RETURN(Expression left, ParsePrefix());
    while (const auto infix = PeekInfix(precedence_min)) {
      const size_t at = at_;
      at_ += infix->first.size();
      HONE_ASSIGN_OR_RETURN(Expression right, ParseInfix(FactsOf(infix->second).precedence + 1));
      HONE_ASSIGN_OR_RETURN(left, Make(at, infix->second, {std::move(left), std::move(right)}));
    }
    return left;
  }

  absl::StatusOr<Expression> ParsePrefix() {
    const Level level(&depth_);
    HONE_RETURN_IF_ERROR(CheckDepth());
    SkipBlanks();
    const size_t at = at_;
    if (Accept("-")) {
      if (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) return ParseNumber(at, true);
      HONE_ASSIGN_OR_RETURN(Expression operand, ParsePrefix());
      return Make(at, Op::kNeg, {std::move(operand)});
    }
    if (!StartsWith("!=") && Accept("!")) {
      HONE_ASSIGN_OR_RETURN(Expression operand, ParsePrefix());
      return Make(at, Op::kNot, {std::move(operand)});
    }
    return ParsePrimary();
  }

  absl::StatusOr<Expression> ParsePrimary() {
    SkipBlanks();
    const size_t at = at_;
    if (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) return ParseNumber(at, false);
    if (at_ < text_.size() && IsNameStart(text_[at_])) return ParseName();
    if (!Accept("(")) return Expected("a number, a name or '('");
    HONE_ASSIGN_OR_RETURN(Expression e, ParseSelect());
    if (!Accept(")")) return Expected("')'");
    return e;
  }

  absl::StatusOr<Expression> ParseNumber(size_t at, bool negative) {
    const uint64_t limit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + negative;
    uint64_t value = 0;
    while (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) {
      const auto digit = static_cast<uint64_t>(text_[at_] - '0');
      if (value > (limit - digit) / 10) return ErrorAt(at, "the number does not fit 64 bits");
      value = value * 10 + digit;
      ++at_;
    }
    if (at_ < text_.size() && (IsNameStart(text_[at_]) || text_[at_] == '.')) {
      return ErrorAt(at_, absl::StrCat("a number must be a decimal integer, ", Found(),
                                       " cannot follow its digits"));
    }
    // Two's complement: also right for the least number, which has no positive counterpart.
    return Expression::Constant(static_cast<int64_t>(negative ? uint64_t{0} - value : value));
  }

  // Parts joined by '.' or '::', as in device.sm_count and act::relu.
  std::string ReadName() {
    const size_t begin = at_;
    while (true) {
      while (at_ < text_.size() && IsNameRest(text_[at_])) ++at_;
      const size_t joint = StartsWith("::") ? 2 : StartsWith(".") ? 1 : 0;
      if (joint == 0 || at_ + joint >= text_.size() || !IsNameStart(text_[at_ + joint])) break;
      at_ += joint;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  absl::StatusOr<Expression> ParseName() {
    const size_t at = at_;
    std::string name = ReadName();
    if (Accept("(")) return ParseCall(at, name);
    if (name == "true") return Expression::Constant(1);
    if (name == "false") return Expression::Constant(0);
    return Expression::Variable(std::move(name));
  }

  absl::StatusOr<Expression> ParseCall(size_t at, const std::string& name) {
    const OperatorFacts* function = FindFunction(name);
    if (function == nullptr) {
      return ErrorAt(at, absl::StrCat("no function '", name, "'; there are ", FunctionList()));
    }
    std::vector<Expression> operands;
    if (!Accept(")")) {
      do {
        HONE_ASSIGN_OR_RETURN(Expression operand, ParseSelect());
        operands.push_back(std::move(operand));
      } while (Accept(","));
      if (!Accept(")")) return Expected("',' or ')'");
    }
    return Make(at, function->op, std::move(operands));
  }

  const absl::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<Expression> Expression::Parse(absl::string_view text) {
  if (text.size() > kTextBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an expression of ", text.size(), " bytes; at most ", kTextBytesMax, " are allowed"));
  }
  return Parser(text).ParseAll();
}

}  // namespace hone
