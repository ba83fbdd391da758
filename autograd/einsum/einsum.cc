#include "crosstalk/autograd/einsum/einsum.h"

#include <algorithm>
#include <utility>

#include "crosstalk/autograd/einsum/contraction.h"
#include "crosstalk/autograd/einsum/order.h"
#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/runtime/memo.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace {

using math::Labels;

// y[labels] = Σ a · b. da = Σ dY · b and db = Σ a · dY are contractions of the same kind.
Variable ContractTwo(const Variable& a, const Labels& labels_a, const Variable& b, const Labels& labels_b,
                     const Labels& labels) {
  const Tensor y = math::Contract(a.value(), labels_a, b.value(), labels_b, labels);
  const Tensor kept_a = b.requires_grad() ? a.value() : Tensor();
  const Tensor kept_b = a.requires_grad() ? b.value() : Tensor();
  return MakeOp("einsum", y, {a, b},
                [kept_a, kept_b, labels_a, labels_b, labels](const Tensor& dy, Gradients& gradients) {
                  // Used twice: one copy of a strided dY is better than one in each contraction.
                  const Tensor d = gradients.Needs(0) && gradients.Needs(1) ? math::Contiguous(dy) : dy;
                  if (gradients.Needs(0)) AddContraction(gradients, 0, d, labels, kept_b, labels_b, labels_a);
                  if (gradients.Needs(1)) AddContraction(gradients, 1, kept_a, labels_a, d, labels, labels_b);
                });
}

Variable InOrder(const Variable& x, const std::vector<int>& from, const std::vector<int>& to) {
  std::vector<int> order;
  for (const int label : to) {
    order.push_back(static_cast<int>(std::find(from.begin(), from.end(), label) - from.begin()));
  }
  return Permute(x, order);
}

// `equation` is called for what an error says.
template <class Equation>
void CheckOperands(const std::vector<Variable>& operands, const Equation& equation) {
  const auto bracket = [&](size_t i) {
    const EinsumEquation whole = equation();
    return i < whole.operands.size() ? ToString(whole.operands[i]) : std::string();
  };
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto named = [&] { return bracket(i).empty() ? "" : ", " + bracket(i) + ","; };
    CROSSTALK_CHECK(operands[i].defined(), "einsum: operand ", i + 1, named(), " is an undefined Variable (in '",
                    ToString(equation()), "')");
    const DType dtype = ResultDType(operands[i].dtype());
    CROSSTALK_CHECK(IsFloating(dtype) && dtype == ResultDType(operands[0].dtype()),
                    "einsum: ", bracket(i).empty() ? "an operand" : bracket(i), " is ", dtype,
                    IsFloating(dtype) ? StrCat(", but ", bracket(0), " is ", operands[0].dtype())
                                      : std::string(": only float32 and float64 can be contracted"));
  }
}

std::vector<Shape> ShapesOf(const std::vector<Variable>& operands) {
  std::vector<Shape> shapes;
  for (const Variable& operand : operands) shapes.push_back(operand.shape());
  return shapes;
}

Variable Evaluate(const EinsumPlan& plan, const std::vector<Variable>& operands) {
  std::vector<Variable> made;  // of each step
  made.reserve(plan.steps.size());
  const auto value = [&](int i) -> const Variable& {
    const auto at = static_cast<size_t>(i);
    return at < operands.size() ? operands[at] : made[at - operands.size()];
  };
  const auto labels = [&](int i) -> const std::vector<int>& {
    const auto at = static_cast<size_t>(i);
    return at < operands.size() ? plan.operands[at] : plan.steps[at - operands.size()].labels;
  };
  for (const EinsumStep& step : plan.steps) {
    if (step.b < 0) {
      made.push_back(InOrder(value(step.a), labels(step.a), step.labels));
      continue;
    }
    CountMultiplications(step.multiplications);
    made.push_back(ContractTwo(value(step.a), labels(step.a), value(step.b), labels(step.b), step.labels));
    // Each value is used once: let go of what was made on the way.
    for (const int used : {step.a, step.b}) {
      const auto at = static_cast<size_t>(used);
      if (at >= operands.size()) made[at - operands.size()] = Variable();
    }
  }
  return Contiguous(made.empty() ? operands[0] : made.back());
}

Bracket ToBracket(std::string tensor, const std::vector<Dim>& dims) {
  Bracket bracket;
  bracket.tensor = std::move(tensor);
  for (const Dim& dim : dims) {
    CROSSTALK_CHECK(std::find(bracket.indices.begin(), bracket.indices.end(), dim.name()) == bracket.indices.end(),
                    "einsum: ", bracket.tensor, " names the dimension ", dim.name(), " twice");
    bracket.indices.push_back(dim.name());
  }
  return bracket;
}

}  // namespace

Dim::Dim(std::string name) : name_(std::move(name)) {
  const std::string text = "T[" + name_ + "]";
  const Bracket bracket = ParseBracket(text);
  CROSSTALK_CHECK(bracket.indices.size() == 1 && bracket.indices[0] == name_ && !(name_[0] >= '0' && name_[0] <= '9'),
                  "Dim: '", name_, "' is not a dimension's name");
}

Variable Einsum(std::string_view equation, const std::vector<Variable>& operands) {
  CheckOperands(operands, [&] { return ParseEinsum(equation); });
  MemoKey key(equation);
  for (const Variable& operand : operands) {
    key.Add(operand.shape().rank());
    for (const int64_t size : operand.shape()) key.Add(size);
  }
  static auto* const plans = new Memo<EinsumPlan>;
  const auto plan = plans->Get(key, [&] { return PlanEinsum(ParseEinsum(equation), ShapesOf(operands)); });
  return Evaluate(*plan, operands);
}

Variable Einsum(const std::vector<Dim>& result, const std::vector<EinsumOperand>& operands) {
  CROSSTALK_CHECK(!operands.empty(), "einsum: no operands");
  EinsumEquation equation;
  equation.result = ToBracket("result", result);
  std::vector<Variable> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    equation.operands.push_back(ToBracket(StrCat("operand_", i + 1), operands[i].dims));
    values.push_back(operands[i].value);
  }
  CheckOperands(values, [&] { return equation; });
  return Evaluate(PlanEinsum(equation, ShapesOf(values)), values);
}

int64_t EinsumMultiplications(std::string_view equation, const std::vector<Shape>& shapes) {
  return PlanEinsum(ParseEinsum(equation), shapes).multiplications;
}

std::string DescribeEinsum(std::string_view equation, const std::vector<Shape>& shapes) {
  const EinsumEquation parsed = ParseEinsum(equation);
  const EinsumPlan plan = PlanEinsum(parsed, shapes);
  std::vector<std::string> brackets;
  for (const Bracket& operand : parsed.operands) brackets.push_back(ToString(operand));
  std::string text;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const EinsumStep& step = plan.steps[i];
    Bracket bracket;
    bracket.tensor = i + 1 == plan.steps.size() ? parsed.result.tensor : StrCat("T", i + 1);
    for (const int label : step.labels) bracket.indices.push_back(plan.names[static_cast<size_t>(label)]);
    brackets.push_back(ToString(bracket));
    text += StrCat(brackets.back(), " = einsum(", brackets[static_cast<size_t>(step.a)],
                   step.b < 0 ? "" : ", " + brackets[static_cast<size_t>(step.b)], ")  # ");
    text += step.b < 0 ? "permutation\n" : StrCat(step.multiplications, " multiplications\n");
  }
  return text;
}

}  // namespace crosstalk
