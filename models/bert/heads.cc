// The heads of a BERT or an ALBERT: the losses of tasks, results under Hugging Face's names, and a text as inputs.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/inputs.h"
#include "crosstalk/models/text/encoding.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace {

// A BERT's or an ALBERT's results under Hugging Face's names, and a text as its inputs.

// The batch's inputs, as the encoder reads them.
struct Inputs {
  Tensor ids, segments, mask;  // [rows, n]
  int64_t examples = 0;
  int64_t choices = 1;  // rows an example
};

Inputs ReadInputs(const Batch& inputs, const ModelConfig& config) {
  // A choice is a row of its own.
  const int rank = inputs.Get("input_ids").rank() == 3 && config.heads.multiple_choice ? 3 : 2;
  Inputs read;
  read.ids = RequiredInputIds(inputs, rank, config.vocabulary);
  const Shape given = read.ids.shape();
  const int64_t n = given[rank - 1];
  const std::optional<int64_t> longest = config.longest_text();
  CROSSTALK_CHECK(!longest || n <= *longest, "input_ids: ", given, " are ", n, " tokens, more than the model's ",
                  longest.value_or(0), " positions");
  read.examples = given[0];
  read.choices = rank == 3 ? given[1] : 1;
  read.segments = InputIds(inputs, "token_type_ids", rank, {0, config.segments - 1});
  CROSSTALK_CHECK(!read.segments.defined() || read.segments.shape() == given, "token_type_ids: ", read.segments.shape(),
                  " must be as input_ids", given);
  read.mask = InputMaskOrAll(inputs, "attention_mask", given);
  const Shape rows = {read.examples * read.choices, n};
  for (Tensor* tensor : {&read.ids, &read.segments, &read.mask}) {
    if (tensor->defined()) *tensor = tensor->Reshape(rows);
  }
  return read;
}

// The tokens of a text, with [MASK] for each of its blanks.
std::vector<TokenSpan> WithMasks(const char* field, const std::string& text, const Tokenizer& tokenizer) {
  const int32_t mask = tokenizer.special_tokens().mask;
  std::vector<TokenSpan> tokens;
  bool first = true;
  for (const std::string& part : SplitAtBlanks(text)) {
    CROSSTALK_CHECK_FIELD(first || mask != kNoToken, field, "has a blank, but the tokenizer has no [MASK]");
    if (!first) tokens.push_back({mask, 0, 0});
    first = false;
    for (const TokenSpan& token : tokenizer.EncodeSpans(part)) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace

std::vector<NamedVariable> Bert::ComputeOutputs(const Batch& inputs, OutputDetail detail,
                                                const ForwardContext& context) const {
  const EncoderHeads& heads = config_.heads;
  const bool task = heads.classes > 0 || heads.multiple_choice;
  const bool sentence_alone = heads.sentence && !heads.masked_lm && !task && !heads.span;
  // Alone, the sentence head's labels have either name, as published.
  const char* const sentence_label = sentence_alone && inputs.Has("labels") ? "labels"
                                     : config_.is_albert()                  ? "sentence_order_label"
                                                                            : "next_sentence_label";
  std::vector<std::string> known = {"input_ids", "attention_mask", "token_type_ids"};
  if (heads.masked_lm || task) known.push_back("labels");
  if (heads.sentence) known.push_back(sentence_label);
  if (heads.span) known.insert(known.end(), {"start_positions", "end_positions"});
  CheckInputNames(inputs, known);
  const Inputs read = ReadInputs(inputs, config_);
  const int64_t rows = read.ids.size(0), n = read.ids.size(1), b = read.examples;

  TransformerRecord record;
  const Hidden hidden =
      Encode(read.ids, read.segments, read.mask, context, detail == OutputDetail::kAll ? &record : nullptr);
  std::vector<NamedVariable> outputs = {{"last_hidden_state", hidden.sequence}};
  if (heads.pooler) outputs.push_back({"pooler_output", hidden.pooled});
  Variable loss;
  const auto add_loss = [&](const Variable& part) { loss = loss.defined() ? Add(loss, part) : part; };
  const auto check_shape = [](const char* name, const Tensor& labels, const Shape& shape) {
    CROSSTALK_CHECK(!labels.defined() || labels.shape() == shape, name, ": ", labels.shape(), " must be ", shape);
  };
  // Adds the loss of logits[shape…, classes] against labels[shape…] if the batch has them.
  const auto add_class_loss = [&](const char* name, const Variable& logits) {
    const Shape shape = logits.value().Select(logits.rank() - 1, 0).shape();
    const Tensor labels = InputLabels(inputs, name, shape.rank(), logits.size(-1));
    check_shape(name, labels, shape);
    if (labels.defined()) add_loss(MeanCrossEntropy(logits, labels, name));
  };

  // `labels` and `logits` are the task's if there is one, else the masked-LM head's.
  if (heads.masked_lm) {
    const Variable logits = masked_lm_->Logits(hidden.sequence);
    outputs.push_back({task || heads.sentence || heads.span ? "prediction_logits" : "logits", logits});
    if (!task) add_class_loss("labels", logits);
  }
  if (heads.sentence) {
    const Variable logits = sentence_->Forward(hidden.pooled);
    outputs.push_back({sentence_alone        ? "logits"
                       : config_.is_albert() ? "sop_logits"
                                             : "seq_relationship_logits",
                       logits});
    add_class_loss(sentence_label, logits);
  }
  if (heads.classes > 0) {
    const Variable logits = ClassLogits(hidden, context);
    outputs.push_back({"logits", logits});
    if (heads.classes == 1 && inputs.Has("labels")) {
      add_loss(Mean(SquaredErrors("labels", logits, inputs.Get("labels"))));
    } else {
      add_class_loss("labels", logits);
    }
  }
  if (heads.multiple_choice) {
    const Variable scores = Reshape(ChoiceScores(hidden, context), {b, read.choices});
    outputs.push_back({heads.classes > 0 ? "choice_logits" : "logits", scores});
    if (heads.classes == 0) add_class_loss("labels", scores);
  }
  if (heads.span) {
    const Variable logits = SpanLogits(hidden);
    std::vector<Variable> losses;
    for (const int64_t end : {0, 1}) {
      const Variable place = EndLogits(logits, end);
      outputs.push_back({end == 0 ? "start_logits" : "end_logits", place});
      const char* const name = end == 0 ? "start_positions" : "end_positions";
      const Tensor labels = InputIds(inputs, name, 1, {INT32_MIN, INT32_MAX});
      check_shape(name, labels, {rows});
      if (!labels.defined()) continue;
      // Positions beyond the text count nothing, those before it count as its first.
      bool counts = false;
      for (int64_t i = 0; i < rows; ++i) {
        int32_t& label = labels.data<int32_t>()[i];
        label = label >= n ? kIgnoredLabel : std::max(label, 0);
        counts = counts || label != kIgnoredLabel;
      }
      CROSSTALK_CHECK(counts, name, ": all of them are beyond the ", n, " tokens, so that there is no loss");
      losses.push_back(MeanCrossEntropy(place, labels, name));
    }
    CROSSTALK_CHECK(losses.size() != 1, "start_positions and end_positions: one is missing");
    if (!losses.empty()) add_loss(Scale(Add(losses[0], losses[1]), 0.5));
  }
  if (loss.defined()) outputs.push_back({"loss", loss});
  AddRecord(record, "", outputs);
  return outputs;
}

Batch Bert::TextInputs(const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text) const {
  CROSSTALK_CHECK_FIELD(!text.target, "target", "is for a model with a decoder");
  const std::vector<TokenSpan> first = WithMasks("text", text.text, *tokenizer);
  std::vector<TokenSpan> second;
  std::optional<std::span<const TokenSpan>> following;
  if (text.second) {
    second = WithMasks("second", *text.second, *tokenizer);
    following = second;
  }
  std::vector<int32_t> ids, segments;
  for (const EncodedPair::Token& token : JoinPair(*tokenizer, first, following).tokens) {
    ids.push_back(token.id);
    segments.push_back(token.segment);
  }
  CROSSTALK_CHECK_FIELD(!ids.empty(), "text", "is empty");
  const Shape row = {1, static_cast<int64_t>(ids.size())};
  Batch batch;
  batch.Add("input_ids", Tensor::FromValues<int32_t>(row, ids));
  batch.Add("token_type_ids", Tensor::FromValues<int32_t>(row, segments));
  return batch;
}

// A BERT's heads for tasks, and the loss of each.
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
  Tensor row;     // int32[b, c]: the row of a choice; 0 if it is none
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
