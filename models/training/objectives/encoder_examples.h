// A task's labelled rows as examples for an encoder with a head. Batches of b examples, padded to n = input_length, or
// where they are finished to the longest of them:
//   inputs, segments int32[b, n]; of a multiple choice [b, c, n], and choice_counts int32[b]
//   labels int32[b]  the class, or the choice
//   scores float[b]  of a regression
//   start_positions, end_positions int32[b]  of a span: the places of its first and last token in the row
// Each window over a passage is an example of its own. Where it does not hold all of the answer, or there is none, both
// positions are that of [CLS], 0. Of several answers the first that stands in the passage is learnt.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "crosstalk/models/tasks/encoder_rows.h"
#include "crosstalk/models/tasks/task.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/op_context.h"

#pragma GCC visibility push(default)
namespace crosstalk {

struct EncoderBatchShape {
  TaskForm form = TaskForm::kClassification;
  int64_t input_length = 0;
  int64_t choices = 1;  // the most of a row
};
// Rows of padding.
Batch EmptyEncoderBatch(const EncoderBatchShape& shape, int32_t pad, int64_t rows);

// Each distinct text is tokenised once, when the source is made, and kept as ids: 4 bytes a token (RACE's 28,000
// articles take 40 MB). One pass has each example once: as the rows stand, or in an order by (seed, pass). Write may be
// given a batch of more choices than the task has. Error(kData) that begins with the row's source for one that is not
// labelled, or whose label or answer cannot be; Error(kUsage) of the field "tokenizer" or "input_length"; Interrupted
// where `stop` says so.
std::unique_ptr<ExampleSource> MakeEncoderExamples(const TaskType& type,
                                                   std::shared_ptr<const std::vector<TaskRow>> rows,
                                                   std::shared_ptr<const Tokenizer> tokenizer,
                                                   const EncoderTaskOptions& options, uint64_t seed,
                                                   TextSource::Order order = TextSource::Order::kShuffled,
                                                   const StopRequest& stop = {});

}  // namespace crosstalk
#pragma GCC visibility pop
