// A BERT's or an ALBERT's results under Hugging Face's names, and a text as its inputs.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/published_inputs.h"
#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/text_inputs.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// The batch's inputs, as the encoder reads them.
struct Inputs {
  Tensor ids, segments, mask;  // [rows, n]
  int64_t examples = 0;
  int64_t choices = 1;  // rows an example
};

Inputs ReadInputs(const Batch& inputs, const BertConfig& config) {
  // A choice is a row of its own.
  const int rank = inputs.Get("input_ids").rank() == 3 && config.heads.multiple_choice ? 3 : 2;
  Inputs read;
  read.ids = RequiredInputIds(inputs, rank, config.vocabulary);
  const Shape given = read.ids.shape();
  const int64_t n = given[rank - 1];
  CROSSTALK_CHECK(config.max_positions == 0 || n <= config.max_positions, "input_ids: ", given, " are ", n,
                  " tokens, more than the model's ", config.max_positions, " positions");
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
  // Of logits[shape…, classes] and labels[shape…], where there are some.
  const auto add_class_loss = [&](const char* name, const Variable& logits) {
    const Shape shape = logits.value().Select(logits.rank() - 1, 0).shape();
    const Tensor labels = InputLabels(inputs, name, shape.rank(), logits.size(-1));
    check_shape(name, labels, shape);
    if (labels.defined()) add_loss(MeanCrossEntropy(logits, labels, name));
  };

  // `labels` and `logits` are the task's where there is one, else the masked-LM head's.
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

}  // namespace crosstalk
