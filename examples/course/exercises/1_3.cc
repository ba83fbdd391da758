// Exercise 1.3 (3 points): any einsum of two operands.
//
//   C[result…] = einsum(A[of_a…], B[of_b…])
//
// The names of the dimensions are given: of {"n", "m"} = einsum({"n", "d"}, {"m", "d"}) this is the product of matrices
// C[n, m] = Σ_d A[n, d] · B[m, d]. A name that two operands share has one size. Each name of the result is in an
// operand.
//
// Ranks differ from call to call, so count through all indices with a loop of your own, and compute where an element
// stands by the strides of 1.1: A.values() are all elements of A in their order.
#include "examples/course/checker/exercise.h"

using namespace course;

static Array EinsumOfTwo(const Names& result, const Array& a, const Names& of_a, const Array& b, const Names& of_b) {
  throw Unsolved("1.3");
}

EXERCISE(1_3, EinsumOfTwo);
