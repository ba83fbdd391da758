// ModelOptions: what a user says of a model, whichever it is, and its table of fields. A model's own configuration
// (model_config.h) follows from it and from what the model is for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Where the logits' factor 1/sqrt(d_k) is: in P_q's initial values, or applied to J.
enum class AttentionScale { kFolded, kExplicit };
template <>
struct EnumNames<AttentionScale> {
  static constexpr EnumName<AttentionScale> kTable[] = {{AttentionScale::kFolded, "folded"},
                                                        {AttentionScale::kExplicit, "explicit"}};
};

// The fields' rows say what they mean.
struct ModelOptions {
  std::string name = "lm";
  AttentionOptions attention = {.heads = 8};
  std::optional<AttentionKind> encoder_self_kind;
  std::optional<AttentionKind> decoder_self_kind;
  std::optional<AttentionKind> encoder_decoder_kind;
  MixingInit mixing_init = MixingInit::kRandom;
  std::optional<AttentionScale> attention_scale;
  KeyValueProjection keys_values = KeyValueProjection::kSeparate;
  AttentionImplementation implementation = AttentionImplementation::kFused;
  int64_t d_model = 128;
  int64_t d_ff = 512;
  int64_t layers = 2;
  std::optional<int64_t> decoder_layers;
  std::optional<FeedForwardKind> feed_forward;
  ClassifierKind classifier = ClassifierKind::kTied;
  PositionScheme positions = PositionScheme::kRelativeBias;
  Rotary rotary = Rotary::kHalves;  // of PositionScheme::kRotary
  double rotary_base = 10'000;
  std::vector<AttentionKind> layer_kinds;
  std::optional<int64_t> max_positions;
  std::optional<int64_t> embedding_size;
  std::optional<int64_t> layer_groups;
  std::optional<int64_t> inner_layers;
  std::optional<double> initial_stddev;
  int64_t relative_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  double dropout = 0;
};

// The models that there are, and which of them read which field, are added where they are known (TrainingFields()).
const FieldTable<ModelOptions>& ModelFields();
// The fields of an attention layer, which other commands take too.
const FieldTable<AttentionOptions>& AttentionFields();

// A tokenizer's properties for a model.
struct Vocabulary {
  int64_t size = 0;  // ids, sentinels counted
  SpecialTokens tokens;
};

// The head on an encoder's output.
struct EncoderHeads {
  bool pooler = false;    // tanh of a dense layer over the first position: what the next three read
  bool sentence = false;  // next sentence (BERT), sentence order (ALBERT): two classes
  int64_t classes = 0;    // of a classification; 1: regression; 0: none
  bool multiple_choice = false;
  bool masked_lm = false;  // what stood at each position
  bool span = false;       // where an answer begins and ends
};

// Settings of a model besides its options.
struct ModelPurpose {
  Vocabulary vocabulary;
  int64_t input_length = 0;  // tokens of an example's input
  EncoderHeads heads;        // that its objective trains
};

// An attention layer of a model: the options' one, except the kind where a place has its own. Error(kUsage) of the
// field at fault.
AttentionConfig MakeAttentionLayer(const ModelOptions& options, std::optional<AttentionKind> kind = std::nullopt);
// Those of so many layers by their layer_kinds, in turn and again from the first; none where all are of one kind.
std::vector<AttentionConfig> MakeAttentionLayers(const ModelOptions& options, int64_t layers);

}  // namespace crosstalk
