// Masked language modelling as an objective. A row is "[CLS] A [SEP] B [SEP]", or without a sentence task
// "[CLS] A [SEP]", in which tokens of the segments A and B are hidden:
//   inputs            int32[b, n]  n = input_length; padded
//   segments          int32[b, n]  0 up to the first [SEP], 1 from there to the last; 0 at padding
//   masked_positions  int32[b, p]  ascending; 0 after the last
//   masked_targets    int32[b, p]  the tokens that were there; padding after the last
//   sentence_labels   int32[b]     with a sentence task: 0, or 1 where B is from elsewhere or the two are swapped
// p is the most tokens that are hidden in a row, MostMasked(config).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "crosstalk/models/training/objectives/objective.h"

namespace crosstalk {

// The field most_masked, or where none is given ⌈noise_density · input_length⌉.
int64_t MostMasked(const ObjectiveConfig& config);

std::string DescribeMaskedLm(const ObjectiveConfig& config);
Batch EmptyMaskedLmBatch(const ObjectiveConfig& config, const SpecialTokens& tokens, int64_t rows);
EncoderHeads HeadsOfMaskedLm(const ObjectiveConfig& config);
std::unique_ptr<ExampleSource> MakeMaskedLmExamples(const ObjectiveConfig& config, ExampleInputs inputs);

}  // namespace crosstalk
