#include "crosstalk/models/training/reducer.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// left + right, parameter by parameter, so that no more than one sum of gradients is held beside the two.
void AddTo(PartSum& left, PartSum right) {
  for (size_t i = 0; i < left.gradients.size(); ++i) {
    Tensor& sum = left.gradients[i];
    const Tensor more = std::exchange(right.gradients[i], Tensor());
    if (!sum.defined()) {
      sum = more;
    } else if (more.defined()) {
      math::AddInPlace(sum, more);
    }
  }
  left.loss += right.loss;
  AddSums(left.metrics, right.metrics);
}

}  // namespace

PartTree::PartTree(int64_t parts) : parts_(parts) {
  CROSSTALK_CHECK(parts >= 1, "training: a step of ", parts, " parts; there must be at least 1");
}

void PartTree::Add(Node node) {
  const int root = std::bit_width(static_cast<uint64_t>(parts_ - 1));
  for (; node.level < root; ++node.level, node.index /= 2) {
    const int64_t sibling = node.index ^ 1;
    if (sibling << node.level >= parts_) continue;  // it has no parts
    const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                    [&](const Node& one) { return one.level == node.level && one.index == sibling; });
    if (found == nodes_.end()) break;
    if (sibling < node.index) std::swap(found->sum, node.sum);
    AddTo(node.sum, std::move(found->sum));
    nodes_.erase(found);
  }
  nodes_.push_back(std::move(node));
}

std::vector<PartTree::Node> PartTree::Take() { return std::exchange(nodes_, {}); }

int MostGradientsKept(int64_t parts) { return std::bit_width(static_cast<uint64_t>(parts)) - 1; }

LocalReducer::LocalReducer(int64_t parts) : tree_(parts) {
  parts_.resize(static_cast<size_t>(parts));
  std::iota(parts_.begin(), parts_.end(), 0);
}

}  // namespace crosstalk
