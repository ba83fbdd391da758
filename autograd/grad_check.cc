#include "crosstalk/autograd/grad_check.h"

#include <algorithm>
#include <cmath>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {
namespace {

using Function = std::function<Variable(const std::vector<Variable>&)>;

std::vector<Variable> MakeLeaves(const std::vector<Tensor>& inputs, Variable::RequiresGrad requires_grad) {
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.emplace_back(input, requires_grad);
  return leaves;
}

// Σ weights · function(inputs), in double, without a tape.
double Evaluate(const Function& function, const std::vector<Tensor>& inputs, const Tensor& weights) {
  const ContextScope no_grad = NoGrad();
  const Tensor y = function(MakeLeaves(inputs, Variable::RequiresGrad::kYes)).value().Contiguous();
  double sum = 0;
  for (int64_t i = 0; i < y.num_elements(); ++i) sum += y.data<double>()[i] * weights.data<double>()[i];
  return sum;
}

std::vector<int64_t> IndexOf(const Shape& shape, int64_t element) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (int i = shape.rank() - 1; i >= 0; --i) {
    index[static_cast<size_t>(i)] = element % shape[i];
    element /= shape[i];
  }
  return index;
}

double LargestMagnitude(const Tensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) largest = std::max(largest, std::abs(tensor.data<double>()[i]));
  return largest;
}

class Checker {
 public:
  Checker(const Function& function, const std::vector<Tensor>& inputs, const GradCheckOptions& options)
      : function_(function), options_(options) {
    for (const Tensor& input : inputs) {
      CROSSTALK_CHECK(input.dtype() == DType::kFloat64, "GradCheck: inputs must be float64, not ", input.dtype());
      inputs_.push_back(input);
    }
    report_.tolerance = options.tolerance;
  }

  GradCheckReport Run() {
    const std::vector<Variable> leaves = MakeLeaves(inputs_, Variable::RequiresGrad::kYes);
    const Variable y = function_(leaves);
    weights_ = Tensor::Empty(y.shape(), DType::kFloat64);
    FillUniform(weights_, {options_.seed, StreamId("grad_check.weights"), 0}, -1, 1);
    if (!y.requires_grad()) {
      report_.message = "the result does not require a gradient";
      return report_;
    }
    Backward(y, weights_);
    for (size_t i = 0; i < leaves.size(); ++i) {
      const Tensor& gradient = leaves[i].grad();
      if (!gradient.defined()) {
        report_.message = StrCat("input ", i, inputs_[i].shape(), " received no gradient");
        return report_;
      }
      CheckInput(static_cast<int>(i), gradient.Contiguous());
    }
    report_.ok = report_.error <= options_.tolerance && report_.checked > 0;
    if (report_.checked == 0) report_.message = "there was nothing to check";
    return report_;
  }

 private:
  void CheckInput(int i, const Tensor& gradient) {
    const Tensor original = inputs_[static_cast<size_t>(i)];
    const double scale = std::max(1.0, LargestMagnitude(gradient));
    if (original.num_elements() <= options_.max_elements) {
      for (int64_t element = 0; element < original.num_elements(); ++element) {
        const double numeric =
            Difference(i, original, [&](const Tensor& input, double step) { input.data<double>()[element] += step; });
        Compare(i, element, gradient.data<double>()[element], numeric, scale);
      }
    } else {
      for (int k = 0; k < options_.directions; ++k) CheckDirection(i, k, original, gradient);
    }
    inputs_[static_cast<size_t>(i)] = original;
  }

  // Along a random direction of length 1: Σ gradient · direction against one difference.
  void CheckDirection(int i, int k, const Tensor& original, const Tensor& gradient) {
    const Tensor direction = Tensor::Empty(original.shape(), DType::kFloat64);
    FillNormal(direction,
               {options_.seed + static_cast<uint64_t>(i), StreamId("grad_check.direction"), static_cast<uint32_t>(k)},
               0, 1);
    const int64_t count = original.num_elements();
    const double* const d = direction.data<double>();
    double squares = 0, analytic = 0;
    for (int64_t j = 0; j < count; ++j) squares += d[j] * d[j];
    const double length = std::sqrt(squares);
    for (int64_t j = 0; j < count; ++j) analytic += gradient.data<double>()[j] * d[j] / length;
    const double numeric = Difference(i, original, [&](const Tensor& input, double step) {
      for (int64_t j = 0; j < count; ++j) input.data<double>()[j] += step * d[j] / length;
    });
    Compare(i, -1, analytic, numeric, std::max(1.0, std::abs(analytic)));
  }

  // (f(x + step) - f(x - step)) / (2 step), where move(input, step) moves a copy of the input.
  template <typename Move>
  double Difference(int i, const Tensor& original, Move&& move) {
    const auto at = [&](double step) {
      const Tensor moved = original.Clone();
      move(moved, step);
      inputs_[static_cast<size_t>(i)] = moved;
      return Evaluate(function_, inputs_, weights_);
    };
    const double above = at(options_.step);
    const double below = at(-options_.step);
    return (above - below) / (2 * options_.step);
  }

  void Compare(int i, int64_t element, double analytic, double numeric, double scale) {
    ++report_.checked;
    const double difference = std::abs(analytic - numeric) / scale;
    const double error = std::isfinite(difference) ? difference : HUGE_VAL;
    if (error <= report_.error && report_.worst_input >= 0) return;
    report_.worst_input = i;
    report_.worst_element = element;
    report_.worst_index =
        element < 0 ? std::vector<int64_t>{} : IndexOf(inputs_[static_cast<size_t>(i)].shape(), element);
    report_.analytic = analytic;
    report_.numeric = numeric;
    report_.error = error;
  }

  const Function& function_;
  const GradCheckOptions options_;
  std::vector<Tensor> inputs_;
  Tensor weights_;
  GradCheckReport report_;
};

}  // namespace

GradCheckReport GradCheck(const Function& function, const std::vector<Tensor>& inputs,
                          const GradCheckOptions& options) {
  return Checker(function, inputs, options).Run();
}

std::string ToString(const GradCheckReport& report) {
  if (!report.message.empty()) return "gradient check failed: " + report.message;
  std::string place = "a random direction";
  if (report.worst_element >= 0) {
    place = "[";
    for (size_t i = 0; i < report.worst_index.size(); ++i) place += StrCat(i == 0 ? "" : ", ", report.worst_index[i]);
    place += "]";
  }
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out.exceptions(std::ios_base::badbit);
  out.precision(12);
  out << (report.ok ? "gradient check passed: " : "gradient check failed: ") << report.checked
      << " compared, worst at input " << report.worst_input << " " << place << ": analytic " << report.analytic
      << ", numeric " << report.numeric << ", error " << report.error << ", tolerance " << report.tolerance;
  return out.str();
}

std::ostream& operator<<(std::ostream& out, const GradCheckReport& report) { return out << ToString(report); }

}  // namespace crosstalk
