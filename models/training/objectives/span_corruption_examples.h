// Span corruption as an objective: a chunk of raw tokens becomes the row `inputs` int32[b, n], in which sentinels
// replace hidden spans, and the row `targets` int32[b, m], which spells them out. n and m follow from input_length.
#pragma once

#include <memory>
#include <string>

#include "crosstalk/models/training/objectives/objective.h"

namespace crosstalk {

std::string DescribeSpanCorruption(const ObjectiveConfig& config);
Batch EmptySpanCorruptionBatch(const ObjectiveConfig& config, const SpecialTokens& tokens, int64_t rows);
std::unique_ptr<ExampleSource> MakeSpanCorruptionExamples(const ObjectiveConfig& config, ExampleInputs inputs);

}  // namespace crosstalk
