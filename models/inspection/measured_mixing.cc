// What the mixing of heads is made of where it is a function of tokens: measured over a forward pass.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "crosstalk/models/inspection/mixing.h"
#include "crosstalk/nn/attention/types.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {
namespace {

// Of the matrices R[s, t] of all positions that a layer was applied to.
struct MatrixSums {
  Shape shape;
  int64_t positions = 0;
  std::vector<double> values, squares;  // of each element

  // R[b, n, s, t]
  void Add(const Tensor& R) {
    const std::vector<double> all = R.To(DType::kFloat64).Contiguous().ToVector<double>();
    shape = {R.size(2), R.size(3)};
    const auto size = static_cast<size_t>(shape.NumElements());
    values.resize(size);
    squares.resize(size);
    for (size_t i = 0; i < all.size(); ++i) {
      values[i % size] += all[i];
      squares[i % size] += all[i] * all[i];
    }
    positions += R.size(0) * R.size(1);
  }

  double Mean(size_t element) const { return values[element] / static_cast<double>(positions); }
  // Σ over positions of (R - c)², without R itself.
  double SquaresFrom(size_t element, double c) const {
    return std::max(0.0, squares[element] - 2 * c * values[element] + c * c * static_cast<double>(positions));
  }
};

// `holds_identity`: a layer with no static matrix adds J or W itself, and what it captures as R has that, too.
void Fill(const MatrixSums& sums, bool holds_identity, DynamicMixing* dynamic) {
  const int64_t columns = sums.shape[1];
  dynamic->mean = Tensor::Zeros(sums.shape, DType::kFloat64);
  double size = 0, spread = 0;
  for (int64_t i = 0; i < sums.shape.NumElements(); ++i) {
    const auto element = static_cast<size_t>(i);
    const double own = holds_identity && i / columns == i % columns ? 1 : 0;
    dynamic->mean.data<double>()[i] = sums.Mean(element) - own;
    size += sums.SquaresFrom(element, own);
    spread += sums.SquaresFrom(element, sums.Mean(element));
  }
  const double count = static_cast<double>(sums.positions) * static_cast<double>(sums.shape.NumElements());
  dynamic->generated = std::sqrt(size / count);
  dynamic->spread = std::sqrt(spread / count);
}

// R_Xw[2g + 1, g] = -λ_g.
void Fill(const MatrixSums& R_Xw, DifferentialMixing* differential) {
  differential->lambda.clear();
  differential->spread.clear();
  for (int64_t g = 0; g < R_Xw.shape[1]; ++g) {
    const auto element = static_cast<size_t>((2 * g + 1) * R_Xw.shape[1] + g);
    const double mean = R_Xw.Mean(element);
    differential->lambda.push_back(-mean);
    differential->spread.push_back(std::sqrt(R_Xw.SquaresFrom(element, mean) / static_cast<double>(R_Xw.positions)));
  }
}

}  // namespace

void MeasureDynamicMixing(const std::function<void(const StopRequest& done)>& forward,
                          std::vector<LayerMixing>* layers) {
  std::map<std::pair<std::string, std::string>, MatrixSums> sums;  // by layer and name, "R_Xl"
  std::set<std::string> waiting;                                   // layers that have not been applied
  for (const LayerMixing& layer : *layers) {
    if (layer.DependsOnTokens()) waiting.insert(layer.layer);
  }
  {
    const ContextScope no_grad = NoGrad();
    const std::function<void(const AttentionCapture&)> take = [&](const AttentionCapture& capture) {
      waiting.erase(capture.module);
      for (const auto& [name, tensor] : capture.dynamic) sums[{capture.module, name}].Add(tensor);
    };
    const ContextScope captured(&OpContext::capture, &take);
    forward([&] { return waiting.empty(); });
  }
  for (LayerMixing& layer : *layers) {
    for (DynamicMixing& dynamic : layer.dynamic) {
      const auto found = sums.find({layer.layer, "R_" + dynamic.name});
      if (found != sums.end()) Fill(found->second, dynamic.beside == "I" && dynamic.name.starts_with('X'), &dynamic);
    }
    if (!layer.differential || !layer.differential->of_tokens) continue;
    const auto found = sums.find({layer.layer, "R_Xw"});
    if (found != sums.end()) Fill(found->second, &*layer.differential);
  }
}

}  // namespace crosstalk
