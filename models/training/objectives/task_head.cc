#include "crosstalk/models/training/objectives/task_head.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "crosstalk/models/tasks/encoder_rows.h"
#include "crosstalk/models/training/objectives/encoder_examples.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {
namespace {

// Rows of the model's input are computed with those of the same padded length: what a row is padded to is its own.
constexpr int64_t kLengthStep = 16;
constexpr int64_t kBatchPositions = 4096;  // of a batch, padding counted
constexpr int64_t kRowsAtOnce = 128;       // task rows whose inputs are sorted by length

// One row of the model's input, and what its head says of it: a logit a class, one score, or starts and then ends.
struct Input {
  EncodedPair pair;
  std::vector<double> logits;
};

class Answering {
 public:
  Answering(const Model& model, const Tokenizer& tokenizer, const TaskType& type, const EncoderTaskOptions& options)
      : model_(model), tokenizer_(tokenizer), type_(type), options_(options), form_(tokenizer, options) {
    const EncoderHeads heads = model.heads();
    const auto labels = std::ssize(type.labels);
    switch (type.form) {
      case TaskForm::kClassification:
        CROSSTALK_CHECK(heads.classes > 0, "the model has no head for the classes of ", type.name);
        CROSSTALK_CHECK(heads.classes == labels && labels > 0, "the model's head has ", heads.classes, " classes, but ",
                        type.name, " has ", labels);
        return;
      case TaskForm::kRegression:
        CROSSTALK_CHECK(heads.classes == 1, "the model has no head for the regression of ", type.name);
        return;
      case TaskForm::kMultipleChoice:
        CROSSTALK_CHECK(heads.multiple_choice, "the model has no head for the choices of ", type.name);
        return;
      case TaskForm::kSpan:
        CROSSTALK_CHECK(heads.span, "the model has no head for the spans of ", type.name);
    }
  }

  // The answers to rows [begin, end).
  void Answer(const std::vector<TaskRow>& rows, int64_t begin, int64_t end, const StopRequest& stop,
              std::vector<TaskPrediction>* predictions) {
    std::vector<Input> inputs;
    std::vector<RowInputs> asked;
    for (int64_t i = begin; i < end; ++i) asked.push_back(AddInputs(rows[i], &inputs));
    Compute(stop, &inputs);
    for (int64_t i = begin; i < end; ++i) {
      predictions->push_back(Prediction(rows[i], asked[i - begin], inputs));
    }
  }

 private:
  // Where a task row's inputs are, and of a span what they show.
  struct RowInputs {
    int64_t first = 0, count = 0;
    std::vector<TokenSpan> passage;
    std::vector<PassageWindow> windows;
    int64_t passage_at = 0;
  };

  RowInputs AddInputs(const TaskRow& row, std::vector<Input>* inputs) const {
    RowInputs asked;
    asked.first = std::ssize(*inputs);
    if (type_.form == TaskForm::kSpan) {
      const std::vector<TokenSpan> question = tokenizer_.EncodeSpans(row.first);
      asked.passage = tokenizer_.EncodeSpans(row.second.value_or(""));
      asked.windows = form_.Windows(std::ssize(question), std::ssize(asked.passage));
      asked.passage_at = form_.PassageAt(std::ssize(question));
      for (const PassageWindow& window : asked.windows) {
        inputs->push_back({form_.Window(question, asked.passage, window), {}});
      }
    } else if (type_.form == TaskForm::kMultipleChoice) {
      CROSSTALK_CHECK(!row.choices.empty(), row.source, ": has no choices");
      const std::vector<TokenSpan> first = tokenizer_.EncodeSpans(row.first);
      for (const TaskRow::Choice& choice : row.choices) {
        inputs->push_back({Texts(first, choice.second.empty() ? nullptr : &choice.second), {}});
      }
    } else {
      inputs->push_back({Texts(tokenizer_.EncodeSpans(row.first), row.second ? &*row.second : nullptr), {}});
    }
    asked.count = std::ssize(*inputs) - asked.first;
    return asked;
  }

  EncodedPair Texts(std::span<const TokenSpan> first, const std::string* second) const {
    if (second == nullptr) return form_.Texts(first, std::nullopt);
    const std::vector<TokenSpan> following = tokenizer_.EncodeSpans(*second);
    return form_.Texts(first, following);
  }

  void Compute(const StopRequest& stop, std::vector<Input>* inputs) const {
    std::map<int64_t, std::vector<Input*>> by_length;
    for (Input& input : *inputs) {
      by_length[std::min(options_.input_length, RoundUp(std::ssize(input.pair.tokens), kLengthStep))].push_back(&input);
    }
    for (const auto& [length, all] : by_length) {
      const auto most = static_cast<size_t>(std::max<int64_t>(1, kBatchPositions / length));
      for (size_t at = 0; at < all.size(); at += most) {
        ThrowIfStopped(stop);
        ComputeBatch(std::span(all).subspan(at, std::min(most, all.size() - at)), length);
      }
    }
  }

  void ComputeBatch(std::span<Input* const> inputs, int64_t length) const {
    const auto rows = std::ssize(inputs);
    const Tensor ids = Tensor::Full({rows, length}, tokenizer_.special_tokens().pad, DType::kInt32);
    const Tensor segments = Tensor::Zeros({rows, length}, DType::kInt32);
    for (int64_t i = 0; i < rows; ++i) {
      const std::vector<EncodedPair::Token>& tokens = inputs[i]->pair.tokens;
      for (int64_t k = 0; k < std::ssize(tokens); ++k) {
        ids.data<int32_t>()[i * length + k] = tokens[k].id;
        segments.data<int32_t>()[i * length + k] = tokens[k].segment;
      }
    }
    const HeadLogits heads = model_.AnswerByHeads(ids, segments);
    const Variable& said = type_.form == TaskForm::kSpan             ? heads.span
                           : type_.form == TaskForm::kMultipleChoice ? heads.choice
                                                                     : heads.classes;
    const Tensor logits = said.value().Contiguous().To(DType::kFloat64);
    const int64_t each = logits.num_elements() / rows;
    for (int64_t i = 0; i < rows; ++i) {
      const double* const row = logits.data<double>() + i * each;
      std::vector<double>& kept = inputs[i]->logits;
      if (type_.form == TaskForm::kSpan) {
        for (const int end : {0, 1}) {
          for (int64_t k = 0; k < std::ssize(inputs[i]->pair.tokens); ++k) kept.push_back(row[2 * k + end]);
        }
      } else {
        kept.assign(row, row + each);
      }
      if (!std::all_of(kept.begin(), kept.end(), [](double logit) { return std::isfinite(logit); })) {
        Fail(ErrorKind::kNumerical, "the model's answers are not finite: its parameters have diverged");
      }
    }
  }

  TaskPrediction Prediction(const TaskRow& row, const RowInputs& asked, const std::vector<Input>& inputs) const {
    const auto best_of = [](const std::vector<double>& logits) {
      return std::max_element(logits.begin(), logits.end()) - logits.begin();
    };
    const std::vector<double>& logits = inputs[asked.first].logits;
    switch (type_.form) {
      case TaskForm::kClassification:
        return {row.id, type_.labels[best_of(logits)], {}};
      case TaskForm::kRegression:
        return {row.id, NumberText(logits[0]), {}};
      case TaskForm::kMultipleChoice: {
        std::vector<double> scores;
        for (int64_t i = 0; i < asked.count; ++i) scores.push_back(inputs[asked.first + i].logits[0]);
        return {row.id, row.choices[best_of(scores)].answer, {}};
      }
      case TaskForm::kSpan:
        break;
    }
    return Span(row, asked, inputs);
  }

  // In the model's own type: a float has fewer digits than the double of its value.
  std::string NumberText(double value) const {
    const auto text = [](auto number) {
      char digits[32];
      return std::string(digits, std::to_chars(digits, digits + sizeof(digits), number).ptr);
    };
    const bool is_float = model_.Parameters().front().value.dtype() == DType::kFloat32;
    return is_float ? text(static_cast<float>(value)) : text(value);
  }

  TaskPrediction Span(const TaskRow& row, const RowInputs& asked, const std::vector<Input>& inputs) const {
    std::vector<WindowScores> windows;
    for (int64_t i = 0; i < asked.count; ++i) {
      const std::vector<double>& logits = inputs[asked.first + i].logits;
      const auto middle = logits.begin() + std::ssize(logits) / 2;
      windows.push_back({asked.windows[i], asked.passage_at, {logits.begin(), middle}, {middle, logits.end()}});
    }
    const BestSpan best = FindBestSpan(windows, options_);
    if (!best.tokens) return {row.id, "", 1.0};
    return {row.id, SpanText(*row.second, asked.passage, *best.tokens), 1 / (1 + Exp(best.score - best.none))};
  }

  const Model& model_;
  const Tokenizer& tokenizer_;
  const TaskType& type_;
  EncoderTaskOptions options_;
  EncoderRows form_;
};

}  // namespace

std::vector<TaskPrediction> AnswerWithHead(const Model& model, const Tokenizer& tokenizer, const TaskType& type,
                                           const std::vector<TaskRow>& rows, const EncoderTaskOptions& options,
                                           const Observer& observer) {
  const ContextScope no_grad = NoGrad();
  const ContextScope same_bits_in_any_batch(&OpContext::sum_order, SumOrder::kBatchInvariant);
  Answering answering(model, tokenizer, type, options);
  std::vector<TaskPrediction> predictions;
  const auto count = std::ssize(rows);
  for (int64_t begin = 0; begin < count; begin += kRowsAtOnce) {
    const int64_t end = std::min(count, begin + kRowsAtOnce);
    answering.Answer(rows, begin, end, observer.stop, &predictions);
    if (observer.progress) observer.progress(end, count);
  }
  return predictions;
}

void EmptyAnswersAbove(double threshold, std::vector<TaskPrediction>* predictions) {
  for (TaskPrediction& prediction : *predictions) {
    if (prediction.no_answer && *prediction.no_answer > threshold) prediction.answer.clear();
  }
}

double BestNoAnswerThreshold(const TaskType& type, const std::vector<TaskRow>& rows,
                             const std::vector<TaskPrediction>& predictions) {
  if (type.score != nullptr) {
    for (const Metric& measure : type.score(type, rows, predictions)) {
      if (measure.name == "best_f1_thresh") return measure.value;
    }
  }
  Fail(ErrorKind::kUsage, "the score of ", type.name, " finds no threshold");
}

namespace {

EncoderTaskOptions TaskOptionsOf(const ObjectiveConfig& config) {
  return {.input_length = config.input_length,
          .window_stride = config.window_stride,
          .query_length = config.query_length,
          .answer_length = config.answer_length};
}

// The number of choices of rows that are not known yet: as many as RACE and COPA have at most.
constexpr int64_t kUsualChoices = 4;

EncoderHeads HeadsOf(const ObjectiveConfig& config) {
  const std::vector<const TaskType*> tasks = ParseTasks(config.tasks);
  const TaskType& task = TaskOfHead(tasks);
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

std::unique_ptr<ExampleSource> MakeFromTask(const ObjectiveConfig& config, ExampleInputs inputs) {
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

}  // namespace

ObjectiveType TaskHead() {
  using Config = ObjectiveConfig;
  return {.name = "task-head",
          .tokenizer = {.line_ends = LineEnds::kSpaces, .mask_tokens = MaskTokens::kYes},
          .own = MembersOf(&Config::tasks, &Config::task_data, &Config::window_stride, &Config::query_length,
                           &Config::answer_length),
          .describe =
              [](const Config& config) { return StrCat("up to ", config.input_length, " tokens of ", config.tasks); },
          .empty_batch =
              [](const Config& config, const SpecialTokens& tokens, int64_t rows) {
                const TaskForm form = TaskOfHead(ParseTasks(config.tasks)).form;
                const int64_t choices = form == TaskForm::kMultipleChoice ? kUsualChoices : 1;
                return EmptyEncoderBatch({form, config.input_length, choices}, tokens.pad, rows);
              },
          .heads = HeadsOf,
          .make = MakeFromTask,
          .answer = AnswerByHead};
}

}  // namespace crosstalk
