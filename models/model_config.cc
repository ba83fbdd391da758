#include "crosstalk/models/model_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// Sizes whose products stay far from overflow: no machine holds more.
constexpr FieldRange kSize = {1, 16'777'216};

}  // namespace

const FieldTable<AttentionOptions>& AttentionFields() {
  using Options = AttentionOptions;
  static const FieldTable<Options> table = {
      MakeField("attention", &Options::kind, "KIND", "Kind of attention."),
      MakeField("heads", &Options::heads, "N", "Softmax heads, h.", {.range = kSize}),
      MakeField("key_heads", &Options::key_heads, "N", "Key heads, h_k; as heads by default.", {.range = kSize}),
      MakeField("value_heads", &Options::value_heads, "N", "Value heads, h_v; as heads by default.", {.range = kSize}),
      MakeField("key_size", &Options::key_size, "N", "Size of a key, d_k; d_model / h_k by default.", {.range = kSize}),
      MakeField("value_size", &Options::value_size, "N", "Size of a value, d_v; d_model / h_v by default.",
                {.range = kSize}),
      MakeField(
          "dynamic", &Options::dynamic, "LIST",
          StrCat("Dynamic projections besides the kind's own: some of ", Join(DynamicNames(), ","), ", or none.")),
      MakeField("kv_heads", &Options::kv_heads, "N",
                "KV heads, which query heads share (grouped-query attention; 1: multi-query); as heads by default.",
                {.range = kSize, .only_if_set = true}),
      MakeField("head_norm", &Options::head_norm, "NAME",
                "RMS norm of each head's output, with a gain or without; rms-gain by default for diff-v1 and "
                "mta, none for others.",
                {.only_if_set = true}),
      MakeField("head_gate", &Options::head_gate, "NAME",
                "Sigmoid gate on each head's output, one per head or per element; scalar by default "
                "for mta, none for others.",
                {.only_if_set = true}),
      MakeField("convolution", &Options::convolution, "QxK",
                "Queries and keys of the convolutions of logits and of weights; 6x11 for mta, none for others.",
                {.only_if_set = true}),
      MakeField("mixing_group", &Options::mixing_group, "N",
                "P_l and P_w mix within groups of N heads; 0: all of them.",
                {.range = {0, 16'777'216}, .only_if_set = true}),
      MakeField("query_key_norm", &Options::query_key_norm, "", "RMS norm of each query and key.",
                {.only_if_set = true}),
      MakeField("window", &Options::window, "N",
                "Causal self-attention sees a query's own position and the N - 1 before it; 0: all before it.",
                {.range = {0, 16'777'216}, .only_if_set = true})};
  return table;
}

const FieldTable<ModelConfig>& ModelFields() {
  using Config = ModelConfig;
  static const FieldTable<Config> table = [] {
    FieldTable<Config> rows = {MakeField("model", &Config::name, "", "Kind of model.")};
    rows = Joined(std::move(rows), FieldsOfPart(AttentionFields(), &Config::attention));
    rows = Joined(
        std::move(rows),
        {MakeField("encoder_self", &Config::encoder_self_kind, "KIND", "Kind in the encoder; as attention by default."),
         MakeField("decoder_self", &Config::decoder_self_kind, "KIND", "Kind in the decoder; as attention by default."),
         MakeField("encoder_decoder", &Config::encoder_decoder_kind, "KIND",
                   "Kind between decoder and encoder; as attention by default."),
         MakeField("mixing_init", &Config::mixing_init, "",
                   "How P_l, P_w and the dynamic projections beside them start. identity: as multi-head attention."),
         MakeField("attention_scale", &Config::attention_scale, "NAME",
                   "Logits' factor 1/sqrt(d_k): folded into P_q's initial values (t5 and lm by default), or "
                   "explicit (bert and albert)."),
         MakeField("keys_values", &Config::keys_values, "", "tied: V = K."),
         MakeField("implementation", &Config::implementation, "",
                   "fused: one kernel that keeps nothing of size n·m; composed: the paper's pseudocode in "
                   "einsum."),
         MakeField("d_model", &Config::d_model, "N", "Width of the model.", {.range = kSize}),
         MakeField("d_ff", &Config::d_ff, "N", "Width inside the feed-forward layers.", {.range = kSize}),
         MakeField("layers", &Config::layers, "N", "Blocks; of the encoder, if there is one.",
                   {.range = {1, kMostLayers}}),
         MakeField("decoder_layers", &Config::decoder_layers, "N",
                   "Blocks of the decoder; as layers by default. 0: an encoder alone, as imports may be.",
                   {.range = {0, kMostLayers}}),
         MakeField("feed_forward", &Config::feed_forward, "NAME",
                   "Feed-forward layer; by default relu for t5 and lm, gelu for bert, gelu-tanh for albert."),
         MakeField("classifier", &Config::classifier, "", "tied: to the embedding."),
         MakeField("positions", &Config::positions, "",
                   "How positions are known: a relative bias, learned vectors added to the embedding, rotary "
                   "ones (lm and bert), or not but by what each can see.",
                   {.may_be_missing = true}),
         MakeField("rotary", &Config::rotary, "",
                   "Which elements rotary positions turn together: i and i + d_k/2, or 2i and 2i + 1.",
                   {.only_if_set = true}),
         MakeField("rotary_base", &Config::rotary_base, "X", "Base of rotary positions.",
                   {.range = {1, 1e12}, .only_if_set = true}),
         MakeField("projection_biases", &Config::projection_biases, "",
                   "Biases in attention: beside P_q, P_k and P_v, beside P_o as well, or none.", {.only_if_set = true}),
         MakeField("feed_forward_biases", &Config::feed_forward_biases, "", "Biases in the feed-forward layers.",
                   {.only_if_set = true}),
         MakeField("norm", &Config::norm, "", "Norms: rms (T5, Llama), or layer (GPT-2), which has biases.",
                   {.only_if_set = true}),
         MakeField("layer_kinds", &Config::layer_kinds, "LIST",
                   "Kinds of attention of the layers, as a repeating list; in each stack of t5, except for "
                   "places with a kind of their own; in albert for its shared blocks; attention by default.",
                   {.only_if_set = true}),
         MakeField("max_positions", &Config::max_positions, "N",
                   "Learned positions, the longest text a model can read; input_length by default.",
                   {.range = kSize, .may_be_missing = true}),
         MakeField("embedding_size", &Config::embedding_size, "N",
                   "Width of the embeddings, before a dense layer to d_model; d_model by default.",
                   {.range = kSize, .may_be_missing = true}),
         MakeField("layer_groups", &Config::layer_groups, "N",
                   "Groups of layers that share their parameters; 1 by default: all layers share one block's.",
                   {.range = {1, kMostLayers}, .may_be_missing = true}),
         MakeField("inner_layers", &Config::inner_layers, "N", "Consecutive blocks of a group; 1 by default.",
                   {.range = {1, kMostLayers}, .may_be_missing = true}),
         MakeField("initial_stddev", &Config::initial_stddev, "X",
                   "Standard deviation of the initial weights; by default 0.02 at d_model 768 and more, and below "
                   "it 0.02·sqrt(768/d_model), which keeps the initial size of layers relative to the residual.",
                   {.range = {1e-6, 100}, .may_be_missing = true}),
         MakeField("relative_buckets", &Config::relative_buckets, "N", "Buckets of the relative position bias.",
                   {.range = {4, 512}}),
         MakeField("relative_attention_max_distance", &Config::relative_attention_max_distance, "N",
                   "Distance from which all positions share the last bucket.", {.range = {1, 1'000'000}}),
         MakeField("dropout", &Config::dropout_rate, "RATE", "Share of activations dropped in training.",
                   {.range = {0, 0.99}})});
    for (Field<Config>& row : rows) row.options.inherited = Inherited::kFixed;
    for (Field<Config>& row : rows) {
      // The weights fit any value of these.
      const MemberId of[] = {MemberOf(&Config::dropout_rate), MemberOf(&Config::mixing_init),
                             MemberOf(&Config::implementation)};
      if (std::count(std::begin(of), std::end(of), row.member) > 0) row.options.inherited = Inherited::kUnlessGiven;
    }
    return Grouped("Model", std::move(rows));
  }();
  return table;
}

AttentionConfig MakeAttentionLayer(const ModelConfig& config, std::optional<AttentionKind> kind) {
  AttentionOptions attention = config.attention;
  if (kind) attention.kind = *kind;
  attention.window = 0;  // of causal layers alone: MakeCausal
  AttentionConfig layer = MakeAttentionConfig(attention, config.d_model);
  if (config.positions == PositionScheme::kRotary) {
    layer.rotary = config.rotary;
    layer.rotary_frequencies.base = config.rotary_base;
  } else {
    const ModelConfig standard;
    CROSSTALK_CHECK_FIELD(config.rotary == standard.rotary, "rotary", "needs rotary positions");
    CROSSTALK_CHECK_FIELD(config.rotary_base == standard.rotary_base, "rotary_base", "needs rotary positions");
  }
  if (config.attention_scale == AttentionScale::kExplicit && layer.d_k > 0) {
    layer.scale = 1.0 / std::sqrt(static_cast<double>(layer.d_k));
  }
  layer.key_value = config.keys_values;
  const bool has_biases = config.projection_biases != ProjectionBiases::kNone;
  layer.projection_biases = has_biases && layer.form == AttentionForm::kProjected;
  layer.output_bias = !has_biases || config.projection_biases == ProjectionBiases::kAll;
  // That of mta always starts with the identity.
  const bool mixes = layer.mixing.P_l || layer.mixing.P_w || layer.dynamic_form == DynamicForm::kLowRank;
  if (mixes && !layer.ConvolvesLogits()) layer.mixing_init = config.mixing_init;
  layer.dropout_rate = config.dropout_rate;
  layer.implementation = config.implementation;
  layer.Validate();
  return layer;
}

void MakeCausal(const ModelConfig& config, AttentionConfig& layer) {
  layer.causality = Causality::kCausal;
  layer.window = config.attention.window;
  layer.Validate();
}

std::vector<AttentionConfig> MakeAttentionLayers(const ModelConfig& config, int64_t layers) {
  std::vector<AttentionConfig> made;
  for (int64_t i = 0; i < layers && !config.layer_kinds.empty(); ++i) {
    const auto kind = static_cast<size_t>(i) % config.layer_kinds.size();
    made.push_back(MakeAttentionLayer(config, config.layer_kinds[kind]));
  }
  return made;
}

std::vector<AttentionConfig*> ModelConfig::AttentionLayers() {
  std::vector<AttentionConfig*> all = {&encoder_self, &decoder_self, &encoder_decoder};
  for (auto* const list : {&encoder_self_layers, &decoder_self_layers, &encoder_decoder_layers}) {
    for (AttentionConfig& layer : *list) all.push_back(&layer);
  }
  return all;
}

void ModelConfig::SetImplementation(AttentionImplementation one) {
  for (AttentionConfig* const layer : AttentionLayers()) layer->implementation = one;
}

void ModelConfig::SetDropout(double rate) {
  dropout_rate = rate;
  for (AttentionConfig* const layer : AttentionLayers()) layer->dropout_rate = rate;
}

void ModelConfig::SetAttention(const AttentionConfig& encoder_self_layer, const AttentionConfig& decoder_self_layer,
                               const AttentionConfig& encoder_decoder_layer) {
  encoder_self = encoder_self_layer;
  decoder_self = decoder_self_layer;
  encoder_decoder = encoder_decoder_layer;
  encoder_self_layers.clear();
  decoder_self_layers.clear();
  encoder_decoder_layers.clear();
  encoder_self.causality = encoder_decoder.causality = Causality::kNone;
  decoder_self.causality = Causality::kCausal;
  SetDropout(dropout_rate);
}

TransformerConfig ModelConfig::PreNormStack(int64_t layers, const AttentionConfig& self_attention) const {
  return {.layers = layers,
          .self_attention = self_attention,
          .cross_attention = std::nullopt,
          .feed_forward = {.d_model = d_model,
                           .d_ff = d_ff,
                           .kind = activation(),
                           .bias = feed_forward_biases ? LinearBias::kYes : LinearBias::kNo,
                           .dropout_rate = dropout_rate},
          .norm = {.kind = norm, .epsilon = norm_epsilon},
          .relative_bias = relative_bias(),
          .bias_tables = bias_tables,
          .dropout_rate = dropout_rate};
}

void ModelConfig::Check(std::initializer_list<int32_t SpecialTokens::*> needed) const {
  CROSSTALK_CHECK_FIELD(d_model >= 1, "d_model", d_model, " is less than 1");
  CROSSTALK_CHECK_FIELD(d_ff >= 1, "d_ff", d_ff, " is less than 1");
  CROSSTALK_CHECK_FIELD(vocabulary >= 2 && vocabulary <= (int64_t{1} << 30), "vocabulary", vocabulary,
                        " is not between 2 and 2^30");
  CROSSTALK_CHECK_FIELD(dropout_rate >= 0 && dropout_rate < 1, "dropout_rate", dropout_rate, " is not in [0, 1)");
  CROSSTALK_CHECK_FIELD(norm_epsilon > 0 && norm_epsilon <= 1, "norm_epsilon", norm_epsilon, " is not in (0, 1]");
  CheckSpecialTokens(tokens, vocabulary, needed);
  // A published language model may pad with one of its ends.
  for (const int32_t id : more_ends) {
    CROSSTALK_CHECK_FIELD(id >= 0 && id < vocabulary && (id != tokens.pad || name == "lm"), "more_ends", "id ", id,
                          " is padding, or not in the vocabulary of ", vocabulary);
  }
}

const FieldTable<ModelConfig>& ModelConfigFields() {
  using Config = ModelConfig;
  static const FieldTable<Config> table = {
      {"vocabulary", &Config::vocabulary},
      {"d_model", &Config::d_model},
      {"d_ff", &Config::d_ff},
      NeverNull({"feed_forward", &Config::feed_forward}, Name(FeedForwardKind::kRelu)),
      {"classifier", &Config::classifier},
      {"dropout_rate", &Config::dropout_rate},
      {"relative_buckets", &Config::relative_buckets},
      // Files of 0.1 have neither this nor the tokens.
      {"relative_attention_max_distance", &Config::relative_attention_max_distance, {.may_be_missing = true}},
      {"norm_epsilon", &Config::norm_epsilon},
      {"tokens", &Config::tokens, {.may_be_missing = true}},
      {"more_ends", &Config::more_ends, {.only_if_set = true}}};
  return table;
}

Field<ModelConfig> NeverNull(Field<ModelConfig> row, Json open) {
  row.get = [get = row.get, open](const ModelConfig& config) {
    Json value = get(config);
    return value.is_null() ? open : value;
  };
  row.set = [set = row.set, open, key = row.key, type = row.type](ModelConfig& config, const Json& json) {
    internal::CheckType(key, json, type);
    set(config, json == open ? Json() : json);
  };
  return row;
}

void CheckLayers(const char* name, int64_t layers) {
  CROSSTALK_CHECK_FIELD(layers >= 1 && layers <= kMostLayers, name, layers, " is not between 1 and ", kMostLayers);
}

}  // namespace crosstalk
