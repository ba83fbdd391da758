// Chapter 2 of the course (examples/course/2_tape.md): a tape in forty lines, the library's beside it, and how a
// gradient is checked: by central differences.
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "crosstalk/autograd/grad_check.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"

using namespace crosstalk;  // an example may

namespace {

// A number that remembers how it was made.
struct Number {
  struct Node {
    double value = 0, gradient = 0;
    std::vector<std::shared_ptr<Node>> inputs;
    std::function<void(Node&)> backward;  // adds to the inputs' gradients
  };
  std::shared_ptr<Node> node;
};

// All nodes in the order in which they were made: the tape.
std::vector<std::shared_ptr<Number::Node>> tape;

Number Make(double value, std::vector<Number> inputs = {}, std::function<void(Number::Node&)> backward = {}) {
  const auto node = std::make_shared<Number::Node>();
  node->value = value;
  for (const Number& input : inputs) node->inputs.push_back(input.node);
  node->backward = std::move(backward);
  tape.push_back(node);
  return {node};
}

Number operator+(const Number& a, const Number& b) {
  return Make(a.node->value + b.node->value, {a, b}, [](Number::Node& sum) {
    sum.inputs[0]->gradient += sum.gradient;
    sum.inputs[1]->gradient += sum.gradient;
  });
}

Number operator*(const Number& a, const Number& b) {
  return Make(a.node->value * b.node->value, {a, b}, [](Number::Node& product) {
    product.inputs[0]->gradient += product.gradient * product.inputs[1]->value;
    product.inputs[1]->gradient += product.gradient * product.inputs[0]->value;
  });
}

Number Exponential(const Number& a) {
  return Make(std::exp(a.node->value), {a}, [](Number::Node& e) { e.inputs[0]->gradient += e.gradient * e.value; });
}

// From the last node to the first: by the time a node is reached, all that read it have added to its gradient.
void WalkBack() {
  tape.back()->gradient = 1;
  for (size_t i = tape.size(); i-- > 0;) {
    if (tape[i]->backward) tape[i]->backward(*tape[i]);
  }
}

}  // namespace

int main() {
  const Number x = Make(0.5), y = Make(3);
  const Number z = x * y + Exponential(x);  // x is read twice
  WalkBack();
  std::printf("own tape of %zu nodes:  z = %.4f  dz/dx = %.4f  dz/dy = %.4f\n", tape.size(), z.node->value,
              x.node->gradient, y.node->gradient);

  const Variable X(Tensor::Scalar(0.5, DType::kFloat64), Variable::RequiresGrad::kYes);
  const Variable Y(Tensor::Scalar(3, DType::kFloat64), Variable::RequiresGrad::kYes);
  const Variable Z = X * Y + Exp(X);
  Backward(Z);
  std::printf("the library's:          z = %.4f  dz/dx = %.4f  dz/dy = %.4f\n", Z.value().Item(), X.grad().Item(),
              Y.grad().Item());

  // Differences: to one side off by step·f''/2, central ones by step²·f'''/6.
  const auto f = [](double at) { return at * 3 + std::exp(at); };
  std::printf("step    one-sided is off by  central is off by\n");
  for (const double step : {1e-1, 1e-2, 1e-3}) {
    std::printf("%.0e  %.0e                %.0e\n", step, std::abs((f(0.5 + step) - f(0.5)) / step - x.node->gradient),
                std::abs((f(0.5 + step) - f(0.5 - step)) / (2 * step) - x.node->gradient));
  }

  // So every operation of the library is tested, with inputs of any shape.
  const Tensor A = Tensor::FromValues<double>({2, 3}, std::vector<double>{0.1, -0.4, 0.3, 0.8, 0.2, -0.6});
  const GradCheckReport report = GradCheck([](const auto& in) { return Softmax(in[0], 1) * Exp(in[0]); }, {A});
  std::printf("softmax(A)·e^A: %lld elements checked, %s\n", static_cast<long long>(report.checked),
              report.ok ? "all as computed" : "WRONG");

  // A gradient is added to what is there: two walks without ZeroGrad give twice as much.
  Backward(X * Y);
  std::printf("after a second walk, of x·y alone: dz/dx = %.4f; ", X.grad().Item());
  X.ZeroGrad();
  Backward(X * Y);
  std::printf("after ZeroGrad: %.4f\n", X.grad().Item());
}
