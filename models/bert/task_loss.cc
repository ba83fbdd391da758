// A BERT's heads for tasks, and the loss of each.
#include <algorithm>
#include <limits>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/models/bert/bert.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace {

constexpr double kLeftOut = -std::numeric_limits<double>::infinity();  // a logit that takes no part

// Rows as the encoder reads them, int32[b, n].
struct Rows {
  Tensor ids, segments;
};

Rows RowsOf(const Batch& batch, int rank) {
  Rows rows = {batch.Get("inputs"), batch.Get("segments")};
  for (const auto& [name, tensor] : {std::pair("inputs", &rows.ids), {"segments", &rows.segments}}) {
    CROSSTALK_CHECK(tensor->dtype() == DType::kInt32 && tensor->rank() == rank && tensor->shape() == rows.ids.shape(),
                    "BERT: ", name, " is ", tensor->dtype(), tensor->shape(), ", and must be int32 of ", rank,
                    " dimensions, as inputs");
    *tensor = tensor->Contiguous();
  }
  CROSSTALK_CHECK(rows.ids.num_elements() > 0, "BERT: inputs", rows.ids.shape(), " hold nothing");
  return rows;
}

// int32[b], contiguous.
Tensor Labels(const Batch& batch, const char* name, int64_t b) {
  const Tensor& labels = batch.Get(name);
  CROSSTALK_CHECK(labels.dtype() == DType::kInt32 && labels.shape() == Shape({b}), "BERT: ", name, " is ",
                  labels.dtype(), labels.shape(), ", and must be int32[", b, "]");
  return labels.Contiguous();
}

LossResult ResultOf(const CrossEntropyResult& result) {
  LossResult loss;
  loss.sum = result.loss;
  loss.sums = {{"task_loss", result.nll_sum, result.count},
               {"task_accuracy", static_cast<double>(result.correct), result.count}};
  return loss;
}

// The choices of all examples, one after the other, without those that make up their number.
struct Choices {
  Rows rows;      // [r, n]
  Tensor row;     // int32[b, c]: the row of a choice; 0 where it is none
  Tensor exists;  // bool[b, c]
};

Choices ChoicesOf(const Batch& batch) {
  const Rows given = RowsOf(batch, 3);
  const int64_t b = given.ids.size(0), c = given.ids.size(1), n = given.ids.size(2);
  const Tensor counts = Labels(batch, "choice_counts", b);
  Choices choices;
  choices.row = Tensor::Zeros({b, c}, DType::kInt32);
  choices.exists = Tensor::Zeros({b, c}, DType::kBool);
  std::vector<int32_t> places;
  for (int64_t i = 0; i < b; ++i) {
    const int64_t count = CurrentContext().shapes_only ? c : counts.data<int32_t>()[i];
    CROSSTALK_CHECK(count >= 1 && count <= c, "BERT: choice_counts: ", count, " in row ", i, " is not between 1 and ",
                    c);
    for (int64_t k = 0; k < count; ++k) {
      choices.row.data<int32_t>()[i * c + k] = static_cast<int32_t>(places.size());
      choices.exists.data<bool>()[i * c + k] = true;
      places.push_back(static_cast<int32_t>(i * c + k));
    }
  }
  const auto r = static_cast<int64_t>(places.size());
  const auto gathered = [&](const Tensor& from) {
    const Tensor to = Tensor::Empty({r, n}, DType::kInt32);
    Launch([&] {
      for (int64_t i = 0; i < r; ++i) {
        std::copy_n(from.data<int32_t>() + places[i] * n, n, to.data<int32_t>() + i * n);
      }
    });
    return to;
  };
  choices.rows = {gathered(given.ids), gathered(given.segments)};
  return choices;
}

}  // namespace

Variable Bert::SquaredErrors(const char* name, const Variable& logits, const Tensor& targets) {
  const int64_t rows = logits.value().num_elements();
  CROSSTALK_CHECK(targets.num_elements() == rows, name, ": ", targets.shape(), " must be one of each of ", rows,
                  " examples");
  return Square(Sub(Reshape(logits, {rows}), Variable(targets.Contiguous().Reshape({rows}).To(logits.dtype()))));
}

Variable Bert::EndLogits(const Variable& logits, int end) {
  return Reshape(Slice(logits, 2, end, end + 1), {logits.size(0), logits.size(1)});
}

Variable Bert::Pooled(const Hidden& hidden, const ForwardContext& context) const {
  return ApplyDropout(hidden.pooled, config_.dropout_rate, "pooler.output_dropout", context);
}

Variable Bert::ClassLogits(const Hidden& hidden, const ForwardContext& context) const {
  CROSSTALK_CHECK(classification_, "BERT: the model has no classification head");
  const ContextScope products = InPrecision(), scope = InLayer("classification");
  return classification_->Forward(Pooled(hidden, context));
}

Variable Bert::ChoiceScores(const Hidden& hidden, const ForwardContext& context) const {
  CROSSTALK_CHECK(multiple_choice_, "BERT: the model has no multiple-choice head");
  const ContextScope products = InPrecision(), scope = InLayer("multiple_choice");
  return Reshape(multiple_choice_->Forward(Pooled(hidden, context)), {hidden.pooled.size(0)});
}

Variable Bert::SpanLogits(const Hidden& hidden) const {
  CROSSTALK_CHECK(span_, "BERT: the model has no span head");
  const ContextScope products = InPrecision(), scope = InLayer("span");
  return span_->Forward(hidden.sequence);
}

LossResult Bert::TaskLoss(const Batch& batch, const LossOptions& options, const ForwardContext& context) const {
  const CrossEntropyOptions cross_entropy = {.z_loss = context.training() ? options.z_loss : 0};
  if (batch.Has("choice_counts")) {
    const Choices choices = ChoicesOf(batch);
    const Hidden hidden = Encode(choices.rows.ids, choices.rows.segments, {}, context);
    const Variable scores = ChoiceScores(hidden, context);
    const Variable each = Embedding(Reshape(scores, {scores.size(0), 1}), choices.row);
    const Variable logits = MaskedFillUnless(Reshape(each, choices.row.shape()), choices.exists, kLeftOut);
    const Tensor labels = Labels(batch, "labels", choices.row.size(0));
    for (int64_t i = 0; i < labels.num_elements(); ++i) {
      const int32_t label = labels.data<int32_t>()[i];
      CROSSTALK_CHECK(label < 0 || label >= logits.size(1) || choices.exists.At({i, label}) != 0,
                      "BERT: labels: ", label, " in row ", i, " is none of its choices");
    }
    return ResultOf(CrossEntropy(logits, labels, cross_entropy));
  }
  const Rows rows = RowsOf(batch, 2);
  const int64_t b = rows.ids.size(0);
  const Hidden hidden = Encode(rows.ids, rows.segments, {}, context);
  if (batch.Has("start_positions")) {
    const Tensor text = NotPadding(rows.ids, config_.tokens.pad);
    const Variable logits = SpanLogits(hidden);
    LossResult loss;
    for (const int end : {0, 1}) {
      const char* const name = end == 0 ? "start_positions" : "end_positions";
      const Tensor positions = Labels(batch, name, b);
      Launch([&] {
        for (int64_t i = 0; i < b; ++i) {
          const int32_t position = positions.data<int32_t>()[i];
          CROSSTALK_CHECK(position >= 0 && position < text.size(1) && text.At({i, position}) != 0, "BERT: ", name, ": ",
                          position, " in row ", i, " is not a token of it");
        }
      });
      const Variable places = MaskedFillUnless(EndLogits(logits, end), text, kLeftOut);
      const LossResult one = ResultOf(CrossEntropy(places, positions, cross_entropy));
      loss.sum = end == 0 ? one.sum : Scale(Add(loss.sum, one.sum), 0.5);
      AddSums(loss.sums, one.sums);
    }
    // Over both ends' counts: means.
    for (MetricSum& sum : loss.sums) sum.sum /= 2, sum.count /= 2;
    return loss;
  }
  const Variable logits = ClassLogits(hidden, context);
  if (!batch.Has("scores")) return ResultOf(CrossEntropy(logits, Labels(batch, "labels", b), cross_entropy));
  CROSSTALK_CHECK(config_.heads.classes == 1, "BERT: scores are for a regression, whose head has one class, not ",
                  config_.heads.classes);
  LossResult loss;
  loss.sum = Sum(SquaredErrors("scores", logits, batch.Get("scores")));
  loss.sums = {{"task_loss", loss.sum.value().Item(), b}};
  return loss;
}

}  // namespace crosstalk
