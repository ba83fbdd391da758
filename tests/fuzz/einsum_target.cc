#include <cstdint>
#include <cstdlib>
#include <vector>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/einsum/order.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/math.h"
#include "tests/fuzz/fuzz.h"

namespace crosstalk::fuzz {
namespace {

constexpr size_t kMaxOperands = 12;       // of what is planned: every order of 6 is weighed, a greedy one above
constexpr int64_t kMaxProducts = 20'000;  // of what is computed

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Shape ShapeOf(std::string_view text) {
  Shape shape;
  if (text.empty()) return shape;
  for (const std::string_view part : SplitAt(text, ',')) {
    if (shape.rank() < kMaxRank) shape.Append(std::strtoll(std::string(part).c_str(), nullptr, 10));
  }
  return shape;
}

// -2 … 2, so that sums in any order are exact.
std::vector<double> SmallIntegers(int64_t count, int64_t salt) {
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<double>((i * 7 + salt * 3 + i / 5) % 5 - 2);
  return values;
}

// The place in a row-major tensor of the labels' sizes, for one index of every label.
int64_t PlaceOf(const math::Labels& labels, const std::vector<int64_t>& sizes, const std::vector<int64_t>& index) {
  int64_t place = 0;
  for (const int label : labels) place = place * sizes[label] + index[label];
  return place;
}

struct Naive {
  std::vector<double> result;
  std::vector<std::vector<double>> gradients;  // of each operand, for dY
};

// The definition: for each index of all labels, the product of the operands is added to the result's place.
Naive Compute(const EinsumPlan& plan, const std::vector<std::vector<double>>& operands, const std::vector<double>& dY) {
  Naive naive;
  naive.result.resize(dY.size());
  for (const auto& operand : operands) naive.gradients.emplace_back(operand.size());
  int64_t products = 1;
  for (const int64_t size : plan.sizes) products *= size;
  std::vector<int64_t> index(plan.sizes.size());
  for (int64_t i = 0; i < products; ++i) {
    int64_t rest = i;
    for (size_t label = 0; label < index.size(); ++label) {
      index[label] = rest % plan.sizes[label];
      rest /= plan.sizes[label];
    }
    const int64_t place = PlaceOf(plan.result, plan.sizes, index);
    double product = 1;
    for (size_t k = 0; k < operands.size(); ++k) product *= operands[k][PlaceOf(plan.operands[k], plan.sizes, index)];
    naive.result[place] += product;
    for (size_t k = 0; k < operands.size(); ++k) {
      double others = dY[place];
      for (size_t j = 0; j < operands.size(); ++j) {
        if (j != k) others *= operands[j][PlaceOf(plan.operands[j], plan.sizes, index)];
      }
      naive.gradients[k][PlaceOf(plan.operands[k], plan.sizes, index)] += others;
    }
  }
  return naive;
}

// True if the shapes are so small that every product can be made.
bool IsSmall(const EinsumPlan& plan) {
  int64_t products = 1;
  for (const int64_t size : plan.sizes) {
    if (size > kMaxProducts) return false;
    products *= std::max<int64_t>(size, 1);
    if (products > kMaxProducts) return false;
  }
  return true;
}

void RequireDefinition(std::string_view equation, const EinsumPlan& plan, const std::vector<Shape>& shapes) {
  std::vector<std::vector<double>> values;
  std::vector<Variable> operands;
  for (size_t k = 0; k < shapes.size(); ++k) {
    values.push_back(SmallIntegers(shapes[k].NumElements(), static_cast<int64_t>(k)));
    operands.emplace_back(Tensor::FromValues(shapes[k], values.back()), Variable::RequiresGrad::kYes);
  }
  const Variable result = Einsum(equation, operands);
  const std::vector<double> dY = SmallIntegers(result.value().num_elements(), 11);
  const Naive naive = Compute(plan, values, dY);
  Require(result.value().ToVector<double>() == naive.result,
          "not the einsum's value: ", DescribeEinsum(equation, shapes));
  Backward(result, Tensor::FromValues(result.shape(), dY));
  for (size_t k = 0; k < operands.size(); ++k) {
    Require(operands[k].grad().ToVector<double>() == naive.gradients[k], "not the einsum's gradient of operand ", k,
            ": ", DescribeEinsum(equation, shapes));
  }
}

}  // namespace

// EQUATION|2,3|3,4: an equation and the shapes of its operands. It is written and read back, planned and described in
// steps that are equations themselves, and where it is small, its value and gradients are those of the definition.
void FuzzEinsum(std::string_view input) {
  std::vector<std::string_view> parts = SplitAt(input, '|');
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
  if (IsSmall(plan)) RequireDefinition(text, plan, shapes);
}

}  // namespace crosstalk::fuzz
