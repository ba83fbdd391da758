// Tasks by a head upon an encoder: classification, regression, multiple choice and spans
// (models/training/objectives/encoder_examples.h has the batches, models/training/objectives/encoder_answers.h the
// answers).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/training/objectives/objective.h"

namespace crosstalk {

std::string DescribeTaskHead(const ObjectiveConfig& config);
Batch EmptyTaskHeadBatch(const ObjectiveConfig& config, const SpecialTokens& tokens, int64_t rows);
EncoderHeads HeadsOfTaskHead(const ObjectiveConfig& config);
std::unique_ptr<ExampleSource> MakeTaskHeadExamples(const ObjectiveConfig& config, ExampleInputs inputs);

std::vector<TaskPrediction> AnswerByHead(const ObjectiveConfig& config, const Model& model, const Tokenizer& tokenizer,
                                         const TaskType& task, const std::vector<TaskRow>& rows,
                                         const Observer& observer);

}  // namespace crosstalk
