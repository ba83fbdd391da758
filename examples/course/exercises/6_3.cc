// Exercise 6.3 (5 points): a kernel of your own, forward.
//
// Talking heads, in floats on pointers, heads in front of their size: see KernelCall in
// examples/course/checker/exercise.h.
//
//   J = scale · Q·K     L = J·P_l, masked     W = softmax of L over m     U = W·P_w     O[b, n, h_v, d_v] = U·V
//
// A position j is masked for query i where call->key_mask is there and call->key_mask[b·m + j] is 0, or where
// call->causal holds and j > i + m - n. A query that may attend to nothing has O = 0. Write all of O.
//
// Right is worth the points. Fast is for you: the checker measures your kernel and the library's on one problem, beside
// the peak of this machine's multiply-adds. The file is compiled with -O3 -march=native and OpenMP; intrinsics,
// #pragma omp parallel for, and a call to another library's kernel are all fair.
#include "examples/course/checker/exercise.h"

using namespace course;

static void TalkingHeads(const KernelCall* call, float* O) { throw Unsolved("6.3"); }

EXERCISE(6_3, TalkingHeads);
