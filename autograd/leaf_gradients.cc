#include "crosstalk/autograd/leaf_gradients.h"

#include <utility>

#include "crosstalk/runtime/check.h"

namespace crosstalk {

LeafGradients::LeafGradients(std::span<const Variable> leaves) : nodes_(leaves.size()) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    CROSSTALK_CHECK(leaves[i].is_leaf(), "LeafGradients: variable ", i, " is the result of an op, or undefined");
    if (!leaves[i].requires_grad()) continue;
    // Two variables of one leaf share its gradient here too.
    std::shared_ptr<internal::Node>& own = own_[internal::VariableAccess::NodeOf(leaves[i]).get()];
    if (own == nullptr) own = internal::NewLeaf(leaves[i].shape(), leaves[i].dtype());
    nodes_[i] = own;
  }
}

Tensor LeafGradients::Take(size_t i) {
  return nodes_[i] == nullptr ? Tensor() : std::exchange(nodes_[i]->gradient, Tensor());
}

}  // namespace crosstalk
