// Execution of shapes alone: a training step that computes every shape and allocates every tensor as a real one does,
// but runs no kernel and touches no memory. It answers within milliseconds how much memory a step takes and how many
// multiplications, for models of any size.
#pragma once

#include <cstdint>
#include <utility>

#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

// Under OpContext::shapes_only, on its thread:
// - Storage is address space that the system backs with nothing, counted in MemoryStats as ever;
// - kernels do not run (see Launch), nor do Tensor's own fills and copies, so that tensors made under it read as
//   zeros (Item() is 0), except data that the host itself writes (FromValues, data());
// - ids and targets are not checked against their bounds, and each row of a loss counts;
// - tensors made outside, such as parameters, are as they were when the scope ends.
// Ops, Backward, Initializer and the optimizers' updates all obey it. MemoryStats then goes through the values of a
// real step. (A real product packs its operands in each thread that takes part; here every thread takes part that
// could.)

// Adds to OpContext::multiplications: those of the equations that are evaluated, forward, once each: of matrix
// products, attention (the same whichever implementation computes it) and the classifier within a loss. What Backward
// computes, also again, is not counted. `count` may be kTooMany (runtime/math.h), as where the sum does not fit.
void CountMultiplications(int64_t count);

// The count, to be shown; a usage error where it is kTooMany.
int64_t CheckedMultiplications(int64_t count);

// The gate before everything that reads or writes the elements of tensors: runs kernel() unless only shapes count.
// Allocate in front of it.
template <typename Kernel>
void Launch(Kernel&& kernel) {
  if (!CurrentContext().shapes_only) std::forward<Kernel>(kernel)();
}

// Launch of kernel(T()), T the float type; anything but float and double is a usage error that names `op`.
//   Launch("exp", x.dtype(), [&](auto zero) { using T = decltype(zero); … });
template <typename Kernel>
void Launch(const char* op, DType dtype, Kernel&& kernel) {
  DispatchFloat(op, dtype, [&](auto zero) { Launch([&] { kernel(zero); }); });
}

}  // namespace crosstalk
