#include <gtest/gtest.h>

#include <cmath>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace classifier_test {

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

}  // namespace classifier_test
}  // namespace crosstalk
