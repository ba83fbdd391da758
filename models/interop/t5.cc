// T5 and its relatives as they are published: T5 1.0 and 1.1, Flan-T5, ByT5 and MADLAD (t5), mT5 and UMT5.
#include "crosstalk/models/t5/t5.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crosstalk/models/interop/names.h"
#include "crosstalk/models/interop/published_config.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

using enum Layout;

constexpr PublishedTensor kT5Tensors[] = {
    {"embedding.table", "shared.weight", kRows},
    {"embedding.table", "encoder.embed_tokens.weight", kRows},
    {"embedding.table", "decoder.embed_tokens.weight", kRows},
    {"classifier.table", "lm_head.weight", kRows},
    {"embedding.table", "lm_head.weight", kRows},
    {"decoder.block_{i}.cross_attention_norm.scale", "decoder.block.{i}.layer.1.layer_norm.weight", kSame}};
// T5 keeps its stack's one table in the first block, UMT5 each block's in that.
constexpr PublishedTensor kOneTable[] = {
    {"relative_bias.table", "block.0.layer.0.SelfAttention.relative_attention_bias.weight", kTransposed}};
constexpr PublishedTensor kTableOfEachBlock[] = {
    {"block_{i}.relative_bias.table", "block.{i}.layer.0.SelfAttention.relative_attention_bias.weight", kTransposed}};
constexpr PublishedTensor kT5Stack[] = {
    {"block_{i}.self_attention_norm.scale", "block.{i}.layer.0.layer_norm.weight", kSame},
    {"final_norm.scale", "final_layer_norm.weight", kSame}};
constexpr PublishedTensor kT5Attention[] = {{"P_q", "q.weight", kTransposed},
                                            {"P_k", "k.weight", kTransposed},
                                            {"P_v", "v.weight", kTransposed},
                                            {"P_o", "o.weight", kTransposed}};
constexpr PublishedTensor kT5FeedForward[] = {{"_norm.scale", "layer_norm.weight", kSame},
                                              {".wi", "DenseReluDense.wi.weight", kTransposed},
                                              {".wi_0", "DenseReluDense.wi_0.weight", kTransposed},
                                              {".wi_1", "DenseReluDense.wi_1.weight", kTransposed},
                                              {".wo", "DenseReluDense.wo.weight", kTransposed}};
constexpr std::array<PublishedPart, 10> PartsWith(std::span<const PublishedTensor> tables) {
  return {{{"", "", kT5Tensors},
           {"encoder.", "encoder.", tables},
           {"decoder.", "decoder.", tables},
           {"encoder.", "encoder.", kT5Stack},
           {"decoder.", "decoder.", kT5Stack},
           {"encoder.block_{i}.self_attention.", "encoder.block.{i}.layer.0.SelfAttention.", kT5Attention},
           {"decoder.block_{i}.self_attention.", "decoder.block.{i}.layer.0.SelfAttention.", kT5Attention},
           {"decoder.block_{i}.cross_attention.", "decoder.block.{i}.layer.1.EncDecAttention.", kT5Attention},
           {"encoder.block_{i}.feed_forward", "encoder.block.{i}.layer.1.", kT5FeedForward},
           {"decoder.block_{i}.feed_forward", "decoder.block.{i}.layer.2.", kT5FeedForward}}};
}
constexpr std::array<PublishedPart, 10> kT5Parts = PartsWith(kOneTable), kUmt5Parts = PartsWith(kTableOfEachBlock);

// The first releases have a bias between decoder and encoder that was never used.
constexpr const char* kT5WithoutEffect[] = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};

// feed_forward_proj, and the activation that the library makes of it.
struct FeedForwardName {
  const char *name, *activation;
  FeedForwardKind kind;
};
constexpr FeedForwardName kFeedForwards[] = {{"relu", "relu", FeedForwardKind::kRelu},
                                             {"gelu", "gelu", FeedForwardKind::kGelu},
                                             {"gelu_new", "gelu_new", FeedForwardKind::kGeluTanh},
                                             {"gated-gelu", "gelu_new", FeedForwardKind::kGatedGelu},
                                             {"gated-silu", "silu", FeedForwardKind::kSwiGlu}};

const FeedForwardName& NameOf(FeedForwardKind kind) {
  return *std::find_if(std::begin(kFeedForwards), std::end(kFeedForwards),
                       [&](const FeedForwardName& row) { return row.kind == kind; });
}

FeedForwardKind ReadFeedForward(const PublishedConfig& config, const char* fallback) {
  const std::string name = config.String("feed_forward_proj", fallback);
  std::vector<std::string> can;
  for (const FeedForwardName& row : kFeedForwards) {
    can.emplace_back(row.name);
    if (name != row.name) continue;
    config.MustBe("is_gated_act", IsGated(row.kind));
    config.MustBe("dense_act_fn", row.activation);
    return row.kind;
  }
  config.FailAt("feed_forward_proj", Quoted(name), " cannot be computed here; ", Join(can, ", "), " can");
}

// How the kinds of T5 differ in what is published. A class is named CLASSForConditionalGeneration.
struct T5Family {
  const char* model_type;
  const char* class_name;
  BiasTables bias_tables;
  // Whether the library's fifth version scales the decoder's output by d_model^-0.5; nothing: scale_decoder_outputs
  // says it.
  std::optional<bool> scales;
  // What the library takes for a key that is missing.
  int64_t vocabulary, layers, heads, d_ff;
  const char* feed_forward;
};
constexpr T5Family kT5 = {"t5", "T5", BiasTables::kOne, std::nullopt, 32128, 6, 8, 2048, "relu"};
constexpr T5Family kMt5 = {"mt5", "MT5", BiasTables::kOne, false, 250112, 8, 6, 1024, "gated-gelu"};
constexpr T5Family kUmt5 = {"umt5", "UMT5", BiasTables::kEachBlock, true, 250112, 8, 6, 1024, "gated-gelu"};

std::string Architecture(const T5Family& family) { return StrCat(family.class_name, "ForConditionalGeneration"); }
std::string EncoderArchitecture(const T5Family& family) { return StrCat(family.class_name, "EncoderModel"); }

// Whether the weights have a decoder, which `architectures` must not deny.
bool HasDecoder(const PublishedConfig& config, const T5Family& family) {
  const bool has = config.HasTensorsOf("decoder.block.");
  const std::string whole = Architecture(family), encoder = EncoderArchitecture(family);
  for (const std::string& name : config.Architectures()) {
    const bool bare =
        name == StrCat(family.class_name, "Model") || name == StrCat(family.class_name, "WithLMHeadModel");
    if (name != whole && name != encoder && !bare) {
      config.FailAt("architectures", Quoted(name), " is not read here; ", whole, ", ", family.class_name, "Model and ",
                    encoder, " are");
    }
    if (has == (name == encoder)) {
      config.FailAt("architectures", name, ", but the weights have ", has ? "a" : "no", " decoder");
    }
  }
  return has;
}

// The library's fifth version writes tie_word_embeddings: true whatever is tied, and has rules of its own for what
// scales the logits.
bool IsOfFifthVersion(const PublishedConfig& config) {
  const std::string version = config.String("transformers_version", "");
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major >= 5;
}

// Whether d_model^-0.5 scales the decoder's output. Before the fifth version, it does if tie_word_embeddings says so.
LogitScale ReadLogitScale(const PublishedConfig& config, const T5Family& family, bool tied) {
  bool scales = config.Bool("tie_word_embeddings", true);
  if (!family.scales) {
    scales = config.Bool("scale_decoder_outputs", scales);
  } else if (IsOfFifthVersion(config)) {
    scales = *family.scales;
  }
  return scales == tied ? LogitScale::kIfTied : scales ? LogitScale::kAlways : LogitScale::kNever;
}

ModelConfig ReadT5(const PublishedConfig& config, const T5Family& family) {
  const bool has_decoder = HasDecoder(config, family);
  if (has_decoder) config.MustBe("is_encoder_decoder", true);
  ModelConfig model = BaseT5();
  model.vocabulary = config.Int("vocab_size", family.vocabulary, 2, 1 << 24);
  model.d_model = config.Size("d_model", 512);
  const std::string embedding = config.FirstTensor(
      {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"});
  config.CheckShape("vocab_size, d_model", embedding, {model.vocabulary, model.d_model});
  model.d_ff = config.Size("d_ff", family.d_ff);
  const int64_t heads = config.Size("num_heads", family.heads), d_kv = config.Size("d_kv", 64);
  config.CheckShape("num_heads, d_kv, d_model", "encoder.block.0.layer.0.SelfAttention.q.weight",
                    {heads * d_kv, model.d_model});
  model.layers = config.Int("num_layers", family.layers, 1, kMostLayers);
  const int64_t decoder_layers = config.Int("num_decoder_layers", model.layers, 1, kMostLayers);
  model.decoder_layers = has_decoder ? decoder_layers : 0;
  model.feed_forward = ReadFeedForward(config, family.feed_forward);
  config.CheckShape("d_ff, feed_forward_proj",
                    IsGated(model.activation()) ? "encoder.block.0.layer.1.DenseReluDense.wi_0.weight"
                                                : "encoder.block.0.layer.1.DenseReluDense.wi.weight",
                    {model.d_ff, model.d_model});
  model.relative_buckets = config.Size("relative_attention_num_buckets", 32);
  config.CheckShape("relative_attention_num_buckets",
                    "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                    {model.relative_buckets, heads});
  model.bias_tables = family.bias_tables;
  model.relative_attention_max_distance = config.Size("relative_attention_max_distance", 128);
  model.norm_epsilon = config.Double("layer_norm_epsilon", 1e-6, 1e-30, 1);
  model.dropout_rate = config.Double("dropout_rate", 0.1, 0, 0.99);
  const bool tied = !config.IsUntied("lm_head.weight", embedding);
  if (!tied) config.CheckShape("vocab_size, d_model", "lm_head.weight", {model.vocabulary, model.d_model});
  model.classifier = tied ? ClassifierKind::kTied : ClassifierKind::kUntied;
  if (has_decoder) model.logit_scale = ReadLogitScale(config, family, tied);
  model.tokens.pad = config.Token("pad_token_id", 0, model.vocabulary);
  config.ReadEnds(1, model);
  model.tokens.decoder_start = config.Token("decoder_start_token_id", model.tokens.pad, model.vocabulary);
  model.tokens.unknown = model.vocabulary > 2 ? 2 : kNoToken;
  model.SetAttention(AttentionConfig::MultiHead(model.d_model, heads, d_kv));
  return model;
}

Json WriteT5(const ModelConfig& model, const T5Family& family) {
  const AttentionConfig& attention = model.encoder_self;
  const FeedForwardName& feed_forward = NameOf(model.activation());
  const bool tied = model.classifier == ClassifierKind::kTied, has_decoder = model.num_decoder_layers() > 0;
  Json json = Json::MakeObject(
      {{"architectures", Json::MakeArray({has_decoder ? Architecture(family) : EncoderArchitecture(family)})},
       {"d_ff", model.d_ff},
       {"d_kv", attention.d_k},
       {"d_model", model.d_model},
       {"decoder_start_token_id", model.tokens.decoder_start},
       {"dense_act_fn", feed_forward.activation},
       {"dropout_rate", model.dropout_rate},
       {"eos_token_id", EndsOf(model)},
       {"feed_forward_proj", feed_forward.name},
       {"is_encoder_decoder", has_decoder},
       {"is_gated_act", IsGated(feed_forward.kind)},
       {"layer_norm_epsilon", model.norm_epsilon},
       {"model_type", family.model_type},
       {"num_decoder_layers", has_decoder ? model.num_decoder_layers() : model.layers},
       {"num_heads", attention.h},
       {"num_layers", model.layers},
       {"pad_token_id", model.tokens.pad},
       {"relative_attention_max_distance", model.relative_attention_max_distance},
       {"relative_attention_num_buckets", model.relative_buckets},
       {"tie_word_embeddings", tied},
       {"vocab_size", model.vocabulary}});
  if (model.logit_scale == LogitScale::kIfTied) return json;
  const bool scales = model.logit_scale == LogitScale::kAlways;
  if (!family.scales) return json.Set("scale_decoder_outputs", scales);
  return *family.scales == scales ? json.Set("tie_word_embeddings", true).Set("transformers_version", "5.0.0")
                                  : json.Set("tie_word_embeddings", scales);
}

template <const T5Family& family>
constexpr PublishedForm Form(std::span<const PublishedPart> parts) {
  return {.model = "t5",
          .model_type = family.model_type,
          .parts = parts,
          .without_effect = kT5WithoutEffect,
          .prefix = "",
          .aliases = {},
          .read = [](const PublishedConfig& config) { return ReadT5(config, family); },
          .write = [](const ModelConfig& model) { return WriteT5(model, family); }};
}

}  // namespace

const PublishedForm kPublishedT5 = Form<kT5>(kT5Parts);
const PublishedForm kPublishedMt5 = Form<kMt5>(kT5Parts);
const PublishedForm kPublishedUmt5 = Form<kUmt5>(kUmt5Parts);

}  // namespace crosstalk
