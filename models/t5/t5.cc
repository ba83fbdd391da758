#include "crosstalk/models/t5/t5.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/inputs.h"
#include "crosstalk/models/model.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

// A T5 as a decoder: it reads the inputs once, and writes what answers them.
namespace {

// Inputs of up to so many lengths are computed together.
constexpr int64_t kLengthStep = 16;

class T5Decoder : public Decoder {
 public:
  T5Decoder(const T5& model, const DecoderOptions& options) : model_(model), options_(options) {}

  const ModelConfig& config() const override { return model_.config(); }
  int64_t PaddedLength(int64_t n) const override { return RoundUp(n, kLengthStep); }

  Tensor Start(const Tensor& inputs, const Tensor& mask) override {
    cache_ = model_.StartDecoding(inputs, mask);
    cache_.mixings = options_.mixings;
    inputs_ = rows_ = inputs.size(0);
    return Step(Tensor::Full({rows_}, config().tokens.decoder_start, DType::kInt32));
  }
  Tensor Step(const Tensor& tokens) override { return model_.DecodeStep(tokens, cache_); }
  void SelectBeams(const std::vector<int64_t>& rows) override {
    cache_.SelectBeams(rows);
    rows_ = static_cast<int64_t>(rows.size());
  }
  void SelectInputs(const std::vector<int64_t>& inputs) override {
    const int64_t beams = rows_ / inputs_;
    cache_.SelectInputs(inputs, beams);
    inputs_ = static_cast<int64_t>(inputs.size());
    rows_ = inputs_ * beams;
  }

 private:
  const T5& model_;
  DecoderOptions options_;
  TransformerCache cache_;
  int64_t inputs_ = 0, rows_ = 0;
};

}  // namespace

std::unique_ptr<Decoder> T5::MakeDecoder(const DecoderOptions& options) const {
  if (!has_decoder()) return nullptr;
  return std::make_unique<T5Decoder>(*this, options);
}

ModelConfig BaseT5() {
  ModelConfig config;
  config.name = "t5";
  config.vocabulary = 32100;
  config.d_model = 768;
  config.d_ff = 3072;
  config.layers = 12;
  config.decoder_layers = 12;
  config.feed_forward = FeedForwardKind::kRelu;
  return config;
}

const FieldTable<ModelConfig>& T5Fields() {
  using Config = ModelConfig;
  static const FieldTable<Config> table =
      Joined<Config>({{"encoder_layers", &Config::layers},
                      NeverNull({"decoder_layers", &Config::decoder_layers}),
                      {"logit_scale", &Config::logit_scale, {.only_if_set = true}},
                      {"bias_tables", &Config::bias_tables, {.only_if_set = true}},
                      {"encoder_self", &Config::encoder_self},
                      {"decoder_self", &Config::decoder_self},
                      {"encoder_decoder", &Config::encoder_decoder},
                      {"encoder_self_layers", &Config::encoder_self_layers, {.only_if_set = true}},
                      {"decoder_self_layers", &Config::decoder_self_layers, {.only_if_set = true}},
                      {"encoder_decoder_layers", &Config::encoder_decoder_layers, {.only_if_set = true}}},
                     ModelConfigFields());
  return table;
}

void ValidateT5(const ModelConfig& config) {
  config.Check({&SpecialTokens::pad, &SpecialTokens::end, &SpecialTokens::decoder_start});
  CheckLayers("encoder_layers", config.layers);
  const int64_t decoder_layers = config.num_decoder_layers();
  if (decoder_layers != 0) CheckLayers("decoder_layers", decoder_layers);
  config.relative_bias().Validate(RelativeDirection::kBidirectional);   // of the encoder
  config.relative_bias().Validate(RelativeDirection::kUnidirectional);  // of the decoder
  const auto check = [&](const char* place, const AttentionConfig& layer, const std::vector<AttentionConfig>& each,
                         int64_t layers, Causality causality) {
    CheckModelAttention(place, layer, config.d_model, causality);
    CheckLayerAttention(StrCat(place, "_layers").c_str(), each, layers, config.d_model, causality);
  };
  check("encoder_self", config.encoder_self, config.encoder_self_layers, config.layers, Causality::kNone);
  check("decoder_self", config.decoder_self, config.decoder_self_layers, decoder_layers, Causality::kCausal);
  check("encoder_decoder", config.encoder_decoder, config.encoder_decoder_layers, decoder_layers, Causality::kNone);
}

void ResolveT5(ModelConfig& config, int64_t) {
  if (!config.decoder_layers) config.decoder_layers = config.layers;
}

void OverKeysAlone(AttentionConfig& layer) {
  layer.c_ql = std::min<int64_t>(layer.c_ql, 1);
  layer.c_qw = std::min<int64_t>(layer.c_qw, 1);
}

void MakeT5Layers(ModelConfig& config) {
  config.SetAttention(MakeAttentionLayer(config, config.encoder_self_kind),
                      MakeAttentionLayer(config, config.decoder_self_kind),
                      MakeAttentionLayer(config, config.encoder_decoder_kind));
  OverKeysAlone(config.encoder_decoder);
  CROSSTALK_CHECK_FIELD(config.layer_kinds.empty() || !config.encoder_self_kind || !config.decoder_self_kind ||
                            !config.encoder_decoder_kind,
                        "layer_kinds", "each of the three places of attention has a kind of its own for all layers");
  const int64_t decoder_layers = config.num_decoder_layers();
  if (!config.encoder_self_kind) config.encoder_self_layers = MakeAttentionLayers(config, config.layers);
  if (!config.decoder_self_kind) config.decoder_self_layers = MakeAttentionLayers(config, decoder_layers);
  if (!config.encoder_decoder_kind) {
    config.encoder_decoder_layers = MakeAttentionLayers(config, decoder_layers);
    for (AttentionConfig& layer : config.encoder_decoder_layers) OverKeysAlone(layer);
  }
  MakeCausal(config, config.decoder_self);
  for (AttentionConfig& layer : config.decoder_self_layers) MakeCausal(config, layer);
}

namespace {

TransformerConfig EncoderConfig(const ModelConfig& config) {
  TransformerConfig stack = config.PreNormStack(config.layers, config.encoder_self);
  stack.block_attention = config.encoder_self_layers;
  return stack;
}

TransformerConfig DecoderConfig(const ModelConfig& config) {
  TransformerConfig stack = config.PreNormStack(config.num_decoder_layers(), config.decoder_self);
  stack.block_attention = config.decoder_self_layers;
  stack.cross_attention = config.encoder_decoder;
  stack.block_cross_attention = config.encoder_decoder_layers;
  return stack;
}

void CheckIds(const char* name, const Tensor& ids) {
  CROSSTALK_CHECK(ids.defined() && ids.dtype() == DType::kInt32, "T5: ", name, " must be int32");
}

}  // namespace

Tensor ShiftRight(const Tensor& targets, int32_t start) {
  CheckIds("targets", targets);
  Dims dims("shift right");
  dims.Bind("targets[b, m]", targets.shape());
  const int64_t m = dims["m"];
  Tensor shifted = Tensor::Full(targets.shape(), start, DType::kInt32);
  if (m > 1) shifted.Slice(1, 1, m).CopyFrom(targets.Slice(1, 0, m - 1));
  return shifted;
}

T5::T5(const ModelConfig& config, const Initializer& init)
    : Model(init),
      config_(Validated(config)),
      embedding_(this, "embedding", VocabularySize{config.vocabulary}, config.d_model, InitialValues::Normal(1.0),
                 std::nullopt),
      encoder_(this, "encoder", EncoderConfig(config)) {
  if (!has_decoder()) return;
  decoder_ = Child<TransformerStack>(this, "decoder", DecoderConfig(config));
  classifier_ = Child<Classifier>(this, "classifier", config.classifier, config.vocabulary, embedding_,
                                  ClassifierForm{.scale = config.logit_scale});
}

void T5::RequireDecoder() const {
  CROSSTALK_CHECK(has_decoder(), Describe(), ", has no decoder: it reads text, but writes none and has no loss");
}

void T5::SetActivations(Activations activations) {
  encoder_->SetActivations(activations);
  if (has_decoder()) decoder_->SetActivations(activations);
}

Tensor T5::InputMask(const Tensor& inputs, const Tensor& mask) const {
  CheckIds("inputs", inputs);
  return mask.defined() ? mask : NotPadding(inputs, config_.tokens.pad);
}

Variable T5::Encode(const Tensor& inputs, const ForwardContext& context, const Tensor& mask,
                    TransformerRecord* record) const {
  const ContextScope products = InPrecision();
  const Tensor attend = InputMask(inputs, mask);
  const ContextScope scope = InLayer("encoder");
  return encoder_->Forward(embedding_->Forward(inputs), attend, {}, context, record);
}

Variable T5::Decode(const Variable& encoded, const Tensor& memory_mask, const Tensor& decoder_inputs,
                    const ForwardContext& context, const Tensor& mask, TransformerRecord* record) const {
  RequireDecoder();
  const ContextScope products = InPrecision();
  CheckIds("decoder inputs", decoder_inputs);
  const ContextScope scope = InLayer("decoder");
  // Without a mask: padding comes after all that counts, and causality hides it.
  const TransformerMemory memory = {.encoded = encoded, .mask = memory_mask};
  return decoder_->Forward(embedding_->Forward(decoder_inputs), mask, memory, context, record);
}

Variable T5::Logits(const Variable& hidden) const {
  RequireDecoder();
  const ContextScope products = InPrecision();
  return classifier_->Logits(hidden);
}

std::string T5::Describe() const {
  return has_decoder() ? StrCat("T5, ", config_.layers, " + ", config_.num_decoder_layers(), " layers")
                       : StrCat("T5 encoder, ", config_.layers, " layers");
}

std::vector<AttentionPlace> T5::AttentionPlaces() const {
  std::vector<AttentionPlace> places;
  const auto add = [&](const std::vector<AttentionPlace>& more) {
    places.insert(places.end(), more.begin(), more.end());
  };
  add(PlacesOf("encoder self-attention", config_.encoder_self, config_.encoder_self_layers));
  if (!has_decoder()) return places;
  add(PlacesOf("decoder self-attention", config_.decoder_self, config_.decoder_self_layers));
  add(PlacesOf("encoder-decoder attention", config_.encoder_decoder, config_.encoder_decoder_layers));
  return places;
}

LossResult T5::ComputeLoss(const Batch& batch, const LossOptions& options, const ForwardContext& context) const {
  const auto mask = [&batch](const char* name) { return batch.Has(name) ? batch.Get(name) : Tensor(); };
  const T5Masks masks = {.inputs = mask("input_mask"), .targets = mask("target_mask")};
  return Loss(batch.Get("inputs"), batch.Get("targets"), options, context, masks);
}

LossResult T5::Loss(const Tensor& inputs, const Tensor& targets, const LossOptions& options,
                    const ForwardContext& context, const T5Masks& masks) const {
  RequireDecoder();
  const ContextScope products = InPrecision();
  CheckIds("inputs", inputs);
  CheckIds("targets", targets);
  Dims dims("T5 loss");
  dims.Bind("inputs[b, n]", inputs.shape()).Bind("targets[b, m]", targets.shape());
  const Tensor attend = InputMask(inputs, masks.inputs);
  const Variable encoded = Encode(inputs, context, attend);
  const Variable hidden =
      Decode(encoded, attend, ShiftRight(targets, config_.tokens.decoder_start), context, masks.targets);
  const CrossEntropyResult result = classifier_->Loss(
      hidden, targets, {.ignore_index = config_.tokens.pad, .z_loss = context.training() ? options.z_loss : 0});
  return {.sum = result.loss, .sums = {{"ln_ppl", result.nll_sum, result.count}}};
}

TransformerCache T5::StartDecoding(const Tensor& inputs, const Tensor& mask) const {
  RequireDecoder();
  const ContextScope products = InPrecision(), no_grad = NoGrad();
  const Tensor attend = InputMask(inputs, mask);
  return decoder_->StartDecoding({.encoded = Encode(inputs, ForwardContext(), attend), .mask = attend});
}

Tensor T5::DecodeStep(const Tensor& tokens, TransformerCache& cache) const {
  CheckIds("tokens", tokens);
  Dims dims("T5 decoding step");
  dims.Bind("tokens[b]", tokens.shape());
  const ContextScope products = InPrecision(), no_grad = NoGrad();
  const int64_t b = dims["b"];
  const Variable hidden = decoder_->Step(embedding_->Forward(tokens.Reshape({b, 1})), cache);
  return Logits(hidden).value().Reshape({b, config_.vocabulary});
}

namespace {

// The decoder's inputs where only labels are given: those that count nothing are padding to it.
Tensor DecoderIds(const Tensor& labels, const SpecialTokens& tokens) {
  const Tensor ids = labels.Clone();
  std::replace(ids.data<int32_t>(), ids.data<int32_t>() + ids.num_elements(), kIgnoredLabel, tokens.pad);
  return ShiftRight(ids, tokens.decoder_start);
}

}  // namespace

std::vector<NamedVariable> T5::ComputeOutputs(const Batch& inputs, OutputDetail detail,
                                              const ForwardContext& context) const {
  if (has_decoder()) {
    CheckInputNames(inputs, {"input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask", "labels"});
  } else {
    CheckInputNames(inputs, {"input_ids", "attention_mask"});
  }
  const bool all = detail == OutputDetail::kAll;
  TransformerRecord encoder_record, decoder_record;
  const Tensor ids = RequiredInputIds(inputs, 2, config_.vocabulary);
  const Tensor mask = InputMaskOrAll(inputs, "attention_mask", ids.shape());
  if (!has_decoder()) {
    std::vector<NamedVariable> outputs = {
        {"last_hidden_state", Encode(ids, context, mask, all ? &encoder_record : nullptr)}};
    AddRecord(encoder_record, "", outputs);
    return outputs;
  }
  const Tensor labels = InputLabels(inputs, "labels", 2, config_.vocabulary);
  Tensor decoder_ids = InputIds(inputs, "decoder_input_ids", 2, {0, config_.vocabulary - 1});
  CROSSTALK_CHECK(decoder_ids.defined() || labels.defined(),
                  "decoder_input_ids: is missing, and there are no labels to make it of");
  if (!decoder_ids.defined()) decoder_ids = DecoderIds(labels, config_.tokens);
  CROSSTALK_CHECK(decoder_ids.num_elements() > 0, "decoder_input_ids: ", decoder_ids.shape(), " holds nothing");
  CROSSTALK_CHECK(!labels.defined() || labels.shape() == decoder_ids.shape(), "labels: ", labels.shape(),
                  " must be as decoder_input_ids", decoder_ids.shape());
  const Tensor decoder_mask = InputMaskOrAll(inputs, "decoder_attention_mask", decoder_ids.shape());

  const Variable encoded = Encode(ids, context, mask, all ? &encoder_record : nullptr);
  const Variable hidden = Decode(encoded, mask, decoder_ids, context, decoder_mask, all ? &decoder_record : nullptr);
  const Variable logits = Logits(hidden);
  std::vector<NamedVariable> outputs = {
      {"logits", logits}, {"encoder_last_hidden_state", encoded}, {"decoder_last_hidden_state", hidden}};
  if (labels.defined()) outputs.push_back({"loss", MeanCrossEntropy(logits, labels, "labels")});
  AddRecord(encoder_record, "encoder_", outputs);
  AddRecord(decoder_record, "decoder_", outputs);
  for (size_t i = 0; i < decoder_record.cross_attention.size(); ++i) {
    outputs.push_back({StrCat("cross_attentions.", i), decoder_record.cross_attention[i]});
  }
  return outputs;
}

}  // namespace crosstalk
