// Tasks as text (Raffel et al. 2019): the model reads a row's input and writes its answer. Several tasks are mixed in
// proportion to their rows, each counted up to a cap. Of each row
//   prompt   what the tokenizer puts before a text, the input and the end token; input_length tokens at most
//   answer   the first target and the end token; target_length at most
// The ends of longer texts are cut off. A batch of b rows, as long as its longest ones need:
//   text-to-text, an encoder and a decoder
//     inputs   int32[b, n]  the prompt; padded
//     targets  int32[b, m]  the answer; padded
//   prompt-completion, a decoder alone
//     inputs   int32[b, n]  the prompt and the answer without its end token; padded
//     targets  int32[b, m]  the answer; then kNoToken, which is no target
//     target_positions int32[b, m]  the place of the input before each: from the prompt's last one on; then 0
#pragma once

#include <vector>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/training/objectives/objective.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The model's greedy answer to each row's prompt, as TaskType::answer_of_text reads it. Another decoder than the
// default is for measuring the published cache of dynamic projections (decoding/search.h).
std::vector<TaskPrediction> AnswerInText(const ObjectiveConfig& config, const Model& model, const Tokenizer& tokenizer,
                                         const TaskType& task, const std::vector<TaskRow>& rows,
                                         const DecoderOptions& decoder, const Observer& observer);

// Rows to train on whose prompt is cut: of the first of each task, `most` at most.
struct CutPrompts {
  int64_t cut = 0, rows = 0;
};
CutPrompts CountCutPrompts(const ObjectiveConfig& config, const TaskSet& tasks, const Tokenizer& tokenizer,
                           int64_t most);

}  // namespace crosstalk
#pragma GCC visibility pop
