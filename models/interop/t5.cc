#include "crosstalk/models/t5/t5.h"

#include <algorithm>
#include <limits>

#include "crosstalk/models/interop/names.h"
#include "crosstalk/models/interop/published_config.h"
#include "crosstalk/models/training/config.h"

namespace crosstalk {
namespace {

using enum Layout;

constexpr char kT5Architecture[] = "T5ForConditionalGeneration", kT5Encoder[] = "T5EncoderModel";

constexpr PublishedTensor kT5Tensors[] = {
    {"embedding.table", "shared.weight", kRows},
    {"embedding.table", "encoder.embed_tokens.weight", kRows},
    {"embedding.table", "decoder.embed_tokens.weight", kRows},
    {"classifier.table", "lm_head.weight", kRows},
    {"embedding.table", "lm_head.weight", kRows},
    {"decoder.block_{i}.cross_attention_norm.scale", "decoder.block.{i}.layer.1.layer_norm.weight", kSame}};
constexpr PublishedTensor kT5Stack[] = {
    {"relative_bias.table", "block.0.layer.0.SelfAttention.relative_attention_bias.weight", kTransposed},
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
constexpr PublishedPart kT5Parts[] = {
    {"", "", kT5Tensors},
    {"encoder.", "encoder.", kT5Stack},
    {"decoder.", "decoder.", kT5Stack},
    {"encoder.block_{i}.self_attention.", "encoder.block.{i}.layer.0.SelfAttention.", kT5Attention},
    {"decoder.block_{i}.self_attention.", "decoder.block.{i}.layer.0.SelfAttention.", kT5Attention},
    {"decoder.block_{i}.cross_attention.", "decoder.block.{i}.layer.1.EncDecAttention.", kT5Attention},
    {"encoder.block_{i}.feed_forward", "encoder.block.{i}.layer.1.", kT5FeedForward},
    {"decoder.block_{i}.feed_forward", "decoder.block.{i}.layer.2.", kT5FeedForward}};

// The first releases have a bias between decoder and encoder that was never used.
constexpr const char* kT5WithoutEffect[] = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};

FeedForwardKind ReadFeedForward(const PublishedConfig& config) {
  const std::string name = config.String("feed_forward_proj", "relu");
  const bool gated = name == "gated-gelu";
  if (!gated && name != "relu") {
    config.FailAt("feed_forward_proj", Quoted(name), " cannot be computed here; relu and gated-gelu can");
  }
  config.MustBe("is_gated_act", gated);
  config.MustBe("dense_act_fn", gated ? "gelu_new" : "relu");
  return gated ? FeedForwardKind::kGatedGelu : FeedForwardKind::kRelu;
}

// Whether the weights have a decoder, which `architectures` must not deny.
bool HasDecoder(const PublishedConfig& config) {
  const bool has = config.HasTensorsOf("decoder.block.");
  for (const std::string& name : config.Architectures()) {
    if (name != kT5Architecture && name != "T5Model" && name != "T5WithLMHeadModel" && name != kT5Encoder) {
      config.FailAt("architectures", Quoted(name), " is not read here; ", kT5Architecture, ", T5Model and ", kT5Encoder,
                    " are");
    }
    if (has == (name == kT5Encoder)) {
      config.FailAt("architectures", name, ", but the weights have ", has ? "a" : "no", " decoder");
    }
  }
  return has;
}

// d_model^-0.5 scales the decoder's output if and only if scale_decoder_outputs says so; folders of the library's
// fourth version and before have no such key, and scale tied tables.
LogitScale ReadLogitScale(const PublishedConfig& config, bool tied) {
  const bool scales = config.Bool("scale_decoder_outputs", config.Bool("tie_word_embeddings", true));
  return scales == tied ? LogitScale::kIfTied : scales ? LogitScale::kAlways : LogitScale::kNever;
}

ModelConfig ReadT5(const PublishedConfig& config) {
  const bool has_decoder = HasDecoder(config);
  if (has_decoder) config.MustBe("is_encoder_decoder", true);
  ModelConfig model = BaseT5();
  model.vocabulary = config.Int("vocab_size", 32128, 2, 1 << 24);
  model.d_model = config.Size("d_model", 512);
  const std::string embedding = config.FirstTensor(
      {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"});
  config.CheckShape("vocab_size, d_model", embedding, {model.vocabulary, model.d_model});
  model.d_ff = config.Size("d_ff", 2048);
  const int64_t heads = config.Size("num_heads", 8), d_kv = config.Size("d_kv", 64);
  config.CheckShape("num_heads, d_kv, d_model", "encoder.block.0.layer.0.SelfAttention.q.weight",
                    {heads * d_kv, model.d_model});
  model.layers = config.Int("num_layers", 6, 1, kMostLayers);
  const int64_t decoder_layers = config.Int("num_decoder_layers", model.layers, 1, kMostLayers);
  model.decoder_layers = has_decoder ? decoder_layers : 0;
  model.feed_forward = ReadFeedForward(config);
  const bool gated = model.feed_forward == FeedForwardKind::kGatedGelu;
  config.CheckShape(
      "d_ff, feed_forward_proj",
      gated ? "encoder.block.0.layer.1.DenseReluDense.wi_0.weight" : "encoder.block.0.layer.1.DenseReluDense.wi.weight",
      {model.d_ff, model.d_model});
  model.relative_buckets = config.Size("relative_attention_num_buckets", 32);
  config.CheckShape("relative_attention_num_buckets",
                    "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                    {model.relative_buckets, heads});
  model.relative_attention_max_distance = config.Size("relative_attention_max_distance", 128);
  model.norm_epsilon = config.Double("layer_norm_epsilon", 1e-6, 1e-30, 1);
  model.dropout_rate = config.Double("dropout_rate", 0.1, 0, 0.99);
  const bool tied = !config.IsUntied("lm_head.weight", embedding);
  if (!tied) config.CheckShape("vocab_size, d_model", "lm_head.weight", {model.vocabulary, model.d_model});
  model.classifier = tied ? ClassifierKind::kTied : ClassifierKind::kUntied;
  if (has_decoder) model.logit_scale = ReadLogitScale(config, tied);
  model.tokens.pad = config.Token("pad_token_id", 0, model.vocabulary);
  const std::vector<int32_t> ends = config.Ends(1, model.vocabulary);
  model.tokens.end = ends[0];
  model.more_ends.assign(ends.begin() + 1, ends.end());
  model.tokens.decoder_start = config.Token("decoder_start_token_id", model.tokens.pad, model.vocabulary);
  model.tokens.unknown = model.vocabulary > 2 ? 2 : kNoToken;
  model.SetAttention(AttentionConfig::MultiHead(model.d_model, heads, d_kv));
  return model;
}

Json WriteT5(const ModelConfig& model) {
  const AttentionConfig& attention = model.encoder_self;
  const bool gated = model.feed_forward == FeedForwardKind::kGatedGelu;
  const bool tied = model.classifier == ClassifierKind::kTied, has_decoder = model.num_decoder_layers() > 0;
  Json ends = int64_t{model.tokens.end};
  if (!model.more_ends.empty()) {
    ends = Json::MakeArray({ends});
    for (const int32_t id : model.more_ends) ends.Append(int64_t{id});
  }
  Json json = Json::MakeObject({{"architectures", Json::MakeArray({has_decoder ? kT5Architecture : kT5Encoder})},
                                {"d_ff", model.d_ff},
                                {"d_kv", attention.d_k},
                                {"d_model", model.d_model},
                                {"decoder_start_token_id", model.tokens.decoder_start},
                                {"dense_act_fn", gated ? "gelu_new" : "relu"},
                                {"dropout_rate", model.dropout_rate},
                                {"eos_token_id", std::move(ends)},
                                {"feed_forward_proj", gated ? "gated-gelu" : "relu"},
                                {"is_encoder_decoder", has_decoder},
                                {"is_gated_act", gated},
                                {"layer_norm_epsilon", model.norm_epsilon},
                                {"model_type", "t5"},
                                {"num_decoder_layers", has_decoder ? model.num_decoder_layers() : model.layers},
                                {"num_heads", attention.h},
                                {"num_layers", model.layers},
                                {"pad_token_id", model.tokens.pad},
                                {"relative_attention_max_distance", model.relative_attention_max_distance},
                                {"relative_attention_num_buckets", model.relative_buckets},
                                {"tie_word_embeddings", tied},
                                {"vocab_size", model.vocabulary}});
  if (model.logit_scale != LogitScale::kIfTied) {
    json.Set("scale_decoder_outputs", model.logit_scale == LogitScale::kAlways);
  }
  return json;
}

}  // namespace

const PublishedForm kPublishedT5 = {.model = "t5",
                                    .model_type = "t5",
                                    .parts = kT5Parts,
                                    .without_effect = kT5WithoutEffect,
                                    .prefix = "",
                                    .aliases = {},
                                    .read = ReadT5,
                                    .write = WriteT5};

}  // namespace crosstalk
