// A layer of attention as Mesh TensorFlow has it: its class and tensors, and what its configuration says of it.
#pragma once

#include <cstdint>
#include <string>

#include "crosstalk/models/interop/names.h"
#include "crosstalk/models/interop/published_config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/shape.h"

namespace crosstalk {

// A layer of a T5's blocks.
struct MeshPlace {
  const char* stack;  // "encoder"
  const char* layer;  // of a block: "000"
  const char* base;   // its class without talking heads: "SelfAttention"
};
inline constexpr MeshPlace kMeshEncoderSelf = {"encoder", "000", "SelfAttention"};
inline constexpr MeshPlace kMeshDecoderSelf = {"decoder", "000", "SelfAttention"};
inline constexpr MeshPlace kMeshEncoderDecoder = {"decoder", "001", "EncDecAttention"};

// "encoder/block_007/"
std::string BlockPrefix(const std::string& stack, int64_t block);

// The value that is bound to a selector within a stack, by STACK/SELECTOR or else by SELECTOR; null: none, or None.
struct MeshBinding {
  std::string key;
  const Json* value;
};
MeshBinding FindBinding(const PublishedConfig& config, const std::string& stack, const std::string& selector);

// The shape of a tensor that must exist, of that rank, without a dimension of 0. Error(kData) that names it.
const Shape& RequiredShape(const PublishedConfig& config, const std::string& tensor, int rank);
// [h, buckets], of a stack's self-attention.
const Shape& RelativeBiasShape(const PublishedConfig& config, const std::string& stack);

// The layer that the first block's tensors are, d_X = d_M = d_Y = d_model. Error(kData) that names the tensor or the
// binding at fault; of the field "dynamic" where nothing says which one a single dynamic projection is.
AttentionConfig ReadMeshAttention(const PublishedConfig& config, const MeshPlace& place, int64_t d_model);

// The layer's class: SelfAttention where it mixes no heads and keys are as large as values, else TalkingHeads….
std::string MeshAttentionClass(const AttentionConfig& layer, const MeshPlace& place);
// Whether a row of a table, of this layer's parameters, has the name that this layer gives it.
bool HasMeshAttentionRow(const PublishedRow& row, const AttentionConfig& layer);
// Adds the bindings that say what the layer is. `buckets`: of its relative bias; 0: it has none.
void AddMeshAttention(const AttentionConfig& layer, const MeshPlace& place, int64_t buckets, Json* bindings);

}  // namespace crosstalk
