// Random trees and random text: print, parse, fold and evaluate agree, and nothing crashes.
#include <random>
#include <string>
#include <vector>

#include "runtime/launch/expression.h"
#include "runtime/launch/operators.h"
#include "runtime/launch/recipe_proto.h"
#include "tests/testing/status_matchers.h"

namespace hone {
namespace {

using Op = Expression::Op;

const std::vector<std::string>& Names() {
  static const auto& names = *new std::vector<std::string>{"a", "b", "n", "device.sm_count"};
  return names;
}

class RandomTrees {
 public:
  explicit RandomTrees(uint64_t seed) : random_(seed) {}

  int Below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }

  int64_t Number() {
    static constexpr int64_t kEdges[] = {0,         1,         -1, 2,  3,  7,   16,  1000,
                                         INT64_MAX, INT64_MIN, -5, 64, 31, 128, -64, 255};
    return kEdges[static_cast<size_t>(Below(16))];
  }

  // Without sizeof and bits, which need types.
  Expression Tree(int depth) {
    if (depth <= 1 || Below(5) == 0) {
      return Below(2) == 0 ? Expression::Constant(Number())
                           : Expression::Variable(Names()[static_cast<size_t>(Below(4))]);
    }
    const auto op = static_cast<Op>(2 + Below(static_cast<int>(Op::kLog2) - 1));
    const OperatorFacts& facts = FactsOf(op);
    const int count = facts.operands_max < 0 ? 1 + Below(4) : facts.operands_max;
    std::vector<Expression> operands;
    for (int i = 0; i < count; ++i) operands.push_back(Tree(depth - 1));
    return *Expression::Make(op, operands);
  }

  std::string Text(int length) {
    static constexpr absl::string_view kPieces[] = {
        "a", "n", "1",  "0",    " ",       "(",     ")",  "-",  "!", "+",
        "*", "/", "%",  "<",    "<=",      "==",    "&&", "||", "?", ":",
        ",", ".", "::", "min(", "sizeof(", "log2(", "99", "&",  "=", "$"};
    std::string text;
    for (int i = 0; i < length; ++i) text += std::string(kPieces[static_cast<size_t>(Below(30))]);
    return text;
  }

 private:
  std::mt19937_64 random_;
};

TEST(ExpressionRoundTripTest, PrintedTreesReadBackEqual) {
  RandomTrees trees(1);
  for (int i = 0; i < 5000; ++i) {
    const Expression tree = trees.Tree(6);
    const std::string text = tree.ToString();
    if (text.size() > 4096) continue;
    absl::StatusOr<Expression> parsed = Expression::Parse(text);
    ASSERT_THAT(parsed, IsOk()) << text;
    // Not only the same text: the message form shows the tree itself.
    ASSERT_EQ(ToProto(*parsed).SerializeAsString(), ToProto(tree).SerializeAsString()) << text;
  }
}

TEST(ExpressionRoundTripTest, MessagesReadBackEqual) {
  RandomTrees trees(2);
  for (int i = 0; i < 2000; ++i) {
    const Expression tree = trees.Tree(6);
    absl::StatusOr<Expression> read = FromProto(ToProto(tree));
    ASSERT_THAT(read, IsOk());
    ASSERT_EQ(*read, tree);
  }
}

TEST(ExpressionRoundTripTest, BoundTreesEvaluateAsUnboundOnes) {
  RandomTrees trees(3);
  int compared = 0;
  for (int i = 0; i < 5000; ++i) {
    const Expression tree = trees.Tree(5);
    ExpressionBindings early;
    SizeBindings late;
    ExpressionBindings all;
    for (const std::string& name : Names()) {
      const int64_t value = trees.Number();
      all[name] = value;
      if (trees.Below(2) == 0) {
        early[name] = value;
      } else {
        late[name] = value;
      }
    }
    const absl::StatusOr<int64_t> direct = tree.Evaluate(all);
    const absl::StatusOr<Expression> bound = tree.Bind(early);
    if (!bound.ok()) continue;  // a constant part fails, perhaps one that evaluation does not reach
    const absl::StatusOr<int64_t> folded = bound->Evaluate(late);
    ASSERT_EQ(direct.ok(), folded.ok()) << tree.ToString();
    if (!direct.ok()) continue;
    ASSERT_EQ(*direct, *folded) << tree.ToString() << " bound: " << bound->ToString();
    ++compared;
  }
  EXPECT_GT(compared, 1000);
}

TEST(ExpressionRoundTripTest, AnyTextParsesOrIsRefusedWithAColumn) {
  RandomTrees trees(4);
  int parsed_count = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string text = trees.Text(1 + trees.Below(12));
    absl::StatusOr<Expression> parsed = Expression::Parse(text);
    if (parsed.ok()) {
      ++parsed_count;
      absl::StatusOr<Expression> again = Expression::Parse(parsed->ToString());
      ASSERT_THAT(again, IsOk()) << text;
      ASSERT_EQ(*again, *parsed) << text;
    } else {
      ASSERT_THAT(parsed,
                  StatusIs(absl::StatusCode::kInvalidArgument, testing::StartsWith("column ")))
          << text;
    }
  }
  EXPECT_GT(parsed_count, 100);
}

}  // namespace
}  // namespace hone
