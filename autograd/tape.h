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
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

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
  // The layer and precision of the context that it was made in: its gradients are computed under the same.
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
// Makes a leaf whose value has this shape and type.
std::shared_ptr<Node> NewLeaf(const Shape& shape, DType dtype);

// gradient += contribution, in place only where no other tensor sees the elements.
void Accumulate(Tensor& gradient, Tensor contribution);

// The walk itself, from `root`. Non-leaf nodes older than `oldest` are not part of this tape: an error that says so
// (Recompute's function captured a result from outside). `done`, if there is one, is told of leaves as Backward
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

// LeafGradients: gradients of leaves apart from those that the leaves hold, so that threads that share a model compute
// gradients of it beside each other:
//
//   LeafGradients own(leaves);
//   {
//     const ContextScope apart(&OpContext::leaf_gradients, &own);
//     Backward(Loss(…));  // reads the leaves' values; their grad() stays as it is
//   }
//   own.Take(i)

// One thread's at a time. Under a context that has it, ops are recorded as of its leaves, not of the ones given; a
// Backward of such ops runs under the same context. Other leaves are as ever.
class LeafGradients {
 public:
  // Those of `leaves` that require no gradient have none here either.
  explicit LeafGradients(std::span<const Variable> leaves);

  // Takes the gradient away from leaf `i`. Undefined if no Backward has reached it.
  Tensor Take(size_t i);

  // A leaf's node here, or the given one; the tape's to call.
  const std::shared_ptr<internal::Node>& Replace(const std::shared_ptr<internal::Node>& leaf) const {
    const auto found = own_.find(leaf.get());
    return found == own_.end() ? leaf : found->second;
  }

 private:
  std::vector<std::shared_ptr<internal::Node>> nodes_;  // by leaf; null: it requires no gradient
  std::unordered_map<const internal::Node*, std::shared_ptr<internal::Node>> own_;
};

// Activation recomputation: memory for time.

// Computes function(inputs) without recording its inside, and computes it again when its gradient is asked for. Leaves
// that `function` captures (parameters) receive their gradients too. `function` must be a pure function of its inputs
// and of captured leaves (dropout is, its numbers come from a key).
Variable Recompute(const std::function<Variable(const std::vector<Variable>&)>& function,
                   const std::vector<Variable>& inputs);

// The search for the first NaN or infinity of a training step (OpContext::finite_checks): which layer and op made it.

enum class MinusInfinity { kReject, kAccept };

// The first element, in row-major order, that is a NaN or an infinity; -infinity passes with kAccept. None in a tensor
// that does not hold floating-point numbers.
struct NonFiniteElement {
  Shape index;
  double value = 0;
};
std::optional<NonFiniteElement> FindNonFinite(const Tensor& tensor, MinusInfinity minus_infinity);

namespace internal {

// Throws Error(kNumerical) if FindNonFinite finds one. `what` is "result" or "gradient".
void CheckFinite(const Tensor& tensor, const std::string& layer, const char* op, const char* what,
                 MinusInfinity minus_infinity);
bool HoldsMinusInfinity(const Tensor& tensor);

}  // namespace internal
}  // namespace crosstalk
#pragma GCC visibility pop
