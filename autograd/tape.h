// The tape: one node for each op that was applied to something that needs a gradient, and Backward, which walks them.
//
// What it does. MakeOp (autograd/op.h) adds a node; its edges point to the nodes of the op's inputs, so the tape is a
// graph that the results own. Backward visits the nodes of a result in the reverse order of creation: by then every
// op that read a value has added to the value's gradient, and the node's backward function turns that gradient into
// those of its inputs.
//
// What it holds. A node holds no values but what its backward function captured, and between two visits the sum of the
// gradients that have reached it. A leaf's node keeps that sum: it is Variable::grad().
//
// When it frees memory. A node's captured values go as soon as its backward function has run, its gradient with them,
// so that activations go as gradients come; a node that nothing refers to any more goes at once. A result that is let
// go of without a Backward takes its whole tape with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Fills grad() of every leaf that `output` depends on and that requires a gradient, adding to what is there.
// `output` has one element, or `seed` gives d loss / d output. Iterative (depth is not limited by the stack), in
// reverse order of creation (so the order of every sum is fixed). The tape of `output` is used up: a second
// Backward through it is a usage error. Nodes that need no gradient are never visited.
void Backward(const Variable& output, const Tensor& seed = Tensor());

// The same, which calls done(i) for each of `leaves` that it reaches, as soon as its grad() is complete: while those of
// others are still computed, except leaves of an op that captures some (Recompute), which are done at the end.
// An exception from `done` ends the walk.
void Backward(const Variable& output, std::span<const Variable> leaves, const std::function<void(size_t i)>& done);

namespace internal {

// One op application, or one leaf that requires a gradient. Edges point from results to inputs.
struct Node {
  uint64_t sequence = 0;  // order of creation; inputs are older than the node
  const char* name = "leaf";
  // Of the context that it was made in: the same hold when its gradients are computed.
  std::shared_ptr<const std::string> layer;
  Precision precision = Precision::kFloat32;
  SumOrder sum_order = SumOrder::kFastest;
  Shape shape;                    // of the value
  DType dtype = DType::kFloat32;  // of the gradient
  bool leaf = true;
  bool captures_leaves = false;               // OpTraits
  bool used = false;                          // its backward function has run
  bool reached = false;                       // a Backward that is under way has put a gradient here
  std::vector<std::shared_ptr<Node>> inputs;  // null where no gradient is needed
  BackwardFunction backward;
  Tensor gradient;  // accumulated so far
  Node* next_dead = nullptr;
};

// An empty one. Destroying it takes neither stack nor memory, however long its chain.
std::shared_ptr<Node> NewNode();
// Of a leaf whose value has this shape and type.
std::shared_ptr<Node> NewLeaf(const Shape& shape, DType dtype);

// gradient += contribution, in place only where no other tensor sees the elements.
void Accumulate(Tensor& gradient, Tensor contribution);

// The walk itself, from `root`. Non-leaf nodes older than `oldest` are not part of this tape: an error that says so
// (Recompute's function captured a result from outside). `done`, where there is one, is told of leaves as Backward
// says.
using LeafDone = std::function<void(Node& leaf)>;
void RunBackward(const std::shared_ptr<Node>& root, Tensor seed, uint64_t oldest, const LeafDone& done = {});

// A number larger than that of every node made so far.
uint64_t NextSequence();

}  // namespace internal

struct Variable::Impl {
  Tensor value;
  std::shared_ptr<internal::Node> node;  // null: needs no gradient
};

namespace internal {

// Access to a Variable for MakeOp and the tape only.
class VariableAccess {
 public:
  static const std::shared_ptr<Node>& NodeOf(const Variable& variable) { return variable.impl_->node; }
  static Variable Make(Tensor value, std::shared_ptr<Node> node) {
    Variable result;
    result.impl_ = std::make_shared<Variable::Impl>();
    result.impl_->value = std::move(value);
    result.impl_->node = std::move(node);
    return result;
  }
};

}  // namespace internal
}  // namespace crosstalk
