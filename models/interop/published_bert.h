// BERT as its publishers' framework has it, and what ALBERT's form shares with it.
#pragma once

#include <cstdint>

#include "crosstalk/models/bert/config.h"
#include "crosstalk/models/interop/published_form.h"

namespace crosstalk {

class PublishedConfig;

extern const PublishedForm kPublishedBert;

// Where the published names of the two differ, beside their tables.
struct PublishedBertNames {
  const char* prefix;       // "bert."
  const char* class_names;  // "Bert": of architectures, before ForPreTraining
  const char* query;        // weight of the first layer
  const char* intermediate;
  const char* embedding;
  const char* decoder;  // the embedding's other name where it is tied
  const char* masked_lm;
  const char* sentence;
  const char* pooler;
};

// Common fields of their configurations; d_model, d_ff, layers and heads by the defaults that `model` comes with.
void ReadPublishedBert(const PublishedConfig& config, const PublishedBertNames& names, int64_t attention_heads,
                       double dropout, const char* activation, BertConfig* model);
Json WritePublishedBert(const BertConfig& model, const PublishedBertNames& names);
void DescribePublishedBert(const ModelConfig& model, TrainingConfig& config);

}  // namespace crosstalk
