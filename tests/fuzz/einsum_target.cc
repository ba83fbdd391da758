#include <algorithm>
#include <cstdlib>
#include <vector>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/einsum/order.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/einsum_loops.h"

namespace crosstalk::fuzz {
namespace {

constexpr size_t kMaxOperands = 12;       // of what is planned: every order of 6 is weighed, a greedy one above
constexpr int64_t kMaxProducts = 20'000;  // of what is computed

Shape ShapeOf(std::string_view text) {
  Shape shape;
  if (text.empty()) return shape;
  for (const std::string& part : Split(text, ',')) {
    if (shape.rank() < kMaxRank) shape.Append(std::strtoll(part.c_str(), nullptr, 10));
  }
  return shape;
}

// -2 … 2, so that sums in any order are exact.
std::vector<double> SmallIntegers(int64_t count, int64_t salt) {
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<double>((i * 7 + salt * 3 + i / 5) % 5 - 2);
  return values;
}

void RequireDefinition(std::string_view text, const EinsumEquation& equation, const std::vector<Shape>& shapes) {
  std::vector<Tensor> tensors;
  std::vector<Variable> operands;
  for (size_t k = 0; k < shapes.size(); ++k) {
    tensors.push_back(Tensor::FromValues(shapes[k], SmallIntegers(shapes[k].NumElements(), static_cast<int64_t>(k))));
    operands.emplace_back(tensors.back(), Variable::RequiresGrad::kYes);
  }
  const Variable result = Einsum(text, operands);
  const std::vector<double> dY = SmallIntegers(result.value().num_elements(), 11);
  const testing::EinsumLoops loops = testing::LoopOver(equation, tensors, dY);
  Require(result.shape() == loops.shape && result.value().ToVector<double>() == loops.result,
          "not the einsum's value: ", DescribeEinsum(text, shapes));
  Backward(result, Tensor::FromValues(result.shape(), dY));
  for (size_t k = 0; k < operands.size(); ++k) {
    Require(operands[k].grad().ToVector<double>() == loops.gradients[k], "not the einsum's gradient of operand ", k,
            ": ", DescribeEinsum(text, shapes));
  }
}

}  // namespace

// EQUATION|2,3|3,4: an equation and the shapes of its operands. It is written and read back, planned and described in
// steps that are equations themselves, and where it is small, its value and gradients are those of the definition.
void FuzzEinsum(std::string_view input) {
  const std::vector<std::string> parts = Split(input, '|');
  const std::string_view text = parts[0];
  EinsumEquation equation;
  if (!Accepts([&] { equation = ParseEinsum(text); })) return;
  const std::string written = ToString(equation);
  Require(ToString(ParseEinsum(written)) == written, "not the equation that was written: ", written);

  std::vector<Shape> shapes;
  for (size_t i = 1; i < parts.size(); ++i) shapes.push_back(ShapeOf(parts[i]));
  if (shapes.size() > kMaxOperands) return;
  EinsumPlan plan;
  if (!Accepts([&] { plan = PlanEinsum(equation, shapes); })) return;
  Require(plan.multiplications >= 0, plan.multiplications, " multiplications");
  int64_t multiplications = 0;
  for (const EinsumStep& step : plan.steps) multiplications = SaturatingSum(multiplications, step.multiplications);
  Require(multiplications == plan.multiplications, "steps of ", multiplications, " multiplications, in all ",
          plan.multiplications);
  Require(EinsumMultiplications(text, shapes) == plan.multiplications, "another number of multiplications");
  const std::string description = DescribeEinsum(text, shapes);
  for (std::string_view lines = description; !lines.empty();) {
    const FirstLine step = SplitFirstLine(lines);
    ParseEinsum(step.line);
    lines = step.rest;
  }
  int64_t products = 1;
  for (const int64_t size : plan.sizes) products = SaturatingProduct(products, std::max<int64_t>(size, 1));
  if (products <= kMaxProducts) RequireDefinition(text, equation, shapes);
}

}  // namespace crosstalk::fuzz
