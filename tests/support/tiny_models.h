// Trainings and models that take a moment, of every model and kind of attention; ids, tokenizers and tasks for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/lm/lm.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/models/tasks/task.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {

// A training of a T5: four steps, measured at every second and saved at each.
inline ResolvedConfig TinyConfig() {
  TrainingConfig config;
  config.data.tokenizer = "bytes";
  config.model.name = "t5";
  config.model.d_model = 16;
  config.model.attention.heads = 2;
  config.model.d_ff = 24;
  config.model.layers = 1;
  config.objective.input_length = 16;
  config.optimization.batch = 4;
  config.optimization.steps = 4;
  config.run.eval_every = 2;
  config.run.eval_batches = 1;
  config.run.checkpoint_every = 1;
  config.run.keep = 1;
  return ResolvedConfig(config);
}

// The same of another model, with dropout.
inline TrainingConfig TinyConfigOf(const std::string& model) {
  TrainingConfig config = *TinyConfig();
  const TrainingConfig plain;
  for (const Field<TrainingConfig>& field : TrainingFields()) {  // the fields of TinyConfig's own model are resolved
    if (std::string(field.options.read_by.key) == "model") field.set(config, field.get(plain));
  }
  config.objective.name.reset();
  config.model.name = model;
  config.model.dropout_rate = 0.1;
  return config;
}

// An attention layer of a tiny model: all sizes distinct and odd where the kind allows it.
inline AttentionConfig TinyAttention(const std::string& kind, int64_t d_model) {
  AttentionOptions options;
  options.kind = ParseName<AttentionKind>("attention", kind);
  options.heads = 3;
  const bool of_pairs = kind == "diff-v1" || kind == "diff-v2";
  if (of_pairs || kind == "dcmha" || kind == "mta") {
    options.heads = of_pairs ? 6 : 3;
    options.key_size = 4;
    options.value_size = 5;
    if (kind == "mta") options.convolution = "3x2";
  } else if (kind != "bilinear") {
    options.key_size = 4;
    options.value_size = 5;
    if (kind != "multihead" && kind != "weights") options.key_heads = 2;
    if (kind != "multihead" && kind != "logits") options.value_heads = 5;
  }
  return MakeAttentionConfig(options, d_model);
}

// Three heads of equal sizes, and biases where there may be: a published BERT's.
inline AttentionConfig EvenAttention(const std::string& kind, int64_t d_model) {
  AttentionConfig attention =
      MakeAttentionConfig({.kind = ParseName<AttentionKind>("kind", kind), .heads = 3, .key_size = {}}, d_model);
  if (attention.form == AttentionForm::kProjected) attention.projection_biases = true;
  return attention;
}

inline ModelConfig TinyT5(const std::string& kind, FeedForwardKind feed_forward = FeedForwardKind::kGatedGelu,
                          ClassifierKind classifier = ClassifierKind::kTied, double dropout_rate = 0.0) {
  ModelConfig config = BaseT5();
  config.vocabulary = 40;
  config.d_model = 10;
  config.d_ff = 13;
  config.layers = 2;
  config.decoder_layers = 2;
  config.feed_forward = feed_forward;
  config.classifier = classifier;
  config.dropout_rate = dropout_rate;
  config.SetAttention(TinyAttention(kind, config.d_model));
  return config;
}

inline ModelConfig TinyLm(const std::string& kind, int64_t vocabulary = 40, int64_t context = 32,
                          PositionScheme positions = PositionScheme::kRelativeBias) {
  ModelConfig config;
  config.vocabulary = vocabulary;
  config.d_model = 10;
  config.d_ff = 13;
  config.layers = 2;
  config.context = context;
  config.SetAttention(TinyAttention(kind, config.d_model));
  config.positions = positions;
  config.relative_buckets = 8;
  config.relative_attention_max_distance = 9;
  return config;
}

inline ModelConfig TinyBert(const std::string& kind = "multihead",
                            const EncoderHeads& heads = {.pooler = true, .sentence = true, .masked_lm = true},
                            int64_t d_model = 12) {
  ModelConfig config = BaseBert();
  config.vocabulary = 37;
  config.d_model = d_model;
  config.d_ff = 20;
  config.layers = 2;
  config.SetAttention(EvenAttention(kind, d_model));
  config.max_positions = 64;
  config.heads = heads;
  config.initial_stddev = 0.3;
  return config;
}

// All of its layers share their parameters.
inline ModelConfig TinyAlbert(const std::string& kind = "multihead",
                              const EncoderHeads& heads = {.pooler = true, .sentence = true, .masked_lm = true}) {
  ModelConfig config = TinyBert(kind, heads);
  config.name = "albert";
  config.feed_forward = FeedForwardKind::kGeluTanh;
  config.embedding_size = 7;
  config.layers = 3;
  config.layer_groups = 1;
  return config;
}

// With a tokenizer's vocabulary and special tokens.
inline ModelConfig For(const Tokenizer& tokenizer, ModelConfig config) {
  config.vocabulary = tokenizer.vocab_size();
  config.tokens = tokenizer.special_tokens();
  return config;
}

// The ids of TinyT5 and TinyLm, as T5 has them.
inline constexpr int32_t kPadId = SpecialTokens().pad;
inline constexpr int32_t kEosId = SpecialTokens().end;

// Random ids in [2, vocabulary), with row r ending r·`step` positions early: kEosId, then padding.
inline Tensor TinyIds(int64_t rows, int64_t length, int64_t vocabulary, uint32_t stream, int64_t step = 2) {
  Tensor ids = Tensor::Full({rows, length}, kPadId, DType::kInt32);
  const RandomKey key = {.seed = 99, .stream = stream};
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t end = length - 1 - row * step;
    for (int64_t i = 0; i <= end; ++i) {
      const uint64_t draw =
          UniformInt(key, static_cast<uint64_t>(row * length + i), static_cast<uint64_t>(vocabulary - 2));
      ids.data<int32_t>()[row * length + i] = i == end ? kEosId : static_cast<int32_t>(draw) + 2;
    }
  }
  return ids;
}

// An encoder's tokenizer: byte b is b + 3, [CLS] 259, [SEP] 260, pad 0.
inline std::shared_ptr<const Tokenizer> EncoderBytes() { return MakeByteTokenizer(0, MaskTokens::kYes); }

// A task of a form, without files.
inline TaskType TaskOfForm(TaskForm form, std::vector<const char*> labels = {}) {
  TaskType type = {};
  type.name = "test";
  type.form = form;
  type.labels = std::move(labels);
  return type;
}

}  // namespace crosstalk
