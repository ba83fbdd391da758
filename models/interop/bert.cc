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

// Rows of BERT, ALBERT and RoBERTa, whose parts have other names.
constexpr PublishedTensor kBertEmbeddings[] = {{"embedding.table", "word_embeddings.weight", kRows},
                                               {"positions.table", "position_embeddings.weight", kSame},
                                               {"segments.table", "token_type_embeddings.weight", kSame},
                                               {"embedding_norm.scale", "LayerNorm.weight", kSame},
                                               {"embedding_norm.bias", "LayerNorm.bias", kSame}};
constexpr PublishedTensor kBertPredictions[] = {{"masked_lm.decoder.table", "decoder.weight", kRows},
                                                {"embedding.table", "decoder.weight", kRows},
                                                {"masked_lm.bias", "bias", kSame},
                                                {"masked_lm.bias", "decoder.bias", kSame}};
constexpr PublishedTensor kBertQueryKeyValue[] = {{"P_q", "query.weight", kTransposed}, {"b_q", "query.bias", kFlat},
                                                  {"P_k", "key.weight", kTransposed},   {"b_k", "key.bias", kFlat},
                                                  {"P_v", "value.weight", kTransposed}, {"b_v", "value.bias", kFlat}};
constexpr PublishedTensor kBertOutput[] = {{"P_o", "weight", kTransposed}, {"b_o", "bias", kSame}};
constexpr PublishedTensor kBertFeedForward[] = {{"", "weight", kTransposed}, {"_bias", "bias", kSame}};
constexpr PublishedTensor kBertNorm[] = {{"scale", "weight", kSame}, {"bias", "bias", kSame}};
constexpr PublishedTensor kBertDense[] = {{"weight", "weight", kTransposed}, {"bias", "bias", kSame}};
constexpr PublishedTensor kBertTasks[] = {{"classification.weight", "classifier.weight", kTransposed},
                                          {"classification.bias", "classifier.bias", kSame},
                                          {"multiple_choice.weight", "classifier.weight", kTransposed},
                                          {"multiple_choice.bias", "classifier.bias", kSame},
                                          {"span.weight", "qa_outputs.weight", kTransposed},
                                          {"span.bias", "qa_outputs.bias", kSame}};

constexpr PublishedPart kBertParts[] = {
    {"", "", kBertTasks},
    {"", "bert.embeddings.", kBertEmbeddings},
    {"", "cls.predictions.", kBertPredictions},
    {"encoder.block_{i}.self_attention.", "bert.encoder.layer.{i}.attention.self.", kBertQueryKeyValue},
    {"encoder.block_{i}.self_attention.", "bert.encoder.layer.{i}.attention.output.dense.", kBertOutput},
    {"encoder.block_{i}.self_attention_norm.", "bert.encoder.layer.{i}.attention.output.LayerNorm.", kBertNorm},
    {"encoder.block_{i}.feed_forward.wi", "bert.encoder.layer.{i}.intermediate.dense.", kBertFeedForward},
    {"encoder.block_{i}.feed_forward.wo", "bert.encoder.layer.{i}.output.dense.", kBertFeedForward},
    {"encoder.block_{i}.feed_forward_norm.", "bert.encoder.layer.{i}.output.LayerNorm.", kBertNorm},
    {"pooler.", "bert.pooler.dense.", kBertDense},
    {"masked_lm.dense.", "cls.predictions.transform.dense.", kBertDense},
    {"masked_lm.norm.", "cls.predictions.transform.LayerNorm.", kBertNorm},
    {"sentence.", "cls.seq_relationship.", kBertDense}};

constexpr PublishedPart kAlbertParts[] = {
    {"", "", kBertTasks},
    {"", "albert.embeddings.", kBertEmbeddings},
    {"", "predictions.", kBertPredictions},
    {"embedding_projection.", "albert.encoder.embedding_hidden_mapping_in.", kBertDense},
    {"encoder.block_{i}.self_attention.", "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.attention.",
     kBertQueryKeyValue},
    {"encoder.block_{i}.self_attention.", "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.attention.dense.",
     kBertOutput},
    {"encoder.block_{i}.self_attention_norm.",
     "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.attention.LayerNorm.", kBertNorm},
    {"encoder.block_{i}.feed_forward.wi", "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.ffn.",
     kBertFeedForward},
    {"encoder.block_{i}.feed_forward.wo", "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.ffn_output.",
     kBertFeedForward},
    {"encoder.block_{i}.feed_forward_norm.",
     "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}.full_layer_layer_norm.", kBertNorm},
    {"pooler.", "albert.pooler.", kBertDense},
    {"masked_lm.dense.", "predictions.dense.", kBertDense},
    {"masked_lm.norm.", "predictions.LayerNorm.", kBertNorm},
    {"sentence.", "sop_classifier.classifier.", kBertDense}};

// The head of a classification is a pooler of its own and what reads it.
constexpr PublishedTensor kRobertaTasks[] = {{"classification.weight", "classifier.out_proj.weight", kTransposed},
                                             {"classification.bias", "classifier.out_proj.bias", kSame},
                                             {"multiple_choice.weight", "classifier.weight", kTransposed},
                                             {"multiple_choice.bias", "classifier.bias", kSame},
                                             {"span.weight", "qa_outputs.weight", kTransposed},
                                             {"span.bias", "qa_outputs.bias", kSame}};
constexpr PublishedPart kRobertaParts[] = {
    {"", "", kRobertaTasks},
    {"", "roberta.embeddings.", kBertEmbeddings},
    {"", "lm_head.", kBertPredictions},
    {"encoder.block_{i}.self_attention.", "roberta.encoder.layer.{i}.attention.self.", kBertQueryKeyValue},
    {"encoder.block_{i}.self_attention.", "roberta.encoder.layer.{i}.attention.output.dense.", kBertOutput},
    {"encoder.block_{i}.self_attention_norm.", "roberta.encoder.layer.{i}.attention.output.LayerNorm.", kBertNorm},
    {"encoder.block_{i}.feed_forward.wi", "roberta.encoder.layer.{i}.intermediate.dense.", kBertFeedForward},
    {"encoder.block_{i}.feed_forward.wo", "roberta.encoder.layer.{i}.output.dense.", kBertFeedForward},
    {"encoder.block_{i}.feed_forward_norm.", "roberta.encoder.layer.{i}.output.LayerNorm.", kBertNorm},
    {"pooler.", "roberta.pooler.dense.", kBertDense},
    {"pooler.", "classifier.dense.", kBertDense},
    {"masked_lm.dense.", "lm_head.dense.", kBertDense},
    {"masked_lm.norm.", "lm_head.layer_norm.", kBertNorm}};

// Names that depend on the configuration: a classification's pooler is its head's.
bool HasRobertaRow(const PublishedRow& row, const ModelConfig& model) {
  return !row.ours.starts_with("pooler.") || row.theirs.starts_with("classifier.") == (model.heads.classes > 0);
}

constexpr const char* kRobertaWithoutEffect[] = {"roberta.embeddings.position_ids", "roberta.embeddings.token_type_ids",
                                                 // of the model that a classification began with
                                                 "roberta.pooler.dense.weight", "roberta.pooler.dense.bias"};
constexpr const char* kBertWithoutEffect[] = {"bert.embeddings.position_ids", "bert.embeddings.token_type_ids"};
constexpr const char* kAlbertWithoutEffect[] = {"albert.embeddings.position_ids", "albert.embeddings.token_type_ids"};
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
  const char* end;     // of its name, after "Bert"
  std::string tensor;  // of the head; empty: it has none
};

// How the kinds of BERT differ in what is published. A class is named CLASSForMaskedLM.
struct EncoderFamily {
  const char* model_type;
  const char* class_name;
  const PublishedForm* form;
  // What the library takes for a key that is missing.
  int64_t vocabulary, attention_heads;
  const char* activation;
  double dropout = 0.1;
  int64_t pad = 0;
  bool counts_positions = false;  // ModelConfig::first_position follows pad_token_id
};
constexpr EncoderFamily kBert = {"bert", "Bert", &kPublishedBert, 30522, 12, "gelu"};
constexpr EncoderFamily kAlbert = {"albert", "Albert", &kPublishedAlbert, 30000, 64, "gelu_new", 0.0};
constexpr EncoderFamily kRoberta = {"roberta", "Roberta", &kPublishedRoberta, 50265, 12, "gelu", 0.1, 1, true};
constexpr EncoderFamily kXlmRoberta = {"xlm-roberta", "XLMRoberta", &kPublishedXlmRoberta, 30522, 12, "gelu", 0.1, 1,
                                       true};
constexpr EncoderFamily kCamembert = {"camembert", "Camembert", &kPublishedCamembert, 30522, 12, "gelu", 0.1, 1, true};

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
EncoderHeads ReadHeads(const PublishedConfig& config, const EncoderFamily& family, const ModelConfig& model) {
  const PublishedNames names(*family.form, nullptr);
  const std::string classes = family.class_name, masked_lm = names.UsualName("masked_lm.dense.weight").name,
                    sentence = names.UsualName("sentence.weight").name,
                    classification = names.UsualName("classification.weight").name,
                    multiple_choice = names.UsualName("multiple_choice.weight").name;
  const Architecture known[] = {{"Model", ""},
                                {"ForPreTraining", masked_lm},
                                {"ForMaskedLM", masked_lm},
                                {"ForNextSentencePrediction", sentence},
                                {"ForSequenceClassification", classification},
                                {"ForMultipleChoice", multiple_choice},
                                {"ForQuestionAnswering", "qa_outputs.weight"}};
  bool choice = false;
  for (const std::string& name : config.Architectures()) {
    const auto row = std::find_if(std::begin(known), std::end(known),
                                  [&](const Architecture& one) { return name == classes + one.end; });
    if (row == std::end(known)) config.FailAt("architectures", Quoted(name), " is not read here");
    if (!row->tensor.empty() && !config.HasTensor(row->tensor)) {
      config.FailAt("architectures", name, " has a head, but there is no tensor '", row->tensor, "'");
    }
    choice = choice || name == classes + "ForMultipleChoice";
  }
  EncoderHeads heads;
  const std::vector<PublishedName> poolers = names.NamesOf("pooler.weight");
  heads.pooler = std::any_of(poolers.begin(), poolers.end(),
                             [&](const PublishedName& pooler) { return config.HasTensor(pooler.name); });
  heads.masked_lm = config.HasTensor(masked_lm);
  heads.sentence = config.HasTensor(sentence);
  heads.span = config.HasTensor("qa_outputs.weight");
  if (heads.span) config.CheckShape("architectures", "qa_outputs.weight", {2, model.d_model});
  const std::string& head = choice ? multiple_choice : classification;
  if (!config.HasTensor(head)) return heads;
  if (!heads.pooler) {
    config.FailAt("architectures", "the tensor '", head, "' without a pooler is a head that is not read here");
  }
  const int64_t rows = config.TensorSize(head, 0);
  if (choice) {
    heads.multiple_choice = true;
    config.CheckShape("architectures", head, {1, model.d_model});
    return heads;
  }
  heads.classes = rows;
  config.CheckShape("hidden_size", head, {rows, model.d_model});
  const int64_t labels = LabelsOf(config);
  if (labels != 0 && labels != rows) {
    config.FailAt("id2label", labels, " labels, but the tensor '", head, "' has ", rows, " rows");
  }
  const std::string problem = config.String("problem_type", rows == 1 ? "regression" : "single_label_classification");
  if (problem != (rows == 1 ? "regression" : "single_label_classification")) {
    config.FailAt("problem_type", Quoted(problem), " with ", rows, " labels cannot be computed here");
  }
  return heads;
}

// The sizes by the defaults that `model` comes with.
void ReadEncoder(const PublishedConfig& config, const EncoderFamily& family, ModelConfig* model) {
  const PublishedNames names(*family.form, nullptr);
  const std::string decoder = names.UsualName("masked_lm.decoder.table").name;
  config.MustBe("is_decoder", false);
  config.MustBe("add_cross_attention", false);
  config.MustBe("is_encoder_decoder", false);
  config.MustBe("position_embedding_type", "absolute");
  model->vocabulary = config.Int("vocab_size", family.vocabulary, 2, 1 << 24);
  model->d_model = config.Size("hidden_size", model->d_model);
  const std::string embedding = config.FirstTensor({names.UsualName("embedding.table").name, decoder});
  const bool tied = !config.IsUntied(decoder, embedding);
  config.CheckShape(model->is_albert() ? "vocab_size, embedding_size" : "vocab_size, hidden_size", embedding,
                    {model->vocabulary, model->embedding_width()});
  if (!tied) {
    config.CheckShape("vocab_size, hidden_size", decoder, {model->vocabulary, model->embedding_width()});
  }
  model->d_ff = config.Size("intermediate_size", model->d_ff);
  config.CheckShape("intermediate_size, hidden_size", names.UsualName("encoder.block_0.feed_forward.wi").name,
                    {model->d_ff, model->d_model});
  config.CheckShape("hidden_size", names.UsualName("encoder.block_0.self_attention.P_q").name,
                    {model->d_model, model->d_model});
  model->layers = config.Int("num_hidden_layers", model->layers, 1, kMostLayers);
  const int64_t heads = config.Size("num_attention_heads", family.attention_heads);
  if (model->d_model % heads != 0) {
    config.FailAt("num_attention_heads", heads,
                  " heads of equal size cannot be made of hidden_size = ", model->d_model);
  }
  model->max_positions = config.Size("max_position_embeddings", 512);
  config.CheckShape("max_position_embeddings", names.UsualName("positions.table").name,
                    {*model->max_positions, model->embedding_width()});
  model->segments = config.Size("type_vocab_size", 2);
  config.CheckShape("type_vocab_size", names.UsualName("segments.table").name,
                    {model->segments, model->embedding_width()});
  model->positions = PositionScheme::kLearned;
  model->feed_forward = ReadActivation(config, family.activation);
  model->norm_epsilon = config.Double("layer_norm_eps", 1e-12, 1e-30, 1);
  model->initial_stddev = std::max(1e-6, config.Double("initializer_range", 0.02, 0, 100));
  model->classifier = tied ? ClassifierKind::kTied : ClassifierKind::kUntied;
  model->tokens = {.pad = config.Token("pad_token_id", family.pad, model->vocabulary),
                   .end = kNoToken,
                   .unknown = kNoToken,
                   .decoder_start = kNoToken};
  model->heads = ReadHeads(config, family, *model);
  if (family.counts_positions) {
    model->first_position = model->tokens.pad + 1;
    if (model->first_position >= *model->max_positions) {
      config.FailAt("pad_token_id", model->tokens.pad, " leaves none of ", *model->max_positions, " positions");
    }
    // Its head for hidden tokens has gelu whatever hidden_act says.
    if (model->heads.masked_lm && model->activation() != FeedForwardKind::kGelu) {
      config.FailAt("hidden_act", Quoted(config.String("hidden_act", "")),
                    " beside lm_head cannot be computed here; gelu can");
    }
  }
  model->dropout_rate = config.Double("hidden_dropout_prob", family.dropout, 0, 0.99);
  model->encoder_self = AttentionConfig::MultiHead(model->d_model, heads, model->d_model / heads);
  model->encoder_self.projection_biases = true;
  model->encoder_self.projection_stddev = model->stddev();
  model->encoder_self.scale = 1.0 / std::sqrt(static_cast<double>(model->d_model / heads));
  model->encoder_self.dropout_rate = config.Double("attention_probs_dropout_prob", family.dropout, 0, 0.99);
}

ModelConfig ReadBert(const PublishedConfig& config, const EncoderFamily& family) {
  ModelConfig model = BaseBert();
  model.d_model = 768;
  model.d_ff = 3072;
  model.layers = 12;
  ReadEncoder(config, family, &model);
  return model;
}

ModelConfig ReadAlbert(const PublishedConfig& config) {
  ModelConfig model = BaseBert();
  model.name = "albert";
  model.d_model = 4096;
  model.d_ff = 16384;
  model.layers = 12;
  model.embedding_size = config.Size("embedding_size", 128);
  // Releases that could share memory between layers had these; nobody published such a model.
  config.MustBe("num_memory_blocks", 0);
  config.MustBe("gap_size", 0);
  ReadEncoder(config, kAlbert, &model);
  model.layer_groups = config.Int("num_hidden_groups", 1, 1, model.layers);
  model.inner_layers = config.Int("inner_group_num", 1, 1, kMostLayers);
  return model;
}

Json WriteEncoder(const ModelConfig& model, const EncoderFamily& family) {
  const EncoderHeads& heads = model.heads;
  const char* const end = heads.multiple_choice ? "ForMultipleChoice"
                          : heads.classes > 0   ? "ForSequenceClassification"
                          : heads.span          ? "ForQuestionAnswering"
                          : heads.masked_lm     ? (heads.sentence ? "ForPreTraining" : "ForMaskedLM")
                          : heads.sentence      ? "ForNextSentencePrediction"
                                                : "Model";
  // Other positions than learned ones have no published name; ours is one that readers refuse.
  const bool learned = model.positions == PositionScheme::kLearned;
  Json json = Json::MakeObject({{"architectures", Json::MakeArray({StrCat(family.class_name, end)})},
                                {"attention_probs_dropout_prob", model.encoder_self.dropout_rate},
                                {"hidden_act", ActivationName(model.activation())},
                                {"hidden_dropout_prob", model.dropout_rate},
                                {"hidden_size", model.d_model},
                                {"initializer_range", model.stddev()},
                                {"intermediate_size", model.d_ff},
                                {"layer_norm_eps", model.norm_epsilon},
                                {"max_position_embeddings", model.max_positions.value_or(0)},
                                {"model_type", family.model_type},
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
  if (!model.is_albert()) return json;
  return json.Set("embedding_size", model.embedding_width())
      .Set("inner_group_num", model.inner_layers.value_or(1))
      .Set("num_hidden_groups", model.layer_groups.value_or(model.layers));
}

template <const EncoderFamily& family>
constexpr PublishedForm RobertaForm() {
  return {.model = "bert",
          .model_type = family.model_type,
          .parts = kRobertaParts,
          .without_effect = kRobertaWithoutEffect,
          .prefix = "roberta.",
          .aliases = {},
          .read = [](const PublishedConfig& config) { return ReadBert(config, family); },
          .write = [](const ModelConfig& model) { return WriteEncoder(model, family); },
          .has_row = HasRobertaRow};
}

}  // namespace

const PublishedForm kPublishedBert = {.model = "bert",
                                      .model_type = kBert.model_type,
                                      .parts = kBertParts,
                                      .without_effect = kBertWithoutEffect,
                                      .prefix = "bert.",
                                      .aliases = kBertAliases,
                                      .read = [](const PublishedConfig& config) { return ReadBert(config, kBert); },
                                      .write = [](const ModelConfig& model) { return WriteEncoder(model, kBert); }};

const PublishedForm kPublishedAlbert = {.model = "albert",
                                        .model_type = kAlbert.model_type,
                                        .parts = kAlbertParts,
                                        .without_effect = kAlbertWithoutEffect,
                                        .prefix = "albert.",
                                        .aliases = {},
                                        .read = ReadAlbert,
                                        .write = [](const ModelConfig& model) { return WriteEncoder(model, kAlbert); }};

const PublishedForm kPublishedRoberta = RobertaForm<kRoberta>();
const PublishedForm kPublishedXlmRoberta = RobertaForm<kXlmRoberta>();
const PublishedForm kPublishedCamembert = RobertaForm<kCamembert>();

}  // namespace crosstalk
