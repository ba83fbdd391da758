// T5: the encoder-decoder of Raffel et al. (2019), with any member of the attention family in each of its three places.
//
//   T5 model(config, seed);
//   LossResult loss = model.Loss(inputs, targets, {.z_loss = 1e-4}, {.phase = ForwardContext::Phase::kTraining, …});
//   Backward(Scale(loss.sum, 1.0 / loss.sums[0].count));
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
#include "crosstalk/runtime/visibility.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The base size as published, except the layers of attention: SetAttention makes these. Of the tokens pad, end and
// decoder_start are used.
ModelConfig BaseT5();

// Its rows of the registry.
void ResolveT5(ModelConfig& config, int64_t input_length);
void MakeT5Layers(ModelConfig& config);
// A decoder asks the encoder's output with one query at a time: what convolves there does so over keys alone.
CROSSTALK_LOCAL void OverKeysAlone(AttentionConfig& layer);
void ValidateT5(const ModelConfig& config);
const FieldTable<ModelConfig>& T5Fields();

// targets int32[b, m] → decoder inputs int32[b, m]: `start`, then the targets but the last.
Tensor ShiftRight(const Tensor& targets, int32_t start);

// Which positions may be attended to, bool, true = attend. Only what is not padding at the end of its row needs one.
struct T5Masks {
  Tensor inputs;   // [b, n], of the encoder and of the decoder's memory; undefined: all that are not padding
  Tensor targets;  // [b, m], of the decoder's own positions, beside causality; undefined: all
};

// Loss reads the batch's `inputs` and `targets`, and its `input_mask` and `target_mask` if it has them. The measure
// is ln_ppl: mean -ln p of the targets.
//
// Outputs reads input_ids, attention_mask [b, n]; decoder_input_ids, decoder_attention_mask, labels [b, m]. Without
// decoder_input_ids they are the labels, shifted right. Of an encoder alone it reads the first two and gives its
// output; all that needs a decoder is a usage error.
class T5 : public Model {
 public:
  // Initial values are a function of (seed, dotted path).
  T5(const ModelConfig& config, uint64_t seed, DType dtype = DType::kFloat32) : T5(config, Initializer(seed, dtype)) {}
  T5(const ModelConfig& config, const Initializer& init);

  const ModelConfig& config() const override { return config_; }

  std::string Describe() const override;
  std::vector<AttentionPlace> AttentionPlaces() const override;
  void SetActivations(Activations activations) override;

  // inputs int32[b, n], mask bool[b, n] (undefined: NotPadding) → the encoder's output [b, n, d_model].
  Variable Encode(const Tensor& inputs, const ForwardContext& context, const Tensor& mask = {},
                  TransformerRecord* record = nullptr) const;
  // encoded[b, n, d_model], memory_mask bool[b, n], decoder_inputs int32[b, m], mask bool[b, m] (undefined: all) → the
  // decoder's output hidden[b, m, d_model].
  Variable Decode(const Variable& encoded, const Tensor& memory_mask, const Tensor& decoder_inputs,
                  const ForwardContext& context, const Tensor& mask = {}, TransformerRecord* record = nullptr) const;
  // hidden[b, m, d_model] → logits[b, m, vocabulary].
  Variable Logits(const Variable& hidden) const;

  using Model::Loss;
  // inputs int32[b, n], targets int32[b, m] (padding adds nothing) → the loss, with z-loss in training, and ln_ppl.
  LossResult Loss(const Tensor& inputs, const Tensor& targets, const LossOptions& options,
                  const ForwardContext& context, const T5Masks& masks = {}) const;

  Variable ReadStates(const Tensor& ids, const Tensor& mask) const override {
    return Encode(ids, ForwardContext(), mask);
  }
  Batch TextInputs(const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text) const override;
  // Fills the blanks of the prompt.
  std::unique_ptr<TextWriter> MakeWriter(std::shared_ptr<const Tokenizer> tokenizer) const override;

  // Decoding, off the tape. Start from the inputs int32[b, n] and their mask; then give each step the tokens int32[b]
  // written last (decoder_start first) and get logits[b, vocabulary] for the next. Equal to the full pass over
  // the same tokens. After TransformerCache::SelectBeams there are as many rows as that says.
  TransformerCache StartDecoding(const Tensor& inputs, const Tensor& mask = {}) const;
  Tensor DecodeStep(const Tensor& tokens, TransformerCache& cache) const;
  std::unique_ptr<Decoder> MakeDecoder(const DecoderOptions& options) const override;

 private:
  LossResult ComputeLoss(const Batch& batch, const LossOptions& options, const ForwardContext& context) const override;
  std::vector<NamedVariable> ComputeOutputs(const Batch& inputs, OutputDetail detail,
                                            const ForwardContext& context) const override;

  bool has_decoder() const { return config_.num_decoder_layers() > 0; }
  void RequireDecoder() const;
  // The mask given, or that of padding.
  Tensor InputMask(const Tensor& inputs, const Tensor& mask) const;

  ModelConfig config_;
  Child<EmbeddingLayer> embedding_;
  Child<TransformerStack> encoder_;
  Child<TransformerStack> decoder_;  // none of an encoder alone, and neither is the next
  Child<Classifier> classifier_;
};

}  // namespace crosstalk
#pragma GCC visibility pop
