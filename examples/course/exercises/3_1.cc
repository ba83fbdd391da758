// Exercise 3.1 (1 point): logits.
//
//   J[b, n, m, h] = scale · Σ_d_k Q[b, n, d_k, h] · K[b, m, d_k, h]
//
// How well does the query at n fit the key at m, in each example b and head h?
#include "examples/course/checker/exercise.h"

using namespace course;

// Q[b, n, d_k, h], K[b, m, d_k, h] → J[b, n, m, h]
static Array Logits(const Array& Q, const Array& K, double scale) { throw Unsolved("3.1"); }

EXERCISE(3_1, Logits);
