// Exercise 5.1 (1 point): the logits projection.
//
//   L[b, n, m, h] = Σ_h_k J[b, n, m, h_k] · P_l[h_k, h]
//
// At each pair of a query n and a memory position m the key heads' h_k logits become h logits of softmax heads.
#include "examples/course/checker/exercise.h"

using namespace course;

// J[b, n, m, h_k], P_l[h_k, h] → L[b, n, m, h]
static Array MixLogits(const Array& J, const Array& P_l) { throw Unsolved("5.1"); }

EXERCISE(5_1, MixLogits);
