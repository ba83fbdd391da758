#include "crosstalk/nn/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "crosstalk/kernels/rows.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {

Optimizer::Optimizer(std::vector<NamedParameter> parameters) : parameters_(std::move(parameters)) {
  std::erase_if(parameters_, [](const NamedParameter& parameter) { return !parameter.trainable; });
  slots_.resize(parameters_.size());
  CROSSTALK_CHECK(!parameters_.empty(),
                  "optimizer: there are no parameters to train; a module that no Child registers has none");
  std::map<std::string, int> seen;
  for (const NamedParameter& parameter : parameters_) {
    CROSSTALK_CHECK(parameter.value.defined() && parameter.value.is_leaf(), "optimizer: parameter ", parameter.name,
                    " is not a leaf");
    CROSSTALK_CHECK(seen[parameter.name]++ == 0, "optimizer: parameter ", parameter.name, " is given twice");
  }
}

void Optimizer::AddSlot(size_t i, const std::string& name, const Shape& shape) {
  const NamedParameter& parameter = parameters_[i];
  slots_[i].push_back({StrCat(parameter.name, ".", name), Tensor::Zeros(shape, parameter.value.dtype())});
}

void Optimizer::Step(double learning_rate, double gradient_scale) {
  CROSSTALK_CHECK_FIELD(!(learning_rate < 0), "learning_rate", learning_rate, " is negative: it would climb the loss");
  CROSSTALK_CHECK_FIELD(!(gradient_scale < 0), "gradient_scale", gradient_scale, " is negative");
  if (!std::isfinite(learning_rate) || !std::isfinite(gradient_scale)) {
    Fail(ErrorKind::kNumerical, "optimizer: step ", step_, " was not made: its learning rate is ", learning_rate,
         " and its gradient scale ", gradient_scale,
         "; both must be finite (OpContext::finite_checks finds the operation that made the first NaN)");
  }
  std::vector<int64_t> elements;  // of those that hold a gradient
  for (const NamedParameter& parameter : parameters_) {
    elements.push_back(parameter.value.grad().defined() ? parameter.value.value().num_elements() : 0);
  }
  ForEachParameter(
      elements, [&](size_t i) { Update(i, parameters_[i].value.grad().Contiguous(), learning_rate, gradient_scale); });
  ++step_;
}

std::vector<NamedTensor> Optimizer::State() const {
  std::vector<NamedTensor> state = {{"step", Tensor::FromValues<int64_t>({1}, std::vector<int64_t>{step_})}};
  if (carried_steps_ > 0) {
    state.push_back({"carried_steps", Tensor::FromValues<int64_t>({1}, std::vector<int64_t>{carried_steps_})});
  }
  for (const auto& slots : slots_) state.insert(state.end(), slots.begin(), slots.end());
  return state;
}

void Optimizer::LoadState(const std::vector<NamedTensor>& state) {
  std::unordered_map<std::string, const Tensor*> given;
  for (const NamedTensor& entry : state) {
    if (!given.emplace(entry.name, &entry.tensor).second) {
      Fail(ErrorKind::kData, "optimizer state: tensor ", entry.name, " is there twice");
    }
  }
  // Each expected tensor is taken out of `given`; whatever stays is unknown.
  const auto take = [&](const std::string& name, const Shape& shape, DType dtype) {
    const auto found = given.find(name);
    if (found == given.end()) {
      Fail(ErrorKind::kData, "optimizer state: tensor ", name, " is missing; was it saved by another optimizer, or ",
           "for another model?");
    }
    const Tensor* tensor = found->second;
    if (tensor->shape() != shape || tensor->dtype() != dtype) {
      Fail(ErrorKind::kData, "optimizer state: tensor ", name, " is ", tensor->dtype(), tensor->shape(), ", but ",
           dtype, shape, " was expected");
    }
    given.erase(found);
    return tensor;
  };
  const int64_t step = take("step", {1}, DType::kInt64)->data<int64_t>()[0];
  if (step < 0) Fail(ErrorKind::kData, "optimizer state: step is ", step, ", but must not be negative");
  const bool carried = given.contains("carried_steps");
  const int64_t carried_steps = carried ? take("carried_steps", {1}, DType::kInt64)->data<int64_t>()[0] : 0;
  if (carried_steps < 0) {
    Fail(ErrorKind::kData, "optimizer state: carried_steps is ", carried_steps, ", but must not be negative");
  }
  std::vector<std::pair<Tensor, const Tensor*>> copies;
  for (const auto& slots : slots_) {
    for (const NamedTensor& slot : slots) {
      copies.emplace_back(slot.tensor, take(slot.name, slot.tensor.shape(), slot.tensor.dtype()));
    }
  }
  if (!given.empty()) {
    const auto first =
        std::min_element(given.begin(), given.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    Fail(ErrorKind::kData, "optimizer state: tensor ", first->first, " belongs to no parameter of this model");
  }
  for (const auto& [slot, source] : copies) slot.CopyFrom(*source);
  step_ = step;
  carried_steps_ = carried_steps;
}

void Optimizer::CarryOver(std::vector<NamedTensor> state) {
  CROSSTALK_CHECK(step_ == 0, "optimizer: a state can be carried over before the first step, not after ", step_);
  std::set<std::string> known = {"step", "carried_steps"};
  for (const auto& slots : slots_) {
    for (const NamedTensor& slot : slots) known.insert(slot.name);
  }
  std::erase_if(state, [&](const NamedTensor& one) { return !known.contains(one.name); });
  LoadState(state);
  carried_steps_ += std::exchange(step_, 0);
}

int64_t Optimizer::StateBytes() const {
  int64_t bytes = 0;
  for (const auto& slots : slots_) {
    for (const NamedTensor& slot : slots) {
      bytes += BytesOf(slot.tensor.num_elements(), slot.tensor.dtype());
    }
  }
  return bytes;
}

void ScheduleConfig::Validate() const {
  CROSSTALK_CHECK_FIELD(std::isfinite(scale) && scale >= 0, "learning_rate", scale, " is not finite, or negative");
  CROSSTALK_CHECK_FIELD(warmup_steps >= 0, "warmup", warmup_steps, " is negative");
  CROSSTALK_CHECK_FIELD(total_steps >= 0, "steps", total_steps, " is negative");
  CROSSTALK_CHECK_FIELD(decay_fraction >= 0 && decay_fraction <= 1, "decay", decay_fraction, " is not between 0 and 1");
  const bool falls_to_final = kind == ScheduleKind::kCosine || kind == ScheduleKind::kPolynomial;
  if (kind == ScheduleKind::kLinear || kind == ScheduleKind::kLinearBert || falls_to_final) {
    const int64_t total = earlier_totals.empty() ? total_steps : earlier_totals[0];
    CROSSTALK_CHECK_FIELD(total > warmup_steps, "warmup", warmup_steps, " is not less than steps = ", total,
                          ", which leaves nothing for the decay");
  }
  CROSSTALK_CHECK_FIELD(final_rate >= 0 && (!falls_to_final || final_rate <= scale), "final_learning_rate", final_rate,
                        " is not between 0 and the learning rate of ", scale);
  CROSSTALK_CHECK_FIELD(std::isfinite(power) && power > 0, "decay_power", power, " is not finite, or not positive");
}

double LearningRate(const ScheduleConfig& config, int64_t step) {
  config.Validate();
  CROSSTALK_CHECK(step >= 0, "schedule: step = ", step, " must not be negative");
  const auto& earlier = config.earlier_totals;
  const auto stage = std::upper_bound(earlier.begin(), earlier.end(), step);
  const int64_t total_steps = stage == earlier.end() ? config.total_steps : *stage;
  if (total_steps > 0) step = std::min(step, total_steps - 1);
  const double t = static_cast<double>(step);
  const double total = static_cast<double>(total_steps);
  const double warmup = static_cast<double>(config.warmup_steps);
  switch (config.kind) {
    case ScheduleKind::kConstant:
      return config.scale;
    case ScheduleKind::kLinear: {
      // Rises to `scale` at step warmup - 1, falls from it at step `warmup` to scale/(T - warmup) at step T - 1.
      if (t < warmup) return config.scale * (t + 1) / warmup;
      return config.scale * (total - t) / (total - warmup);
    }
    case ScheduleKind::kLinearBert:
      return config.scale * (t < warmup ? t / warmup : (total - t) / total);
    case ScheduleKind::kCosine: {
      if (t < warmup) return config.scale * (t + 1) / warmup;
      const double part = (t - warmup) / (total - warmup);
      return config.final_rate + (config.scale - config.final_rate) * 0.5 * (1 + CosPi(part));
    }
    case ScheduleKind::kPolynomial: {
      if (t < warmup) return config.scale * (t + 1) / warmup;
      const double part = (total - t) / (total - warmup);
      return config.final_rate +
             (config.scale - config.final_rate) * (config.power == 1 ? part : Pow(part, config.power));
    }
    case ScheduleKind::kInverseSquareRoot: {
      double rate = config.scale / std::sqrt(std::max({t, warmup, 1.0}));
      const double decay_steps = config.decay_fraction * total;
      if (decay_steps > 0) rate *= std::min(1.0, (total - t) / decay_steps);
      return rate;
    }
  }
  Fail(ErrorKind::kUsage, "schedule: unknown kind");
}

double GradientNorm(const std::vector<NamedParameter>& parameters) { return NormOf(GradientSquares(parameters)); }

double NormOf(const std::vector<double>& squares) {
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

std::vector<double> GradientSquares(const std::vector<NamedParameter>& parameters) {
  std::vector<int64_t> elements;
  for (const NamedParameter& parameter : parameters) {
    const bool counts = parameter.trainable && parameter.value.grad().defined();
    elements.push_back(counts ? parameter.value.grad().num_elements() : 0);
  }
  std::vector<double> squares(parameters.size());
  ForEachParameter(elements, [&](size_t i) {
    const Tensor gradient = parameters[i].value.grad().Contiguous();
    Launch("gradient norm", gradient.dtype(), [&](auto zero) {
      using T = decltype(zero);
      squares[i] = kernels::SumOfSquares<T>(gradient.num_elements(), gradient.data<T>());
    });
  });
  return squares;
}

double ClipScale(double norm, double max_norm) {
  CROSSTALK_CHECK(max_norm >= 0, "gradient clipping: the largest norm ", max_norm, " must not be negative");
  // An infinite square would stay in the optimizers' second moments, and block all updates.
  constexpr double kLargestNorm = 1.8e19;
  const double clipped = max_norm == 0 ? norm : std::min(norm, max_norm);
  // A norm that is not finite: max_norm/inf = 0 would hide it.
  if (!std::isfinite(norm) || clipped > kLargestNorm) return std::numeric_limits<double>::quiet_NaN();
  return clipped == norm ? 1.0 : max_norm / norm;
}

std::string DescribeNonFiniteGradient(const std::vector<NamedParameter>& parameters) {
  for (const NamedParameter& parameter : parameters) {
    if (!parameter.trainable || !parameter.value.grad().defined()) continue;
    const Tensor gradient = parameter.value.grad().Contiguous();
    const int64_t index = DispatchFloat("gradient", gradient.dtype(), [&](auto zero) {
      using T = decltype(zero);
      return kernels::FirstNonFinite<T>(gradient.num_elements(), gradient.data<T>());
    });
    if (index < 0) continue;
    return StrCat(parameter.name, "[", index, "] = ", gradient.Reshape({-1}).At({index}));
  }
  return "";
}

namespace {

// Parameters of at most this share of what a thread has to do end together, as the largest begin first.
constexpr int64_t kPartsPerThread = 2;

}  // namespace

void ForEachParameter(const std::vector<int64_t>& elements, FunctionRef<void(size_t i)> f) {
  const int64_t all = std::accumulate(elements.begin(), elements.end(), int64_t{0});
  // Another thread would not know that only shapes count.
  const int64_t most = CurrentContext().shapes_only ? 0 : all / (kPartsPerThread * NumThreads());
  std::vector<size_t> small;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] > most) {
      f(i);
    } else if (elements[i] > 0) {
      small.push_back(i);
    }
  }
  std::stable_sort(small.begin(), small.end(), [&](size_t a, size_t b) { return elements[a] > elements[b]; });
  const LoopWork work = LoopWork::OfElements(static_cast<double>(all));
  ParallelFor(static_cast<int64_t>(small.size()), [&](int64_t i) { f(small[static_cast<size_t>(i)]); });
}

}  // namespace crosstalk
