// The walk over the tape. tape.h says what a tape is, what it holds and when it frees memory.
#include "crosstalk/autograd/tape.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace internal {
namespace {

// Nodes that nothing refers to any more, by way of next_dead; those of this thread that wait while one is destroyed.
thread_local Node* dead = nullptr;
thread_local bool destroying = false;

// Deleting a node releases its inputs, which come here in turn and are only noted: each is deleted when the one
// before is gone.
void Destroy(Node* node) {
  node->next_dead = std::exchange(dead, node);
  if (destroying) return;
  destroying = true;
  while (dead != nullptr) {
    Node* const next = dead;
    dead = next->next_dead;
    delete next;
  }
  destroying = false;
}

std::atomic<uint64_t> next_sequence{1};

// The end of a node's backward function, where something is traced. It reads the result's gradient and what was kept of
// the inputs, and writes the inputs' gradients.
void MarkGradients(const Node& node, const std::vector<std::shared_ptr<Node>>& inputs) {
  const auto& trace = CurrentContext().trace;
  if (trace == nullptr) return;
  int64_t bytes = BytesOf(node.shape.NumElements(), node.dtype);
  for (const std::shared_ptr<Node>& input : inputs) {
    if (input) bytes += 2 * BytesOf(input->shape.NumElements(), input->dtype);
  }
  trace->Mark({.kind = TraceEvent::Kind::kBackward, .name = node.name, .shape = node.shape, .bytes = bytes});
}

// A leaf's gradient is the caller's to change in place, so it shares elements with nothing.
void OwnGradient(Node& leaf) {
  if (!leaf.gradient.unique() || !leaf.gradient.is_contiguous()) leaf.gradient = leaf.gradient.Clone();
}

// How many edges of the tape lead to each leaf. Empty where an op captures leaves, to which no edge leads.
std::unordered_map<Node*, int64_t> EdgesToLeaves(Node* root) {
  std::unordered_map<Node*, int64_t> edges;
  std::unordered_set<Node*> seen = {root};
  for (std::vector<Node*> ahead = {root}; !ahead.empty();) {
    Node* const node = ahead.back();
    ahead.pop_back();
    if (node->captures_leaves) return {};
    for (const std::shared_ptr<Node>& input : node->inputs) {
      if (input == nullptr) continue;
      if (input->leaf) {
        ++edges[input.get()];
      } else if (seen.insert(input.get()).second) {
        ahead.push_back(input.get());
      }
    }
  }
  return edges;
}

struct Older {
  bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
    return a->sequence < b->sequence;
  }
};

}  // namespace

std::shared_ptr<Node> NewNode() { return std::shared_ptr<Node>(new Node, Destroy); }

std::shared_ptr<Node> NewLeaf(const Shape& shape, DType dtype) {
  std::shared_ptr<Node> leaf = NewNode();
  leaf->sequence = NextSequence();
  leaf->shape = shape;
  leaf->dtype = ResultDType(dtype);
  return leaf;
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

void RunBackward(const std::shared_ptr<Node>& root, Tensor seed, uint64_t oldest, const LeafDone& done) {
  ContextScope as_in_forward(CurrentContext());
  OpContext& context = as_in_forward.context();
  context.multiplications = nullptr;  // what is recomputed was counted in the forward pass
  std::vector<std::shared_ptr<Node>> leaves;
  std::unordered_map<Node*, int64_t> edges;
  if (done) edges = EdgesToLeaves(root.get());
  std::vector<std::shared_ptr<Node>> heap;  // the newest in front
  const auto reach = [&](const std::shared_ptr<Node>& node) {
    if (node->reached) return;
    if (node->leaf) {
      leaves.push_back(node);
    } else {
      heap.push_back(node);
      std::push_heap(heap.begin(), heap.end(), Older());
    }
    node->reached = true;
  };
  const auto forget = [&] {
    for (const std::shared_ptr<Node>& node : heap) {
      node->reached = false;
      node->gradient = Tensor();
    }
    for (const std::shared_ptr<Node>& leaf : leaves) leaf->reached = false;
  };
  Accumulate(root->gradient, std::move(seed));
  reach(root);
  std::shared_ptr<Node> node;
  try {
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), Older());
      node = std::move(heap.back());
      heap.pop_back();
      node->reached = false;
      const Tensor dy = std::exchange(node->gradient, Tensor());
      CROSSTALK_CHECK(node->sequence >= oldest, "recompute: the function captured the result of op ", node->name,
                      " from outside; pass it as an input (only leaves may be captured)");
      CROSSTALK_CHECK(!node->used, "Backward: the tape of op ", node->name, node->shape,
                      " was used up by an earlier Backward; compute the result again");
      node->used = true;
      // Out of the node, so that everything it holds is freed at the end of this turn.
      const BackwardFunction backward = std::exchange(node->backward, nullptr);
      Gradients gradients(node.get());
      context.layer = std::move(node->layer);
      context.precision = node->precision;
      context.sum_order = node->sum_order;
      MarkTrace(TraceEvent::Kind::kTape, "walk");
      backward(dy, gradients);
      MarkGradients(*node, node->inputs);
      for (const std::shared_ptr<Node>& input : std::exchange(node->inputs, {})) {
        if (!input) continue;
        if (input->gradient.defined()) reach(input);
        if (!input->leaf || edges.empty() || --edges[input.get()] > 0 || !input->reached) continue;
        OwnGradient(*input);
        input->reached = false;
        done(*input);
      }
    }
  } catch (...) {
    // Drops what the node that failed has already given to inputs that were not reached yet.
    for (const std::shared_ptr<Node>& input : node->inputs) {
      if (input && !input->leaf) input->gradient = Tensor();
    }
    forget();
    throw;
  }
  for (const std::shared_ptr<Node>& leaf : leaves) {
    if (!std::exchange(leaf->reached, false)) continue;
    OwnGradient(*leaf);
    if (done) done(*leaf);
  }
}

}  // namespace internal

namespace {

void RunFrom(const Variable& output, const Tensor& seed, const internal::LeafDone& done) {
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
  internal::RunBackward(internal::VariableAccess::NodeOf(output), std::move(dy), 0, done);
}

}  // namespace

void Backward(const Variable& output, const Tensor& seed) { RunFrom(output, seed, {}); }

void Backward(const Variable& output, std::span<const Variable> leaves, const std::function<void(size_t i)>& done) {
  std::unordered_map<const internal::Node*, size_t> places;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].requires_grad()) places.emplace(internal::VariableAccess::NodeOf(leaves[i]).get(), i);
  }
  RunFrom(output, {}, [&](internal::Node& leaf) {
    const auto place = places.find(&leaf);
    if (place != places.end()) done(place->second);
  });
}

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

Variable Recompute(const std::function<Variable(const std::vector<Variable>&)>& function,
                   const std::vector<Variable>& inputs) {
  if (!CurrentContext().recording) return function(inputs);

  Tensor value;
  bool skipped_recording = false;
  {
    const ContextScope noted(&OpContext::skipped_recording, &skipped_recording);
    const ContextScope no_grad = NoGrad();
    value = function(inputs).value();
  }
  const bool needs_gradient = skipped_recording || std::any_of(inputs.begin(), inputs.end(),
                                                               [](const Variable& x) { return x.requires_grad(); });
  if (!needs_gradient) return Variable(std::move(value));

  std::vector<Tensor> values;
  values.reserve(inputs.size());
  for (const Variable& input : inputs) values.push_back(input.value());
  BackwardFunction backward = [function, values = std::move(values)](const Tensor& dy, Gradients& gradients) {
    const uint64_t oldest = internal::NextSequence();
    std::vector<Variable> leaves;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool needs = gradients.Needs(static_cast<int>(i));
      leaves.emplace_back(values[i], needs ? Variable::RequiresGrad::kYes : Variable::RequiresGrad::kNo);
    }
    const ContextScope recording(&OpContext::recording, true);
    const Variable again = function(leaves);
    CROSSTALK_CHECK(again.shape() == dy.shape() && again.requires_grad(),
                    "recompute: the function gave another result the second time; it must be pure");
    internal::RunBackward(internal::VariableAccess::NodeOf(again), dy, oldest);
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!leaves[i].requires_grad() || !leaves[i].grad().defined()) continue;
      const Tensor gradient = leaves[i].grad();
      leaves[i].ZeroGrad();
      gradients.Add(static_cast<int>(i), gradient);
    }
  };
  return MakeOp("recompute", std::move(value), inputs, std::move(backward), {.captures_leaves = true});
}

std::optional<NonFiniteElement> FindNonFinite(const Tensor& tensor, MinusInfinity minus_infinity) {
  if (!IsFloating(tensor.dtype()) || CurrentContext().shapes_only) return std::nullopt;
  const Tensor values = tensor.Contiguous();
  std::optional<NonFiniteElement> found;
  DispatchFloat("finite check", values.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const at = values.data<T>();
    const auto fits = [&](T value) {
      return std::isfinite(value) || (minus_infinity == MinusInfinity::kAccept && value < 0);
    };
    int64_t i = 0;
    while (i < values.num_elements() && fits(at[i])) ++i;
    if (i == values.num_elements()) return;
    found = {.index = values.shape(), .value = static_cast<double>(at[i])};
    for (int dim = values.rank() - 1; dim >= 0; --dim) {
      found->index[dim] = i % values.shape()[dim];
      i /= values.shape()[dim];
    }
  });
  return found;
}

namespace internal {

bool HoldsMinusInfinity(const Tensor& tensor) {
  if (!IsFloating(tensor.dtype()) || CurrentContext().shapes_only) return false;
  const Tensor values = tensor.Contiguous();
  return DispatchFloat("finite check", values.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      if (std::isinf(values.data<T>()[i]) && values.data<T>()[i] < 0) return true;
    }
    return false;
  });
}

void CheckFinite(const Tensor& tensor, const std::string& layer, const char* op, const char* what,
                 MinusInfinity minus_infinity) {
  const std::optional<NonFiniteElement> found = FindNonFinite(tensor, minus_infinity);
  if (!found) return;
  Fail(ErrorKind::kNumerical, layer.empty() ? "model" : layer, ": the ", what, " of op ", op, " has ", found->value,
       " at ", found->index, " of ", tensor.shape());
}

}  // namespace internal
}  // namespace crosstalk
