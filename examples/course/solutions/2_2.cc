// A solution of exercise 2.2: a tape.
#include "examples/course/checker/exercise.h"

using namespace course;

// → the gradient of each node, in the order of the tape
static std::vector<double> Backward(const std::vector<Node>& tape) {
  std::vector<double> gradient(tape.size());
  gradient.back() = 1;
  for (size_t i = tape.size(); i-- > 0;) {
    const Node& node = tape[i];
    const auto pass = [&](size_t input, double derivative) {
      gradient[node.inputs[input]] += gradient[i] * derivative;
    };
    const auto value = [&](size_t input) { return tape[node.inputs[input]].value; };
    if (node.kind == Node::kAdd) pass(0, 1), pass(1, 1);
    if (node.kind == Node::kMultiply) pass(0, value(1)), pass(1, value(0));
    if (node.kind == Node::kExp) pass(0, node.value);
  }
  return gradient;
}

EXERCISE(2_2, Backward);
