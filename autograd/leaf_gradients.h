// LeafGradients: gradients of leaves apart from those that the leaves hold, so that threads that share a model compute
// gradients of it beside each other:
//
//   LeafGradients own(leaves);
//   {
//     const ContextScope apart(&OpContext::leaf_gradients, &own);
//     Backward(Loss(…));  // reads the leaves' values; their grad() stays as it is
//   }
//   own.Take(i)
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/tensor.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// One thread's at a time. Under a context that has it, ops are recorded as of its leaves, not of the ones given; a
// Backward of such ops runs under the same context. Other leaves are as ever.
class LeafGradients {
 public:
  // Those of `leaves` that require no gradient have none here either.
  explicit LeafGradients(std::span<const Variable> leaves);

  // Of leaf `i`, which has none then. Undefined: no Backward has reached it.
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

}  // namespace crosstalk
