// The tape's inside: what an op leaves behind, and the walk that turns it into gradients. For the .cc files of this
// folder; programs use variable.h and op.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/variable.h"

namespace crosstalk {
namespace internal {

// One op application, or one leaf that requires a gradient. Edges point from results to inputs. A node holds no
// values: only what its backward function captured.
struct Node {
  ~Node();  // iterative: a chain of any length is destroyed without recursion

  uint64_t sequence = 0;  // order of creation; inputs are older than the node
  const char* name = "leaf";
  std::string layer;  // CurrentLayer() when it was made
  Shape shape;        // of the value
  DType dtype = DType::kFloat32;
  bool leaf = true;
  bool used = false;                          // its backward function has run
  bool reached = false;                       // a Backward that is under way has put a gradient here
  std::vector<std::shared_ptr<Node>> inputs;  // null where no gradient is needed
  BackwardFunction backward;
  Tensor gradient;  // accumulated so far
};

// gradient += contribution, in place only where no other tensor sees the elements.
void Accumulate(Tensor& gradient, Tensor contribution);

// The walk itself, from `root`. Non-leaf nodes older than `oldest` are not part of this tape: an error that says so
// (Recompute's function captured a result from outside).
void RunBackward(const std::shared_ptr<Node>& root, Tensor seed, uint64_t oldest);

// A number larger than that of every node made so far.
uint64_t NextSequence();

enum class MinusInfinity { kReject, kAccept };
// Throws Error(kNumerical) if `tensor` holds a NaN or infinity; -infinity passes with kAccept. `what` is "result" or
// "gradient".
void CheckFinite(const Tensor& tensor, const std::string& layer, const char* op, const char* what,
                 MinusInfinity minus_infinity);
bool HoldsMinusInfinity(const Tensor& tensor);
bool FiniteChecksOn();

// Per-thread switches. The setters return the value before.
bool SetGradEnabled(bool enabled);
bool SetFiniteChecks(bool on);
std::string SetLayer(std::string layer);
// Set when an op ran with recording off although an input requires a gradient.
bool& SkippedRecording();

}  // namespace internal

struct Variable::Impl {
  Tensor value;
  std::shared_ptr<internal::Node> node;  // null: needs no gradient
};

// The doors into Variable for MakeOp and Backward.
class OpBuilder {
 public:
  static const std::shared_ptr<internal::Node>& NodeOf(const Variable& variable) { return variable.impl_->node; }
  static Variable Make(Tensor value, std::shared_ptr<internal::Node> node);
};

}  // namespace crosstalk
