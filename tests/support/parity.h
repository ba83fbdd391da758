// The small published models of tests/tools/commands/parity, with what Hugging Face's own code computes of them in
// float64 (transformers 4.27.4): outputs, losses and gradients. Of a large tensor the file has every k-th element.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>

#include "crosstalk/runtime/safetensors.h"

namespace crosstalk {

inline constexpr const char* kParityModels[] = {"t5_relu_tied", "bert_pretraining", "albert_groups1"};

inline std::string ParityFolder(const std::string& model) {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  return std::string(source == nullptr ? "." : source) + "/tests/tools/commands/parity/" + model;
}

// Biases of keys add the same to all logits of a query: their gradients are rounding alone.
inline bool IsZeroUpToRounding(const std::string& name) { return name.find(".key.bias") != std::string::npos; }

enum class ParityTensors { kAll, kResultsAndGradients };

// Every tensor of `expected` is in `got` with its values, to `tolerance` times the largest magnitude of the tensor; to
// half of the last bit of a float more where it is stored as one. There are more than `least` of them.
inline void ExpectParity(const TensorFile& expected, const TensorFile& got, double tolerance, ParityTensors which,
                         int least = 30) {
  int compared = 0;
  for (const NamedTensor& one : expected.tensors) {
    const bool inner =
        one.name.find("hidden_states.") != std::string::npos || one.name.find("attentions.") != std::string::npos;
    if (inner && which == ParityTensors::kResultsAndGradients) continue;
    if (one.name.starts_with("gen.") || one.name.starts_with("grad_")) continue;  // other questions than ours
    const Tensor* const found = got.Find(one.name);
    ASSERT_NE(found, nullptr) << one.name;
    const Tensor values = found->Contiguous().To(DType::kFloat64), wanted = one.tensor.To(DType::kFloat64);
    int64_t stride = 1;
    double largest = 0;
    if (const auto facts = expected.metadata.find(one.name); facts != expected.metadata.end()) {
      std::istringstream(facts->second) >> stride >> largest;
    } else {
      for (int64_t i = 0; i < wanted.num_elements(); ++i) {
        largest = std::max(largest, std::abs(wanted.data<double>()[i]));
      }
    }
    ASSERT_EQ((values.num_elements() + stride - 1) / stride, wanted.num_elements()) << one.name;
    const double rounding = one.tensor.dtype() == DType::kFloat32 ? 0x1p-24 : 0;
    const double allowed = IsZeroUpToRounding(one.name) ? tolerance : (tolerance + rounding) * largest;
    for (int64_t i = 0; i < wanted.num_elements(); ++i) {
      ASSERT_NEAR(values.data<double>()[i * stride], wanted.data<double>()[i], allowed)
          << one.name << " at " << i * stride << ", largest " << largest;
    }
    ++compared;
  }
  EXPECT_GT(compared, least);
}

}  // namespace crosstalk
