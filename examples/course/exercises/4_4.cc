// Exercise 4.4 (3 points): a softmax by chunks.
//
//   O[d_v] = Σ_m W[m] · V[m, d_v],   W = softmax of L over m
//
// for one query, whose memory comes in chunks: each is seen once, and nothing of its length is kept. `row` holds, of
// all chunks so far,
//
//   max   the largest L, -∞ at first
//   sum   Σ_m e^(L[m] - max)
//   O     Σ_m e^(L[m] - max) · V[m, d_v], d_v zeros at first; it is divided by the sum after the last chunk
//
// A chunk may raise the maximum: what was added up before is then too large. A chunk may be masked altogether: L = -∞.
#include "examples/course/checker/exercise.h"

using namespace course;

// L[m], V[m, d_v] of one chunk
static void AddChunk(const std::vector<double>& L, const Array& V, RunningRow& row) { throw Unsolved("4.4"); }

EXERCISE(4_4, AddChunk);
