// Published decoders as language models: GPT-2, Llama (and SmolLM2), Mistral, Qwen2, Qwen3. A family is a row of
// switches, a table of key names and a table of tensors.
#include <algorithm>
#include <string>
#include <string_view>

#include "crosstalk/models/interop/names.h"
#include "crosstalk/models/interop/published_config.h"
#include "crosstalk/models/lm/lm.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

using enum Layout;

// GPT-2 has each dense layer as [in, out], and q, k and v as one.
constexpr PublishedTensor kGpt2Tensors[] = {{"embedding.table", "transformer.wte.weight", kRows},
                                            {"classifier.table", "lm_head.weight", kRows},
                                            {"embedding.table", "lm_head.weight", kRows},
                                            {"positions.table", "transformer.wpe.weight", kSame}};
constexpr PublishedTensor kNorm[] = {{"scale", "weight", kSame}, {"bias", "bias", kSame}};
constexpr PublishedTensor kGpt2Attention[] = {
    {"P_q", "c_attn.weight[0]", kMatrix}, {"P_k", "c_attn.weight[1]", kMatrix}, {"P_v", "c_attn.weight[2]", kMatrix},
    {"b_q", "c_attn.bias[0]", kFlat},     {"b_k", "c_attn.bias[1]", kFlat},     {"b_v", "c_attn.bias[2]", kFlat},
    {"P_o", "c_proj.weight", kMatrix},    {"b_o", "c_proj.bias", kSame}};
constexpr PublishedTensor kGpt2FeedForward[] = {{"wi", "c_fc.weight", kMatrix},
                                                {"wi_bias", "c_fc.bias", kSame},
                                                {"wo", "c_proj.weight", kMatrix},
                                                {"wo_bias", "c_proj.bias", kSame}};
constexpr PublishedPart kGpt2Parts[] = {
    {"", "", kGpt2Tensors},
    {"decoder.block_{i}.self_attention_norm.", "transformer.h.{i}.ln_1.", kNorm},
    {"decoder.block_{i}.self_attention.", "transformer.h.{i}.attn.", kGpt2Attention},
    {"decoder.block_{i}.feed_forward_norm.", "transformer.h.{i}.ln_2.", kNorm},
    {"decoder.block_{i}.feed_forward.", "transformer.h.{i}.mlp.", kGpt2FeedForward},
    {"decoder.final_norm.", "transformer.ln_f.", kNorm}};
// The causal mask, which the first releases kept.
constexpr const char* kGpt2WithoutEffect[] = {"transformer.h.{i}.attn.bias", "transformer.h.{i}.attn.masked_bias"};

constexpr PublishedTensor kLlamaTensors[] = {{"embedding.table", "model.embed_tokens.weight", kRows},
                                             {"classifier.table", "lm_head.weight", kRows},
                                             {"embedding.table", "lm_head.weight", kRows},
                                             {"decoder.final_norm.scale", "model.norm.weight", kSame}};
constexpr PublishedTensor kLlamaBlock[] = {{"self_attention_norm.scale", "input_layernorm.weight", kSame},
                                           {"feed_forward_norm.scale", "post_attention_layernorm.weight", kSame}};
constexpr PublishedTensor kLlamaAttention[] = {
    {"P_q", "q_proj.weight", kTransposed}, {"b_q", "q_proj.bias", kFlat},         {"P_k", "k_proj.weight", kTransposed},
    {"b_k", "k_proj.bias", kFlat},         {"P_v", "v_proj.weight", kTransposed}, {"b_v", "v_proj.bias", kFlat},
    {"P_o", "o_proj.weight", kTransposed}, {"b_o", "o_proj.bias", kSame},         {"q_norm", "q_norm.weight", kSame},
    {"k_norm", "k_norm.weight", kSame}};
constexpr PublishedTensor kLlamaFeedForward[] = {
    {"wi_0", "gate_proj.weight", kTransposed}, {"wi_0_bias", "gate_proj.bias", kSame},
    {"wi_1", "up_proj.weight", kTransposed},   {"wi_1_bias", "up_proj.bias", kSame},
    {"wo", "down_proj.weight", kTransposed},   {"wo_bias", "down_proj.bias", kSame}};
constexpr PublishedPart kLlamaParts[] = {
    {"", "", kLlamaTensors},
    {"decoder.block_{i}.", "model.layers.{i}.", kLlamaBlock},
    {"decoder.block_{i}.self_attention.", "model.layers.{i}.self_attn.", kLlamaAttention},
    {"decoder.block_{i}.feed_forward.", "model.layers.{i}.mlp.", kLlamaFeedForward}};
// Frequencies of the rotary positions, which the first releases kept.
constexpr const char* kLlamaWithoutEffect[] = {"model.layers.{i}.self_attn.rotary_emb.inv_freq"};

// What the families of one form share: the tensors, the names of keys, and what every model of it has.
struct DecoderForm {
  std::span<const PublishedPart> parts;
  std::span<const char* const> without_effect;
  const char* prefix;
  const char *embedding, *wi;  // two tensors that show sizes
  Layout wi_layout;
  const char *d_model, *layers, *heads, *d_ff, *context, *epsilon, *activation;  // keys
  NormKind norm;
  PositionScheme positions;
  bool gated;
  // What the library takes for a key that is missing.
  const char* default_activation;
  double dropout_rate;
};
constexpr DecoderForm kGpt2 = {.parts = kGpt2Parts,
                               .without_effect = kGpt2WithoutEffect,
                               .prefix = "transformer.",
                               .embedding = "transformer.wte.weight",
                               .wi = "transformer.h.0.mlp.c_fc.weight",
                               .wi_layout = kMatrix,
                               .d_model = "n_embd",
                               .layers = "n_layer",
                               .heads = "n_head",
                               .d_ff = "n_inner",
                               .context = "n_positions",
                               .epsilon = "layer_norm_epsilon",
                               .activation = "activation_function",
                               .norm = NormKind::kLayer,
                               .positions = PositionScheme::kLearned,
                               .gated = false,
                               .default_activation = "gelu_new",
                               .dropout_rate = 0.1};
constexpr DecoderForm kLlama = {.parts = kLlamaParts,
                                .without_effect = kLlamaWithoutEffect,
                                .prefix = "model.",
                                .embedding = "model.embed_tokens.weight",
                                .wi = "model.layers.0.mlp.gate_proj.weight",
                                .wi_layout = kTransposed,
                                .d_model = "hidden_size",
                                .layers = "num_hidden_layers",
                                .heads = "num_attention_heads",
                                .d_ff = "intermediate_size",
                                .context = "max_position_embeddings",
                                .epsilon = "rms_norm_eps",
                                .activation = "hidden_act",
                                .norm = NormKind::kRms,
                                .positions = PositionScheme::kRotary,
                                .gated = true,
                                .default_activation = "silu",
                                .dropout_rate = 0};

enum class Biases {
  kAlways,         // of all dense layers
  kAsKeysSay,      // attention_bias, mlp_bias
  kQueryKeyValue,  // of q, k and v
  kNever,
};

// The defaults are Llama's.
struct DecoderFamily {
  const char* model_type;
  const char* architecture;
  const char* encoder;  // the architecture of the same without its output over the vocabulary
  const DecoderForm* form = &kLlama;
  Biases biases = Biases::kNever;
  bool query_key_norm = false;
  bool slides = false;  // sliding_window counts
  bool learns_padding = false;
  // What the library takes for a key that is missing.
  int64_t vocabulary = 32000, d_model = 4096, layers = 32, heads = 32;
  int64_t d_ff, context;  // d_ff 0: 4·d_model
  int64_t kv_heads = 0;   // 0: as heads
  int64_t head_size = 0;  // 0: d_model / heads
  double epsilon = 1e-6;
};

// Llama's is the form of what no other can say, too.
constexpr DecoderFamily kFamilies[] = {{.model_type = "llama",
                                        .architecture = "LlamaForCausalLM",
                                        .encoder = "LlamaModel",
                                        .biases = Biases::kAsKeysSay,
                                        .d_ff = 11008,
                                        .context = 2048},
                                       {.model_type = "gpt2",
                                        .architecture = "GPT2LMHeadModel",
                                        .encoder = "GPT2Model",
                                        .form = &kGpt2,
                                        .biases = Biases::kAlways,
                                        .learns_padding = true,
                                        .vocabulary = 50257,
                                        .d_model = 768,
                                        .layers = 12,
                                        .heads = 12,
                                        .d_ff = 0,
                                        .context = 1024,
                                        .epsilon = 1e-5},
                                       {.model_type = "mistral",
                                        .architecture = "MistralForCausalLM",
                                        .encoder = "MistralModel",
                                        .slides = true,
                                        .d_ff = 14336,
                                        .context = 131072,
                                        .kv_heads = 8},
                                       {.model_type = "qwen2",
                                        .architecture = "Qwen2ForCausalLM",
                                        .encoder = "Qwen2Model",
                                        .biases = Biases::kQueryKeyValue,
                                        .vocabulary = 151936,
                                        .d_ff = 22016,
                                        .context = 32768,
                                        .kv_heads = 32},
                                       {.model_type = "qwen3",
                                        .architecture = "Qwen3ForCausalLM",
                                        .encoder = "Qwen3Model",
                                        .query_key_norm = true,
                                        .vocabulary = 151936,
                                        .d_ff = 22016,
                                        .context = 32768,
                                        .kv_heads = 32,
                                        .head_size = 128}};

constexpr std::pair<const char*, FeedForwardKind> kActivations[] = {{"gelu_new", FeedForwardKind::kGeluTanh},
                                                                    {"gelu_pytorch_tanh", FeedForwardKind::kGeluTanh},
                                                                    {"gelu", FeedForwardKind::kGelu},
                                                                    {"relu", FeedForwardKind::kRelu},
                                                                    {"silu", FeedForwardKind::kSwiGlu}};

FeedForwardKind ReadActivation(const PublishedConfig& config, const DecoderForm& form) {
  const std::string name = config.String(form.activation, form.default_activation);
  std::vector<std::string> can;
  for (const auto& [theirs, ours] : kActivations) {
    if (IsGated(ours) != form.gated) continue;
    if (name == theirs) return ours;
    can.emplace_back(theirs);
  }
  config.FailAt(form.activation, Quoted(name), " cannot be computed here; ", Join(can, ", "), " can");
}

// rope_parameters of the library's fifth version; rope_theta and rope_scaling, which it prefers, of those before.
kernels::RotaryFrequencies ReadRotary(const PublishedConfig& config) {
  constexpr double kLeastBase = 1, kLeastFactor = 1e-6, kMost = 1e15;
  kernels::RotaryFrequencies read;
  read.base = config.Double("rope_theta", read.base, kLeastBase, kMost);
  for (const char* object : {"rope_scaling", "rope_parameters"}) {
    const Json* const rope = config.Find(object);
    if (rope == nullptr) continue;
    if (!rope->is_object()) config.FailAt(object, "must be an object, but is ", Name(rope->type()));
    if (rope->AsObject().empty()) continue;
    const JsonReader reader(*rope, StrCat(config.source(), ": ", object));
    const auto has = [&](const char* key) { return reader.Has(key) && !reader.Value(key).is_null(); };
    const auto number = [&](const char* key, double least) {
      const double value = reader.Double(key);
      if (!(value >= least && value <= kMost)) reader.FailAt(key, value, " is not between ", least, " and ", kMost);
      return value;
    };
    std::string type = "default";
    for (const char* key : {"type", "rope_type"}) {
      if (has(key)) type = reader.String(key);
    }
    if (type != "default" && type != "linear" && type != "llama3") {
      reader.FailAt("rope_type", Quoted(type), " cannot be computed here; default, linear and llama3 can");
    }
    if (has("partial_rotary_factor") && reader.Double("partial_rotary_factor") != 1) {
      reader.FailAt("partial_rotary_factor", reader.Double("partial_rotary_factor"), " cannot be computed here; 1 can");
    }
    if (has("rope_theta")) read.base = number("rope_theta", kLeastBase);
    if (type != "default") read.factor = number("factor", kLeastFactor);
    if (type == "llama3") {
      read.original_context = reader.Int("original_max_position_embeddings", 1, int64_t{1} << 40);
      read.low = number("low_freq_factor", kLeastFactor);
      read.high = number("high_freq_factor", kLeastFactor);
      if (!(read.low < read.high)) reader.FailAt("low_freq_factor", "must be below high_freq_factor");
    }
    // Those that the type does not need have no effect.
    for (const char* key : {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}) {
      has(key);
    }
    reader.RejectUnread();
    return read;
  }
  return read;
}

ProjectionBiases ReadBiases(const PublishedConfig& config, const DecoderFamily& family) {
  switch (family.biases) {
    case Biases::kAlways:
      return ProjectionBiases::kAll;
    case Biases::kQueryKeyValue:
      return ProjectionBiases::kQueryKeyValue;
    case Biases::kAsKeysSay:
      return config.Bool("attention_bias", false) ? ProjectionBiases::kAll : ProjectionBiases::kNone;
    case Biases::kNever:
      break;
  }
  config.MustBe("attention_bias", false);
  return ProjectionBiases::kNone;
}

// Choices that are not computed here.
void RefuseOthers(const PublishedConfig& config, const DecoderFamily& family) {
  for (const std::string& name : config.Architectures()) {
    if (name != family.architecture && name != family.encoder) {
      config.FailAt("architectures", Quoted(name), " is not read here; ", family.architecture, " and ", family.encoder,
                    " are");
    }
  }
  config.MustBe("add_cross_attention", false);
  config.MustBe("scale_attn_weights", true);
  config.MustBe("scale_attn_by_inverse_layer_idx", false);
  config.MustBe("partial_rotary_factor", 1.0);
  config.MustBe("use_sliding_window", false);
}

// How many positions each query sees, its own among them, of all layers alike; 0: all before it.
int64_t ReadWindow(const PublishedConfig& config, const DecoderFamily& family) {
  constexpr const char* kKey = "sliding_window";
  const int64_t window = family.slides && !config.IsNull(kKey) ? config.Size(kKey, 4096) : 0;
  if (const Json* const types = config.Find("layer_types")) {
    if (!types->is_array()) config.FailAt("layer_types", "must be a list, but is ", Name(types->type()));
    const char* const all = window > 0 ? "sliding_attention" : "full_attention";
    for (const Json& type : types->AsArray()) {
      if (type != Json(all)) {
        config.FailAt("layer_types", Excerpt(type.Dump()), " cannot be computed here; ", Quoted(all), " can");
      }
    }
  }
  return window;
}

ModelConfig ReadDecoder(const PublishedConfig& config, const DecoderFamily& family) {
  const DecoderForm& form = *family.form;
  RefuseOthers(config, family);
  ModelConfig model;
  model.name = "lm";
  model.vocabulary = config.Int("vocab_size", family.vocabulary, 2, 1 << 24);
  model.d_model = config.Size(form.d_model, family.d_model);
  config.CheckShape(StrCat("vocab_size, ", form.d_model), form.embedding, {model.vocabulary, model.d_model});
  model.layers = config.Int(form.layers, family.layers, 1, kMostLayers);
  model.d_ff = config.Size(form.d_ff, family.d_ff == 0 ? 4 * model.d_model : family.d_ff);
  model.feed_forward = ReadActivation(config, form);
  config.CheckShape(form.d_ff, form.wi,
                    form.wi_layout == kMatrix ? Shape{model.d_model, model.d_ff} : Shape{model.d_ff, model.d_model});
  model.context = config.Size(form.context, family.context);
  model.norm = form.norm;
  model.norm_epsilon = config.Double(form.epsilon, family.epsilon, 1e-30, 1);
  model.dropout_rate = config.Double("resid_pdrop", form.dropout_rate, 0, 0.99);

  AttentionOptions& attention = model.attention;
  attention.kind = AttentionKind::kMultihead;
  attention.heads = config.Size(form.heads, family.heads);
  const int64_t kv_heads = config.Size("num_key_value_heads", family.kv_heads == 0 ? attention.heads : family.kv_heads);
  if (attention.heads % kv_heads != 0) {
    config.FailAt("num_key_value_heads", kv_heads, " does not divide the ", attention.heads, " heads");
  }
  if (kv_heads != attention.heads) attention.kv_heads = kv_heads;
  const int64_t head_size =
      config.Size("head_dim", family.head_size == 0 ? model.d_model / attention.heads : family.head_size);
  if (head_size * attention.heads != model.d_model) attention.key_size = attention.value_size = head_size;
  attention.window = ReadWindow(config, family);
  attention.query_key_norm = family.query_key_norm;
  if (family.query_key_norm) config.MustBe(form.epsilon, kQueryKeyNormEpsilon);
  model.attention_scale = AttentionScale::kExplicit;
  model.positions = form.positions;
  const kernels::RotaryFrequencies rotary =
      form.positions == PositionScheme::kRotary ? ReadRotary(config) : kernels::RotaryFrequencies();
  model.rotary_base = rotary.base;
  model.projection_biases = ReadBiases(config, family);
  model.feed_forward_biases =
      family.biases == Biases::kAlways || (family.biases == Biases::kAsKeysSay && config.Bool("mlp_bias", false));
  model.classifier =
      config.IsUntied("lm_head.weight", form.embedding) ? ClassifierKind::kUntied : ClassifierKind::kTied;
  model.logit_scale = LogitScale::kNever;

  SpecialTokens& tokens = model.tokens;
  tokens = {kNoToken, kNoToken, kNoToken, kNoToken, kNoToken, kNoToken, kNoToken};
  config.ReadEnds(kNoToken, model);
  tokens.pad = config.Token("pad_token_id", kNoToken, model.vocabulary);
  tokens.begin = config.Token("bos_token_id", kNoToken, model.vocabulary);
  model.ends_texts = tokens.end != kNoToken;
  model.learns_padding = family.learns_padding || tokens.pad == kNoToken;
  MakeLmLayers(model);
  for (AttentionConfig* const layer : model.AttentionLayers()) layer->rotary_frequencies = rotary;
  return model;
}

Json WriteDecoder(const ModelConfig& model, const DecoderFamily& family) {
  const DecoderForm& form = *family.form;
  const AttentionConfig& attention = model.decoder_self;
  const auto token = [](int32_t id) { return id == kNoToken ? Json() : Json(int64_t{id}); };
  const char* activation = "";
  for (const auto& [theirs, ours] : kActivations) {
    if (ours == model.activation() && *activation == '\0') activation = theirs;
  }
  Json json = Json::MakeObject({{"architectures", Json::MakeArray({family.architecture})},
                                {form.activation, activation},
                                {"bos_token_id", token(model.tokens.begin)},
                                {"eos_token_id", EndsOf(model)},
                                {form.d_model, model.d_model},
                                {form.layers, model.layers},
                                {form.heads, attention.h},
                                {form.d_ff, model.d_ff},
                                {form.context, model.context},
                                {form.epsilon, model.norm_epsilon},
                                {"model_type", family.model_type},
                                {"tie_word_embeddings", model.classifier == ClassifierKind::kTied},
                                {"vocab_size", model.vocabulary}});
  if (!model.learns_padding || family.learns_padding) json.Set("pad_token_id", token(model.tokens.pad));
  if (form.positions != PositionScheme::kRotary) return json.Set("resid_pdrop", model.dropout_rate);
  json.Set("num_key_value_heads", attention.g_k > 0 ? attention.g_k : attention.h_k).Set("head_dim", attention.d_k);
  if (family.biases == Biases::kAsKeysSay) {
    json.Set("attention_bias", attention.projection_biases).Set("mlp_bias", model.feed_forward_biases);
  }
  if (family.slides) json.Set("sliding_window", attention.window > 0 ? Json(attention.window) : Json());
  const kernels::RotaryFrequencies& rotary = attention.rotary_frequencies;
  Json rope = Json::MakeObject({{"rope_theta", rotary.base}});
  rope.Set("rope_type", rotary.factor == 1 ? "default" : rotary.original_context == 0 ? "linear" : "llama3");
  if (rotary.factor != 1) rope.Set("factor", rotary.factor);
  if (rotary.factor != 1 && rotary.original_context != 0) {
    rope.Set("original_max_position_embeddings", rotary.original_context)
        .Set("low_freq_factor", rotary.low)
        .Set("high_freq_factor", rotary.high);
  }
  return json.Set("rope_parameters", std::move(rope));
}

template <size_t i>
constexpr PublishedForm kForm = {
    .model = "lm",
    .model_type = kFamilies[i].model_type,
    .parts = kFamilies[i].form->parts,
    .without_effect = kFamilies[i].form->without_effect,
    .prefix = kFamilies[i].form->prefix,
    .aliases = {},
    .read = [](const PublishedConfig& config) { return ReadDecoder(config, kFamilies[i]); },
    .write = [](const ModelConfig& model) { return WriteDecoder(model, kFamilies[i]); }};
constexpr PublishedForm kForms[] = {kForm<0>, kForm<1>, kForm<2>, kForm<3>, kForm<4>};
static_assert(std::size(kForms) == std::size(kFamilies));

}  // namespace

const std::span<const PublishedForm> kPublishedDecoders = kForms;

}  // namespace crosstalk
