// A language model: a decoder alone, which gives each next token of a text a probability. Any member of the attention
// family; pre-norm with RMS norms; a relative bias, or learned positions added to the embedding.
//
//   Lm model(config, seed);
//   TransformerCache cache = model.StartDecoding();
//   Tensor logits = model.DecodeStep(prompt, cache);  // [b, vocabulary], for the token after the prompt
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/model.h"
#include "crosstalk/models/model_config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Its rows of the registry. Of a configuration's tokens pad is used.
void MakeLmLayers(ModelConfig& config);
void ValidateLm(const ModelConfig& config);
const FieldTable<ModelConfig>& LmFields();

// Loss reads the batch's `inputs` and `targets` int32[b, n]: each target is the token after its input; padding and
// kNoToken count nothing. Or it reads `inputs` int32[b, n] and `targets` int32[b, m], the tokens after those inputs
// that `target_positions` int32[b, m] name: only these cost logits. The measure is ln_ppl: mean -ln p of the targets.
//
// Outputs reads input_ids, attention_mask and labels [b, n]: as published for such models, the label of each position
// is the token there, and the position before it is asked for it.
class Lm : public Model {
 public:
  // Initial values are a function of (seed, dotted path).
  Lm(const ModelConfig& config, uint64_t seed, DType dtype = DType::kFloat32) : Lm(config, Initializer(seed, dtype)) {}
  Lm(const ModelConfig& config, const Initializer& init);

  const ModelConfig& config() const override { return config_; }

  std::string Describe() const override;
  std::vector<AttentionPlace> AttentionPlaces() const override;
  void SetActivations(Activations activations) override { decoder_->SetActivations(activations); }

  // inputs int32[b, n] → the decoder's output hidden[b, n, d_model].
  Variable Forward(const Tensor& inputs, const ForwardContext& context) const;
  // hidden[…, d_model] → logits[…, vocabulary].
  Variable Logits(const Variable& hidden) const;

  Variable ReadStates(const Tensor& ids, const Tensor&) const override { return Forward(ids, ForwardContext()); }
  Batch TextInputs(const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text) const override;
  // Goes on with the prompt.
  std::unique_ptr<TextWriter> MakeWriter(std::shared_ptr<const Tokenizer> tokenizer) const override;

  // Decoding, off the tape: tokens int32[b, n], a prompt of any length at first and then one at a time, at most
  // `context` in all → logits[b, vocabulary] for what follows. Equal to the full pass over the same tokens.
  TransformerCache StartDecoding() const { return decoder_->StartDecoding({}); }
  Tensor DecodeStep(const Tensor& tokens, TransformerCache& cache) const;
  std::unique_ptr<Decoder> MakeDecoder(const DecoderOptions& options) const override;

 private:
  LossResult ComputeLoss(const Batch& batch, const LossOptions& options, const ForwardContext& context) const override;
  std::vector<NamedVariable> ComputeOutputs(const Batch& inputs, OutputDetail detail,
                                            const ForwardContext& context) const override;

  // ids int32[b, n] at positions[b, n], or by default at first … first + n - 1.
  Variable Embed(const Tensor& ids, int64_t first, const Tensor& positions = {}) const;

  ModelConfig config_;
  Child<EmbeddingLayer> embedding_;
  Child<LearnedPositions> positions_;  // none with a relative bias
  Child<TransformerStack> decoder_;
  Child<Classifier> classifier_;
};

}  // namespace crosstalk
#pragma GCC visibility pop
