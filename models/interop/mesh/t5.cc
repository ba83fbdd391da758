#include "crosstalk/models/t5/t5.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/interop/mesh/attention.h"
#include "crosstalk/models/interop/names.h"
#include "crosstalk/models/interop/published_config.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

using enum Layout;

constexpr PublishedTensor kMeshTensors[] = {
    {"embedding.table", "shared/embedding", kRows},
    {"classifier.table", "decoder/logits/kernel", kColumns},
    {"decoder.block_{i}.cross_attention_norm.scale", "decoder/block_{z}/layer_001/rms_norm/scale", kSame}};
constexpr PublishedTensor kMeshStack[] = {
    {"relative_bias.table", "block_000/layer_000/SelfAttention/relative_attention_bias", kSame},
    {"relative_bias.table", "block_000/layer_000/TalkingHeadsSelfAttention/relative_attention_bias", kSame},
    {"block_{i}.self_attention_norm.scale", "block_{z}/layer_000/rms_norm/scale", kSame},
    {"final_norm.scale", "rms_norm/scale", kSame}};
constexpr PublishedTensor kMeshPlain[] = {
    {"P_q", "q", kMatrix}, {"P_k", "k", kMatrix}, {"P_v", "v", kMatrix}, {"P_o", "o", kMatrix}};
constexpr PublishedTensor kMeshTalking[] = {{"P_q", "q/kernel", kSame},
                                            {"P_k", "k/kernel", kSame},
                                            {"P_v", "v/kernel", kSame},
                                            {"P_o", "y/kernel", kSame},
                                            {"P_l", "logits/kernel", kSame},
                                            {"P_Xl", "logits/logits_dynamic_0/kernel", kSame},
                                            {"P_Ml", "logits/logits_dynamic_0/kernel", kSame},
                                            {"P_Ml", "logits/logits_dynamic_1/kernel", kSame},
                                            {"P_w", "weights/kernel", kSame},
                                            {"P_Xw", "weights/weights_dynamic_0/kernel", kSame},
                                            {"P_Mw", "weights/weights_dynamic_0/kernel", kSame},
                                            {"P_Mw", "weights/weights_dynamic_1/kernel", kSame}};
constexpr PublishedTensor kMeshFeedForward[] = {{"_norm.scale", "rms_norm/scale", kSame},
                                                {".wi", "DenseReluDense/wi/kernel", kSame},
                                                {".wi_0", "DenseReluDense/wi_0/kernel", kSame},
                                                {".wi_1", "DenseReluDense/wi_1/kernel", kSame},
                                                {".wo", "DenseReluDense/wo/kernel", kSame}};
constexpr PublishedPart kMeshT5Parts[] = {
    {"", "", kMeshTensors},
    {"encoder.", "encoder/", kMeshStack},
    {"decoder.", "decoder/", kMeshStack},
    {"encoder.block_{i}.self_attention.", "encoder/block_{z}/layer_000/SelfAttention/", kMeshPlain},
    {"encoder.block_{i}.self_attention.", "encoder/block_{z}/layer_000/TalkingHeadsSelfAttention/", kMeshTalking},
    {"decoder.block_{i}.self_attention.", "decoder/block_{z}/layer_000/SelfAttention/", kMeshPlain},
    {"decoder.block_{i}.self_attention.", "decoder/block_{z}/layer_000/TalkingHeadsSelfAttention/", kMeshTalking},
    {"decoder.block_{i}.cross_attention.", "decoder/block_{z}/layer_001/EncDecAttention/", kMeshPlain},
    {"decoder.block_{i}.cross_attention.", "decoder/block_{z}/layer_001/TalkingHeadsEncDecAttention/", kMeshTalking},
    {"encoder.block_{i}.feed_forward", "encoder/block_{z}/layer_001/", kMeshFeedForward},
    {"decoder.block_{i}.feed_forward", "decoder/block_{z}/layer_002/", kMeshFeedForward}};

// The first releases have a bias between decoder and encoder that nothing reads.
constexpr const char* kMeshT5WithoutEffect[] = {"decoder/block_{z}/layer_001/EncDecAttention/relative_attention_bias"};

// Norms are rms_norm since April 2020, and had these names before.
constexpr PublishedAlias kMeshT5Aliases[] = {{"/final_layer_norm/scale", "/rms_norm/scale"},
                                             {"/layer_norm/scale", "/rms_norm/scale"}};

constexpr const char* kStacks[] = {"encoder", "decoder"};
constexpr int64_t kVocabularyDivisor = 128;
constexpr const char* kActivation = "DenseReluDense.activation";
constexpr const char* kSharedEmbedding = "Unitransformer.shared_embedding_and_softmax_weights";
constexpr const char* kNormEpsilon = "LayerStack.norm_epsilon";

const Json& GatedGelu() {
  static const Json& value = *new Json(Json::MakeArray({"gelu", "linear"}));
  return value;
}

// A binding's value for each stack that has one must be the same; it, or nothing.
std::optional<Json> BoundInBoth(const PublishedConfig& config, const char* selector) {
  std::optional<Json> value;
  for (const char* stack : kStacks) {
    const Json* const bound = FindBinding(config, stack, selector).value;
    if (bound == nullptr) continue;
    if (value && *value != *bound) config.FailAt(selector, "is one thing in the encoder and another in the decoder");
    value = *bound;
  }
  return value;
}

FeedForwardKind FeedForwardOf(const PublishedConfig& config, const Json& activation) {
  if (activation == Json("relu")) return FeedForwardKind::kRelu;
  if (activation == Json("gelu")) return FeedForwardKind::kGeluTanh;
  if (activation == GatedGelu()) return FeedForwardKind::kGatedGelu;
  config.FailAt(kActivation, Excerpt(activation.Dump()),
                " cannot be computed here; 'relu', 'gelu' and ['gelu', 'linear'] can");
}

// By the option, else by the configuration: no shape says it.
FeedForwardKind ReadMeshFeedForward(const PublishedConfig& config) {
  const std::string first = "encoder/block_000/layer_001/DenseReluDense/";
  const bool gated = config.HasTensor(first + "wi_0/kernel");
  const std::optional<Json> activation = BoundInBoth(config, kActivation);
  std::optional<FeedForwardKind> kind;
  if (activation) kind = FeedForwardOf(config, *activation);
  if (config.Has("feed_forward")) {
    const auto given = ParseName<FeedForwardKind>("feed_forward", config.String("feed_forward", ""));
    if (given == FeedForwardKind::kGelu) config.FailAt("feed_forward", "Mesh TensorFlow's gelu is gelu-tanh here");
    if (kind && *kind != given) {
      config.FailAt(kActivation, Excerpt(activation->Dump()), " is not the feed_forward that is given");
    }
    kind = given;
  }
  if (!kind) {
    FailField(ErrorKind::kData, "feed_forward", "is needed: ", config.source(), " does not say what stands between ",
              first, gated ? "wi_0, wi_1" : "wi",
              " and wo; it is relu in T5 1.0, gated-gelu in T5 1.1 and in those with talking heads");
  }
  if (gated != (*kind == FeedForwardKind::kGatedGelu)) {
    config.FailAt("feed_forward", Name(*kind), " does not go with the tensors ", first, gated ? "wi_0" : "wi");
  }
  return *kind;
}

int64_t CountLayers(const PublishedConfig& config, const std::string& stack) {
  int64_t layers = 0;
  while (layers <= kMostLayers && config.HasTensorsOf(BlockPrefix(stack, layers))) ++layers;
  if (layers == 0) config.FailAt(stack, "there is no tensor '", BlockPrefix(stack, 0), "…': no such stack");
  return layers;
}

ClassifierKind ReadClassifier(const PublishedConfig& config) {
  const bool tied = !config.HasTensor("decoder/logits/kernel");
  const std::optional<Json> said = BoundInBoth(config, kSharedEmbedding);
  if (said && *said != Json(tied)) {
    config.FailAt(kSharedEmbedding, Excerpt(said->Dump()), " does not go with the tensors: there is ",
                  tied ? "no" : "a", " 'decoder/logits/kernel'");
  }
  return tied ? ClassifierKind::kTied : ClassifierKind::kUntied;
}

ModelConfig ReadMeshT5(const PublishedConfig& config) {
  ModelConfig model = BaseT5();
  const Shape* const embedding = config.FindShape("shared/embedding");
  if (embedding != nullptr && embedding->rank() == 3) {
    config.FailAt("shared/embedding", *embedding, " is that of an ensemble of models, which is not read here");
  }
  if (embedding == nullptr || embedding->rank() != 2) {
    config.FailAt("shared/embedding", "there is no such tensor [vocabulary, d_model]");
  }
  const int64_t rows = (*embedding)[0];
  model.d_model = (*embedding)[1];
  model.vocabulary = config.Int("vocabulary", rows, 2, 1 << 24);
  if (model.vocabulary > rows || rows - model.vocabulary >= kVocabularyDivisor) {
    config.FailAt("vocabulary", model.vocabulary, " ids cannot have been padded to the ", rows,
                  " rows of shared/embedding");
  }
  model.classifier = ReadClassifier(config);
  model.layers = CountLayers(config, "encoder");
  model.decoder_layers = CountLayers(config, "decoder");
  model.feed_forward = ReadMeshFeedForward(config);
  const bool gated = model.feed_forward == FeedForwardKind::kGatedGelu;
  const std::string wi = StrCat("encoder/block_000/layer_001/DenseReluDense/", gated ? "wi_0" : "wi", "/kernel");
  model.d_ff = RequiredShape(config, wi, 2)[1];
  if (const std::optional<Json> epsilon = BoundInBoth(config, kNormEpsilon)) {
    if (!epsilon->is_number()) config.FailAt(kNormEpsilon, "must be a number");
    model.norm_epsilon = epsilon->AsDouble();
  }
  model.dropout_rate = config.Double("dropout_rate", model.dropout_rate, 0, 0.99);
  model.relative_buckets = RelativeBiasShape(config, "encoder")[1];
  if (RelativeBiasShape(config, "decoder")[1] != model.relative_buckets) {
    config.FailAt("relative_attention_bias", "the encoder and the decoder have other numbers of buckets");
  }
  // One after another: which tensor an error names is then no choice of the compiler's.
  const AttentionConfig encoder_self = ReadMeshAttention(config, kMeshEncoderSelf, model.d_model);
  const AttentionConfig decoder_self = ReadMeshAttention(config, kMeshDecoderSelf, model.d_model);
  const AttentionConfig encoder_decoder = ReadMeshAttention(config, kMeshEncoderDecoder, model.d_model);
  model.SetAttention(encoder_self, decoder_self, encoder_decoder);
  return model;
}

Json ActivationOf(FeedForwardKind kind) {
  switch (kind) {
    case FeedForwardKind::kRelu:
      return "relu";
    case FeedForwardKind::kGeluTanh:
      return "gelu";
    case FeedForwardKind::kGatedGelu:
      return GatedGelu();
    case FeedForwardKind::kSwiGlu:
      return "swiglu";  // Mesh TensorFlow has neither this nor the next; read back, they are refused by these names
    case FeedForwardKind::kGelu:
      break;
  }
  return "gelu-by-erf";
}

Json WriteMeshT5(const ModelConfig& model) {
  Json bindings =
      Json::MakeObject({{"d_model", model.d_model}, {"d_ff", model.d_ff}, {"dropout_rate", model.dropout_rate}});
  const auto add_stack = [&](const std::string& stack, int64_t layers, std::vector<std::string> classes) {
    Json references = Json::MakeArray();
    for (const std::string& one : classes) references.Append("@" + one);
    const auto add = [&](const char* selector, Json value) { bindings.Set(stack + "/" + selector, std::move(value)); };
    add("make_layer_stack.layers", references);
    add("make_layer_stack.num_layers", layers);
    add(kNormEpsilon, model.norm_epsilon);
    add("DenseReluDense.hidden_size", model.d_ff);
    add(kActivation, ActivationOf(model.activation()));
    add("Unitransformer.d_model", model.d_model);
    add("Unitransformer.vocab_divisor", model.vocabulary % kVocabularyDivisor == 0 ? kVocabularyDivisor : 1);
  };
  add_stack("encoder", model.layers, {MeshAttentionClass(model.encoder_self, kMeshEncoderSelf), "DenseReluDense"});
  add_stack("decoder", model.num_decoder_layers(),
            {MeshAttentionClass(model.decoder_self, kMeshDecoderSelf),
             MeshAttentionClass(model.encoder_decoder, kMeshEncoderDecoder), "DenseReluDense"});
  bindings.Set(StrCat("decoder/", kSharedEmbedding), model.classifier == ClassifierKind::kTied);
  AddMeshAttention(model.encoder_self, kMeshEncoderSelf, model.relative_buckets, &bindings);
  AddMeshAttention(model.decoder_self, kMeshDecoderSelf, model.relative_buckets, &bindings);
  AddMeshAttention(model.encoder_decoder, kMeshEncoderDecoder, 0, &bindings);
  return bindings;
}

bool HasRow(const PublishedRow& row, const ModelConfig& model) {
  const std::string_view ours = row.ours;
  const std::pair<const char*, const AttentionConfig*> layers[] = {
      {"encoder.relative_bias.", &model.encoder_self},
      {"encoder.block_{i}.self_attention.", &model.encoder_self},
      {"decoder.relative_bias.", &model.decoder_self},
      {"decoder.block_{i}.self_attention.", &model.decoder_self},
      {"decoder.block_{i}.cross_attention.", &model.encoder_decoder}};
  for (const auto& [prefix, layer] : layers) {
    if (ours.starts_with(prefix)) return HasMeshAttentionRow(row, *layer);
  }
  return true;
}

}  // namespace

const PublishedForm kPublishedMeshT5 = {.model = "t5",
                                        .model_type = "T5 of Mesh TensorFlow",
                                        .parts = kMeshT5Parts,
                                        .without_effect = kMeshT5WithoutEffect,
                                        .prefix = "",
                                        .aliases = kMeshT5Aliases,
                                        .read = ReadMeshT5,
                                        .write = WriteMeshT5,
                                        .has_row = HasRow,
                                        .config_name = "operative_config.gin"};

}  // namespace crosstalk
