#include "crosstalk/models/objectives/task_head.h"

#include <utility>

#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/objectives/encoder_answers.h"
#include "crosstalk/models/objectives/encoder_examples.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

EncoderTaskOptions TaskOptionsOf(const TrainingConfig& config) {
  return {.input_length = config.input_length,
          .window_stride = config.window_stride,
          .query_length = config.query_length,
          .answer_length = config.answer_length};
}

// Of rows that are not known yet: as many as RACE and COPA have at most.
constexpr int64_t kUsualChoices = 4;

}  // namespace

std::string DescribeTaskHead(const TrainingConfig& config) {
  return StrCat("up to ", config.input_length, " tokens of ", config.task);
}

Batch EmptyTaskHeadBatch(const TrainingConfig& config, const SpecialTokens& tokens, int64_t rows) {
  const TaskType& task = TaskOfHead(ParseTasks(config.task));
  const int64_t choices = task.form == TaskForm::kMultipleChoice ? kUsualChoices : 1;
  return EmptyEncoderBatch({.form = task.form, .input_length = config.input_length, .choices = choices}, tokens.pad,
                           rows);
}

std::unique_ptr<ExampleSource> MakeTaskHeadExamples(const TrainingConfig& config, ExampleInputs inputs) {
  const std::vector<TaskSet::Part> parts = inputs.tasks->TrainingParts();
  CROSSTALK_CHECK_FIELD(parts.size() == 1, "task",
                        parts.empty() ? "has nothing to train on"
                                      : "names tasks with files of their own to train on; an encoder learns one");
  return MakeEncoderExamples(*parts[0].type, parts[0].rows, inputs.tokenizer, TaskOptionsOf(config), inputs.seed,
                             inputs.order, inputs.stop);
}

std::vector<TaskPrediction> AnswerByHead(const TrainingConfig& config, const Model& model, const Tokenizer& tokenizer,
                                         const TaskType& task, const std::vector<TaskRow>& rows,
                                         const AnsweringObserver& observer) {
  const auto* bert = dynamic_cast<const Bert*>(&model);
  CROSSTALK_CHECK(bert != nullptr, model.Describe(), " has no head for tasks");
  // A head that learnt other labels would answer with those.
  std::vector<const TaskType*> answered = ParseTasks(config.task);
  answered.push_back(&task);
  TaskOfHead(answered);
  std::vector<TaskPrediction> predictions =
      AnswerWithHead(*bert, tokenizer, task, rows, TaskOptionsOf(config), observer);
  if (!task.may_lack_answers) {
    for (TaskPrediction& one : predictions) one.no_answer.reset();
  }
  return predictions;
}

}  // namespace crosstalk
