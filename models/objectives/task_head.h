// Tasks by a head upon an encoder: classification, regression, multiple choice and spans
// (models/objectives/encoder_examples.h has the batches, models/objectives/encoder_answers.h the answers).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/objectives/objective.h"

namespace crosstalk {

std::string DescribeTaskHead(const TrainingConfig& config);
Batch EmptyTaskHeadBatch(const TrainingConfig& config, const SpecialTokens& tokens, int64_t rows);
std::unique_ptr<ExampleSource> MakeTaskHeadExamples(const TrainingConfig& config, ExampleInputs inputs);

std::vector<TaskPrediction> AnswerByHead(const TrainingConfig& config, const Model& model, const Tokenizer& tokenizer,
                                         const TaskType& task, const std::vector<TaskRow>& rows,
                                         const AnsweringObserver& observer);

}  // namespace crosstalk
