// The losses of tasks: those of the published outputs, with gradients, and what must not count does not.

#include "crosstalk/models/bert/bert.h"
#include "tests/support/gradient_differences.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::heads_test {

using testing::MessageOf;

constexpr int64_t kVocabulary = 37, kD = 12, kLength = 9;

ModelConfig Config(const EncoderHeads& heads) { return TinyBert("talking", heads); }
ModelConfig AlbertConfig(const EncoderHeads& heads) { return TinyAlbert("talking", heads); }

// Four rows without padding, as two examples of two choices too.
Tensor Ids(const Shape& shape = {4, kLength}, uint64_t seed = 1) {
  const Tensor ids = Tensor::Empty(shape, DType::kInt32);
  RandomSequence random(RandomKey{seed, StreamId("task_loss_test"), 0});
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    ids.data<int32_t>()[i] = 5 + static_cast<int32_t>(random.UniformInt(kVocabulary - 5));
  }
  return ids;
}

Tensor Segments(const Shape& shape) {
  const Tensor segments = Tensor::Zeros(shape, DType::kInt32);
  const int64_t n = shape[shape.rank() - 1];
  for (int64_t i = 0; i < segments.num_elements(); ++i) segments.data<int32_t>()[i] = i % n >= 5 ? 1 : 0;
  return segments;
}

Tensor Ints(const std::vector<int32_t>& values) {
  return Tensor::FromValues<int32_t>({static_cast<int64_t>(values.size())}, values);
}

// A task: a head, a batch of training, and the same inputs under their published names.
struct Task {
  const char* name;
  EncoderHeads heads;
  Batch batch, published;
  size_t measures;
};

std::vector<Task> Tasks() {
  std::vector<Task> tasks;
  const auto add = [&](const char* name, const EncoderHeads& heads, const Shape& shape, size_t measures) -> Task& {
    Task& task = tasks.emplace_back(Task{name, heads, {}, {}, measures});
    task.batch.Add("inputs", Ids(shape)).Add("segments", Segments(shape));
    task.published.Add("input_ids", Ids(shape)).Add("token_type_ids", Segments(shape));
    return task;
  };
  Task& classes = add("classes", {.pooler = true, .classes = 3}, {4, kLength}, 2);
  classes.batch.Add("labels", Ints({2, 0, 1, 2}));
  classes.published.Add("labels", Ints({2, 0, 1, 2}));
  Task& regression = add("regression", {.pooler = true, .classes = 1}, {4, kLength}, 1);
  const Tensor scores = Tensor::FromValues<float>({4}, {0.5f, -1.25f, 3, 0});
  regression.batch.Add("scores", scores);
  regression.published.Add("labels", scores);
  Task& choices = add("choices", {.pooler = true, .multiple_choice = true}, {4, 3, kLength}, 2);
  choices.batch.Add("choice_counts", Ints({3, 3, 3, 3})).Add("labels", Ints({2, 0, 1, 1}));
  choices.published.Add("labels", Ints({2, 0, 1, 1}));
  Task& span = add("span", {.span = true}, {4, kLength}, 2);
  span.batch.Add("start_positions", Ints({0, 3, 8, 5})).Add("end_positions", Ints({0, 4, 8, 7}));
  span.published.Add("start_positions", Ints({0, 3, 8, 5})).Add("end_positions", Ints({0, 4, 8, 7}));
  return tasks;
}

void ExpectThePublishedLoss(const Task& task, const ModelConfig& config) {
  SCOPED_TRACE(task.name);
  const Bert model(config, 3, DType::kFloat64);
  const LossResult loss = model.Loss(task.batch, {}, {});
  double expected = 0;
  Tensor logits;
  for (const NamedVariable& one : model.Outputs(task.published, OutputDetail::kResults, {})) {
    if (one.name == "loss") expected = one.value.value().Item();
    if (one.name == "logits") logits = one.value.value();
  }
  EXPECT_NEAR(loss.ScaledValue({.targets = 0.25}), expected, 1e-13);
  EXPECT_FALSE(loss.example_sum.defined());
  ASSERT_EQ(loss.sums.size(), task.measures);
  EXPECT_EQ(loss.sums[0].name, "task_loss");
  EXPECT_EQ(loss.sums[0].count, 4);
  EXPECT_NEAR(loss.sums[0].sum, 4 * expected, 1e-12);
  if (task.measures == 1 || !logits.defined()) return;
  double right = 0;
  for (int64_t b = 0; b < 4; ++b) {
    const int32_t label = task.batch.Get("labels").data<int32_t>()[b];
    bool largest = true;
    for (int64_t c = 0; c < logits.size(1); ++c) largest &= logits.At({b, c}) <= logits.At({b, label});
    right += largest;
  }
  EXPECT_EQ(loss.sums[1].name, "task_accuracy");
  EXPECT_EQ(loss.sums[1].sum, right);
}
TEST(TaskLossTest, IsThatOfThePublishedOutputs) {
  for (const Task& task : Tasks()) {
    ExpectThePublishedLoss(task, Config(task.heads));
    ExpectThePublishedLoss(task, AlbertConfig(task.heads));
  }
}

TEST(TaskLossTest, HasTheGradientOfItsDifferences) {
  for (const Task& task : Tasks()) {
    SCOPED_TRACE(task.name);
    const Bert model(AlbertConfig(task.heads), 3, DType::kFloat64);
    testing::ExpectGradientsOfDifferences(
        model, [&] { return model.Loss(task.batch, {}, {}).sum; }, 1e-7, 20);
  }
}

// What makes up the number of choices is not even computed.
TEST(TaskLossTest, ChoicesThatARowDoesNotHaveCountNothing) {
  const Bert model(Config({.pooler = true, .multiple_choice = true}), 3);
  const auto loss = [&](uint64_t filler) {
    Tensor ids = Ids({2, 3, kLength});
    const Tensor other = Ids({2, 3, kLength}, filler);
    std::copy_n(other.data<int32_t>() + 2 * kLength, kLength, ids.data<int32_t>() + 2 * kLength);
    Batch batch;
    batch.Add("inputs", ids).Add("segments", Segments(ids.shape()));
    batch.Add("choice_counts", Ints({2, 3})).Add("labels", Ints({1, 2}));
    model.ZeroGrad();
    const LossResult result = model.Loss(batch, {}, {});
    Backward(result.sum);
    std::vector<float> bits = {static_cast<float>(result.sums[0].sum)};
    for (const NamedParameter& parameter : model.Parameters()) {
      const std::vector<float> gradient = parameter.value.grad().ToVector<float>();
      bits.insert(bits.end(), gradient.begin(), gradient.end());
    }
    return bits;
  };
  const std::vector<float> one = loss(2);
  for (const float value : one) ASSERT_TRUE(std::isfinite(value));
  EXPECT_EQ(one, loss(3));
  // The same as each example alone, with as many choices as it has.
  double sum = 0;
  const Tensor ids = Ids({2, 3, kLength});
  for (const int64_t i : {0, 1}) {
    const int64_t count = 2 + i;
    Batch batch;
    batch.Add("input_ids", ids.Slice(0, i, i + 1).Slice(1, 0, count).Contiguous());
    batch.Add("token_type_ids", Segments({1, count, kLength}));
    batch.Add("labels", Ints({static_cast<int32_t>(1 + i)}));
    sum += model.Outputs(batch, OutputDetail::kResults, {}).back().value.value().Item();
  }
  EXPECT_NEAR(one[0], sum, 1e-5);
}

TEST(TaskLossTest, PaddingCountsNothing) {
  for (const Task& task : Tasks()) {
    SCOPED_TRACE(task.name);
    const Bert model(Config(task.heads), 3, DType::kFloat64);
    Batch padded;
    for (const NamedTensor& one : task.batch.tensors()) {
      if (one.name != "inputs" && one.name != "segments") {
        padded.Add(one.name, one.tensor);
        continue;
      }
      const Tensor flat = one.tensor.Reshape({-1, kLength});
      const Tensor longer = Tensor::Zeros({flat.size(0), 40}, DType::kInt32);
      longer.Slice(1, 0, kLength).CopyFrom(flat);
      Shape shape = one.tensor.shape();
      padded.Add(one.name, shape.rank() == 3 ? longer.Reshape({shape[0], shape[1], 40}) : longer);
    }
    EXPECT_NEAR(model.Loss(padded, {}, {}).sums[0].sum, model.Loss(task.batch, {}, {}).sums[0].sum, 1e-12);
  }
}

TEST(TaskLossTest, APartOfThePooledOutputIsDroppedInTraining) {
  for (const Task& task : Tasks()) {
    ModelConfig config = Config(task.heads);
    config.dropout_rate = 0.5;
    const Bert model(config, 3);
    Bert::Hidden hidden;
    hidden.sequence = Variable(Tensor::Full({4, kLength, kD}, 1, DType::kFloat32));
    hidden.pooled = Variable(Tensor::Full({4, kD}, 1, DType::kFloat32));
    const auto said = [&](const ForwardContext& context) {
      return (task.heads.classes > 0       ? model.ClassLogits(hidden, context)
              : task.heads.multiple_choice ? model.ChoiceScores(hidden, context)
                                           : model.SpanLogits(hidden))
          .value()
          .ToVector<float>();
    };
    const auto training = said({ForwardContext::Phase::kTraining, 1, 0, 0});
    EXPECT_EQ(training == said({}), task.heads.span) << task.name;
    EXPECT_EQ(training == said({ForwardContext::Phase::kTraining, 1, 1, 0}), task.heads.span) << task.name;
  }
}

// As memory is estimated: with a batch of padding, of which nothing is read.
TEST(TaskLossTest, ShapesAloneAreEnoughForAStep) {
  for (const Task& task : Tasks()) {
    SCOPED_TRACE(task.name);
    int64_t multiplications = 0;
    const ContextScope shapes(&OpContext::shapes_only, true);
    const ContextScope counted(&OpContext::multiplications, &multiplications);
    const Bert model(Config(task.heads), 3);
    Batch batch;
    for (const NamedTensor& one : task.batch.tensors()) {
      batch.Add(one.name, Tensor::Zeros(one.tensor.shape(), one.tensor.dtype()));
    }
    Backward(model.Loss(batch, {}, {ForwardContext::Phase::kTraining, 1, 0, 0}).Scaled({}));
    for (const NamedParameter& parameter : model.Parameters()) {
      EXPECT_TRUE(parameter.value.grad().defined()) << parameter.name;
    }
    EXPECT_GT(multiplications, 0);
  }
}

TEST(TaskLossTest, WhatDoesNotFitIsNamed) {
  const EncoderHeads classes = {.pooler = true, .classes = 3}, choice = {.pooler = true, .multiple_choice = true},
                     span = {.span = true};
  const struct {
    EncoderHeads heads;
    const char* first;
    std::vector<int32_t> values;
    const char* second;
    std::vector<int32_t> others;
    const char* says;
  } kCases[] = {
      {span, "labels", {1, 1}, "", {}, "BERT: the model has no classification head"},
      {classes, "scores", {1, 1}, "", {}, "BERT: scores are for a regression, whose head has one class, not 3"},
      {classes, "labels", {1, 3}, "", {}, "cross_entropy: target 3 in row 1 is not a class in [0, 3)"},
      {choice, "choice_counts", {2, 3}, "labels", {1, 1}, "BERT: choice_counts: 3 in row 1 is not between 1 and 2"},
      {choice, "choice_counts", {1, 2}, "labels", {1, 1}, "BERT: labels: 1 in row 0 is none of its choices"},
      {span,
       "start_positions",
       {8, 8},
       "end_positions",
       {8, 8},
       "BERT: start_positions: 8 in row 0 is not a token of it"},
      {span,
       "start_positions",
       {7, 9},
       "end_positions",
       {8, 8},
       "BERT: start_positions: 9 in row 1 is not a token of it"},
  };
  for (const auto& [heads, first, values, second, others, says] : kCases) {
    const Shape shape = heads.multiple_choice ? Shape({2, 2, kLength}) : Shape({2, kLength});
    Tensor ids = Ids(shape);
    ids.data<int32_t>()[kLength - 1] = 0;
    Batch batch;
    batch.Add("inputs", ids).Add("segments", Segments(shape)).Add(first, Ints(values));
    if (*second != '\0') batch.Add(second, Ints(others));
    EXPECT_EQ(MessageOf([&, config = Config(heads)] { Bert(config, 3).Loss(batch, {}, {}); }), says);
  }
}

}  // namespace crosstalk::heads_test
