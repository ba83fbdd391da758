#include "crosstalk/models/bert/bert.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/models/inputs.h"
#include "crosstalk/models/model.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
ModelConfig BaseBert() {
  ModelConfig config;
  config.name = "bert";
  config.feed_forward = FeedForwardKind::kGelu;
  config.positions = PositionScheme::kLearned;
  config.initial_stddev = 0.02;
  config.norm_epsilon = 1e-12;
  return config;
}

namespace {

using Config = ModelConfig;

FieldTable<Config> EncoderFields() {
  return {{"layers", &Config::layers},
          {"attention", &Config::encoder_self},
          {"layer_attention", &Config::encoder_self_layers, {.only_if_set = true}},
          {"positions", &Config::positions},
          NeverNull({"max_positions", &Config::max_positions}, 0),  // 0: a text may have any length
          {"first_position", &Config::first_position, {.only_if_set = true}},
          {"segments", &Config::segments},
          {"heads", &Config::heads},
          {"classes", Within(&Config::heads, &EncoderHeads::classes)},
          NeverNull({"stddev", &Config::initial_stddev})};
}

}  // namespace

std::vector<std::pair<std::string, bool EncoderHeads::*>> EncoderHeads::Names() {
  using Heads = EncoderHeads;
  return {{"pooler", &Heads::pooler},
          {"sentence", &Heads::sentence},
          {"multiple-choice", &Heads::multiple_choice},
          {"masked-lm", &Heads::masked_lm},
          {"span", &Heads::span}};
}

const FieldTable<Config>& BertFields() {
  static const FieldTable<Config> table = Joined(EncoderFields(), ModelConfigFields());
  return table;
}

const FieldTable<Config>& AlbertFields() {
  static const FieldTable<Config> table =
      Joined(EncoderFields(),
             FieldTable<Config>{NeverNull({"embedding_size", &Config::embedding_size}),
                                NeverNull({"layer_groups", &Config::layer_groups}),
                                NeverNull({"inner_layers", &Config::inner_layers})},
             ModelConfigFields());
  return table;
}

void ValidateBert(const ModelConfig& config) {
  config.Check({&SpecialTokens::pad});
  CheckLayers("layers", config.layers);
  const FeedForwardKind activation = config.activation();
  CROSSTALK_CHECK_FIELD(!IsGated(activation), "feed_forward", Name(activation),
                        " is not a form of BERT's: it has no gate");
  const bool learned = config.positions == PositionScheme::kLearned;
  const int64_t max_positions = config.max_positions.value_or(0);
  CROSSTALK_CHECK_FIELD(learned ? max_positions >= 1 : max_positions == 0, "max_positions", max_positions,
                        learned ? " is less than 1" : ": only learned positions end anywhere");
  CROSSTALK_CHECK_FIELD(
      config.first_position == 0 || (learned && config.first_position > 0 && config.first_position < max_positions),
      "first_position", config.first_position, " is not between 0 and the ", max_positions, " learned positions");
  if (config.positions == PositionScheme::kRelativeBias) {
    config.relative_bias().Validate(RelativeDirection::kBidirectional);
  }
  CROSSTALK_CHECK_FIELD(config.segments >= 1 && config.segments <= 1'000'000, "segments", config.segments,
                        " is not between 1 and 1000000");
  CROSSTALK_CHECK_FIELD(config.embedding_width() >= 1, "embedding_size", config.embedding_width(), " is less than 1");
  const int64_t groups = config.layer_groups.value_or(1), inner_layers = config.inner_layers.value_or(1);
  CROSSTALK_CHECK_FIELD(groups >= 1 && groups <= config.layers, "layer_groups", groups, " is not between 1 and the ",
                        config.layers, " layers");
  CROSSTALK_CHECK_FIELD(inner_layers >= 1 && inner_layers <= kMostLayers, "inner_layers", inner_layers,
                        " is not between 1 and ", kMostLayers);
  const EncoderHeads& heads = config.heads;
  CROSSTALK_CHECK_FIELD(heads.classes >= 0 && heads.classes <= 1'000'000, "classes", heads.classes,
                        " is not between 0 and 1000000");
  CROSSTALK_CHECK_FIELD(heads.pooler || !(heads.sentence || heads.multiple_choice || heads.classes > 0), "heads",
                        "the heads of sentence, classification and multiple choice read the pooler, which is missing");
  CROSSTALK_CHECK_FIELD(config.stddev() > 0 && config.stddev() <= 100, "stddev", config.stddev(),
                        " is not in (0, 100]");
  CheckModelAttention("attention", config.encoder_self, config.d_model, Causality::kNone);
  CheckLayerAttention("layer_attention", config.encoder_self_layers, config.num_blocks(), config.d_model,
                      Causality::kNone);
}

void ResolveBert(ModelConfig& config, int64_t input_length) {
  if (!config.feed_forward) config.feed_forward = FeedForwardKind::kGelu;
  if (!config.attention_scale) config.attention_scale = AttentionScale::kExplicit;
  if (!config.initial_stddev) {
    config.initial_stddev = 0.02 * std::sqrt(std::max(1.0, 768 / static_cast<double>(config.d_model)));
  }
  if (!config.max_positions && config.positions == PositionScheme::kLearned) config.max_positions = input_length;
}

void ResolveAlbert(ModelConfig& config, int64_t input_length) {
  if (!config.feed_forward) config.feed_forward = FeedForwardKind::kGeluTanh;
  if (!config.embedding_size) config.embedding_size = config.d_model;  // the paper's E = H
  if (!config.layer_groups) config.layer_groups = 1;
  if (!config.inner_layers) config.inner_layers = 1;
  ResolveBert(config, input_length);
}

void MakeBertLayers(ModelConfig& config) {
  CROSSTALK_CHECK_FIELD(config.attention.window == 0, "window", "needs causal self-attention, and no layer of ",
                        config.name, " is causal");
  CROSSTALK_CHECK_FIELD(!config.is_albert() || std::ssize(config.layer_kinds) <= config.num_blocks(), "layer_kinds",
                        config.layer_kinds.size(), " kinds, but the layers of an ALBERT share ", config.num_blocks(),
                        config.num_blocks() == 1 ? " block" : " blocks", "; ", FieldName{"layer_groups"}, " and ",
                        FieldName{"inner_layers"}, " say how many there are");
  config.encoder_self = MakeAttentionLayer(config);
  config.encoder_self_layers = MakeAttentionLayers(config, config.num_blocks());
  for (AttentionConfig* const layer : config.AttentionLayers()) {
    if (layer->form != AttentionForm::kProjected) continue;
    layer->projection_biases = true;
    layer->projection_stddev = config.stddev();
  }
}

namespace {

NormConfig NormOf(const ModelConfig& config) { return {NormKind::kLayer, config.norm_epsilon}; }

TransformerConfig BertStack(const ModelConfig& config) {
  return {.layers = config.layers,
          .groups = config.layer_groups.value_or(0),
          .inner_layers = config.inner_layers.value_or(1),
          .self_attention = config.encoder_self,
          .block_attention = config.encoder_self_layers,
          .cross_attention = std::nullopt,
          .feed_forward = {.d_model = config.d_model,
                           .d_ff = config.d_ff,
                           .kind = config.activation(),
                           .bias = LinearBias::kYes,
                           .stddev = config.stddev()},
          .norm = NormOf(config),
          .placement = NormPlacement::kPost,
          .final_norm = FinalNorm::kNo,
          .positions = config.positions,
          .relative_bias = config.relative_bias(),
          .dropout_rate = config.dropout_rate,
          // ALBERT drops what its embedding projection reads.
          .input_dropout = config.is_albert() ? InputDropout::kNo : InputDropout::kYes};
}

void CheckIds(const char* name, const Tensor& ids, const Shape& shape) {
  CROSSTALK_CHECK(ids.defined() && ids.dtype() == DType::kInt32 && ids.shape() == shape, "BERT: ", name,
                  " must be int32", shape);
}

// int32[b, n]: the row of each token's position, as ModelConfig::first_position says.
Tensor PositionRows(const Tensor& ids, int32_t pad, int64_t first) {
  const Tensor contiguous = ids.Contiguous();
  const Tensor rows = Tensor::Empty(ids.shape(), DType::kInt32);
  Launch([&] {
    for (int64_t i = 0; i < ids.size(0); ++i) {
      auto next = static_cast<int32_t>(first);
      for (int64_t j = i * ids.size(1); j < (i + 1) * ids.size(1); ++j) {
        rows.data<int32_t>()[j] = contiguous.data<int32_t>()[j] == pad ? static_cast<int32_t>(first - 1) : next++;
      }
    }
  });
  return rows;
}

}  // namespace

MaskedLmHead::MaskedLmHead(const ModelConfig& config, const Child<EmbeddingLayer>& embedding, const Initializer& init)
    : Module(init),
      activation_(config.activation()),
      dense_(this, "dense", config.d_model, config.embedding_width(), LinearBias::kYes, config.stddev()),
      norm_(this, "norm", config.embedding_width(), NormConfig{NormKind::kLayer, config.norm_epsilon}),
      bias_(AddParameter("bias", {config.vocabulary}, InitialValues::Zeros())),
      decoder_(this, "decoder", config.classifier, config.vocabulary, embedding,
               ClassifierForm{LogitScale::kNever, bias_}) {}

Variable MaskedLmHead::Transform(const Variable& hidden) const {
  const ContextScope scope = InLayer("masked_lm");
  return norm_->Forward(Activate(activation_, dense_->Forward(hidden)));
}

Variable MaskedLmHead::Logits(const Variable& hidden) const { return decoder_->Logits(Transform(hidden)); }

CrossEntropyResult MaskedLmHead::Loss(const Variable& hidden, const Tensor& targets,
                                      const CrossEntropyOptions& options) const {
  return decoder_->Loss(Transform(hidden), targets, options);
}

Bert::Bert(const ModelConfig& config, const Initializer& init) : Model(init), config_(Validated(config)) {
  const int64_t d = config.d_model, width = config.embedding_width();
  const InitialValues values = InitialValues::TruncatedNormal(config.stddev());
  embedding_ = {this, "embedding", VocabularySize{config.vocabulary}, width, values, config.tokens.pad};
  if (config.first_position > 0) {
    counted_positions_ = {this, "positions", *config.max_positions, width, values, config.first_position - 1};
  } else if (config.positions == PositionScheme::kLearned) {
    positions_ = {this, "positions", *config.max_positions, width, values};
  }
  segments_ = {this, "segments", config.segments, width, values, std::nullopt};
  embedding_norm_ = {this, "embedding_norm", width, NormOf(config)};
  const auto dense = [&](const char* name, int64_t d_in, int64_t d_out) {
    return Child<Linear>(this, name, d_in, d_out, LinearBias::kYes, config.stddev());
  };
  if (config.is_albert()) embedding_projection_ = dense("embedding_projection", width, d);
  encoder_ = {this, "encoder", BertStack(config)};
  const EncoderHeads& heads = config.heads;
  if (heads.pooler) pooler_ = dense("pooler", d, d);
  if (heads.masked_lm) masked_lm_ = {this, "masked_lm", config, embedding_};
  if (heads.sentence) sentence_ = dense("sentence", d, 2);
  if (heads.classes > 0) classification_ = dense("classification", d, heads.classes);
  if (heads.multiple_choice) multiple_choice_ = dense("multiple_choice", d, 1);
  if (heads.span) span_ = dense("span", d, 2);
}

std::string Bert::Describe() const {
  if (!config_.is_albert()) return StrCat("BERT, ", config_.layers, " layers");
  const int64_t groups = config_.layer_groups.value_or(config_.layers);
  return StrCat("ALBERT, ", config_.layers, " layers in ", groups, groups == 1 ? " group" : " groups");
}

Variable Bert::Embed(const Tensor& ids, const Tensor& segments, const ForwardContext& context) const {
  const ContextScope scope = InLayer("embedding");
  const int64_t n = ids.size(1);
  Variable x = embedding_->Forward(ids);
  const Tensor kinds = segments.defined() ? segments : Tensor::Zeros(ids.shape(), DType::kInt32);
  CheckIds("segments", kinds, ids.shape());
  x = Add(x, segments_->Forward(kinds));
  const std::optional<int64_t> longest = config_.longest_text();
  CROSSTALK_CHECK(!longest || n <= *longest, "BERT: ", n, " tokens are more than its ", longest.value_or(0),
                  " positions");
  if (positions_) x = Add(x, positions_->Forward(n));
  if (counted_positions_) {
    x = Add(x, counted_positions_->Forward(PositionRows(ids, config_.tokens.pad, config_.first_position)));
  }
  x = embedding_norm_->Forward(x);
  if (!embedding_projection_) return x;
  return embedding_projection_->Forward(ApplyDropout(x, config_.dropout_rate, "embedding.dropout", context));
}

Bert::Hidden Bert::Encode(const Tensor& ids, const Tensor& segments, const Tensor& mask, const ForwardContext& context,
                          TransformerRecord* record) const {
  const ContextScope products = InPrecision();
  CROSSTALK_CHECK(ids.defined() && ids.dtype() == DType::kInt32 && ids.rank() == 2 && ids.size(1) >= 1,
                  "BERT: inputs must be int32[b, n] with n ≥ 1");
  const Tensor attend = mask.defined() ? mask : NotPadding(ids, config_.tokens.pad);
  Hidden hidden;
  const Variable embedded = Embed(ids, segments, context);
  {
    const ContextScope scope = InLayer("encoder");
    hidden.sequence = encoder_->Forward(embedded, attend, {}, context, record);
  }
  if (pooler_) {
    const ContextScope scope = InLayer("pooler");
    const Variable first = Slice(hidden.sequence, 1, 0, 1);
    hidden.pooled = Tanh(pooler_->Forward(Reshape(first, {ids.size(0), config_.d_model})));
  }
  return hidden;
}

LossResult Bert::ComputeLoss(const Batch& batch, const LossOptions& options, const ForwardContext& context) const {
  return batch.Has("masked_positions") ? PretrainingLoss(batch, options, context) : TaskLoss(batch, options, context);
}

LossResult Bert::PretrainingLoss(const Batch& batch, const LossOptions& options, const ForwardContext& context) const {
  CROSSTALK_CHECK(masked_lm_, "BERT: a model without the masked-LM head cannot be trained on masked tokens");
  const Tensor& ids = batch.Get("inputs");
  const Tensor& positions = batch.Get("masked_positions");
  const Tensor& targets = batch.Get("masked_targets");
  const Hidden hidden = Encode(ids, batch.Get("segments"), {}, context);
  Dims dims("BERT loss");
  dims.Bind("inputs[b, n]", ids.shape()).Bind("masked_positions[b, p]", positions.shape());
  CheckIds("masked_positions", positions, positions.shape());
  CheckIds("masked_targets", targets, positions.shape());
  const CrossEntropyResult masked = masked_lm_->Loss(
      AtPositions(hidden.sequence, positions, "masked_positions"), targets.Reshape({positions.num_elements()}),
      {.ignore_index = config_.tokens.pad, .z_loss = context.training() ? options.z_loss : 0});
  LossResult result;
  result.sum = masked.loss;
  result.sums = {{"ln_ppl", masked.nll_sum, masked.count},
                 {"masked_accuracy", static_cast<double>(masked.correct), masked.count}};
  if (!sentence_) return result;
  const ContextScope scope = InLayer("sentence");
  const CrossEntropyResult sentences = CrossEntropy(sentence_->Forward(hidden.pooled), batch.Get("sentence_labels"));
  result.example_sum = sentences.loss;
  result.sums.push_back({"sentence_accuracy", static_cast<double>(sentences.correct), sentences.count});
  return result;
}

HeadLogits Bert::AnswerByHeads(const Tensor& ids, const Tensor& segments) const {
  const ContextScope precision = InPrecision();
  const ForwardContext evaluation;
  const Hidden hidden = Encode(ids, segments, {}, evaluation);
  HeadLogits logits;
  if (config_.heads.classes > 0) logits.classes = ClassLogits(hidden, evaluation);
  if (config_.heads.multiple_choice) logits.choice = ChoiceScores(hidden, evaluation);
  if (config_.heads.span) logits.span = SpanLogits(hidden);
  return logits;
}

}  // namespace crosstalk
