// Where the parts of a step are computed, and the one order in which what they give is summed: it depends on the number
// of parts alone, so that a model's bits do not depend on where its parts were computed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "crosstalk/models/metrics.h"
#include "crosstalk/runtime/tensor.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Of the batches of a step.
struct StepCounts {
  int64_t targets = 0, positions = 0, examples = 0, tokens = 0;
};

// What a part adds to a step, or several do.
struct PartSum {
  std::vector<Tensor> gradients;  // by parameter, shared with nothing; undefined: none has reached it
  double loss = 0;
  std::vector<MetricSum> metrics;
};

// The binary tree over the parts 0 … N-1 of a step: node (level, i) = node (level-1, 2i) + node (level-1, 2i+1), the
// part i itself at level 0. A child that has no parts is left out: with N = 5, ((0 + 1) + (2 + 3)) + 4.
class PartTree {
 public:
  struct Node {
    int level = 0;
    int64_t index = 0;
    PartSum sum;
  };

  explicit PartTree(int64_t parts);

  // Takes a node, in any order, and adds up what is complete with it. Of parts in ascending order it keeps as many
  // nodes as their number has binary ones.
  void Add(Node node);
  // The sums that have no sibling here yet: after the last part one, the root. None stay.
  std::vector<Node> Take();

 private:
  int64_t parts_;
  std::vector<Node> nodes_;
};

// The most gradients, each of all parameters, that a tree keeps while a part is computed, the parts being in order.
int MostGradientsKept(int64_t parts);
// One process adds the gradients of the second of two parts to those of the first contribution by contribution, as
// Backward comes by them: for parameters that are used more than once another order than the tree's.
constexpr bool AddsInPlace(int64_t parts) { return parts == 2; }

// A step is Begin, Add for each of parts() in order, and Finish; Begin forgets a step that an exception cut off. A
// process of several that train one model computes some of the parts; Begin and Finish then wait for the others, and
// give all of them the same. A part whose loss is not finite is added without gradients, so that nobody waits in vain.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  // Of the parts of a step, those that are computed here, ascending.
  virtual const std::vector<int64_t>& parts() const = 0;
  // Counts of all parts, given those of the parts here: a loss is divided by them before its gradient is computed.
  virtual StepCounts Begin(const StepCounts& here) = 0;
  virtual void Add(int64_t part, PartSum sum) = 0;
  // The tree's root, over all parts.
  virtual PartSum Finish() = 0;
  // Whether the gradients of each part are added to those of the part before, and come with the last.
  virtual bool adds_in_place() const { return false; }
};

// All parts, here, one after another.
class LocalReducer : public GradientReducer {
 public:
  explicit LocalReducer(int64_t parts = 1);

  const std::vector<int64_t>& parts() const override { return parts_; }
  StepCounts Begin(const StepCounts& here) override {
    tree_.Take();
    return here;
  }
  void Add(int64_t part, PartSum sum) override { tree_.Add({0, part, std::move(sum)}); }
  PartSum Finish() override { return std::move(tree_.Take()[0].sum); }
  bool adds_in_place() const override { return AddsInPlace(std::ssize(parts_)); }

 private:
  std::vector<int64_t> parts_;
  PartTree tree_;
};

}  // namespace crosstalk
