#include "crosstalk/models/bert/bert.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "crosstalk/models/interop/names.h"
#include "crosstalk/models/interop/published_config.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

using enum Layout;

constexpr PublishedBertNames kBertNames = {.prefix = "bert.",
                                           .class_names = "Bert",
                                           .query = "bert.encoder.layer.0.attention.self.query.weight",
                                           .intermediate = "bert.encoder.layer.0.intermediate.dense.weight",
                                           .embedding = "bert.embeddings.word_embeddings.weight",
                                           .decoder = "cls.predictions.decoder.weight",
                                           .masked_lm = "cls.predictions.transform.dense.weight",
                                           .sentence = "cls.seq_relationship.weight",
                                           .pooler = "bert.pooler.dense.weight"};

// clang-format off
constexpr PublishedTensor kBertTensors[] = {
    {"embedding.table",                              "bert.embeddings.word_embeddings.weight",                   kRows},
    {"masked_lm.decoder.table",                      "cls.predictions.decoder.weight",                           kRows},
    {"embedding.table",                              "cls.predictions.decoder.weight",                           kRows},
    {"positions.table",                              "bert.embeddings.position_embeddings.weight",               kSame},
    {"segments.table",                               "bert.embeddings.token_type_embeddings.weight",             kSame},
    {"embedding_norm.scale",                         "bert.embeddings.LayerNorm.weight",                         kSame},
    {"embedding_norm.bias",                          "bert.embeddings.LayerNorm.bias",                           kSame},
    {"encoder.block_{i}.self_attention.P_q",         "bert.encoder.layer.{i}.attention.self.query.weight",       kTransposed},
    {"encoder.block_{i}.self_attention.b_q",         "bert.encoder.layer.{i}.attention.self.query.bias",         kFlat},
    {"encoder.block_{i}.self_attention.P_k",         "bert.encoder.layer.{i}.attention.self.key.weight",         kTransposed},
    {"encoder.block_{i}.self_attention.b_k",         "bert.encoder.layer.{i}.attention.self.key.bias",           kFlat},
    {"encoder.block_{i}.self_attention.P_v",         "bert.encoder.layer.{i}.attention.self.value.weight",       kTransposed},
    {"encoder.block_{i}.self_attention.b_v",         "bert.encoder.layer.{i}.attention.self.value.bias",         kFlat},
    {"encoder.block_{i}.self_attention.P_o",         "bert.encoder.layer.{i}.attention.output.dense.weight",     kTransposed},
    {"encoder.block_{i}.self_attention.b_o",         "bert.encoder.layer.{i}.attention.output.dense.bias",       kSame},
    {"encoder.block_{i}.self_attention_norm.scale",  "bert.encoder.layer.{i}.attention.output.LayerNorm.weight", kSame},
    {"encoder.block_{i}.self_attention_norm.bias",   "bert.encoder.layer.{i}.attention.output.LayerNorm.bias",   kSame},
    {"encoder.block_{i}.feed_forward.wi",            "bert.encoder.layer.{i}.intermediate.dense.weight",         kTransposed},
    {"encoder.block_{i}.feed_forward.wi_bias",       "bert.encoder.layer.{i}.intermediate.dense.bias",           kSame},
    {"encoder.block_{i}.feed_forward.wo",            "bert.encoder.layer.{i}.output.dense.weight",               kTransposed},
    {"encoder.block_{i}.feed_forward.wo_bias",       "bert.encoder.layer.{i}.output.dense.bias",                 kSame},
    {"encoder.block_{i}.feed_forward_norm.scale",    "bert.encoder.layer.{i}.output.LayerNorm.weight",           kSame},
    {"encoder.block_{i}.feed_forward_norm.bias",     "bert.encoder.layer.{i}.output.LayerNorm.bias",             kSame},
    {"pooler.weight",                                "bert.pooler.dense.weight",                                 kTransposed},
    {"pooler.bias",                                  "bert.pooler.dense.bias",                                   kSame},
    {"masked_lm.dense.weight",                       "cls.predictions.transform.dense.weight",                   kTransposed},
    {"masked_lm.dense.bias",                         "cls.predictions.transform.dense.bias",                     kSame},
    {"masked_lm.norm.scale",                         "cls.predictions.transform.LayerNorm.weight",               kSame},
    {"masked_lm.norm.bias",                          "cls.predictions.transform.LayerNorm.bias",                 kSame},
    {"masked_lm.bias",                               "cls.predictions.bias",                                     kSame},
    {"masked_lm.bias",                               "cls.predictions.decoder.bias",                             kSame},
    {"sentence.weight",                              "cls.seq_relationship.weight",                              kTransposed},
    {"sentence.bias",                                "cls.seq_relationship.bias",                                kSame},
    {"classification.weight",                        "classifier.weight",                                        kTransposed},
    {"classification.bias",                          "classifier.bias",                                          kSame},
    {"multiple_choice.weight",                       "classifier.weight",                                        kTransposed},
    {"multiple_choice.bias",                         "classifier.bias",                                          kSame},
    {"span.weight",                                  "qa_outputs.weight",                                        kTransposed},
    {"span.bias",                                    "qa_outputs.bias",                                          kSame},
};
// clang-format on

constexpr const char* kBertWithoutEffect[] = {"bert.embeddings.position_ids", "bert.embeddings.token_type_ids"};
// The names of TensorFlow's variables, which the first releases kept.
constexpr PublishedAlias kBertAliases[] = {{".LayerNorm.gamma", ".LayerNorm.weight"},
                                           {".LayerNorm.beta", ".LayerNorm.bias"}};

FeedForwardKind ReadActivation(const PublishedConfig& config, const char* fallback) {
  const std::string name = config.String("hidden_act", fallback);
  if (name == "gelu" || name == "gelu_python") return FeedForwardKind::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return FeedForwardKind::kGeluTanh;
  if (name == "relu") return FeedForwardKind::kRelu;
  config.FailAt("hidden_act", Quoted(name), " cannot be computed here; gelu, gelu_new, gelu_pytorch_tanh and relu can");
}

const char* ActivationName(FeedForwardKind kind) {
  if (kind == FeedForwardKind::kRelu) return "relu";
  return kind == FeedForwardKind::kGelu ? "gelu" : "gelu_new";
}

// A head that an architecture's name promises.
struct Architecture {
  const char* end;  // of its name, after "Bert"
  const char* tensor;
};

// The labels that the configuration speaks of, 0 where it does not.
int64_t LabelsOf(const PublishedConfig& config) {
  const Json* const labels = config.Find("id2label");
  const int64_t count = config.Int("num_labels", 0, 0, 1'000'000);
  if (labels == nullptr) return count;
  if (!labels->is_object()) config.FailAt("id2label", "must be an object");
  const auto listed = static_cast<int64_t>(labels->AsObject().size());
  if (count != 0 && listed != count) config.FailAt("num_labels", count, ", but id2label has ", listed);
  return listed;
}

// Which heads there are is said by the tensors; `architectures` must not promise others.
EncoderHeads ReadHeads(const PublishedConfig& config, const PublishedBertNames& names, int64_t d_model) {
  const std::string classes = names.class_names;
  const Architecture known[] = {{"Model", nullptr},
                                {"ForPreTraining", names.masked_lm},
                                {"ForMaskedLM", names.masked_lm},
                                {"ForNextSentencePrediction", names.sentence},
                                {"ForSequenceClassification", "classifier.weight"},
                                {"ForMultipleChoice", "classifier.weight"},
                                {"ForQuestionAnswering", "qa_outputs.weight"}};
  bool choice = false;
  for (const std::string& name : config.Architectures()) {
    const auto row = std::find_if(std::begin(known), std::end(known),
                                  [&](const Architecture& one) { return name == classes + one.end; });
    if (row == std::end(known)) config.FailAt("architectures", Quoted(name), " is not read here");
    if (row->tensor != nullptr && !config.HasTensor(row->tensor)) {
      config.FailAt("architectures", name, " has a head, but there is no tensor '", row->tensor, "'");
    }
    choice = choice || name == classes + "ForMultipleChoice";
  }
  EncoderHeads heads;
  heads.pooler = config.HasTensor(names.pooler);
  heads.masked_lm = config.HasTensor(names.masked_lm);
  heads.sentence = config.HasTensor(names.sentence);
  heads.span = config.HasTensor("qa_outputs.weight");
  if (heads.span) config.CheckShape("architectures", "qa_outputs.weight", {2, d_model});
  if (!config.HasTensor("classifier.weight")) return heads;
  if (!heads.pooler) {
    config.FailAt("architectures", "the tensor 'classifier.weight' without a pooler is a head that is not read here");
  }
  const int64_t rows = config.TensorSize("classifier.weight", 0);
  if (choice) {
    heads.multiple_choice = true;
    config.CheckShape("architectures", "classifier.weight", {1, d_model});
    return heads;
  }
  heads.classes = rows;
  config.CheckShape("hidden_size", "classifier.weight", {rows, d_model});
  const int64_t labels = LabelsOf(config);
  if (labels != 0 && labels != rows) {
    config.FailAt("id2label", labels, " labels, but the tensor 'classifier.weight' has ", rows, " rows");
  }
  const std::string problem = config.String("problem_type", rows == 1 ? "regression" : "single_label_classification");
  if (problem != (rows == 1 ? "regression" : "single_label_classification")) {
    config.FailAt("problem_type", Quoted(problem), " with ", rows, " labels cannot be computed here");
  }
  return heads;
}

ModelConfig ReadBert(const PublishedConfig& config) {
  ModelConfig model = BaseBert();
  model.vocabulary = 30522;
  model.d_model = 768;
  model.d_ff = 3072;
  model.layers = 12;
  ReadPublishedBert(config, kBertNames, 12, 0.1, "gelu", &model);
  return model;
}

Json WriteBert(const ModelConfig& model) { return WritePublishedBert(model, kBertNames); }

}  // namespace

void ReadPublishedBert(const PublishedConfig& config, const PublishedBertNames& names, int64_t attention_heads,
                       double dropout, const char* activation, ModelConfig* model) {
  config.MustBe("is_decoder", false);
  config.MustBe("add_cross_attention", false);
  config.MustBe("is_encoder_decoder", false);
  config.MustBe("position_embedding_type", "absolute");
  model->vocabulary = config.Int("vocab_size", model->vocabulary, 2, 1 << 24);
  model->d_model = config.Size("hidden_size", model->d_model);
  const char* const embedding = config.FirstTensor({names.embedding, names.decoder});
  const bool tied = !config.IsUntied(names.decoder, embedding);
  config.CheckShape(model->is_albert() ? "vocab_size, embedding_size" : "vocab_size, hidden_size", embedding,
                    {model->vocabulary, model->embedding_width()});
  if (!tied) {
    config.CheckShape("vocab_size, hidden_size", names.decoder, {model->vocabulary, model->embedding_width()});
  }
  model->d_ff = config.Size("intermediate_size", model->d_ff);
  config.CheckShape("intermediate_size, hidden_size", names.intermediate, {model->d_ff, model->d_model});
  config.CheckShape("hidden_size", names.query, {model->d_model, model->d_model});
  model->layers = config.Int("num_hidden_layers", model->layers, 1, kMostLayers);
  const int64_t heads = config.Size("num_attention_heads", attention_heads);
  if (model->d_model % heads != 0) {
    config.FailAt("num_attention_heads", heads,
                  " heads of equal size cannot be made of hidden_size = ", model->d_model);
  }
  const std::string prefix = names.prefix;
  model->max_positions = config.Size("max_position_embeddings", 512);
  config.CheckShape("max_position_embeddings", prefix + "embeddings.position_embeddings.weight",
                    {*model->max_positions, model->embedding_width()});
  model->segments = config.Size("type_vocab_size", 2);
  config.CheckShape("type_vocab_size", prefix + "embeddings.token_type_embeddings.weight",
                    {model->segments, model->embedding_width()});
  model->positions = PositionScheme::kLearned;
  model->feed_forward = ReadActivation(config, activation);
  model->norm_epsilon = config.Double("layer_norm_eps", 1e-12, 1e-30, 1);
  model->initial_stddev = std::max(1e-6, config.Double("initializer_range", 0.02, 0, 100));
  model->classifier = tied ? ClassifierKind::kTied : ClassifierKind::kUntied;
  model->tokens = {.pad = config.Token("pad_token_id", 0, model->vocabulary),
                   .end = kNoToken,
                   .unknown = kNoToken,
                   .decoder_start = kNoToken};
  model->heads = ReadHeads(config, names, model->d_model);
  model->dropout_rate = config.Double("hidden_dropout_prob", dropout, 0, 0.99);
  model->encoder_self = AttentionConfig::MultiHead(model->d_model, heads, model->d_model / heads);
  model->encoder_self.projection_biases = true;
  model->encoder_self.projection_stddev = model->stddev();
  model->encoder_self.scale = 1.0 / std::sqrt(static_cast<double>(model->d_model / heads));
  model->encoder_self.dropout_rate = config.Double("attention_probs_dropout_prob", dropout, 0, 0.99);
}

Json WritePublishedBert(const ModelConfig& model, const PublishedBertNames& names) {
  const EncoderHeads& heads = model.heads;
  const char* const end = heads.multiple_choice ? "ForMultipleChoice"
                          : heads.classes > 0   ? "ForSequenceClassification"
                          : heads.span          ? "ForQuestionAnswering"
                          : heads.masked_lm     ? (heads.sentence ? "ForPreTraining" : "ForMaskedLM")
                          : heads.sentence      ? "ForNextSentencePrediction"
                                                : "Model";
  // Other positions than learned ones have no published name; ours is one that readers refuse.
  const bool learned = model.positions == PositionScheme::kLearned;
  Json json = Json::MakeObject({{"architectures", Json::MakeArray({StrCat(names.class_names, end)})},
                                {"attention_probs_dropout_prob", model.encoder_self.dropout_rate},
                                {"hidden_act", ActivationName(model.activation())},
                                {"hidden_dropout_prob", model.dropout_rate},
                                {"hidden_size", model.d_model},
                                {"initializer_range", model.stddev()},
                                {"intermediate_size", model.d_ff},
                                {"layer_norm_eps", model.norm_epsilon},
                                {"max_position_embeddings", model.max_positions.value_or(0)},
                                {"model_type", model.is_albert() ? "albert" : "bert"},
                                {"num_attention_heads", model.encoder_self.h},
                                {"num_hidden_layers", model.layers},
                                {"pad_token_id", model.tokens.pad},
                                {"position_embedding_type", learned ? "absolute" : Name(model.positions)},
                                {"tie_word_embeddings", model.classifier == ClassifierKind::kTied},
                                {"type_vocab_size", model.segments},
                                {"vocab_size", model.vocabulary}});
  if (heads.classes > 0 && heads.classes != 2) {
    Json labels = Json::MakeObject();
    for (int64_t i = 0; i < heads.classes; ++i) labels.Set(std::to_string(i), StrCat("LABEL_", i));
    json.Set("id2label", std::move(labels));
  }
  return json;
}

const PublishedForm kPublishedBert = {.model = "bert",
                                      .model_type = "bert",
                                      .tensors = kBertTensors,
                                      .without_effect = kBertWithoutEffect,
                                      .prefix = "bert.",
                                      .aliases = kBertAliases,
                                      .read = ReadBert,
                                      .write = WriteBert};

namespace {

constexpr PublishedBertNames kAlbertNames = {
    .prefix = "albert.",
    .class_names = "Albert",
    .query = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.query.weight",
    .intermediate = "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight",
    .embedding = "albert.embeddings.word_embeddings.weight",
    .decoder = "predictions.decoder.weight",
    .masked_lm = "predictions.dense.weight",
    .sentence = "sop_classifier.classifier.weight",
    .pooler = "albert.pooler.weight"};

// clang-format off
constexpr PublishedTensor kAlbertTensors[] = {
    {"embedding.table",                              "albert.embeddings.word_embeddings.weight",                                                  kRows},
    {"masked_lm.decoder.table",                      "predictions.decoder.weight",                                                                kRows},
    {"embedding.table",                              "predictions.decoder.weight",                                                                kRows},
    {"positions.table",                              "albert.embeddings.position_embeddings.weight",                                              kSame},
    {"segments.table",                               "albert.embeddings.token_type_embeddings.weight",                                            kSame},
    {"embedding_norm.scale",                         "albert.embeddings.LayerNorm.weight",                                                        kSame},
    {"embedding_norm.bias",                          "albert.embeddings.LayerNorm.bias",                                                          kSame},
    {"embedding_projection.weight",                  "albert.encoder.embedding_hidden_mapping_in.weight",                                         kTransposed},
    {"embedding_projection.bias",                    "albert.encoder.embedding_hidden_mapping_in.bias",                                           kSame},
    {"encoder.block_{i}.self_attention.P_q",         "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.attention.query.weight",           kTransposed},
    {"encoder.block_{i}.self_attention.b_q",         "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.attention.query.bias",             kFlat},
    {"encoder.block_{i}.self_attention.P_k",         "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.attention.key.weight",             kTransposed},
    {"encoder.block_{i}.self_attention.b_k",         "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.attention.key.bias",               kFlat},
    {"encoder.block_{i}.self_attention.P_v",         "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.attention.value.weight",           kTransposed},
    {"encoder.block_{i}.self_attention.b_v",         "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.attention.value.bias",             kFlat},
    {"encoder.block_{i}.self_attention.P_o",         "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.attention.dense.weight",           kTransposed},
    {"encoder.block_{i}.self_attention.b_o",         "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.attention.dense.bias",             kSame},
    {"encoder.block_{i}.self_attention_norm.scale",  "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.attention.LayerNorm.weight",       kSame},
    {"encoder.block_{i}.self_attention_norm.bias",   "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.attention.LayerNorm.bias",         kSame},
    {"encoder.block_{i}.feed_forward.wi",            "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.ffn.weight",                       kTransposed},
    {"encoder.block_{i}.feed_forward.wi_bias",       "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.ffn.bias",                         kSame},
    {"encoder.block_{i}.feed_forward.wo",            "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.ffn_output.weight",                kTransposed},
    {"encoder.block_{i}.feed_forward.wo_bias",       "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.ffn_output.bias",                  kSame},
    {"encoder.block_{i}.feed_forward_norm.scale",    "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.full_layer_layer_norm.weight",     kSame},
    {"encoder.block_{i}.feed_forward_norm.bias",     "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.full_layer_layer_norm.bias",       kSame},
    {"pooler.weight",                                "albert.pooler.weight",                                                                      kTransposed},
    {"pooler.bias",                                  "albert.pooler.bias",                                                                        kSame},
    {"masked_lm.dense.weight",                       "predictions.dense.weight",                                                                  kTransposed},
    {"masked_lm.dense.bias",                         "predictions.dense.bias",                                                                    kSame},
    {"masked_lm.norm.scale",                         "predictions.LayerNorm.weight",                                                              kSame},
    {"masked_lm.norm.bias",                          "predictions.LayerNorm.bias",                                                                kSame},
    {"masked_lm.bias",                               "predictions.bias",                                                                          kSame},
    {"masked_lm.bias",                               "predictions.decoder.bias",                                                                  kSame},
    {"sentence.weight",                              "sop_classifier.classifier.weight",                                                          kTransposed},
    {"sentence.bias",                                "sop_classifier.classifier.bias",                                                            kSame},
    {"classification.weight",                        "classifier.weight",                                                                         kTransposed},
    {"classification.bias",                          "classifier.bias",                                                                           kSame},
    {"multiple_choice.weight",                       "classifier.weight",                                                                         kTransposed},
    {"multiple_choice.bias",                         "classifier.bias",                                                                           kSame},
    {"span.weight",                                  "qa_outputs.weight",                                                                         kTransposed},
    {"span.bias",                                    "qa_outputs.bias",                                                                           kSame},
};
// clang-format on

constexpr const char* kAlbertWithoutEffect[] = {"albert.embeddings.position_ids", "albert.embeddings.token_type_ids"};

ModelConfig ReadAlbert(const PublishedConfig& config) {
  ModelConfig model = BaseBert();
  model.name = "albert";
  model.vocabulary = 30000;
  model.d_model = 4096;
  model.d_ff = 16384;
  model.layers = 12;
  model.embedding_size = config.Size("embedding_size", 128);
  // Of releases that could share memory between layers; nobody published such a model.
  config.MustBe("num_memory_blocks", 0);
  config.MustBe("gap_size", 0);
  ReadPublishedBert(config, kAlbertNames, 64, 0.0, "gelu_new", &model);
  model.layer_groups = config.Int("num_hidden_groups", 1, 1, model.layers);
  model.inner_layers = config.Int("inner_group_num", 1, 1, kMostLayers);
  return model;
}

Json WriteAlbert(const ModelConfig& model) {
  return WritePublishedBert(model, kAlbertNames)
      .Set("embedding_size", model.embedding_width())
      .Set("inner_group_num", model.inner_layers.value_or(1))
      .Set("num_hidden_groups", model.layer_groups.value_or(model.layers));
}

}  // namespace

const PublishedForm kPublishedAlbert = {.model = "albert",
                                        .model_type = "albert",
                                        .tensors = kAlbertTensors,
                                        .without_effect = kAlbertWithoutEffect,
                                        .prefix = "albert.",
                                        .aliases = {},
                                        .read = ReadAlbert,
                                        .write = WriteAlbert};

}  // namespace crosstalk
