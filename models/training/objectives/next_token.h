// The objective of language models: of a chunk of n + 1 tokens the rows `inputs` int32[b, n], all but the last, and
// `targets` int32[b, n], all but the first. n is input_length.
#pragma once

#include <memory>
#include <string>

#include "crosstalk/models/training/objectives/objective.h"

namespace crosstalk {

std::string DescribeNextToken(const ObjectiveConfig& config);
Batch EmptyNextTokenBatch(const ObjectiveConfig& config, const SpecialTokens& tokens, int64_t rows);
std::unique_ptr<ExampleSource> MakeNextTokenExamples(const ObjectiveConfig& config, ExampleInputs inputs);

}  // namespace crosstalk
