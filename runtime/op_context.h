// OpContext: what ops on this thread obey that nobody passes to them. A scope replaces one field while it lives:
//
//   const ContextScope products(&OpContext::precision, Precision::kBFloat16);
//   const ContextScope no_grad = NoGrad();
//
// In runtime, the lowest layer, because Tensor's own allocations and fills obey shapes_only. What higher layers keep
// here is an enum, or a pointer that runtime does not follow.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/dtype.h"

#pragma GCC visibility push(default)
namespace crosstalk {

struct AttentionCapture;
class LeafGradients;
class Trace;

// How einsum and matmul form their sums.
enum class SumOrder {
  kFastest,         // by all sizes together
  kBatchInvariant,  // by the terms of the sum alone: a row's bits do not depend on how many rows there are
};

struct OpContext {
  // Whether MakeOp (autograd/op.h) adds a node to the tape.
  bool recording = true;
  // Set by MakeOp where it records nothing only because `recording` is false. Null: nobody asks.
  bool* skipped_recording = nullptr;

  // Where leaves have gradients apart from their own (autograd/tape.h). Null: nowhere.
  const LeafGradients* leaf_gradients = nullptr;

  // The precision of products of float tensors: MatMul, Einsum, LinearCrossEntropy and the fused attention. Products of
  // double tensors are not rounded. A model sets it for itself (Model::SetPrecision).
  Precision precision = Precision::kFloat32;
  // Decoding asks for kBatchInvariant, so that an answer does not depend on what else is in its batch.
  SumOrder sum_order = SumOrder::kFastest;

  // Tests every op result and every gradient: the first that holds a NaN or infinity throws Error(kNumerical) naming
  // layer, op, direction (result or gradient), index and value. Minus infinity passes where an op writes it on purpose
  // (masked_fill) and where an input already held it. Slow: the trainer sets it only to explain a loss or gradient
  // that is already known not to be finite.
  bool finite_checks = false;
  // The part of the model that ops belong to, by its dotted name; null outside of all. See InLayer.
  std::shared_ptr<const std::string> layer;

  // Called with what each attention layer computes between its projections (nn/attention/types.h); the layers are
  // then computed by the composed implementation, which holds these tensors. Null: nothing is captured.
  const std::function<void(const AttentionCapture&)>* capture = nullptr;

  // Computes every shape and allocates every tensor, but runs no kernel and touches no memory (runtime/storage.h).
  bool shapes_only = false;
  // The counter of CountMultiplications. Null: no counting.
  int64_t* multiplications = nullptr;
  // What is told of the time that everything takes (runtime/measure.h). Null: nothing is timed. Shared, as a thread may
  // still leave a loop when the scope has ended.
  std::shared_ptr<Trace> trace;
};

namespace internal {
extern constinit thread_local const OpContext* current_context;  // never null
}  // namespace internal

// That of this thread. A new thread begins with a default one.
inline const OpContext& CurrentContext() { return *internal::current_context; }

// While one lives, the thread's context is another. Scopes end in the reverse order of their beginning.
class [[nodiscard]] ContextScope {
 public:
  explicit ContextScope(OpContext context)
      : context_(std::move(context)), before_(std::exchange(internal::current_context, &context_)) {}
  // The current one with that field replaced.
  template <typename T>
  ContextScope(T OpContext::*field, std::type_identity_t<T> value) : ContextScope(CurrentContext()) {
    context_.*field = std::move(value);
  }
  ~ContextScope() { internal::current_context = before_; }
  // What holds until the end of the scope, to be changed on the way.
  OpContext& context() { return context_; }
  ContextScope(const ContextScope&) = delete;

 private:
  OpContext context_;
  const OpContext* before_;
};

// Ops record nothing.
inline ContextScope NoGrad() { return ContextScope(&OpContext::recording, false); }

// Ops belong to the part `name` of the current layer ("encoder" → "encoder.block_3"), so that a non-finite value can be
// traced to the layer that first produced it.
ContextScope InLayer(const std::string& name);
// The dotted name; empty outside of all layers.
const std::string& CurrentLayer();

// How work that takes long is asked to end, and tells how far it is.

// A question that the work puts every now and then, at least every 100 ms. True: end now. May be empty; must not throw.
using StopRequest = std::function<bool()>;

// Thrown by the work that was asked to end. Nothing of it stays.
class Interrupted : public Error {
 public:
  Interrupted() : Error(ErrorKind::kFailure, "interrupted") {}
};

inline void ThrowIfStopped(const StopRequest& stop) {
  if (stop && stop()) throw Interrupted();
}

// Either may be empty.
struct Observer {
  StopRequest stop = {};
  std::function<void(int64_t done, int64_t all)> progress = {};
};

}  // namespace crosstalk
#pragma GCC visibility pop
