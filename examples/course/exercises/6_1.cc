// Exercise 6.1 (1 point): what a layer costs.
//
// How many multiplications does talking-heads attention take between its projections, for n queries and m memory
// positions of one example?
//
//   J[n, m, h_k] = Q[n, d_k, h_k]·K[m, d_k, h_k]       L = J·P_l[h_k, h]
//
//   O[n, d_v, h_v] = U·V[m, d_v, h_v]                  U = W·P_w[h, h_v]
#include "examples/course/checker/exercise.h"

using namespace course;

// sizes.n, .m, .h_k, .h, .h_v, .d_k, .d_v
static int64_t Multiplications(const LayerSizes& sizes) { throw Unsolved("6.1"); }

EXERCISE(6_1, Multiplications);
