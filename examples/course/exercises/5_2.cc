// Exercise 5.2 (3 points): talking heads, forward.
//
//   J[b, n, m, h_k]   = scale · Σ_d_k Q[b, n, d_k, h_k] · K[b, m, d_k, h_k]
//   L[b, n, m, h]     = Σ_h_k J[b, n, m, h_k] · P_l[h_k, h]               then -∞ where mask[b, n, m] = 0
//   W[b, n, m, h]     = softmax of L over m                               zeros where a query may attend to nothing
//   U[b, n, m, h_v]   = Σ_h W[b, n, m, h] · P_w[h, h_v]
//   O[b, n, d_v, h_v] = Σ_m U[b, n, m, h_v] · V[b, m, d_v, h_v]
//
// Some logits are in the thousands: the softmax is the stable one of exercise 4.1.
#include "examples/course/checker/exercise.h"

using namespace course;

// Q[b, n, d_k, h_k], K[b, m, d_k, h_k], V[b, m, d_v, h_v], P_l[h_k, h], P_w[h, h_v], mask[b, n, m] → O[b, n, d_v, h_v]
static Array TalkingHeads(const Array& Q, const Array& K, const Array& V, const Array& P_l, const Array& P_w,
                          const Array& mask, double scale) {
  throw Unsolved("5.2");
}

EXERCISE(5_2, TalkingHeads);
