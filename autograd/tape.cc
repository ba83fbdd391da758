// The walk over the tape. What a tape is, what it holds and when it frees memory stands in tape.h.
#include "crosstalk/autograd/tape.h"

#include <atomic>
#include <queue>
#include <utility>

#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/runtime/shapes_only.h"

namespace crosstalk {
namespace internal {
namespace {

// What a dying node held: its edges and its saved tensors. Nodes that die while another is being taken apart add to
// its list.
struct SavedTensors {
  std::vector<std::shared_ptr<Node>> inputs;
  BackwardFunction backward;
};
thread_local std::vector<SavedTensors>* being_destroyed = nullptr;

std::atomic<uint64_t> next_sequence{1};

struct Older {
  bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
    return a->sequence < b->sequence;
  }
};

}  // namespace

Node::~Node() {
  if (being_destroyed != nullptr) {
    being_destroyed->push_back({std::move(inputs), std::move(backward)});
    return;
  }
  std::vector<SavedTensors> pending;
  being_destroyed = &pending;
  pending.push_back({std::move(inputs), std::move(backward)});
  while (!pending.empty()) {
    const SavedTensors destroyed = std::move(pending.back());
    pending.pop_back();
  }
  being_destroyed = nullptr;
}

uint64_t NextSequence() { return next_sequence.fetch_add(1, std::memory_order_relaxed); }

void Accumulate(Tensor& gradient, Tensor contribution) {
  if (!gradient.defined()) {
    gradient = std::move(contribution);
  } else if (gradient.unique() && gradient.is_contiguous()) {
    math::AddInPlace(gradient, contribution);
  } else if (contribution.unique() && contribution.is_contiguous()) {
    math::AddInPlace(contribution, gradient);
    gradient = std::move(contribution);
  } else {
    gradient = math::Add(gradient, contribution);
  }
}

void RunBackward(const std::shared_ptr<Node>& root, Tensor seed, uint64_t oldest) {
  const UncountedScope uncounted;  // what is recomputed was counted in the forward pass
  std::vector<std::shared_ptr<Node>> leaves;
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, Older> queue;
  const auto reach = [&](const std::shared_ptr<Node>& node) {
    if (std::exchange(node->reached, true)) return;
    if (node->leaf) {
      leaves.push_back(node);
    } else {
      queue.push(node);
    }
  };
  const auto forget = [&] {
    for (; !queue.empty(); queue.pop()) {
      queue.top()->reached = false;
      queue.top()->gradient = Tensor();
    }
    for (const std::shared_ptr<Node>& leaf : leaves) leaf->reached = false;
  };
  Accumulate(root->gradient, std::move(seed));
  reach(root);
  std::shared_ptr<Node> node;
  try {
    while (!queue.empty()) {
      node = queue.top();
      queue.pop();
      node->reached = false;
      const Tensor dy = std::exchange(node->gradient, Tensor());
      CROSSTALK_CHECK(node->sequence >= oldest, "recompute: the function captured the result of op ", node->name,
                      " from outside; pass it as an input (only leaves may be captured)");
      CROSSTALK_CHECK(!node->used, "Backward: the tape behind op ", node->name, node->shape,
                      " was used up by an earlier Backward; compute the result again");
      node->used = true;
      // Out of the node, so that everything it holds is freed at the end of this turn.
      const BackwardFunction backward = std::exchange(node->backward, nullptr);
      Gradients gradients(node.get());
      backward(dy, gradients);
      for (const std::shared_ptr<Node>& input : std::exchange(node->inputs, {})) {
        if (input && input->gradient.defined()) reach(input);
      }
    }
  } catch (...) {
    // Of the node that failed: what it has already given to inputs that were not reached yet.
    for (const std::shared_ptr<Node>& input : node->inputs) {
      if (input && !input->leaf) input->gradient = Tensor();
    }
    forget();
    throw;
  }
  forget();
  // A leaf's gradient is the caller's to change in place, so it shares elements with nothing.
  for (const std::shared_ptr<Node>& leaf : leaves) {
    if (!leaf->gradient.unique() || !leaf->gradient.is_contiguous()) leaf->gradient = leaf->gradient.Clone();
  }
}

}  // namespace internal

void Backward(const Variable& output, const Tensor& seed) {
  CROSSTALK_CHECK(output.defined(), "Backward: the output is an undefined Variable");
  CROSSTALK_CHECK(output.requires_grad(), "Backward: the output depends on nothing that requires a gradient");
  Tensor dy = seed;
  if (dy.defined()) {
    CROSSTALK_CHECK(dy.shape() == output.shape() && dy.dtype() == output.dtype(), "Backward: the seed is ", dy.dtype(),
                    dy.shape(), ", but the output is ", output.dtype(), output.shape());
  } else {
    CROSSTALK_CHECK(output.value().num_elements() == 1, "Backward: the output has shape ", output.shape(),
                    ", not one element; give a seed of that shape");
    dy = Tensor::Full(output.shape(), 1, output.dtype());
  }
  internal::RunBackward(internal::VariableAccess::NodeOf(output), std::move(dy), 0);
}

}  // namespace crosstalk
