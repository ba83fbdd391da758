// Decoder: what a search (search.h) needs of a model, whichever it is: logits of the next token for each row of a
// batch, a step at a time, with cached keys and values.
#pragma once

#include <cstdint>
#include <vector>

#include "crosstalk/models/model_config.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/runtime/tensor.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

struct DecoderOptions {
  CachedMixings mixings = CachedMixings::kOfEachPosition;
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  // The model's. Its ends (ModelConfig::EndsText) end what is written; its padding is never written.
  virtual const ModelConfig& config() const = 0;
  // The length ≥ n that inputs of n tokens are padded to, and may be computed together with: of n alone, so that
  // nothing of an answer depends on what else is there.
  virtual int64_t PaddedLength(int64_t n) const = 0;

  // Begins again: inputs int32[b, n], mask bool[b, n] (true = read) → logits[b, vocabulary] of each row's first token.
  virtual Tensor Start(const Tensor& inputs, const Tensor& mask) = 0;
  // The tokens int32[rows] that were written last → logits[rows, vocabulary] of the next. Under
  // SumOrder::kBatchInvariant a row's bits depend on nothing of the other rows but how many its input has.
  virtual Tensor Step(const Tensor& tokens) = 0;
  // Row i goes on from what row rows[i] has written. The rows of an input stand together, equally many of each.
  virtual void SelectBeams(const std::vector<int64_t>& rows) = 0;
  // Keeps those of the inputs, in that order, with all of their rows.
  virtual void SelectInputs(const std::vector<int64_t>& inputs) = 0;
};

}  // namespace crosstalk
