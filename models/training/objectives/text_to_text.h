// Tasks as text (Raffel et al. 2019): the model reads a row's input and writes its answer. Several tasks are mixed in
// proportion to their rows, each counted up to a cap. A batch of b rows:
//   inputs   int32[b, n]  the input and the end token, cut to n ≤ input_length; padded
//   targets  int32[b, m]  the first target and the end token, cut to m ≤ target_length; padded
// n and m are the longest that the batch has.
#pragma once

#include <vector>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/training/objectives/objective.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The model's greedy answer to each row, as TaskType::answer_of_text reads it. Another decoder than the default
// is for measuring the published cache of dynamic projections (decoding/search.h).
std::vector<TaskPrediction> AnswerInText(const ObjectiveConfig& config, const Model& model, const Tokenizer& tokenizer,
                                         const TaskType& task, const std::vector<TaskRow>& rows,
                                         const DecoderOptions& decoder, const Observer& observer);

}  // namespace crosstalk
#pragma GCC visibility pop
