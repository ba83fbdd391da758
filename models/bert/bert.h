// BERT (Devlin et al. 2018) and ALBERT (Lan et al. 2019), with any member of the attention family: an encoder over
// token, segment and position embeddings, post-norm with LayerNorm, biases everywhere; and the heads upon it.
//
//   Bert model(config, seed);
//   Bert::Hidden hidden = model.Encode(ids, segments, mask, context);  // .sequence[b, n, d_model], .pooled[b, d_model]
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/model_config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// An ALBERT is a BERT with an embedding size of its own and layers that share blocks.

// A BERT without sizes and attention, as published else: GELU, learned positions. Of the tokens pad is used;
// `classifier` is that of the masked-LM head, and `feed_forward` its activation too.
ModelConfig BaseBert();

// Rows of the registry of both.
void MakeBertLayers(ModelConfig& config);
void ValidateBert(const ModelConfig& config);

// As published: GELU, explicit scale, clipping at norm 1, no z-loss.
inline constexpr Recipe kBertRecipe = {.optimizer = OptimizerKind::kAdamW,
                                       .bias_correction = kernels::AdamWOptions::BiasCorrection::kNo,
                                       .clip = 1,
                                       .z_loss = 0,
                                       .masking = Masking::kTokens,
                                       .sentence_task = SentenceTask::kNextSentence};
void ResolveBert(ModelConfig& config, int64_t input_length);
const FieldTable<ModelConfig>& BertFields();

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// ALBERT: a BERT with an embedding size of its own and layers that share blocks. The model and its configuration are
// models/bert's.

// BERT's, but with LAMB and ALBERT's own examples.
inline constexpr Recipe kAlbertRecipe = {.optimizer = OptimizerKind::kLamb,
                                         .bias_correction = kBertRecipe.bias_correction,
                                         .clip = kBertRecipe.clip,
                                         .z_loss = kBertRecipe.z_loss,
                                         .masking = Masking::kNgrams,
                                         .sentence_task = SentenceTask::kSentenceOrder};
// BERT's, but with tanh GELU, and one block for all layers.
void ResolveAlbert(ModelConfig& config, int64_t input_length);
const FieldTable<ModelConfig>& AlbertFields();

}  // namespace crosstalk

#pragma GCC visibility push(default)
namespace crosstalk {

// The masked-LM head: logits = norm(act(x·W + b))·tableᵀ + bias, by the embedding's table or one of its own.
// dense[d_model, E], norm[E], bias[vocabulary]; untied: decoder.table[rows of the embedding, E].
class MaskedLmHead : public Module {
 public:
  MaskedLmHead(const ModelConfig& config, const Child<EmbeddingLayer>& embedding, const Initializer& init);

  // hidden[…, d_model] → logits[…, vocabulary].
  Variable Logits(const Variable& hidden) const;
  // hidden[rows, d_model], targets int32[rows]; those that are options.ignore_index count nothing.
  CrossEntropyResult Loss(const Variable& hidden, const Tensor& targets, const CrossEntropyOptions& options) const;

 private:
  Variable Transform(const Variable& hidden) const;  // […, E]

  FeedForwardKind activation_;
  Child<Linear> dense_;
  Child<NormLayer> norm_;
  Variable bias_;
  Child<Classifier> decoder_;
};

// Loss is that of what the batch asks for; `inputs`, `segments` int32[b, n].
//   pretraining  `masked_positions`, `masked_targets` int32[b, p] (padding counts nothing) and, with the sentence
//                head, `sentence_labels` int32[b]. Measures: ln_ppl and masked_accuracy of the masked targets,
//                sentence_accuracy.
// In tasks (heads.cc) each example is a target; measures: task_loss, task_accuracy.
//   classes      `labels` int32[b]: cross-entropy
//   regression   `scores` float[b]: (the only logit - score)²; no accuracy
//   choices      `choice_counts`, `labels` int32[b]; inputs and segments [b, c, n], of which the first choice_counts
//                are choices: cross-entropy over these
//   span         `start_positions`, `end_positions` int32[b]: mean of both ends' cross-entropies over the positions
//                that are not padding; its accuracy the mean of both ends'
//
// Outputs reads input_ids, attention_mask, token_type_ids [b, n] (of multiple choice [b, choices, n]), labels,
// next_sentence_label or sentence_order_label, start_positions and end_positions.
class Bert : public Model {
 public:
  // Initial values are a function of (seed, dotted path).
  Bert(const ModelConfig& config, uint64_t seed, DType dtype = DType::kFloat32)
      : Bert(config, Initializer(seed, dtype)) {}
  Bert(const ModelConfig& config, const Initializer& init);

  const ModelConfig& config() const override { return config_; }

  std::string Describe() const override;
  std::vector<AttentionPlace> AttentionPlaces() const override {
    return PlacesOf("self-attention", config_.encoder_self, config_.encoder_self_layers);
  }
  void SetActivations(Activations activations) override { encoder_->SetActivations(activations); }

  struct Hidden {
    Variable sequence;  // [b, n, d_model]
    Variable pooled;    // [b, d_model]; undefined without a pooler
  };
  // ids int32[b, n]; segments int32[b, n] (undefined: all 0); mask bool[b, n], true = attend (undefined: all that are
  // not padding). A look-up of padding gives its row no gradient.
  Hidden Encode(const Tensor& ids, const Tensor& segments, const Tensor& mask, const ForwardContext& context,
                TransformerRecord* record = nullptr) const;

  // Outputs of the heads of tasks. Of the pooled output a share is dropped in training, as published. Error(kUsage) of
  // a model without the head.
  Variable ClassLogits(const Hidden& hidden, const ForwardContext& context) const;   // [b, classes]
  Variable ChoiceScores(const Hidden& hidden, const ForwardContext& context) const;  // [b]
  Variable SpanLogits(const Hidden& hidden) const;                                   // [b, n, 2]: start, end

  Variable ReadStates(const Tensor& ids, const Tensor& mask) const override {
    return Encode(ids, {}, mask, ForwardContext()).sequence;
  }
  Batch TextInputs(const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text) const override;
  EncoderHeads heads() const override { return config_.heads; }
  HeadLogits AnswerByHeads(const Tensor& ids, const Tensor& segments) const override;

  // It writes nothing.
  std::unique_ptr<Decoder> MakeDecoder(const DecoderOptions&) const override { return nullptr; }
  std::unique_ptr<TextWriter> MakeWriter(std::shared_ptr<const Tokenizer>) const override { return nullptr; }

 private:
  LossResult ComputeLoss(const Batch& batch, const LossOptions& options, const ForwardContext& context) const override;
  std::vector<NamedVariable> ComputeOutputs(const Batch& inputs, OutputDetail detail,
                                            const ForwardContext& context) const override;

  LossResult PretrainingLoss(const Batch& batch, const LossOptions& options, const ForwardContext& context) const;
  LossResult TaskLoss(const Batch& batch, const LossOptions& options, const ForwardContext& context) const;
  // (logits - targets)² of the rows, [b]; logits[b, 1]. Error(kUsage) with `name` unless there are b targets.
  static Variable SquaredErrors(const char* name, const Variable& logits, const Tensor& targets);
  // The logits of starts (end 0) or of ends (end 1), [b, n], of logits[b, n, 2].
  static Variable EndLogits(const Variable& logits, int end);

  Variable Embed(const Tensor& ids, const Tensor& segments, const ForwardContext& context) const;
  // The input of a task's head on the pooled output.
  Variable Pooled(const Hidden& hidden, const ForwardContext& context) const;

  ModelConfig config_;
  Child<EmbeddingLayer> embedding_;
  Child<LearnedPositions> positions_;        // none with a relative bias
  Child<EmbeddingLayer> counted_positions_;  // in their place with ModelConfig::first_position
  Child<EmbeddingLayer> segments_;
  Child<NormLayer> embedding_norm_;
  Child<Linear> embedding_projection_;  // ALBERT's, E → d_model
  Child<TransformerStack> encoder_;
  Child<Linear> pooler_;
  Child<MaskedLmHead> masked_lm_;
  Child<Linear> sentence_;         // d_model → 2
  Child<Linear> classification_;   // d_model → classes
  Child<Linear> multiple_choice_;  // d_model → 1, a score for each choice
  Child<Linear> span_;             // d_model → 2: start and end
};

}  // namespace crosstalk
#pragma GCC visibility pop
