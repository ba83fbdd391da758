// Modules whose weights lie in memory as bfloat16.

#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/runtime/op_context.h"
#include "tests/support/attention_cases.h"

namespace crosstalk::rounded_weights_test {

Tensor Values(const Shape& shape, uint32_t stream) {
  const Tensor values = Tensor::Empty(shape, DType::kFloat32);
  FillNormal(values, {.seed = 7, .stream = stream, .step = 0}, 0, 1);
  return values;
}

std::vector<float> InBFloat16(const std::function<Variable()>& result) {
  const ContextScope precision(&OpContext::precision, Precision::kBFloat16);
  const ContextScope no_grad = NoGrad();
  return result().value().ToVector<float>();
}

// RoundWeights keeps a result's bits; gives the names of the parameters that are bfloat16 then.
std::set<std::string> NamesRounded(Module* module, const std::function<Variable()>& result) {
  const std::vector<float> before = InBFloat16(result);
  module->RoundWeights();
  EXPECT_EQ(InBFloat16(result), before);
  module->RoundWeights();
  EXPECT_EQ(InBFloat16(result), before) << "rounded twice";
  std::set<std::string> rounded;
  for (const NamedParameter& parameter : module->Parameters()) {
    EXPECT_FALSE(parameter.trainable) << parameter.name;
    EXPECT_FALSE(parameter.value.requires_grad()) << parameter.name;
    if (parameter.value.dtype() == DType::kBFloat16) rounded.insert(parameter.name);
  }
  return rounded;
}

using Names = std::set<std::string>;

// The head projections that multiply logits and weights stay as they are: so does that product.
TEST(RoundedWeightsTest, EveryKindOfLayerRoundsTheMatricesOfItsProducts) {
  Linear linear(67, 35, LinearBias::kYes, Initializer(1));
  const Variable x(Values({3, 67}, 1)), y(Values({2, 3, 33}, 1));
  EXPECT_EQ(NamesRounded(&linear, [&] { return linear.Forward(x); }), (Names{"weight"}));
  FeedForward layer({.d_model = 33, .d_ff = 71, .kind = FeedForwardKind::kGatedGelu, .bias = LinearBias::kYes},
                    Initializer(1));
  EXPECT_EQ(NamesRounded(&layer, [&] { return layer.Forward(y, {}); }), (Names{"wi_0", "wi_1", "wo"}));
  const std::pair<AttentionConfig, Names> kinds[] = {
      {MixingConfig({}), {"P_q", "P_k", "P_v", "P_o"}},
      {MixingConfig({.P_l = true, .P_w = true}), {"P_q", "P_k", "P_v", "P_o"}},
      {MixingConfig({.P_l = true, .P_w = true, .P_Xl = true, .P_Ml = true, .P_Xw = true, .P_Mw = true}),
       {"P_q", "P_k", "P_v", "P_o", "P_Xl", "P_Ml", "P_Xw", "P_Mw"}},
      {BilinearConfig(), {"P", "Q"}},
      {DotProductConfig(), {}}};
  for (const auto& [config, names] : kinds) {
    AttentionModule attention(config, Initializer(1));
    const Variable X(Values({2, 5, config.d_X}, 1)), M(Values({2, 7, config.d_M}, 2));
    EXPECT_EQ(NamesRounded(&attention, [&] { return attention.Forward(X, M, {}, {}).Y; }), names) << ToString(config);
  }
}

class Tied : public Module {
 public:
  explicit Tied(ClassifierKind kind)
      : Module(Initializer(1)),
        embedding(this, "embedding", 300, 131, 1.0),
        classifier(this, "classifier", kind, 267, embedding) {}
  Child<EmbeddingLayer> embedding;
  Child<Classifier> classifier;
};

// One row, which reads the table as it lies, and more.
TEST(RoundedWeightsTest, ATiedTableHasACopyAndLookUpsReadTheTable) {
  for (const int64_t rows : {1, 4, 5}) {
    for (const ClassifierKind kind : {ClassifierKind::kTied, ClassifierKind::kUntied}) {
      Tied model(kind);
      const Variable hidden(Values({rows, 131}, 1));
      const Tensor ids = Tensor::Full({rows}, 5, DType::kInt32);
      const std::vector<float> looked_up = model.embedding->Forward(ids).value().ToVector<float>();
      const auto loss = [&] { return model.classifier->Loss(hidden, ids, {}).loss; };
      const std::vector<float> before = InBFloat16(loss);
      EXPECT_EQ(NamesRounded(&model, [&] { return model.classifier->Logits(hidden); }),
                kind == ClassifierKind::kTied ? Names{} : Names{"classifier.table"});
      EXPECT_EQ(InBFloat16(loss), before);
      EXPECT_EQ(model.embedding->Forward(ids).value().ToVector<float>(), looked_up);
    }
  }
}

// Products in float show the weights themselves: the rounded ones.
TEST(RoundedWeightsTest, InFloatTheyAreTheRoundedNumbers) {
  Linear linear(2, 1, LinearBias::kNo, Initializer(1));
  linear.Parameters()[0].value.SetValue(Tensor::FromValues<float>({2, 1}, std::vector<float>{1.0f + 0x1p-20f, 3.0f}));
  linear.RoundWeights();
  const ContextScope no_grad = NoGrad();
  EXPECT_EQ(linear.Forward(Variable(Tensor::FromValues<float>({1, 2}, std::vector<float>{1, 0.5f + 0x1p-20f})))
                .value()
                .Item(),
            1 + 3 * (0.5f + 0x1p-20f));
}

TEST(RoundedWeightsTest, DoubleStaysDouble) {
  Linear linear(3, 2, LinearBias::kNo, Initializer(1, DType::kFloat64));
  linear.RoundWeights();
  EXPECT_EQ(linear.Parameters()[0].value.dtype(), DType::kFloat64);
}

}  // namespace crosstalk::rounded_weights_test
