// Exercise 2.2 (3 points): a tape.
//
// tape[i] is a node: its kind, the places of its inputs on the tape (all smaller than i) and its value. Kinds:
//
//   kLeaf        nothing made it             kAdd         value = a + b     inputs {a, b}
//   kMultiply    value = a · b               kExp         value = e^a       inputs {a}
//
// The last node is the result z. Give ∂z/∂node for every node. Begin with 1 for z and walk back: each node passes to
// its inputs what their share in it is.
#include "examples/course/checker/exercise.h"

using namespace course;

// → the gradient of each node, in the order of the tape
static std::vector<double> Backward(const std::vector<Node>& tape) { throw Unsolved("2.2"); }

EXERCISE(2_2, Backward);
