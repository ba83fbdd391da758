// The small layers: dense, embedding, norms, dropout, feed-forward, against their equations in plain loops.
#include "crosstalk/nn/layers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {
namespace layers_test {

using Values = std::vector<double>;

Tensor Random(const Shape& shape, uint32_t stream) {
  Tensor tensor = Tensor::Empty(shape, DType::kFloat64);
  FillNormal(tensor, {.seed = 31, .stream = stream}, 0.0, 1.0);
  return tensor;
}

Values ValueOf(const Variable& variable) { return variable.value().ToVector<double>(); }

// a[rows, inner]·b[inner, cols]
Values Product(const Values& a, const Values& b, size_t rows, size_t inner, size_t cols) {
  Values c(rows * cols, 0.0);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t k = 0; k < inner; ++k) {
      for (size_t j = 0; j < cols; ++j) c[i * cols + j] += a[i * inner + k] * b[k * cols + j];
    }
  }
  return c;
}

// Sums of at most 11 products of numbers of order 1, in double.
void ExpectClose(const Values& actual, const Values& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-13) << "element " << i;
}

TEST(LinearTest, IsTheProductPlusBiasOverAllLeadingDimensions) {
  const Linear linear(5, 3, LinearBias::kYes, Initializer(1, DType::kFloat64, "dense"));
  const std::vector<NamedParameter> parameters = linear.Parameters();
  parameters[1].value.SetValue(Random({3}, 9));
  const Variable x(Random({2, 7, 5}, 1));
  const Variable y = linear.Forward(x);
  EXPECT_EQ(y.shape(), (Shape{2, 7, 3}));
  Values expected = Product(ValueOf(x), ValueOf(parameters[0].value), 14, 5, 3);
  const Values bias = ValueOf(parameters[1].value);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % 3];
  ExpectClose(ValueOf(y), expected);
}

TEST(LinearTest, RefusesAWidthThatDoesNotFit) {
  const Linear linear(5, 3, LinearBias::kNo, Initializer(1));
  EXPECT_THROW(linear.Forward(Variable(Tensor::Zeros({2, 4}, DType::kFloat32))), Error);
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

TEST(EmbeddingLayerTest, LooksUpRows) {
  const EmbeddingLayer embedding(6, 4, 1.0, Initializer(1, DType::kFloat64));
  const Tensor ids = Tensor::FromValues<int32_t>({2, 2}, std::vector<int32_t>{5, 0, 3, 5});
  const Variable y = embedding.Forward(ids);
  ASSERT_EQ(y.shape(), (Shape{2, 2, 4}));
  const std::vector<int64_t> flat = {5, 0, 3, 5};
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      EXPECT_EQ(y.value().At({i / 2, i % 2, j}), embedding.table().value().At({flat[static_cast<size_t>(i)], j}));
    }
  }
}

TEST(NormLayerTest, RmsAndLayerNormFollowTheirEquations) {
  const NormLayer rms(11, {.kind = NormKind::kRms, .epsilon = 1e-6}, Initializer(1, DType::kFloat64));
  const NormLayer layer(11, {.kind = NormKind::kLayer, .epsilon = 1e-12}, Initializer(1, DType::kFloat64));
  rms.Parameters()[0].value.SetValue(Random({11}, 2));
  layer.Parameters()[0].value.SetValue(Random({11}, 3));
  layer.Parameters()[1].value.SetValue(Random({11}, 4));
  const Variable x(Random({3, 11}, 5));
  const Values in = ValueOf(x), scale = ValueOf(rms.Parameters()[0].value);
  const Values layer_scale = ValueOf(layer.Parameters()[0].value), bias = ValueOf(layer.Parameters()[1].value);
  Values rms_expected, layer_expected;
  for (size_t row = 0; row < 3; ++row) {
    double squares = 0, mean = 0, variance = 0;
    for (size_t j = 0; j < 11; ++j) {
      squares += in[row * 11 + j] * in[row * 11 + j] / 11;
      mean += in[row * 11 + j] / 11;
    }
    for (size_t j = 0; j < 11; ++j) variance += std::pow(in[row * 11 + j] - mean, 2) / 11;
    for (size_t j = 0; j < 11; ++j) {
      rms_expected.push_back(in[row * 11 + j] / std::sqrt(squares + 1e-6) * scale[j]);
      layer_expected.push_back((in[row * 11 + j] - mean) / std::sqrt(variance + 1e-12) * layer_scale[j] + bias[j]);
    }
  }
  ExpectClose(ValueOf(rms.Forward(x)), rms_expected);
  ExpectClose(ValueOf(layer.Forward(x)), layer_expected);
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
}

// wi·x → act → ·wo, with gelu in its tanh form.
void ExpectFeedForward(FeedForwardKind kind) {
  const FeedForward layer({.d_model = 5, .d_ff = 11, .kind = kind}, Initializer(1, DType::kFloat64));
  const std::vector<NamedParameter> p = layer.Parameters();
  const Variable x(Random({2, 3, 5}, 6));
  Values hidden = Product(ValueOf(x), ValueOf(p[0].value), 6, 5, 11);
  if (kind == FeedForwardKind::kRelu) {
    ASSERT_EQ(p.size(), 2u);
    for (double& value : hidden) value = std::max(value, 0.0);
  } else {
    ASSERT_EQ(p.size(), 3u);
    EXPECT_EQ(p[0].name, "wi_0");
    const Values other = Product(ValueOf(x), ValueOf(p[1].value), 6, 5, 11);
    for (size_t i = 0; i < hidden.size(); ++i) {
      const double z = hidden[i];
      if (kind == FeedForwardKind::kSwiGlu) {
        hidden[i] = z / (1 + std::exp(-z)) * other[i];
        continue;
      }
      hidden[i] = 0.5 * z * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z))) * other[i];
    }
  }
  const Variable y = layer.Forward(x, {});
  EXPECT_EQ(y.shape(), (Shape{2, 3, 5}));
  ExpectClose(ValueOf(y), Product(hidden, ValueOf(p.back().value), 6, 11, 5));
}

TEST(FeedForwardTest, ReluFollowsItsEquation) { ExpectFeedForward(FeedForwardKind::kRelu); }

TEST(FeedForwardTest, GatedGeluFollowsItsEquation) { ExpectFeedForward(FeedForwardKind::kGatedGelu); }

TEST(FeedForwardTest, SwiGluFollowsItsEquation) { ExpectFeedForward(FeedForwardKind::kSwiGlu); }

TEST(FeedForwardTest, DropsHiddenUnitsInTraining) {
  const FeedForward layer({.d_model = 5, .d_ff = 11, .dropout_rate = 0.5}, Initializer(1, DType::kFloat64));
  const Variable x(Random({2, 5}, 6));
  ForwardContext context = {.phase = ForwardContext::Phase::kTraining, .seed = 1};
  EXPECT_NE(ValueOf(layer.Forward(x, context)), ValueOf(layer.Forward(x, {})));
}

TEST(FeedForwardTest, NamesParse) {
  EXPECT_EQ(ParseName<FeedForwardKind>("feed_forward", "relu"), FeedForwardKind::kRelu);
  EXPECT_EQ(ParseName<FeedForwardKind>("feed_forward", "gated-gelu"), FeedForwardKind::kGatedGelu);
  EXPECT_THROW(ParseName<FeedForwardKind>("feed_forward", "swish"), Error);
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

Variable Hidden() {
  const Tensor values = Tensor::Empty({2, 2, kWidth}, DType::kFloat64);
  FillNormal(values, {.seed = 3, .stream = 1, .step = 0}, 0, 1);
  return Variable(values);
}

TEST(ClassifierTest, LogitsAreProductsWithTheRowsOfTheClasses) {
  for (const ClassifierKind kind : {ClassifierKind::kTied, ClassifierKind::kUntied}) {
    const TinyModel model(kind);
    const bool tied = kind == ClassifierKind::kTied;
    EXPECT_EQ(model.Parameters().size(), tied ? 1u : 2u);
    const Tensor table = model.Parameters().back().value.value();
    const double scale = tied ? 1 / std::sqrt(3.0) : 1.0;
    const Variable hidden = Hidden();
    const Tensor logits = model.classifier->Logits(hidden).value();
    ASSERT_EQ(logits.shape(), (Shape{2, 2, kClasses}));
    for (int64_t row = 0; row < 4; ++row) {
      for (int64_t c = 0; c < kClasses; ++c) {
        double expected = 0;
        for (int64_t i = 0; i < kWidth; ++i) {
          expected += hidden.value().data<double>()[row * kWidth + i] * table.data<double>()[c * kWidth + i];
        }
        EXPECT_NEAR(logits.data<double>()[row * kClasses + c], scale * expected, 1e-15);
      }
    }
  }
}

TEST(ClassifierTest, AFormHasItsScaleAndTheBiasOfItsMaker) {
  using enum LogitScale;
  for (const LogitScale scale_kind : {kIfTied, kNever}) {
    const TinyModel with(ClassifierKind::kTied, scale_kind), without(ClassifierKind::kTied);
    EXPECT_EQ(with.Parameters().back().name, "bias");
    const Tensor logits = with.classifier->Logits(Hidden()).value();
    const Tensor plain = without.classifier->Logits(Hidden()).value();  // the same table: values follow from paths
    const double scale = scale_kind == kNever ? std::sqrt(3.0) : 1.0;
    for (int64_t i = 0; i < 4 * kClasses; ++i) {
      EXPECT_NEAR(logits.data<double>()[i],
                  scale * plain.data<double>()[i] + with.bias.value().data<double>()[i % kClasses], 1e-14);
    }
  }
}

void ExpectTheLossOfItsLogits(const TinyModel& model) {
  const Tensor targets = Tensor::FromValues<int32_t>({2, 2}, std::vector<int32_t>{4, 0, 2, 0});
  const CrossEntropyOptions options = {.ignore_index = 0, .z_loss = 0.1};
  const CrossEntropyResult loss = model.classifier->Loss(Hidden(), targets, options);
  EXPECT_EQ(loss.count, 2);
  const Tensor logits = model.classifier->Logits(Hidden()).value();
  const CrossEntropyResult expected =
      CrossEntropy(Variable(logits.Reshape({4, kClasses})), targets.Reshape({4}), options);
  EXPECT_NEAR(loss.loss.value().data<double>()[0], expected.loss.value().data<double>()[0], 1e-14);
  EXPECT_NEAR(loss.nll_sum, expected.nll_sum, 1e-14);
  EXPECT_EQ(loss.correct, expected.correct);
}
TEST(ClassifierTest, TheLossIsThatOfItsLogits) {
  ExpectTheLossOfItsLogits(TinyModel(ClassifierKind::kTied));
  ExpectTheLossOfItsLogits(TinyModel(ClassifierKind::kUntied));
  ExpectTheLossOfItsLogits(TinyModel(ClassifierKind::kTied, LogitScale::kNever));
  ExpectTheLossOfItsLogits(TinyModel(ClassifierKind::kUntied, LogitScale::kNever));
}

TEST(ClassifierTest, RefusesOtherWidthsAndTooManyClasses) {
  const TinyModel model(ClassifierKind::kTied);
  EXPECT_THROW(model.classifier->Logits(Variable(Tensor::Zeros({2, 4}, DType::kFloat64))), Error);
  EXPECT_THROW(Classifier(ClassifierKind::kTied, kRows + 1, model.embedding, Initializer(1)), Error);
  const ClassifierForm form = {.bias = Variable(Tensor::Zeros({kClasses + 1}, DType::kFloat64))};
  EXPECT_THROW(Classifier(ClassifierKind::kTied, kClasses, model.embedding, form, Initializer(1)), Error);
}

}  // namespace layers_test
}  // namespace crosstalk
