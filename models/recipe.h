// Recipe: how a model's publishers train it, which is the default of what a training configuration leaves open.
#pragma once

#include <optional>

#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

enum class OptimizerKind { kAdafactor, kAdamW, kLamb };
// The units that masked language modelling hides: tokens one by one (BERT), or runs of 1 to 3 whole words (ALBERT).
enum class Masking { kTokens, kNgrams };
// The question about a row's two segments A and B. The label is 1 where B is from elsewhere (next sentence), or where
// the two have changed places (sentence order).
enum class SentenceTask { kNone, kNextSentence, kSentenceOrder };

template <>
struct EnumNames<OptimizerKind> {
  static constexpr EnumName<OptimizerKind> kTable[] = {
      {OptimizerKind::kAdafactor, "adafactor"}, {OptimizerKind::kAdamW, "adamw"}, {OptimizerKind::kLamb, "lamb"}};
};
template <>
struct EnumNames<Masking> {
  static constexpr EnumName<Masking> kTable[] = {{Masking::kTokens, "tokens"}, {Masking::kNgrams, "ngrams"}};
};
template <>
struct EnumNames<SentenceTask> {
  static constexpr EnumName<SentenceTask> kTable[] = {{SentenceTask::kNone, "none"},
                                                      {SentenceTask::kNextSentence, "next-sentence"},
                                                      {SentenceTask::kSentenceOrder, "sentence-order"}};
};

struct Recipe {
  OptimizerKind optimizer = OptimizerKind::kAdafactor;
  std::optional<kernels::AdamWOptions::BiasCorrection> bias_correction =
      {};  // of an optimizer that has it; none: its own
  double clip = 0;
  double z_loss = 1e-4;
  // Of masked language modelling.
  std::optional<Masking> masking = {};
  std::optional<SentenceTask> sentence_task = {};
};

}  // namespace crosstalk
