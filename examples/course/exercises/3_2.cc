// Exercise 3.2 (2 points): weights and values.
//
//   W[b, n, m, h]   = e^J[b, n, m, h] / Σ_m' e^J[b, n, m', h]        the softmax over the memory m
//   O[b, n, d_v, h] = Σ_m W[b, n, m, h] · V[b, m, d_v, h]
//
// Logits are small here: how to do it with large ones is chapter 4.
#include "examples/course/checker/exercise.h"

using namespace course;

// J[b, n, m, h], V[b, m, d_v, h] → O[b, n, d_v, h]
static Array Attend(const Array& J, const Array& V) { throw Unsolved("3.2"); }

EXERCISE(3_2, Attend);
