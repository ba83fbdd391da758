// Chapter 2: the tape.
#include <cmath>

#include "examples/course/checker/checker.h"

namespace course {
namespace {

Array Scalar(const std::string& name, double value) { return Array(name, Array({1}, value)); }

void Check_2_1(AnyFunction function, Checker& checker) {
  for (const auto& [x, y] : {std::pair(2.0, 3.0), std::pair(-1.0, 0.5)}) {
    const auto both = [](double dx, double dy) { return Results{Scalar("dx", dx), Scalar("dy", dy)}; };
    checker.Expect(crosstalk::StrCat("x=", x, " y=", y),
                   [&, x = x, y = y] {
                     const PairGradients g = As<Signature_2_1>(function)(x, y);
                     return both(g.dx, g.dy);
                   },
                   both(y + std::exp(x), x),
                   {{"the path through the product alone",
                     "x is read twice, by x·y and by e^x: its gradient is the sum of what the two want.",
                     [&, x = x, y = y] { return both(y, x); }},
                    {"the path through e^x alone",
                     "x is read twice, by x·y and by e^x: its gradient is the sum of what the two want.",
                     [&, x = x] { return both(std::exp(x), x); }},
                    {"own factor", "in x·y the gradient of x is y, and that of y is x.",
                     [&, x = x, y = y] { return both(x + std::exp(x), y); }}});
  }
}

struct Slips_2_2 {
  bool overwrite = false, forward = false, own_factor = false, exp_of_value = false;
};

std::vector<double> WalkBack(const std::vector<Node>& tape, const Slips_2_2& slips) {
  std::vector<double> gradient(tape.size());
  gradient.back() = 1;
  const auto give = [&](int input, double amount) {
    double& to = gradient[static_cast<size_t>(input)];
    to = (slips.overwrite ? 0 : to) + amount;
  };
  for (size_t k = 0; k < tape.size(); ++k) {
    const size_t i = slips.forward ? k : tape.size() - 1 - k;
    const Node& node = tape[i];
    const auto value = [&](size_t input) { return tape[static_cast<size_t>(node.inputs[input])].value; };
    if (node.kind == Node::kAdd) give(node.inputs[0], gradient[i]), give(node.inputs[1], gradient[i]);
    if (node.kind == Node::kMultiply) {
      give(node.inputs[0], gradient[i] * value(slips.own_factor ? 0 : 1));
      give(node.inputs[1], gradient[i] * value(slips.own_factor ? 1 : 0));
    }
    if (node.kind == Node::kExp) give(node.inputs[0], gradient[i] * (slips.exp_of_value ? value(0) : node.value));
  }
  return gradient;
}

void Check_2_2(AnyFunction function, Checker& checker) {
  using Kind = Node::Kind;
  struct Case {
    std::string name;
    std::vector<std::pair<Kind, std::vector<int>>> nodes;
  };
  // Leaves have the values 2, 3, 4 … by their places.
  for (const Case& c :
       {Case{"z = x·y", {{Kind::kLeaf, {}}, {Kind::kLeaf, {}}, {Kind::kMultiply, {0, 1}}}},
        Case{"z = e^x", {{Kind::kLeaf, {}}, {Kind::kExp, {0}}}},
        Case{
            "z = x·y + e^x",
            {{Kind::kLeaf, {}}, {Kind::kLeaf, {}}, {Kind::kMultiply, {0, 1}}, {Kind::kExp, {0}}, {Kind::kAdd, {2, 3}}}},
        Case{"z = x·x", {{Kind::kLeaf, {}}, {Kind::kMultiply, {0, 0}}}},
        Case{"a = x + y, z = a·a·e^a",
             {{Kind::kLeaf, {}},
              {Kind::kLeaf, {}},
              {Kind::kAdd, {0, 1}},
              {Kind::kMultiply, {2, 2}},
              {Kind::kExp, {2}},
              {Kind::kMultiply, {3, 4}}}}}) {
    std::vector<Node> tape;
    for (const auto& [kind, inputs] : c.nodes) {
      Node node{kind, inputs, 2 + static_cast<double>(tape.size())};
      const auto value = [&, &inputs = inputs](size_t i) { return tape[static_cast<size_t>(inputs[i])].value; };
      if (kind == Kind::kAdd) node.value = value(0) + value(1);
      if (kind == Kind::kMultiply) node.value = value(0) * value(1);
      if (kind == Kind::kExp) node.value = std::exp(value(0));
      tape.push_back(node);
    }
    const auto as_results = [](const std::vector<double>& values) {
      Array array({static_cast<int64_t>(values.size())});
      array.values() = values;
      return Results{Array("gradient[node]", array)};
    };
    const auto with = [&](const Slips_2_2& slips) { return [&, slips] { return as_results(WalkBack(tape, slips)); }; };
    checker.Expect(
        c.name, [&] { return as_results(As<Signature_2_2>(function)(tape)); }, with({})(),
        {{"gradient overwritten", "a node that is read twice gets two gradients: add them with +=.",
          with({.overwrite = true})},
         {"from the front", "walk from the last node to the first: then a gradient is complete before it is passed on.",
          with({.forward = true})},
         {"own factor", "in a·b the gradient of a is multiplied by b, and that of b by a.", with({.own_factor = true})},
         {"derivative of e^x", "the derivative of e^x is e^x, the value of the node itself, not x.",
          with({.exp_of_value = true})}});
  }
}

double Polynomial(const std::vector<double>& x) { return x[0] * x[0] * x[0] + 2 * x[0] * x[1]; }
double Product(const std::vector<double>& x) { return std::exp(x[0]) * x[1] * x[2]; }

void Check_2_3(AnyFunction function, Checker& checker) {
  struct Case {
    std::string name;
    Function f;
    std::vector<double> x;
  };
  for (const Case& c : {Case{"f = x0³ + 2·x0·x1 at (1, 2)", Polynomial, {1, 2}},
                        Case{"f = e^x0·x1·x2 at (0.5, 2, 3)", Product, {0.5, 2, 3}}}) {
    constexpr double step = 1e-3;
    const auto differences = [&](double up, double down, double divisor, bool restore) {
      std::vector<double> x = c.x;
      Array gradient({static_cast<int64_t>(x.size())});
      for (size_t i = 0; i < x.size(); ++i) {
        const double kept = x[i];
        x[i] = kept + up;
        const double above = c.f(x);
        x[i] = kept - down;
        gradient(i) = (above - c.f(x)) / divisor;
        if (restore) x[i] = kept;
      }
      return Results{Array("gradient[i]", gradient)};
    };
    checker.Expect(
        c.name,
        [&] {
          const std::vector<double> values = As<Signature_2_3>(function)(c.f, c.x, step);
          Array array({static_cast<int64_t>(values.size())});
          array.values() = values;
          return Results{array};
        },
        differences(step, step, 2 * step, true),
        {{"one-sided", "(f(x + step) - f(x)) / step is off by step·f''/2: take f(x + step) - f(x - step).",
          [&] { return differences(step, 0, step, true); }},
         {"half the distance", "x + step and x - step are 2·step apart.",
          [&] { return differences(step, step, step, true); }},
         {"not put back", "x[i] has to be put back before the next one is moved.",
          [&] { return differences(step, step, 2 * step, false); }}},
        1e-8);
  }
}

}  // namespace

std::vector<Exercise> Chapter2() {
  return {{"2.1", 1, "a value that is read twice", Check_2_1},
          {"2.2", 3, "a tape", Check_2_2},
          {"2.3", 2, "checking a gradient", Check_2_3}};
}

}  // namespace course
