// The attention of every layer of a model on one row of inputs: J, L, W and U (nn/attention/types.h), with the tokens
// that their rows and columns are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/models/batch.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// What a model reads in one place: "input_ids" or "decoder_input_ids".
struct InspectedTokens {
  std::string name;
  std::vector<int32_t> ids;
  std::vector<std::string> texts;  // as Tokenizer::TokenText has them; "id 32127" of one that the tokenizer lacks
};

// One attention layer as one place of the model applied it; layers that share parameters have a map each.
struct LayerMap {
  std::string layer;                 // that place: "decoder.block_2.cross_attention"
  std::string module;                // the layer that holds the parameters
  size_t queries, memory;            // which tokens: their place in AttentionMaps::tokens
  std::vector<NamedTensor> tensors;  // those that there are of J, L, W, U [heads, n, m]
  std::vector<NamedTensor> dynamic;  // and of R_Xl, R_Xw [n, heads, heads], R_Ml, R_Mw [m, heads, heads]

  const Tensor* Find(const std::string& name) const;  // of `tensors`; null: none
};

struct AttentionMaps {
  std::vector<InspectedTokens> tokens;
  std::vector<LayerMap> layers;  // in the order in which the model computes them
};

// `inputs` are one row, as ReadText makes them. Nothing is dropped. Errors as of Model::Outputs.
AttentionMaps MapAttention(const Model& model, const Tokenizer& tokenizer, const Batch& inputs);

// The maps as named tensors, "LAYER.W" and so on, and the tokens' ids by their names.
std::vector<NamedTensor> TensorsOf(const AttentionMaps& maps);

// A matrix as a small picture, for viewers that take PNG files.

struct HeatImage {
  int64_t width = 0, height = 0;  // pixels
  std::string png;
};

// values[rows, columns]: orange below 0, white at 0, blue above, each as strong as a share of the largest |value|; grey
// if there is no number. A matrix of more than 256 rows or columns is shown by the means of blocks, a small one with
// several pixels a value.
HeatImage DrawHeatImage(const Tensor& values);

// means[⌈rows / block⌉, ⌈columns / block⌉] of blocks of block · block values (fewer at the ends), float64.
Tensor BlockMeans(const Tensor& values, int64_t block);

}  // namespace crosstalk
#pragma GCC visibility pop
