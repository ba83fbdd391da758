#include "crosstalk/models/training/objectives/task_head.h"

#include <utility>

#include "crosstalk/models/training/objectives/config.h"
#include "crosstalk/models/training/objectives/encoder_answers.h"
#include "crosstalk/models/training/objectives/encoder_examples.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

EncoderTaskOptions TaskOptionsOf(const ObjectiveConfig& config) {
  return {.input_length = config.input_length,
          .window_stride = config.window_stride,
          .query_length = config.query_length,
          .answer_length = config.answer_length};
}

// Of rows that are not known yet: as many as RACE and COPA have at most.
constexpr int64_t kUsualChoices = 4;

}  // namespace

std::string DescribeTaskHead(const ObjectiveConfig& config) {
  return StrCat("up to ", config.input_length, " tokens of ", config.tasks);
}

Batch EmptyTaskHeadBatch(const ObjectiveConfig& config, const SpecialTokens& tokens, int64_t rows) {
  const TaskType& task = TaskOfHead(ParseTasks(config.tasks));
  const int64_t choices = task.form == TaskForm::kMultipleChoice ? kUsualChoices : 1;
  return EmptyEncoderBatch({.form = task.form, .input_length = config.input_length, .choices = choices}, tokens.pad,
                           rows);
}

EncoderHeads HeadsOfTaskHead(const ObjectiveConfig& config) {
  const TaskType& task = TaskOfHead(ParseTasks(config.tasks));
  switch (task.form) {
    case TaskForm::kClassification:
      return {.pooler = true, .classes = static_cast<int64_t>(task.labels.size())};
    case TaskForm::kRegression:
      return {.pooler = true, .classes = 1};
    case TaskForm::kMultipleChoice:
      return {.pooler = true, .multiple_choice = true};
    case TaskForm::kSpan:
      break;
  }
  return {.span = true};
}

std::unique_ptr<ExampleSource> MakeTaskHeadExamples(const ObjectiveConfig& config, ExampleInputs inputs) {
  const std::vector<TaskSet::Part> parts = inputs.tasks->TrainingParts();
  CROSSTALK_CHECK_FIELD(parts.size() == 1, "task",
                        parts.empty() ? "has nothing to train on"
                                      : "names tasks with files of their own to train on; an encoder learns one");
  return MakeEncoderExamples(*parts[0].type, parts[0].rows, inputs.tokenizer, TaskOptionsOf(config), inputs.seed,
                             inputs.order, inputs.stop);
}

std::vector<TaskPrediction> AnswerByHead(const ObjectiveConfig& config, const Model& model, const Tokenizer& tokenizer,
                                         const TaskType& task, const std::vector<TaskRow>& rows,
                                         const Observer& observer) {
  // A head that learnt other labels would answer with those.
  std::vector<const TaskType*> answered = ParseTasks(config.tasks);
  answered.push_back(&task);
  TaskOfHead(answered);
  std::vector<TaskPrediction> predictions =
      AnswerWithHead(model, tokenizer, task, rows, TaskOptionsOf(config), observer);
  if (!task.may_lack_answers) {
    for (TaskPrediction& one : predictions) one.no_answer.reset();
  }
  return predictions;
}

}  // namespace crosstalk
