// The small layers: dense, embedding, norms, dropout, feed-forward, classifier, beside their equations by ops.
#include "crosstalk/nn/layers.h"

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/random.h"
#include "tests/support/attention_cases.h"
#include "tests/support/close.h"
#include "tests/support/messages.h"

namespace crosstalk::layers_test {

using Values = std::vector<double>;

Tensor Random(const Shape& shape, uint32_t stream) {
  Tensor tensor = Tensor::Empty(shape, DType::kFloat64);
  FillNormal(tensor, {.seed = 31, .stream = stream}, 0.0, 1.0);
  return tensor;
}
Values ValueOf(const Variable& variable) { return variable.value().ToVector<double>(); }

// Sums of at most 11 products of numbers of order 1, in double.
void ExpectClose(const Variable& actual, const Variable& expected) {
  EXPECT_EQ(actual.shape(), expected.shape());
  EXPECT_TRUE(testing::AllClose(ValueOf(actual), ValueOf(expected), {1e-13, 0}));
}

// The parameters, with values that show where they start as 0 or 1.
std::vector<Variable> Filled(const Module& module) {
  std::vector<Variable> all;
  for (const NamedParameter& parameter : module.Parameters()) {
    if (parameter.matrix_shape.rank() == 0) {
      parameter.value.SetValue(Random(parameter.value.shape(), 100 + static_cast<uint32_t>(all.size())));
    }
    all.push_back(parameter.value);
  }
  return all;
}

const Initializer kInit(1, DType::kFloat64, "layer");

TEST(LayersTest, FollowTheirEquationsOverAllLeadingDimensions) {
  const Variable x(Random({2, 7, 5}, 1));
  const Linear linear(5, 3, LinearBias::kYes, kInit.At("linear"));
  const std::vector<Variable> l = Filled(linear);
  ExpectClose(linear.Forward(x), Add(Reshape(MatMul(Reshape(x, {14, 5}), l[0]), {2, 7, 3}), l[1]));

  const NormLayer rms(5, {.kind = NormKind::kRms, .epsilon = 1e-2}, kInit.At("rms"));
  const std::vector<Variable> r = Filled(rms);
  ExpectClose(rms.Forward(x), RmsNorm(x, r[0], 1e-2));
  const NormLayer norm(5, {.kind = NormKind::kLayer, .epsilon = 1e-3}, kInit.At("norm"));
  const std::vector<Variable> n = Filled(norm);
  ExpectClose(norm.Forward(x), LayerNorm(x, n[0], n[1], 1e-3));

  const EmbeddingLayer embedding(6, 4, 1.0, kInit.At("embedding"));
  const Tensor ids = Tensor::FromValues<int32_t>({2, 2}, std::vector<int32_t>{5, 0, 3, 5});
  ExpectClose(embedding.Forward(ids), Embedding(embedding.table(), ids));
}

TEST(FeedForwardTest, EachKindFollowsItsEquation) {
  const Variable x(Random({2, 3, 5}, 6));
  using Activation = std::function<Variable(const Variable& z, const Variable& other)>;
  const std::pair<FeedForwardKind, Activation> kKinds[] = {
      {FeedForwardKind::kRelu, [](auto& z, auto&) { return Relu(z); }},
      {FeedForwardKind::kGelu, [](auto& z, auto&) { return Gelu(z); }},
      {FeedForwardKind::kGeluTanh, [](auto& z, auto&) { return GeluTanh(z); }},
      {FeedForwardKind::kGatedGelu, [](auto& z, auto& other) { return Mul(GeluTanh(z), other); }},
      {FeedForwardKind::kSwiGlu, [](auto& z, auto& other) { return Mul(Mul(z, Sigmoid(z)), other); }}};
  for (const auto& [kind, activation] : kKinds) {
    SCOPED_TRACE(Name(kind));
    const bool gated = kind == FeedForwardKind::kGatedGelu || kind == FeedForwardKind::kSwiGlu;
    const FeedForward layer({.d_model = 5, .d_ff = 11, .kind = kind}, Initializer(1, DType::kFloat64));
    const std::vector<NamedParameter> p = layer.Parameters();
    ASSERT_EQ(p.size(), gated ? 3u : 2u);
    EXPECT_EQ(p[0].name, gated ? "wi_0" : "wi");
    const auto times = [&](const Variable& in, size_t i) { return MatMul(in, p[i].value); };
    const Variable rows = Reshape(x, {6, 5});
    const Variable hidden = activation(times(rows, 0), gated ? times(rows, 1) : Variable());
    ExpectClose(layer.Forward(x, {}), Reshape(times(hidden, p.size() - 1), {2, 3, 5}));
    EXPECT_EQ(ParseName<FeedForwardKind>("feed_forward", Name(kind)), kind);
  }
}

TEST(LinearTest, StartsWithTheAskedSpread) {
  const Linear linear(400, 300, LinearBias::kNo, Initializer(1, DType::kFloat64));
  double sum = 0, largest = 0;
  for (const double w : ValueOf(linear.Parameters()[0].value)) {
    sum += w * w;
    largest = std::max(largest, std::abs(w));
  }
  // A normal of std 1/20 cut at two std has std 0.8796/20; 120,000 samples give it to well below 1 %.
  EXPECT_NEAR(std::sqrt(sum / 120000) * 20, 0.8796, 0.01);
  EXPECT_LE(largest, 0.1);
}

TEST(ApplyDropoutTest, WorksInTrainingOnlyAndBySite) {
  const Variable x(Tensor::Full({50, 20}, 1.0, DType::kFloat64));
  ForwardContext context = {.phase = ForwardContext::Phase::kEvaluation, .seed = 3};
  EXPECT_EQ(ValueOf(ApplyDropout(x, 0.5, "site", context)), ValueOf(x));
  context.phase = ForwardContext::Phase::kTraining;
  EXPECT_EQ(ValueOf(ApplyDropout(x, 0.0, "site", context)), ValueOf(x));
  const Values dropped = ValueOf(ApplyDropout(x, 0.25, "site", context));
  EXPECT_EQ(dropped, ValueOf(ApplyDropout(x, 0.25, "site", context)));
  EXPECT_NE(dropped, ValueOf(ApplyDropout(x, 0.25, "other", context)));
  int zeros = 0;
  for (const double value : dropped) {
    EXPECT_TRUE(value == 0 || std::abs(value - 1 / 0.75) < 1e-15) << value;
    zeros += value == 0;
  }
  EXPECT_NEAR(zeros, 250, 4 * std::sqrt(1000 * 0.25 * 0.75));  // four standard deviations
  const FeedForward layer({.d_model = 5, .d_ff = 11, .dropout_rate = 0.5}, Initializer(1, DType::kFloat64));
  const Variable rows(Random({2, 5}, 6));
  EXPECT_NE(ValueOf(layer.Forward(rows, context)), ValueOf(layer.Forward(rows, {})));
}

constexpr int64_t kClasses = 5, kRows = 7, kWidth = 3;

class TinyModel : public Module {
 public:
  explicit TinyModel(ClassifierKind kind)
      : Module(Initializer(1, DType::kFloat64)),
        embedding(this, "embedding", kRows, kWidth, 1.0),
        classifier(this, "classifier", kind, kClasses, embedding) {}
  // BERT's: the bias is the model's own parameter.
  TinyModel(ClassifierKind kind, LogitScale scale_kind)
      : Module(Initializer(1, DType::kFloat64)),
        embedding(this, "embedding", kRows, kWidth, 1.0),
        bias(AddVector("bias", {kClasses}, InitialValues::Normal(1.0))),
        classifier(this, "classifier", kind, kClasses, embedding, ClassifierForm{.scale = scale_kind, .bias = bias}) {}
  Child<EmbeddingLayer> embedding;
  Variable bias;
  Child<Classifier> classifier;
};

Variable Hidden() { return Variable(Random({2, 2, kWidth}, 1)); }

// Logits are products with the rows of the classes, scaled where the table is tied, with the bias of the form's maker.
TEST(ClassifierTest, LogitsAndLossFollowTheirEquations) {
  const Tensor targets = Tensor::FromValues<int32_t>({2, 2}, std::vector<int32_t>{4, 0, 2, 0});
  const CrossEntropyOptions options = {.ignore_index = 0, .z_loss = 0.1};
  for (const ClassifierKind kind : {ClassifierKind::kTied, ClassifierKind::kUntied}) {
    const auto expect = [&](const TinyModel& model, LogitScale scale_kind, bool has_bias) {
      const bool tied = kind == ClassifierKind::kTied;
      EXPECT_EQ(model.Parameters().size(), 1u + (tied ? 0 : 1) + (has_bias ? 1 : 0));
      Variable table = model.embedding->table();
      for (const NamedParameter& p : model.Parameters()) {
        if (p.name == "classifier.table") table = p.value;
      }
      const double scale = tied && scale_kind == LogitScale::kIfTied ? 1 / std::sqrt(3.0) : 1.0;
      const Variable rows = Slice(table, 0, 0, kClasses), hidden = Reshape(Hidden(), {4, kWidth});
      Variable logits = Scale(MatMul(hidden, Transpose(rows, 0, 1)), scale);
      if (has_bias) logits = Add(logits, model.bias);
      ExpectClose(model.classifier->Logits(Hidden()), Reshape(logits, {2, 2, kClasses}));
      const CrossEntropyResult loss = model.classifier->Loss(Hidden(), targets, options);
      const CrossEntropyResult expected = CrossEntropy(logits, targets.Reshape({4}), options);
      ExpectClose(loss.loss, expected.loss);
      EXPECT_NEAR(loss.nll_sum, expected.nll_sum, 1e-13);
      EXPECT_EQ(loss.correct, expected.correct);
      EXPECT_EQ(loss.count, 2);
    };
    expect(TinyModel(kind), LogitScale::kIfTied, false);
    for (const LogitScale scale_kind : {LogitScale::kIfTied, LogitScale::kNever}) {
      expect(TinyModel(kind, scale_kind), scale_kind, true);
    }
  }
}

TEST(LayersTest, RefuseWhatDoesNotFit) {
  const Linear linear(5, 3, LinearBias::kNo, Initializer(1));
  const TinyModel model(ClassifierKind::kTied);
  const ClassifierForm form = {.bias = Variable(Tensor::Zeros({kClasses + 1}, DType::kFloat64))};
  const auto zeros = [](int64_t width, DType dtype) { return Variable(Tensor::Zeros({2, width}, dtype)); };
  testing::ExpectRefused(
      {{"a width", [&] { linear.Forward(zeros(4, DType::kFloat32)); }, {"[2, 4]"}},
       {"a kind", [] { ParseName<FeedForwardKind>("feed_forward", "swish"); }, {"feed_forward: \"swish\""}},
       {"hidden", [&] { model.classifier->Logits(zeros(4, DType::kFloat64)); }, {"[2, 4]"}},
       {"classes",
        [&] { Classifier(ClassifierKind::kTied, kRows + 1, model.embedding, Initializer(1)); },
        {"8 classes"}},
       {"bias",
        [&] { Classifier(ClassifierKind::kTied, kClasses, model.embedding, form, Initializer(1)); },
        {"bias"}}});
}

// ---- Weights that lie in memory as bfloat16 ----

Tensor Floats(const Shape& shape, uint32_t stream) {
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
  const Variable x(Floats({3, 67}, 1)), y(Floats({2, 3, 33}, 1));
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
    const Variable X(Floats({2, 5, config.d_X}, 1)), M(Floats({2, 7, config.d_M}, 2));
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
      const Variable hidden(Floats({rows, 131}, 1));
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

}  // namespace crosstalk::layers_test
