// A layer through the C interface computes what the layer computes, to the bit, and refuses what does not fit.
#include "crosstalk/nn/attention/attention.h"

#include <cstdlib>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/tensor.h"
#include "tests/models/bindings/c/owned.h"

namespace crosstalk::attention_test {

constexpr int64_t kRows = 2, kLength = 5, kWidth = 8;
constexpr char kLayer[] = R"({"d_model": 8, "attention": "talking", "heads": 2, "causality": "causal", "seed": 3})";
const std::vector<int64_t> kShape = {kRows, kLength, kWidth};

AttentionConfig SameLayer() {
  AttentionConfig config = AttentionConfig::TalkingHeads(kWidth, 2, 2, 2, 4, 4);
  config.causality = Causality::kCausal;
  return config;
}

Owned<ct_attention> Layer(const char* configuration = kLayer) {
  Owned<ct_attention> layer;
  EXPECT_CT(ct_attention_create(configuration, &layer));
  return layer;
}

struct Named {
  const char* name;
  const ct_tensor* tensor;
};
Owned<ct_tensors> ListOf(const std::vector<Named>& tensors) {
  Owned<ct_tensors> list;
  EXPECT_CT(ct_tensors_create(&list));
  for (const Named& one : tensors) EXPECT_CT(ct_tensors_add(list, one.name, one.tensor));
  return list;
}
Owned<ct_tensors> Forward(const ct_attention* layer, const std::vector<Named>& inputs, ct_pass** pass = nullptr,
                          const char* options = nullptr) {
  Owned<ct_tensors> outputs;
  EXPECT_CT(ct_attention_forward(layer, ListOf(inputs), options, &outputs, pass));
  return outputs;
}

TEST(CAttentionTest, ComputesValuesAndGradientsOfTheLayer) {
  std::vector<float> x = SomeValues(kRows * kLength * kWidth), dy = SomeValues(x.size(), 1);
  const AttentionModule expected(SameLayer(), Initializer(3));
  const Variable X(Tensor::FromValues({kRows, kLength, kWidth}, x), Variable::RequiresGrad::kYes);
  const Variable Y = expected.Forward(X, X, {}, {}).Y;
  Backward(Y, Tensor::FromValues({kRows, kLength, kWidth}, dy));

  const Owned<ct_attention> layer = Layer();
  Owned<ct_tensor> tensor = Wrap(x, kShape), seed = Wrap(dy, kShape);
  Owned<ct_tensors> gradients;
  Owned<ct_pass> pass;
  EXPECT_EQ(ValuesOf(Forward(layer, {{"X", tensor}}, &pass), "Y"), Y.value().ToVector<float>());
  ASSERT_CT(ct_backward(pass, "Y", seed, &gradients));
  EXPECT_EQ(ValuesOf(gradients, "X"), X.grad().Contiguous().ToVector<float>());
  size_t count = 0;
  ASSERT_CT(ct_tensors_size(gradients, &count));
  EXPECT_EQ(count, 1 + expected.Parameters().size());
  for (const NamedParameter& parameter : expected.Parameters()) {
    EXPECT_EQ(ValuesOf(gradients, parameter.name.c_str()), parameter.value.grad().Contiguous().ToVector<float>())
        << parameter.name;
  }
  ct_tensors* again = nullptr;
  EXPECT_EQ(ct_backward(pass, "Y", seed, &again), CT_USAGE);
}

// Two passes before the first gradient, as a model has that uses a layer twice.
TEST(CAttentionTest, PassesDoNotDisturbEachOther) {
  std::vector<float> x = SomeValues(kRows * kLength * kWidth), other = SomeValues(x.size(), 2),
                     dy = SomeValues(x.size(), 1);
  const Owned<ct_attention> layer = Layer();
  const Owned<ct_tensor> seed = Wrap(dy, kShape), X = Wrap(x, kShape), another = Wrap(other, kShape);
  Owned<ct_pass> alone, first, second;
  Owned<ct_tensors> expected, after, ignored;
  Forward(layer, {{"X", X}}, &alone);
  ASSERT_CT(ct_backward(alone, "Y", seed, &expected));
  Forward(layer, {{"X", X}}, &first);
  Forward(layer, {{"X", another}}, &second);
  ASSERT_CT(ct_backward(second, "Y", seed, &ignored));
  ASSERT_CT(ct_backward(first, "Y", seed, &after));
  for (const char* name : {"X", "P_q", "P_l"}) EXPECT_EQ(ValuesOf(after, name), ValuesOf(expected, name)) << name;
}

// X in columns of a wider array: read where it is.
TEST(CAttentionTest, StridesWithGapsAreRead) {
  std::vector<float> x = SomeValues(kRows * kLength * kWidth), wide(x.size() * 3);
  for (size_t i = 0; i < x.size(); ++i) wide[i * 3] = x[i];
  const Owned<ct_attention> layer = Layer();
  const std::vector<int64_t> strides = {3 * kLength * kWidth, 3 * kWidth, 3};
  ct_array array = ArrayOf(wide.data(), CT_FLOAT32, kShape);
  array.strides = strides.data();
  Owned<ct_tensor> dense = Wrap(x, kShape), strided;
  ASSERT_CT(ct_tensor_wrap(&array, nullptr, nullptr, &strided));
  EXPECT_EQ(ValuesOf(Forward(layer, {{"X", strided}}), "Y"), ValuesOf(Forward(layer, {{"X", dense}}), "Y"));
}

TEST(CAttentionTest, AMemoryIsProjectedOnceAndAttendedTo) {
  std::vector<float> x = SomeValues(kRows * kLength * kWidth), m = SomeValues(kRows * 3 * kWidth, 4);
  const Owned<ct_attention> layer = Layer(R"({"d_model": 8, "heads": 2})");
  const Owned<ct_tensor> X = Wrap(x, kShape), M = Wrap(m, {kRows, 3, kWidth});
  const Owned<ct_tensors> whole = Forward(layer, {{"X", X}, {"M", M}});
  Owned<ct_tensors> outputs;
  Owned<ct_cache> cache;
  ASSERT_CT(ct_attention_begin(layer, M, &cache));
  ASSERT_CT(ct_attention_step(layer, cache, ListOf({{"X", X}}), &outputs));
  const std::vector<float> expected = ValuesOf(whole, "Y"), attended = ValuesOf(outputs, "Y");
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(attended[i], expected[i], 1e-5);
}

// In double the composed implementation computes.
TEST(CAttentionTest, ItsDescriptionSaysWhatComputesIt) {
  const Owned<ct_attention> in_double = Layer(R"({"d_model": 8, "heads": 2, "dtype": "float64"})");
  const char* json = nullptr;
  ASSERT_CT(ct_describe(in_double, &json));
  const Json described = ParseJson(json, "description");
  EXPECT_EQ(described.At("implementation"), Json("composed"));
  EXPECT_EQ(described.At("configuration").At("implementation"), Json("composed"));
}

TEST(CAttentionTest, WeightsAreGivenWhereAsked) {
  std::vector<float> x = SomeValues(kRows * kLength * kWidth);
  const Owned<ct_attention> layer = Layer();
  const Owned<ct_tensors> outputs = Forward(layer, {{"X", Wrap(x, kShape)}}, nullptr, "{\"weights\": true}");
  Owned<ct_tensor> W;
  ASSERT_CT(ct_tensors_find(outputs, "W", &W));
  ct_array array = {};
  ASSERT_CT(ct_tensor_array(W, &array));
  EXPECT_EQ(std::vector<int64_t>(array.shape, array.shape + array.rank),
            (std::vector<int64_t>{kRows, kLength, kLength, 2}));
}

TEST(CAttentionTest, WhatDoesNotFitIsRefusedByName) {
  std::vector<float> x = SomeValues(kRows * kLength * kWidth);
  std::vector<double> doubles(x.size());
  const Owned<ct_attention> layer = Layer();
  const Owned<ct_tensor> X = Wrap(x, kShape), flat = Wrap(x, {kRows * kLength, kWidth}),
                         narrow = Wrap(x, {kRows, kWidth, kLength}), empty = Wrap(x, {0, kLength, kWidth});
  const ct_array array = ArrayOf(doubles.data(), CT_FLOAT64, kShape);
  Owned<ct_tensor> in_double;
  ASSERT_CT(ct_tensor_wrap(&array, nullptr, nullptr, &in_double));
  ct_tensors* outputs = nullptr;
  const auto refused = [&](const std::vector<Named>& inputs, const char* options = nullptr) {
    EXPECT_EQ(ct_attention_forward(layer, ListOf(inputs), options, &outputs, nullptr), CT_USAGE);
    return std::string(ct_last_error());
  };
  const std::pair<std::vector<Named>, const char*> kCases[] = {
      {{}, "inputs: there is no X"},
      {{{"X", flat}}, "X: has shape [10, 8], and must have 3 dimensions"},
      {{{"X", empty}}, "X: has shape [0, 5, 8], and holds nothing"},
      {{{"X", in_double}}, "X: is float64, and the layer computes in float32"},
      {{{"X", X}, {"attention_mask", X}}, "attention_mask: is float32, and must be bool"},
      {{{"X", narrow}}, "X: has shape [2, 8, 5], and the layer's d_X is 8"},
      {{{"X", X}, {"M", narrow}}, "d_M=5"},
      {{{"X", X}, {"Y", X}}, "Y is not known here"},
      {{{"X", X}, {"bias", X}}, "bias"}};
  for (const auto& [inputs, says] : kCases) EXPECT_NE(refused(inputs).find(says), std::string::npos) << says;
  refused({{"X", X}}, "{\"weight\": true}");
  EXPECT_STREQ(ct_last_error_field(), "weight");
  EXPECT_EQ(outputs, nullptr);
}

// The host's memory ends where its last element does; sanitizers see what reads past it.
TEST(CAttentionTest, NothingBehindTheHostsMemoryIsRead) {
  for (const char* kind : {"multihead", "talking", "dynamic", "bilinear", "dcmha", "diff-v1", "mta"}) {
    const std::string configuration =
        std::string(R"({"d_model": 12, "heads": 2, "causality": "causal", "attention": ")") + kind + "\"}";
    const Owned<ct_attention> layer = Layer(configuration.c_str());
    const std::vector<int64_t> shape = {1, 7, 12}, mask_shape = {1, 7, 7}, bias_shape = {2, 7, 7};
    auto* const memory = static_cast<float*>(std::calloc(7 * 12, sizeof(float)));
    auto* const bias = static_cast<float*>(std::calloc(2 * 7 * 7, sizeof(float)));
    auto* const mask = static_cast<uint8_t*>(std::calloc(7 * 7, 1));
    ct_array arrays[] = {ArrayOf(memory, CT_FLOAT32, shape), ArrayOf(mask, CT_BOOL, mask_shape),
                         ArrayOf(bias, CT_FLOAT32, bias_shape)};
    Owned<ct_tensor> X, allowed, added;
    ASSERT_CT(ct_tensor_wrap(&arrays[0], std::free, memory, &X));
    ASSERT_CT(ct_tensor_wrap(&arrays[1], std::free, mask, &allowed));
    ASSERT_CT(ct_tensor_wrap(&arrays[2], std::free, bias, &added));
    Owned<ct_tensors> gradients;
    Owned<ct_pass> pass;
    Forward(layer, {{"X", X}, {"attention_mask", allowed}, {"bias", added}}, &pass);
    EXPECT_CT(ct_backward(pass, "Y", X, &gradients));
  }
}

}  // namespace crosstalk::attention_test
