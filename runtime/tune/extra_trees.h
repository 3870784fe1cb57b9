// Randomised regression trees.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace hone {

// Extremely randomised trees (P. Geurts, D. Ernst, L. Wehenkel, Machine Learning 63, 2006): every
// tree grows on all the data, and each split is the best of several features cut at a random place.
// Where data are sparse the trees disagree, and their spread is the model's doubt. Not thread-safe.
class ExtraTrees {
 public:
  struct Data {
    size_t columns = 0;       // numbers in each row
    std::vector<float> rows;  // one after the other
    // One for each row. A failed row has none of its own: its target only tells it apart from the
    // others when trees are grown.
    std::vector<float> targets;
    std::vector<uint8_t> failed;  // 1 for a failed row
  };
  struct Prediction {
    double success = 0;  // the share of trees that do not expect a failure
    // Over the trees that do not, weighted by how sure they are; 0 if there are none.
    double mean = 0;
    double deviation = 0;
  };

  ExtraTrees(int trees, uint64_t seed);

  // Grows some of the trees anew, the oldest first; all of them the first time. Others keep what
  // they learnt from earlier data. REQUIRES: data is not empty.
  void Fit(const Data& data, int regrow);
  // For each of `rows`, one after the other. REQUIRES: fitted; they have the columns of the data.
  std::vector<Prediction> Predict(const std::vector<float>& rows) const;

 private:
  struct Node {
    int feature = -1;    // of a leaf
    uint32_t child = 0;  // the left one, for values of at most `cut`; the right one follows it
    float cut = 0;
    float value = 0;    // the mean target of rows that did not fail
    float success = 0;  // their share
  };
  struct Split {
    int feature = -1;
    float cut = 0;
    double gain = 0;
  };
  using Tree = std::vector<Node>;

  void Grow(Tree& tree);
  void GrowNode(Tree& tree, uint32_t index, size_t begin, size_t end, int depth);
  Split BestSplit(size_t begin, size_t end);
  double Uniform();  // from 0 below 1

  std::mt19937_64 random_;
  std::vector<Tree> trees_;
  size_t next_ = 0;
  bool fitted_ = false;
  size_t columns_ = 0;
  // Of the fit under way.
  std::vector<float> values_;  // column by column
  std::vector<float> targets_;
  std::vector<uint8_t> failed_;
  std::vector<uint32_t> order_;     // rows, partitioned while growing
  std::vector<uint32_t> features_;  // all, shuffled while splitting
};

}  // namespace hone
