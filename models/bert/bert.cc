#include "crosstalk/models/bert/bert.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/models/model.h"
#include "crosstalk/nn/attention/config_fields.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace {

using Config = BertConfig;

FieldTable<Config> EncoderFields() {
  using Heads = EncoderHeads;
  return {MakeField("layers", &Config::layers, {}),
          MakeObjectField("attention", &Config::attention, AttentionConfigFields()),
          MakeAttentionListField("layer_attention", &Config::layer_attention),
          MakeField("positions", &Config::positions, {}),
          MakeField("max_positions", &Config::max_positions, {}),
          MakeField("segments", &Config::segments, {.of_the_origin = true}),
          MakeNamesField("heads", &Config::heads,
                         {{"pooler", &Heads::pooler},
                          {"sentence", &Heads::sentence},
                          {"multiple-choice", &Heads::multiple_choice},
                          {"masked-lm", &Heads::masked_lm},
                          {"span", &Heads::span}},
                         {.of_the_origin = true}),
          MakeFieldAt<Config>("classes", [](auto& config) -> auto& { return config.heads.classes; },
                              {.of_the_origin = true}),
          MakeField("stddev", &Config::stddev, {.of_the_origin = true})};
}

const FieldTable<Config>& FieldsOf(bool albert) {
  static const FieldTable<Config> of_bert = Joined(EncoderFields(), FieldsOfBase<Config>(ModelConfigFields()));
  static const FieldTable<Config> of_albert =
      Joined(EncoderFields(), Joined({MakeField("embedding_size", &Config::embedding_size, {}),
                                      MakeField("layer_groups", &Config::layer_groups, {}),
                                      MakeField("inner_layers", &Config::inner_layers, {})},
                                     FieldsOfBase<Config>(ModelConfigFields())));
  return albert ? of_albert : of_bert;
}

}  // namespace

Json BertConfig::ToJson() const { return ModelJson(FieldsOf(is_albert()), *this); }

void BertConfig::Validate() const {
  Check({&SpecialTokens::pad});
  CheckLayers("layers", layers);
  CROSSTALK_CHECK_FIELD(!IsGated(feed_forward), "feed_forward", Name(feed_forward),
                        " is not a form of BERT's: it has no gate");
  const bool learned = positions == PositionScheme::kLearned;
  CROSSTALK_CHECK_FIELD(learned ? max_positions >= 1 : max_positions == 0, "max_positions", max_positions,
                        learned ? " is less than 1" : ": only learned positions end anywhere");
  if (positions == PositionScheme::kRelativeBias) relative_bias().Validate(RelativeDirection::kBidirectional);
  CROSSTALK_CHECK_FIELD(segments >= 1 && segments <= 1'000'000, "segments", segments, " is not between 1 and 1000000");
  CROSSTALK_CHECK_FIELD(embedding_width() >= 1, "embedding_size", embedding_width(), " is less than 1");
  CROSSTALK_CHECK_FIELD(layer_groups >= 0 && layer_groups <= layers, "layer_groups", layer_groups,
                        " is not between 1 and the ", layers, " layers");
  CROSSTALK_CHECK_FIELD(inner_layers >= 1 && inner_layers <= kMostLayers, "inner_layers", inner_layers,
                        " is not between 1 and ", kMostLayers);
  CROSSTALK_CHECK_FIELD(heads.classes >= 0 && heads.classes <= 1'000'000, "classes", heads.classes,
                        " is not between 0 and 1000000");
  CROSSTALK_CHECK_FIELD(heads.pooler || !(heads.sentence || heads.multiple_choice || heads.classes > 0), "heads",
                        "the heads of sentence, classification and multiple choice read the pooler, which is missing");
  CROSSTALK_CHECK_FIELD(stddev > 0 && stddev <= 100, "stddev", stddev, " is not in (0, 100]");
  CheckModelAttention("attention", attention, d_model, Causality::kNone);
  CheckLayerAttention("layer_attention", layer_attention, num_blocks(), d_model, Causality::kNone);
}

std::vector<AttentionConfig*> BertConfig::AttentionLayers() {
  std::vector<AttentionConfig*> all = {&attention};
  for (AttentionConfig& layer : layer_attention) all.push_back(&layer);
  return all;
}

std::unique_ptr<Model> BertConfig::Make(const Initializer& init) const { return std::make_unique<Bert>(*this, init); }

void BertConfig::KeepFrom(const ModelConfig& origin, const ModelConfig& before) {
  KeepOrigins(FieldsOf(is_albert()), static_cast<const BertConfig&>(origin), static_cast<const BertConfig&>(before),
              *this);
}

void ResolveBert(ModelOptions& options, int64_t input_length) {
  if (!options.feed_forward) options.feed_forward = FeedForwardKind::kGelu;
  if (!options.attention_scale) options.attention_scale = AttentionScale::kExplicit;
  if (!options.initial_stddev) {
    options.initial_stddev = 0.02 * std::sqrt(std::max(1.0, 768 / static_cast<double>(options.d_model)));
  }
  if (!options.max_positions && options.positions == PositionScheme::kLearned) options.max_positions = input_length;
}

namespace {

// An attention layer as BERT has it.
void SetForm(double stddev, AttentionConfig& layer) {
  if (layer.form != AttentionForm::kProjected) return;
  layer.projection_biases = true;
  layer.projection_stddev = stddev;
}

}  // namespace

BertConfig EncoderConfig(const ModelOptions& options, const ModelPurpose& purpose) {
  BertConfig config;
  config.SetFrom(options, purpose.vocabulary);
  config.layers = options.layers;
  config.stddev = options.initial_stddev.value_or(config.stddev);
  config.attention = MakeAttentionLayer(options);
  SetForm(config.stddev, config.attention);
  config.positions = options.positions;
  config.max_positions = options.max_positions.value_or(0);
  CROSSTALK_CHECK_FIELD(config.max_positions == 0 || purpose.input_length <= config.max_positions, "input_length",
                        purpose.input_length, " tokens are more than max_positions = ", config.max_positions);
  config.heads = purpose.heads;
  return config;
}

void SetLayerKinds(const ModelOptions& options, BertConfig& config) {
  config.layer_attention = MakeAttentionLayers(options, config.num_blocks());
  for (AttentionConfig& layer : config.layer_attention) SetForm(config.stddev, layer);
}

std::unique_ptr<ModelConfig> ConfigureBert(const ModelOptions& options, const ModelPurpose& purpose) {
  auto config = std::make_unique<BertConfig>(EncoderConfig(options, purpose));
  SetLayerKinds(options, *config);
  config->Validate();
  return config;
}

std::unique_ptr<ModelConfig> ReadBertConfig(const Json& json, const std::string& source) {
  const bool albert = JsonReader(json, source).String("model") == "albert";
  return std::make_unique<BertConfig>(ModelConfigFromJson(FieldsOf(albert), json, source));
}

void ResolveAlbert(ModelOptions& options, int64_t input_length) {
  if (!options.feed_forward) options.feed_forward = FeedForwardKind::kGeluTanh;
  if (!options.embedding_size) options.embedding_size = options.d_model;  // the paper's E = H
  if (!options.layer_groups) options.layer_groups = 1;
  if (!options.inner_layers) options.inner_layers = 1;
  ResolveBert(options, input_length);
}

std::unique_ptr<ModelConfig> ConfigureAlbert(const ModelOptions& options, const ModelPurpose& purpose) {
  auto config = std::make_unique<BertConfig>(EncoderConfig(options, purpose));
  config->embedding_size = options.embedding_size.value_or(options.d_model);
  config->layer_groups = options.layer_groups.value_or(1);
  config->inner_layers = options.inner_layers.value_or(1);
  CROSSTALK_CHECK_FIELD(std::ssize(options.layer_kinds) <= config->num_blocks(), "layer_kinds",
                        options.layer_kinds.size(), " kinds, but the layers of an ALBERT share ", config->num_blocks(),
                        config->num_blocks() == 1 ? " block" : " blocks",
                        "; layer_groups and inner_layers say how many there are");
  SetLayerKinds(options, *config);
  config->Validate();
  return config;
}

namespace {

const BertConfig& Validated(const BertConfig& config) {
  config.Validate();
  return config;
}

NormConfig NormOf(const BertConfig& config) { return {NormKind::kLayer, config.norm_epsilon}; }

TransformerConfig EncoderConfig(const BertConfig& config) {
  return {.layers = config.layers,
          .groups = config.layer_groups,
          .inner_layers = config.inner_layers,
          .self_attention = config.attention,
          .block_attention = config.layer_attention,
          .cross_attention = std::nullopt,
          .feed_forward = {.d_model = config.d_model,
                           .d_ff = config.d_ff,
                           .kind = config.feed_forward,
                           .bias = LinearBias::kYes,
                           .stddev = config.stddev},
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

// int32[b·p]: the rows of hidden[b·n, d] that positions[b, p] name.
Tensor RowsOf(const Tensor& positions, int64_t n) {
  const Tensor contiguous = positions.Contiguous();
  const int64_t p = positions.size(1);
  const Tensor rows = Tensor::Empty({positions.num_elements()}, DType::kInt32);
  Launch([&] {
    for (int64_t i = 0; i < positions.num_elements(); ++i) {
      const int32_t position = contiguous.data<int32_t>()[i];
      CROSSTALK_CHECK(position >= 0 && position < n, "BERT: masked_positions: ", position, " is not in [0, ", n, ")");
      rows.data<int32_t>()[i] = static_cast<int32_t>(i / p * n + position);
    }
  });
  return rows;
}

}  // namespace

MaskedLmHead::MaskedLmHead(const BertConfig& config, const Child<EmbeddingLayer>& embedding, const Initializer& init)
    : Module(init),
      activation_(config.feed_forward),
      dense_(this, "dense", config.d_model, config.embedding_width(), LinearBias::kYes, config.stddev),
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

Bert::Bert(const BertConfig& config, const Initializer& init) : Model(init), config_(Validated(config)) {
  const int64_t d = config.d_model, width = config.embedding_width();
  const InitialValues values = InitialValues::TruncatedNormal(config.stddev);
  embedding_ = {this, "embedding", PaddedVocabulary(config.vocabulary), width, values, config.tokens.pad};
  if (config.positions == PositionScheme::kLearned) {
    positions_ = {this, "positions", config.max_positions, width, values};
  }
  segments_ = {this, "segments", config.segments, width, values, std::nullopt};
  embedding_norm_ = {this, "embedding_norm", width, NormOf(config)};
  const auto dense = [&](const char* name, int64_t d_in, int64_t d_out) {
    return Child<Linear>(this, name, d_in, d_out, LinearBias::kYes, config.stddev);
  };
  if (config.is_albert()) embedding_projection_ = dense("embedding_projection", width, d);
  encoder_ = {this, "encoder", EncoderConfig(config)};
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
  const int64_t groups = config_.layer_groups;
  return StrCat("ALBERT, ", config_.layers, " layers in ", groups == 0 ? config_.layers : groups,
                groups == 1 ? " group" : " groups");
}

Variable Bert::Embed(const Tensor& ids, const Tensor& segments, const ForwardContext& context) const {
  const ContextScope scope = InLayer("embedding");
  const int64_t n = ids.size(1);
  Variable x = embedding_->Forward(ids);
  const Tensor kinds = segments.defined() ? segments : Tensor::Zeros(ids.shape(), DType::kInt32);
  CheckIds("segments", kinds, ids.shape());
  x = Add(x, segments_->Forward(kinds));
  if (positions_) {
    CROSSTALK_CHECK(n <= config_.max_positions, "BERT: ", n, " tokens are more than its ", config_.max_positions,
                    " positions");
    x = Add(x, positions_->Forward(n));
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
  const Variable rows = Reshape(hidden.sequence, {dims["b"] * dims["n"], config_.d_model});
  const CrossEntropyResult masked =
      masked_lm_->Loss(Embedding(rows, RowsOf(positions, dims["n"])), targets.Reshape({positions.num_elements()}),
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
