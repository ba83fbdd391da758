// Attention layers to test, every kind with every option and all dimensions distinct and odd, with random inputs for
// each; and both sides of a comparison: the plain loops of kernels/reference and the layer under test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/kernels/reference/attention.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/runtime/random.h"
#include "tests/support/close.h"

namespace crosstalk {

using kernels::reference::Array;
using kernels::reference::AttentionInputs;
using kernels::reference::AttentionValues;

struct AttentionCase {
  std::string name;
  AttentionConfig config;
  int64_t b = 3, n = 15, m = 17;
  bool self = false;     // M is X
  bool padding = false;  // mask[b, m]; example 1 is padding throughout, so its queries are wholly masked
  bool pairs = false;    // mask[b, n, m], one query wholly masked
  bool bias = false;
  bool dropout = false;
};

// Layers here are composed ones, which give all that is compared: W and U, and double. fused_test.cc chooses the
// other implementation.
constexpr AttentionImplementation kTestedImplementation = AttentionImplementation::kComposed;

inline std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  return out << c.name << ", " << ToString(c.config) << ", b=" << c.b << " n=" << c.n << " m=" << c.m;
}

inline AttentionConfig WidthsOfCases() {
  AttentionConfig config;
  config.implementation = kTestedImplementation;
  config.d_X = 19;
  config.d_M = 21;
  config.d_Y = 23;
  return config;
}

// A layer with the given head projections between head counts that differ wherever they may.
inline AttentionConfig MixingConfig(const HeadMixing& mixing) {
  AttentionConfig config = WidthsOfCases();
  config.d_k = 11;
  config.d_v = 13;
  config.h = 7;
  config.h_k = mixing.MixesLogits() ? 5 : config.h;
  config.h_v = mixing.MixesWeights() ? 9 : config.h;
  config.mixing = mixing;
  return config;
}

// Bits 0 … 3 are P_Xl, P_Ml, P_Xw, P_Mw.
inline HeadMixing DynamicSubset(int bits) {
  return {.P_Xl = (bits & 1) != 0, .P_Ml = (bits & 2) != 0, .P_Xw = (bits & 4) != 0, .P_Mw = (bits & 8) != 0};
}

inline AttentionConfig BilinearConfig() {
  AttentionConfig config = WidthsOfCases();
  config.form = AttentionForm::kBilinear;
  config.h = 5;
  return config;
}

// The same with one width, for self-attention.
inline AttentionConfig SelfConfig(AttentionConfig config) {
  config.d_M = config.d_X;
  return config;
}

inline AttentionConfig DotProductConfig() {
  AttentionConfig config = AttentionConfig::DotProduct(19);
  config.implementation = kTestedImplementation;
  return config;
}

inline std::vector<AttentionCase> AttentionCases() {
  std::vector<AttentionCase> cases;
  // Every presence of the head projections.
  std::vector<bool HeadMixing::*> mixings;
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (projection.mixing != nullptr) mixings.push_back(projection.mixing);
  }
  for (unsigned present = 0; present < 1u << mixings.size(); ++present) {
    HeadMixing mixing;
    for (size_t i = 0; i < mixings.size(); ++i) mixing.*mixings[i] = present >> i & 1;
    cases.push_back({.name = "mixing", .config = MixingConfig(mixing)});
  }
  // Square mixings, where taking W for U or R_X for R_M is no error of shape.
  const HeadMixing all = {.P_l = true, .P_w = true, .P_Xl = true, .P_Ml = true, .P_Xw = true, .P_Mw = true};
  AttentionConfig square = MixingConfig(all);
  square.h_k = square.h = square.h_v = 5;
  square.d_k = square.d_v = 11;
  square.d_X = square.d_M = square.d_Y = 19;
  cases.push_back({.name = "square", .config = square, .n = 17, .m = 17});

  for (const AttentionConfig& kind : {DotProductConfig(), MixingConfig({}), MixingConfig({.P_l = true, .P_w = true}),
                                      MixingConfig(all), BilinearConfig()}) {
    AttentionConfig scaled = kind, dropped = kind;
    scaled.scale = 0.375;
    dropped.dropout_rate = 0.25;
    AttentionConfig causal = SelfConfig(scaled);
    causal.causality = Causality::kCausal;
    const AttentionCase self = {.config = SelfConfig(kind), .n = 15, .m = 15, .self = true};
    AttentionCase masked = {.config = causal, .n = 15, .m = 15, .self = true};
    const auto add = [&](const char* name, AttentionCase one) {
      one.name = name;
      cases.push_back(one);
    };
    add("plain", {.config = kind});
    add("scaled", {.config = scaled});
    add("self", self);
    add("causal", masked);
    masked.padding = masked.bias = true;
    add("causal with bias and padding", masked);
    add("padding", {.config = kind, .padding = true});
    add("pairs", {.config = kind, .pairs = true});
    add("bias", {.config = kind, .bias = true});
    add("everything", {.config = scaled, .padding = true, .pairs = true, .bias = true});
    add("dropout", {.config = dropped, .pairs = true, .dropout = true});
    add("one query", {.config = kind, .n = 1});
    add("one memory position", {.config = kind, .m = 1});
    if (kind.form != AttentionForm::kProjected) continue;
    AttentionConfig tied = kind;
    tied.key_value = KeyValueProjection::kTied;
    tied.h_v = tied.h_k;
    tied.d_v = tied.d_k;
    add("tied", {.config = tied, .pairs = true});
  }
  return cases;
}

// ---- Arrays and tensors ------------------------------------------------------------------------------------------
inline Array<double> RandomArray(const std::vector<int64_t>& sizes, double stddev, const RandomKey& key) {
  Array<double> array(sizes);
  for (size_t i = 0; i < array.values().size(); ++i) array.values()[i] = stddev * Normal(key, i);
  return array;
}

inline Tensor ToTensor(const Array<double>& array, DType dtype = DType::kFloat64) {
  return array.present() ? Tensor::FromValues<double>(Shape(array.sizes()), array.values()).To(dtype) : Tensor();
}

inline Array<double> ToArray(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  Array<double> array(tensor.shape().ToVector());
  array.values() = tensor.To(DType::kFloat64).Contiguous().ToVector<double>();
  return array;
}

// |actual - expected| ≤ tolerance · the largest |expected| everywhere (and nothing that is not a number).
inline ::testing::AssertionResult CloseTo(const Array<double>& actual, const Array<double>& expected,
                                          double tolerance) {
  if (actual.sizes() == expected.sizes()) return testing::CloseToLargest(actual.values(), expected.values(), tolerance);
  return ::testing::AssertionFailure() << "the shape is " << ToString(Shape(actual.sizes())) << ", expected "
                                       << ToString(Shape(expected.sizes()));
}

// The same, except what is 0 because two equal terms cancel (a gradient through a softmax over one position): in float
// the rounding of those terms is left, which are of size 1 to 10, summed over some 50 rows.
inline ::testing::AssertionResult CloseOrCancelled(const Array<double>& actual, const Array<double>& expected,
                                                   double tolerance) {
  const auto is_zero = [](double x) { return x == 0; };
  if (!std::all_of(expected.values().begin(), expected.values().end(), is_zero)) {
    return CloseTo(actual, expected, tolerance);
  }
  return testing::AllClose(actual.values(), expected.values(), {.absolute = 3e-5});
}

// ---- Projections in the plain loops ------------------------------------------------------------------------------
// The plain loops' field of a projection; null for a bias, which they have none of.
inline Array<double>* InPaper(const AttentionProjection& projection, AttentionInputs<double>& in) {
  using In = AttentionInputs<double>;
  static const std::map<std::string_view, Array<double> In::*> fields = {
      {"P_q", &In::P_q},   {"P_k", &In::P_k},   {"P_v", &In::P_v},   {"P_o", &In::P_o},
      {"P_l", &In::P_l},   {"P_w", &In::P_w},   {"P_Xl", &In::P_Xl}, {"P_Ml", &In::P_Ml},
      {"P_Xw", &In::P_Xw}, {"P_Mw", &In::P_Mw}, {"P", &In::P},       {"Q", &In::Q}};
  const auto field = fields.find(projection.name());
  return field == fields.end() ? nullptr : &(in.*field->second);
}
inline const Array<double>* InPaper(const AttentionProjection& projection, const AttentionInputs<double>& in) {
  return InPaper(projection, const_cast<AttentionInputs<double>&>(in));
}

inline std::vector<int64_t> PaperSizes(const AttentionProjection& projection, const AttentionConfig& config) {
  const Shape stored = ShapeOf(projection, config);
  const std::vector<int> order = PaperToStorage(projection);
  std::vector<int64_t> sizes(order.size());
  for (size_t i = 0; i < order.size(); ++i) sizes[static_cast<size_t>(order[i])] = stored[static_cast<int>(i)];
  return sizes;
}

// ---- One case's data ---------------------------------------------------------------------------------------------
// Random inputs in the paper's layouts, of a size that spreads the weights without making them one-hot.
inline AttentionInputs<double> MakeInputs(const AttentionCase& c, uint64_t seed = 7) {
  const AttentionConfig& f = c.config;
  uint32_t stream = 0;
  const auto random = [&](const std::vector<int64_t>& sizes, double fan) {
    return RandomArray(sizes, 1 / std::sqrt(fan), {.seed = seed, .stream = ++stream});
  };
  AttentionInputs<double> in;
  in.scale = f.scale;
  in.X = random({c.b, c.n, f.d_X}, f.form == AttentionForm::kDotProduct ? std::sqrt(f.d_X) : 1);
  in.M = c.self ? in.X : random({c.b, c.m, f.d_M}, 1);
  for (const AttentionProjection& projection : kAttentionProjections) {
    Array<double>* const array = InPaper(projection, in);
    if (!IsPresent(projection, f) || array == nullptr) continue;
    const InitialValues start = InitialValuesOf(projection, f);
    const double fan = start.stddev > 0 ? std::pow(projection.factor / start.stddev, 2) : 1;
    *array = random(PaperSizes(projection, f), fan);
  }
  if (c.bias) in.bias = random({f.h, c.n, c.m}, 1);

  const bool causal = f.causality == Causality::kCausal;
  if (c.padding || c.pairs || causal) {
    in.mask = Array<uint8_t>({c.b, c.n, c.m}, 1);
    const RandomKey key{.seed = seed, .stream = 99};
    for (int64_t b = 0; b < c.b; ++b)
      for (int64_t i = 0; i < c.n; ++i)
        for (int64_t j = 0; j < c.m; ++j) {
          bool attend = !causal || j <= i;
          if (c.padding) attend = attend && b != 1 && j < c.m - 2 * b;
          if (c.pairs) attend = attend && i != c.n / 2 && Uniform(key, (b * c.n + i) * c.m + j) < 0.7;
          in.mask(b, i, j) = attend;
        }
  }
  if (c.dropout) {  // the layer's numbers belong to U[b, h_v, n, m]
    const int64_t heads = f.form == AttentionForm::kProjected ? f.h_v : f.h;
    const Tensor ones = Tensor::Full({c.b, heads, c.n, c.m}, 1, DType::kFloat64);
    in.multiplier =
        ToArray(Permute(Dropout(Variable(ones), f.dropout_rate, {.seed = 5, .stream = 6}), {0, 2, 3, 1}).value());
  }
  return in;
}

inline Array<double> MakeOutputGradient(const AttentionCase& c) {
  return RandomArray({c.b, c.n, c.config.d_Y}, 1, {.seed = 3, .stream = 98});
}

struct NamedArray {
  std::string name;
  Array<double> array;
};

// Y, W, U and the gradients of all that is there, in the paper's layouts; self-attention's dX holds both parts. W and
// U are empty where the implementation does not give them.
inline std::vector<NamedArray> NamedResults(const AttentionCase& c, const AttentionValues<double>& values,
                                            const AttentionInputs<double>& gradients) {
  std::vector<NamedArray> results = {{"Y", values.Y}, {"W", values.W}, {"U", values.U}};
  Array<double> dX = gradients.X;
  if (c.self) {
    for (size_t i = 0; i < dX.values().size(); ++i) dX.values()[i] += gradients.M.values()[i];
  }
  results.push_back({"dX", dX});
  if (!c.self) results.push_back({"dM", gradients.M});
  const auto add = [&](const std::string& name, const Array<double>& array) {
    if (array.present()) results.push_back({name, array});
  };
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (const Array<double>* array = InPaper(projection, gradients)) add("d" + std::string(projection.name()), *array);
  }
  add("dbias", gradients.bias);
  return results;
}

inline std::vector<NamedArray> ReferenceResults(const AttentionCase& c, const AttentionInputs<double>& in) {
  const AttentionValues<double> values = kernels::reference::AttentionForward(in);
  return NamedResults(c, values, kernels::reference::AttentionBackward(in, values, MakeOutputGradient(c)));
}

// Parameters in storage order from the paper's layouts, as views of leaves whose gradients are in the paper's.
struct LayerLeaves {
  Variable X, M;
  AttentionParameters parameters;  // in the paper's order
  Variable bias;

  LayerLeaves(const AttentionCase& c, const AttentionInputs<double>& in, DType dtype) {
    const auto leaf = [&](const Array<double>& array) {
      return array.present() ? Variable(ToTensor(array, dtype), Variable::RequiresGrad::kYes) : Variable();
    };
    X = leaf(in.X);
    M = c.self ? X : leaf(in.M);
    for (const AttentionProjection& projection : kAttentionProjections) {
      if (const Array<double>* array = InPaper(projection, in)) parameters.*projection.parameter = leaf(*array);
    }
    bias = leaf(in.bias);
  }

  AttentionParameters Parameters() const {
    AttentionParameters stored;
    for (const AttentionProjection& projection : kAttentionProjections) {
      const Variable& leaf = parameters.*projection.parameter;
      if (leaf.defined()) stored.*projection.parameter = Permute(leaf, PaperToStorage(projection));
    }
    return stored;
  }

  // After Backward.
  AttentionInputs<double> Gradients(const AttentionCase& c) const {
    const auto gradient = [](const Variable& leaf) {
      return leaf.defined() && leaf.grad().defined() ? ToArray(leaf.grad()) : Array<double>();
    };
    AttentionInputs<double> d;
    d.X = gradient(X);
    d.M = c.self ? Array<double>(d.X.sizes()) : gradient(M);
    for (const AttentionProjection& projection : kAttentionProjections) {
      if (Array<double>* array = InPaper(projection, d)) *array = gradient(parameters.*projection.parameter);
    }
    d.bias = gradient(bias);
    return d;
  }
};

// The case's masks as the layer takes them (causality is the configuration's).
inline AttentionCallOptions ExtrasOf(const AttentionCase& c, const AttentionInputs<double>& in, const Variable& bias) {
  AttentionCallOptions options;
  options.bias = bias;
  // The fused implementation computes no W; a call that wants it is computed by the composed one.
  options.outputs = c.config.implementation == AttentionImplementation::kFused ? AttentionOutputs::kOutputOnly
                                                                               : AttentionOutputs::kWithWeights;
  if (c.padding) {
    std::vector<uint8_t> memory(c.b * c.m);
    for (int64_t b = 0; b < c.b; ++b)
      for (int64_t j = 0; j < c.m; ++j) memory[b * c.m + j] = b != 1 && j < c.m - 2 * b;
    options.key_padding_mask = Tensor::FromValues<uint8_t>({c.b, c.m}, memory);
  }
  if (c.pairs) options.attention_mask = Tensor::FromValues<uint8_t>({c.b, c.n, c.m}, in.mask.values());
  return options;
}

inline std::vector<NamedArray> LayerResults(const AttentionCase& c, const AttentionInputs<double>& in, DType dtype) {
  const LayerLeaves leaves(c, in, dtype);
  std::optional<RandomKey> dropout_key;
  if (c.dropout) dropout_key = RandomKey{.seed = 5, .stream = 6};
  const AttentionResult result =
      ComputeAttention(c.config, leaves.Parameters(), leaves.X, leaves.M, ExtrasOf(c, in, leaves.bias), dropout_key);
  Backward(result.Y, ToTensor(MakeOutputGradient(c), dtype));
  AttentionValues<double> values;
  values.Y = ToArray(result.Y.value());
  if (result.W.defined()) values.W = ToArray(result.W.value());
  if (result.U.defined()) values.U = ToArray(result.U.value());
  return NamedResults(c, values, leaves.Gradients(c));
}

}  // namespace crosstalk
