// Exercise 7.2 (2 points): a step of AdamW.
//
//   m ← beta1 · m + (1 - beta1) · g          m̂ = m / (1 - beta1^step)
//   v ← beta2 · v + (1 - beta2) · g²         v̂ = v / (1 - beta2^step)
//   p ← p - learning_rate · (m̂ / (√v̂ + epsilon) + weight_decay · p)
#include "examples/course/checker/exercise.h"

using namespace course;

// gradient[i]; changes state.p[i], state.m[i], state.v[i]
static void Step(const std::vector<double>& gradient, const AdamSettings& settings, AdamState& state) {
  throw Unsolved("7.2");
}

EXERCISE(7_2, Step);
