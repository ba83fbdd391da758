// Tasks by a head upon an encoder: classification, regression, multiple choice and spans. The objective, and a trained
// model's answers; encoder_examples.h has the batches.
#pragma once

#include <vector>

#include "crosstalk/models/model.h"
#include "crosstalk/models/tasks/encoder_rows.h"
#include "crosstalk/models/tasks/task.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/op_context.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Answers of a BERT or an ALBERT with a task's head to the task's rows.

// A prediction for each row, in their order; labels are not read. Of equal logits the lowest class or choice has it.
//   classification  the label's name
//   regression      the logit, with the fewest digits that read back as it
//   choices         TaskRow::Choice::answer
//   spans           the best valid span (encoder_rows.h) in the passage's own characters, "" if that has no tokens;
//                   and in no_answer how probable it is that there is none against that span, by the logits of both:
//                   1 / (1 + e^(best - none)), none = [CLS]'s start + end, the least of all windows
// The bits of an answer depend on its row alone, not on the other rows, nor on the number of threads. Error(kUsage) for
// a model without the head, or of other classes; of the field "tokenizer" or "input_length"; Error(kNumerical) where a
// logit is not finite; Interrupted where observer.stop says so.
std::vector<TaskPrediction> AnswerWithHead(const Model& model, const Tokenizer& tokenizer, const TaskType& type,
                                           const std::vector<TaskRow>& rows, const EncoderTaskOptions& options,
                                           const Observer& observer = {});

// SQuAD 2.0: the threshold with which no answer and the best span are taken for equally good, as in BERT's code, whose
// difference of logits is 0 then.
inline constexpr double kEvenNoAnswer = 0.5;
// Empties the answers whose no_answer is above the threshold.
void EmptyAnswersAbove(double threshold, std::vector<TaskPrediction>* predictions);
// The threshold with which predictions that have all of their answers score the best F1 on these rows: a dev set's.
// Error(kUsage) for a task whose score has no "best_f1_thresh".
double BestNoAnswerThreshold(const TaskType& type, const std::vector<TaskRow>& rows,
                             const std::vector<TaskPrediction>& predictions);

}  // namespace crosstalk
#pragma GCC visibility pop
