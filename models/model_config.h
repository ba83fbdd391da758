// ModelConfig: what a model is built from, except its parameters' values. One struct for all models: each reads the
// members that are its own (registry.h) and those that all have.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/nn/attention/bias.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "crosstalk/runtime/visibility.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Where the logits' factor 1/sqrt(d_k) is: in P_q's initial values, or applied to J.
enum class AttentionScale { kFolded, kExplicit };
template <>
struct EnumNames<AttentionScale> {
  static constexpr EnumName<AttentionScale> kTable[] = {{AttentionScale::kFolded, "folded"},
                                                        {AttentionScale::kExplicit, "explicit"}};
};

// Which projections of attention have biases.
enum class ProjectionBiases { kNone, kQueryKeyValue, kAll };
template <>
struct EnumNames<ProjectionBiases> {
  static constexpr EnumName<ProjectionBiases> kTable[] = {
      {ProjectionBiases::kNone, "none"}, {ProjectionBiases::kQueryKeyValue, "qkv"}, {ProjectionBiases::kAll, "all"}};
};

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

  static std::vector<std::pair<std::string, bool EncoderHeads::*>> Names();
  bool operator==(const EncoderHeads&) const = default;
};

class Model;

struct ModelConfig {
  // What a user says of it (ModelFields(), whose rows say what they mean): none where the default is the model's own or
  // follows from other members, until Resolve() of the registry.
  std::string name = "lm";  // of its model in the registry
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
  ProjectionBiases projection_biases = ProjectionBiases::kNone;  // lm
  bool feed_forward_biases = false;                              // lm
  NormKind norm = NormKind::kRms;                                // lm
  std::vector<AttentionKind> layer_kinds;
  std::optional<int64_t> max_positions;
  std::optional<int64_t> embedding_size;
  std::optional<int64_t> layer_groups;
  std::optional<int64_t> inner_layers;
  std::optional<double> initial_stddev;
  int64_t relative_buckets = 32;
  int64_t relative_attention_max_distance = 128;  // where the last bucket's range would end
  double dropout_rate = 0.0;  // of embeddings, layers, final outputs and attention; 0 in pretraining, 0.1 in finetuning

  // What its tokenizer, its objective or its publisher decides.
  int64_t vocabulary = 0;  // ids are 0 … vocabulary - 1
  SpecialTokens tokens;
  std::vector<int32_t> more_ends;  // ids that end a text beside tokens.end, as a published model may have them
  int64_t context = 0;             // lm: positions it is trained on, and writes with
  bool ends_texts = false;         // lm: it has learned to write tokens.end
  bool answers = false;            // lm: it has learned to answer a text, after the tokenizer's end
  bool learns_padding = true;      // lm: looked up, the padding's row of the embedding has a gradient
  EncoderHeads heads;              // bert, albert
  int64_t segments = 2;            // bert, albert: kinds of segments: sentence A, sentence B
  // bert: above 0, as in RoBERTa, the row of the learned positions that the first token which is no padding has;
  // padding has the row before it.
  int64_t first_position = 0;
  double norm_epsilon = 1e-6;
  LogitScale logit_scale = LogitScale::kIfTied;  // t5, lm
  BiasTables bias_tables = BiasTables::kOne;     // t5

  // The layers of attention that follow: of the encoder and of the decoder, if there are these, and between them,
  // with queries from the decoder; and in the lists of each block its own, where they differ.
  AttentionConfig encoder_self, decoder_self, encoder_decoder;
  std::vector<AttentionConfig> encoder_self_layers, decoder_self_layers, encoder_decoder_layers;

  // The next three are those of its model in the registry.
  // As files have it: {"model": "t5", …}.
  Json ToJson() const;
  // Throws a usage error that names the field at fault.
  void Validate() const;
  std::unique_ptr<Model> Make(const Initializer& init) const;

  // All layers of attention, also those that the model does not read.
  std::vector<AttentionConfig*> AttentionLayers();
  void SetImplementation(AttentionImplementation implementation);
  // dropout_rate, and that of the layers of attention with it.
  void SetDropout(double rate);
  // The three layers at once, the same in all blocks. Sets the causality of decoder_self, which the arguments need not
  // do, and the dropout of all three to dropout_rate.
  void SetAttention(const AttentionConfig& encoder_self_layer, const AttentionConfig& decoder_self_layer,
                    const AttentionConfig& encoder_decoder_layer);
  void SetAttention(const AttentionConfig& layer) { SetAttention(layer, layer, layer); }

  bool is_albert() const { return name == "albert"; }
  int64_t embedding_width() const { return embedding_size.value_or(d_model); }
  int64_t num_decoder_layers() const { return decoder_layers.value_or(layers); }
  // The most tokens of a text that is read whole; none: any number.
  std::optional<int64_t> longest_text() const {
    if (name == "lm") return context;
    return max_positions ? std::optional(*max_positions - first_position) : std::nullopt;
  }
  // `length` tokens, or as many as an encoder has learned positions for, if those are fewer.
  int64_t WithinPositions(int64_t length) const {
    return max_positions ? std::min(length, *max_positions - first_position) : length;
  }
  // Blocks of an encoder that has parameters of its own for each.
  int64_t num_blocks() const { return layer_groups.value_or(layers) * inner_layers.value_or(1); }
  bool EndsText(int32_t id) const {
    return id == tokens.end || std::find(more_ends.begin(), more_ends.end(), id) != more_ends.end();
  }
  RelativeBiasConfig relative_bias() const {
    return {.buckets = relative_buckets, .max_distance = relative_attention_max_distance};
  }
  FeedForwardKind activation() const { return feed_forward.value_or(FeedForwardKind::kRelu); }
  double stddev() const { return initial_stddev.value_or(0.02); }  // of an encoder's weights, truncated normal
  // A pre-norm stack with RMS norms, as T5's are; BERT's differs in more.
  TransformerConfig PreNormStack(int64_t layers, const AttentionConfig& self_attention) const;
  // Validate()'s part of the members that all models read. The tokens that are `needed` must be there.
  void Check(std::initializer_list<int32_t SpecialTokens::*> needed) const;
};

// The configuration, which must be valid: for a model that keeps it.
CROSSTALK_LOCAL inline const ModelConfig& Validated(const ModelConfig& config) {
  config.Validate();
  return config;
}

// What a user says of a model, its name first. Which models there are, and which of them read which field, is added
// where they are known (TrainingFields()).
const FieldTable<ModelConfig>& ModelFields();
// The fields of an attention layer, which other commands take too.
const FieldTable<AttentionOptions>& AttentionFields();

// A layer of attention as the options say, except the kind where a place has its own. Error(kUsage) of the field at
// fault.
AttentionConfig MakeAttentionLayer(const ModelConfig& config, std::optional<AttentionKind> kind = std::nullopt);
// Such a layer as a decoder's self-attention, with the window that the options give.
void MakeCausal(const ModelConfig& config, AttentionConfig& layer);
// Those of so many layers by their layer_kinds, in turn and again from the first; none where all are of one kind.
std::vector<AttentionConfig> MakeAttentionLayers(const ModelConfig& config, int64_t layers);

// The rows that every model's file ends with.
const FieldTable<ModelConfig>& ModelConfigFields();

// A number of layers: Error(kUsage) of the field `name`.
void CheckLayers(const char* name, int64_t layers);

// A row of a model's file that is never null there: `open`, which is read as nothing, where nothing is said.
Field<ModelConfig> NeverNull(Field<ModelConfig> row, Json open = {});

}  // namespace crosstalk
#pragma GCC visibility pop
