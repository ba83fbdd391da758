// BertConfig: the dimensions and options that define a BERT or an ALBERT.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/model_config.h"
#include "crosstalk/models/recipe.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// An ALBERT is a BERT with an embedding size of its own and layers that share blocks.
struct BertConfig : ModelConfig {
  BertConfig() {
    feed_forward = FeedForwardKind::kGelu;  // the activation of the masked-LM head too
    norm_epsilon = 1e-12;
  }

  int64_t layers = 0;
  AttentionConfig attention;  // of every layer
  // Of each block its own, where they differ; blocks as TransformerConfig has them.
  std::vector<AttentionConfig> layer_attention;
  PositionScheme positions = PositionScheme::kLearned;
  int64_t max_positions = 0;  // rows of the learned positions; 0 without them: a text may have any length
  int64_t segments = 2;       // kinds of segments: sentence A, sentence B
  EncoderHeads heads;
  double stddev = 0.02;  // of the initial weights, truncated normal
  // ALBERT: the width E of the embeddings, which a dense layer takes to d_model. BERT: none.
  std::optional<int64_t> embedding_size;
  int64_t layer_groups = 0;  // as TransformerConfig::groups
  int64_t inner_layers = 1;
  // Of the tokens pad is used. classifier: of the masked-LM head.

  bool is_albert() const { return embedding_size.has_value(); }
  int64_t embedding_width() const { return embedding_size.value_or(d_model); }
  int64_t num_blocks() const { return (layer_groups == 0 ? layers : layer_groups) * inner_layers; }

  const char* model() const override { return is_albert() ? "albert" : "bert"; }
  Json ToJson() const override;
  void Validate() const override;
  std::unique_ptr<Model> Make(const Initializer& init) const override;
  std::unique_ptr<ModelConfig> Clone() const override { return std::make_unique<BertConfig>(*this); }
  std::vector<AttentionConfig*> AttentionLayers() override;
  void KeepFrom(const ModelConfig& origin, const ModelConfig& before) override;
};

// As published: GELU, explicit scale, clipping at norm 1, no z-loss.
inline constexpr Recipe kBertRecipe = {.optimizer = OptimizerKind::kAdamW,
                                       .bias_correction = kernels::AdamWOptions::BiasCorrection::kNo,
                                       .clip = 1,
                                       .z_loss = 0,
                                       .masking = Masking::kTokens,
                                       .sentence_task = SentenceTask::kNextSentence};
void ResolveBert(ModelOptions& options, int64_t input_length);
std::unique_ptr<ModelConfig> ConfigureBert(const ModelOptions& options, const ModelPurpose& purpose);
// Of either: the member `model` says which.
std::unique_ptr<ModelConfig> ReadBertConfig(const Json& json, const std::string& source);

// Of both: all but what ALBERT has beside it and layers of their own, not validated.
BertConfig EncoderConfig(const ModelOptions& options, const ModelPurpose& purpose);
// Gives each block the attention that layer_kinds says. Call it once the number of blocks stands.
void SetLayerKinds(const ModelOptions& options, BertConfig& config);

}  // namespace crosstalk
