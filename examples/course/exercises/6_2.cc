// Exercise 6.2 (4 points): two passes over a memory in chunks.
//
//   J = scale · Q·K      L = J·P_l      W = softmax of L over m      U = W·P_w      O = U·V
//
// The memory is too long to hold anything of its length: memory.K(c)[j, d_k, h_k] and memory.V(c)[j, d_v, h_v] give the
// j positions of chunk c, c = 0 … memory.count() - 1, and each may be read twice at most. The second pass needs to know
// of each query and softmax head the largest L and the sum of e^(L - largest) over all chunks, which the first one
// finds (4.4). Why two? U mixes weights of several heads, and each has a sum of its own.
#include "examples/course/checker/exercise.h"

using namespace course;

// Q[n, d_k, h_k], P_l[h_k, h], P_w[h, h_v] → O[n, d_v, h_v]
static Array TwoPasses(const Array& Q, Chunks& memory, const Array& P_l, const Array& P_w, double scale) {
  throw Unsolved("6.2");
}

EXERCISE(6_2, TwoPasses);
