#include "tests/generate/chain_texts.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

class ChainWriter {
 public:
  ChainWriter(std::mt19937& random, const ChainNames& names) : random_(random), names_(names) {}

  std::string Value(int depth) {
    if (depth == 0 || Below(8) == 0) return Leaf();
    const int choice = Below(20);
    if (choice < 8) {
      constexpr const char* kInfix[] = {" + ", " - ", " * ", " / "};
      return absl::StrCat("(", Value(depth - 1), kInfix[Below(4)], Value(depth - 1), ")");
    }
    if (choice < 15) {
      constexpr const char* kFunctions[] = {"abs", "exp",  "log",  "sqrt", "rsqrt",     "tanh",
                                            "erf", "relu", "silu", "gelu", "gelu_tanh", "sigmoid"};
      return absl::StrCat(kFunctions[Below(12)], "(", Value(depth - 1), ")");
    }
    if (choice == 15) return absl::StrCat("-", Value(depth - 1));
    if (choice == 16)
      return absl::StrCat("clamp(", Value(depth - 1), ", ", Leaf(), ", ", Leaf(), ")");
    if (choice == 17) {
      constexpr const char* kComparison[] = {" < ", " <= ", " > ", " >= ", " == ", " != "};
      return absl::StrCat("where(", Leaf(), kComparison[Below(6)], "abs(", Leaf(), "), ",
                          Value(depth - 1), ", ", Value(depth - 1), ")");
    }
    return absl::StrCat(choice == 18 ? "min(" : "max(", Value(depth - 1), ", ", Value(depth - 1),
                        ")");
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  std::string Leaf() {
    constexpr const char* kNumbers[] = {"1", "0.5", "-2", "3.25", "0.1", "1e-3", "0", "100"};
    const int choice = Below(10);
    if (choice < 7)
      return names_.inputs[static_cast<size_t>(Below(static_cast<int>(names_.inputs.size())))];
    if (choice == 7 && !names_.scalars.empty()) return names_.scalars.front();
    return kNumbers[Below(8)];
  }

  std::mt19937& random_;
  const ChainNames& names_;
};

}  // namespace

std::string RandomChainText(std::mt19937& random, const ChainNames& names, int depth) {
  while (true) {
    std::string text = ChainWriter(random, names).Value(depth);
    if (Chain::Parse(text, names).ok()) return text;
  }
}

}  // namespace hone
