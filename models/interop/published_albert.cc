#include "crosstalk/models/interop/published_albert.h"

#include "crosstalk/models/bert/config.h"
#include "crosstalk/models/interop/published_bert.h"
#include "crosstalk/models/interop/published_config.h"

namespace crosstalk {
namespace {

using enum Layout;

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

std::unique_ptr<ModelConfig> ReadAlbert(const PublishedConfig& config) {
  BertConfig model;
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
  return std::make_unique<BertConfig>(model);
}

Json WriteAlbert(const ModelConfig& written) {
  const auto& model = static_cast<const BertConfig&>(written);
  return WritePublishedBert(model, kAlbertNames)
      .Set("embedding_size", model.embedding_width())
      .Set("inner_group_num", model.inner_layers)
      .Set("num_hidden_groups", model.layer_groups == 0 ? model.layers : model.layer_groups);
}

int64_t InnerLayersOfAlbert(const ModelConfig& model) { return static_cast<const BertConfig&>(model).inner_layers; }

}  // namespace

const PublishedForm kPublishedAlbert = {.model = "albert",
                                        .model_type = "albert",
                                        .tensors = kAlbertTensors,
                                        .without_effect = kAlbertWithoutEffect,
                                        .prefix = "albert.",
                                        .aliases = {},
                                        .read = ReadAlbert,
                                        .write = WriteAlbert,
                                        .describe = DescribePublishedBert,
                                        .inner_layers = InnerLayersOfAlbert};

}  // namespace crosstalk
