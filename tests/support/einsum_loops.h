// An einsum's definition, loop by loop.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "crosstalk/autograd/einsum/order.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk::testing {

struct EinsumLoops {
  Shape shape;  // of the result
  std::vector<double> result;
  std::vector<std::vector<double>> gradients;  // of each operand, for dY; of zeros without it
};

// For each index of all dimensions the product of the operands, contiguous and in double, is added where it belongs.
inline EinsumLoops LoopOver(const EinsumEquation& equation, const std::vector<Tensor>& operands,
                            const std::vector<double>& dY = {}) {
  std::map<std::string, size_t> number;  // of a dimension's name
  std::vector<int64_t> sizes;
  std::vector<std::vector<size_t>> labels;  // of the operands, then the result
  for (size_t k = 0; k <= operands.size(); ++k) {
    const Bracket& bracket = k < operands.size() ? equation.operands[k] : equation.result;
    labels.emplace_back();
    for (size_t dim = 0; dim < bracket.indices.size(); ++dim) {
      const auto [known, is_new] = number.emplace(bracket.indices[dim], sizes.size());
      if (is_new) sizes.push_back(operands.at(k).size(static_cast<int>(dim)));
      labels[k].push_back(known->second);
    }
  }
  EinsumLoops loops;
  for (const size_t label : labels.back()) loops.shape.Append(sizes[label]);
  loops.result.resize(static_cast<size_t>(loops.shape.NumElements()));
  for (const Tensor& operand : operands) loops.gradients.emplace_back(operand.num_elements());
  int64_t products = 1;
  for (const int64_t size : sizes) products *= size;
  std::vector<int64_t> index(sizes.size()), places(labels.size());
  for (int64_t i = 0; i < products; ++i) {
    for (int64_t label = std::ssize(index) - 1, rest = i; label >= 0; rest /= sizes[label--]) {
      index[label] = rest % sizes[label];
    }
    for (size_t k = 0; k < labels.size(); ++k) {
      places[k] = 0;
      for (const size_t label : labels[k]) places[k] = places[k] * sizes[label] + index[label];
    }
    // The product of all operands but one.
    const auto product = [&](size_t without) {
      double value = 1;
      for (size_t k = 0; k < operands.size(); ++k) value *= k == without ? 1 : operands[k].data<double>()[places[k]];
      return value;
    };
    loops.result[places.back()] += product(operands.size());
    for (size_t k = 0; k < operands.size() && !dY.empty(); ++k) {
      loops.gradients[k][places[k]] += dY[places.back()] * product(k);
    }
  }
  return loops;
}

}  // namespace crosstalk::testing
