#include "crosstalk/models/training/objectives/text_to_text.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/tasks/task_set.h"
#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// Where prompt and answer of a row stand.
enum class RowForm { kTextToText, kPromptCompletion };

// `ids`, those of a text and the end token, at most `length` of them: what is cut off is the text's end.
std::vector<int32_t> EncodeText(const Tokenizer& tokenizer, const std::string& text, int64_t length,
                                std::vector<int32_t> ids = {}) {
  const std::vector<int32_t> own = tokenizer.Encode(text);
  ids.insert(ids.end(), own.begin(), own.end());
  ids.resize(std::min(ids.size(), static_cast<size_t>(length - 1)));
  ids.push_back(tokenizer.special_tokens().end);
  return ids;
}

std::vector<int32_t> EncodePrompt(const Tokenizer& tokenizer, const std::string& text, int64_t length) {
  return EncodeText(tokenizer, text, length, TokensBeforeText(tokenizer));
}

void CheckEnd(const SpecialTokens& tokens, int64_t vocabulary) {
  CheckSpecialTokens(tokens, vocabulary, {&SpecialTokens::end});
}

template <RowForm form>
Batch EmptyRows(const ObjectiveConfig& config, const SpecialTokens& tokens, int64_t rows) {
  if (form == RowForm::kTextToText) return EmptyTokenRows(rows, config.input_length, config.target_length, tokens.pad);
  const int64_t n = config.input_length + config.target_length - 1;
  // Nothing is read after a row's last target, so its padding may be any token.
  const int32_t pad = tokens.pad == kNoToken ? tokens.end : tokens.pad;
  Batch batch = EmptyTokenRows(rows, n, config.target_length, pad, kNoToken);
  batch.Add("target_positions", Tensor::Zeros({rows, config.target_length}, DType::kInt32));
  return batch;
}

// The text before the first end, or before an id above the tokenizer's, which a published model may have.
std::vector<int32_t> TextOf(const std::vector<int32_t>& ids, const ModelConfig& config, const Tokenizer& tokenizer) {
  const auto end = std::find_if(ids.begin(), ids.end(),
                                [&](int32_t id) { return config.EndsText(id) || id >= tokenizer.vocab_size(); });
  return {ids.begin(), end};
}

template <RowForm form>
class TextToTextExamples : public ExampleSource {
 public:
  TextToTextExamples(const ObjectiveConfig& config, ExampleInputs inputs)
      : config_(config),
        tokenizer_(std::move(inputs.tokenizer)),
        tasks_(inputs.tasks),
        parts_(RowsWithTargets(inputs.tasks->TrainingParts())),
        mixture_(Sizes(parts_), config.mixture_cap, inputs.seed) {
    CheckEnd(tokenizer_->special_tokens(), tokenizer_->vocab_size());
    CheckLabelsFit(*inputs.tasks);
  }

  Batch EmptyBatch(int64_t rows) const override { return EmptyRows<form>(config_, tokenizer_->special_tokens(), rows); }

  void Write(int64_t place, int64_t /*index*/, Batch& batch, int64_t row) const override {
    const TaskMixture::Place at = mixture_.At(place);
    const TaskRow& task = *parts_[at.task].at(static_cast<size_t>(at.row));
    const std::vector<int32_t> prompt = EncodePrompt(*tokenizer_, task.input, config_.input_length);
    const std::vector<int32_t> answer = EncodeText(*tokenizer_, task.targets.at(0), config_.target_length);
    batch.tokens += std::ssize(prompt) + std::ssize(answer);
    if (form == RowForm::kTextToText) return WriteTokenRow(prompt, answer, row, batch);
    std::vector<int32_t> inputs = prompt;
    inputs.insert(inputs.end(), answer.begin(), answer.end() - 1);
    WriteTokenRow(inputs, answer, row, batch);
    int32_t* const positions = batch.Get("target_positions").data<int32_t>() + row * config_.target_length;
    std::iota(positions, positions + answer.size(), static_cast<int32_t>(prompt.size()) - 1);
  }

  Batch Finished(Batch batch) const override {
    if (form == RowForm::kPromptCompletion) {
      // The inputs' padding may be a token of theirs: they end with the last target's.
      const std::vector<int32_t> positions = batch.Get("target_positions").ToVector<int32_t>();
      const int64_t n = *std::max_element(positions.begin(), positions.end()) + 1;
      return WithoutPaddingColumns(FirstColumns(batch, {"inputs"}, n), "targets", {"target_positions"}, kNoToken);
    }
    const int32_t pad = tokenizer_->special_tokens().pad;
    return WithoutPaddingColumns(WithoutPaddingColumns(batch, "inputs", {}, pad), "targets", {}, pad);
  }

  int64_t num_places() const override { return mixture_.size(); }

 private:
  using Rows = std::vector<const TaskRow*>;

  // The rows of each task that have something to write: WSC's false pairs have nothing.
  static std::vector<Rows> RowsWithTargets(const std::vector<TaskSet::Part>& parts) {
    std::vector<Rows> with_targets;
    for (const TaskSet::Part& part : parts) {
      Rows rows;
      for (const TaskRow& row : *part.rows) {
        if (!row.targets.empty()) rows.push_back(&row);
      }
      if (!rows.empty()) with_targets.push_back(std::move(rows));
    }
    return with_targets;
  }

  static std::vector<int64_t> Sizes(const std::vector<Rows>& parts) {
    CROSSTALK_CHECK_FIELD(!parts.empty(), "task_data", "has nothing to train on");
    std::vector<int64_t> sizes;
    for (const Rows& rows : parts) sizes.push_back(std::ssize(rows));
    return sizes;
  }

  // A label that is cut could never be written.
  void CheckLabelsFit(const TaskSet& tasks) const {
    for (const TaskSet::Part& part : tasks.TrainingParts()) {
      if (part.type->labels.empty()) continue;
      std::set<std::string> seen;
      for (const TaskRow& row : *part.rows) {
        if (row.targets.empty() || !seen.insert(row.targets[0]).second) continue;
        const int64_t tokens = std::ssize(tokenizer_->Encode(row.targets[0])) + 1;
        CROSSTALK_CHECK_FIELD(tokens <= config_.target_length, "target_length", config_.target_length,
                              " tokens are less than the ", tokens, " that ", part.type->name, "'s answer ",
                              Quoted(row.targets[0]), " takes with its end");
      }
    }
  }

  ObjectiveConfig config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const TaskSet> tasks_;  // holds the rows
  std::vector<Rows> parts_;
  TaskMixture mixture_;
};

}  // namespace

std::vector<TaskPrediction> AnswerInText(const ObjectiveConfig& config, const Model& model, const Tokenizer& tokenizer,
                                         const TaskType& task, const std::vector<TaskRow>& rows,
                                         const DecoderOptions& decoder, const Observer& observer) {
  CheckEnd(tokenizer.special_tokens(), tokenizer.vocab_size());
  CheckEnd(model.config().tokens, model.config().vocabulary);
  SearchOptions options;
  options.max_length = config.target_length;
  options.decoder = decoder;
  // As many at once as show progress, and end at a stop, often enough; how they are cut changes no answer.
  constexpr size_t kRowsAtOnce = 256;
  std::vector<TaskPrediction> predictions;
  for (size_t begin = 0; begin < rows.size(); begin += kRowsAtOnce) {
    ThrowIfStopped(observer.stop);
    const size_t end = std::min(rows.size(), begin + kRowsAtOnce);
    std::vector<SearchInput> inputs;
    for (size_t i = begin; i < end; ++i) {
      inputs.push_back({.ids = EncodePrompt(tokenizer, rows[i].input, config.input_length)});
    }
    const std::vector<std::vector<SearchAnswer>> answers = Search(model, inputs, options);
    for (size_t i = begin; i < end; ++i) {
      const std::string text = tokenizer.Decode(TextOf(answers[i - begin].at(0).ids, model.config(), tokenizer));
      predictions.push_back({rows[i].id, task.answer_of_text(task, rows[i], text), std::nullopt});
    }
    if (observer.progress) observer.progress(static_cast<int64_t>(end), static_cast<int64_t>(rows.size()));
  }
  return predictions;
}

namespace {

template <RowForm form>
ObjectiveType TasksAsText(const char* name, const TokenizerNeeds& tokenizer) {
  using Config = ObjectiveConfig;
  return {.name = name,
          .tokenizer = tokenizer,
          .own = MembersOf(&Config::tasks, &Config::task_data, &Config::target_length, &Config::mixture_cap),
          .inputs_hold_targets = form == RowForm::kPromptCompletion,
          .describe =
              [](const Config& config) {
                return StrCat("up to ", config.input_length, " + ", config.target_length, " tokens of ", config.tasks);
              },
          .empty_batch = EmptyRows<form>,
          .make = MakeExamples<TextToTextExamples<form>>,
          .answer =
              [](const Config& config, const Model& model, const Tokenizer& own, const TaskType& task,
                 const std::vector<TaskRow>& rows, const Observer& observer) {
                return AnswerInText(config, model, own, task, rows, DecoderOptions(), observer);
              }};
}

}  // namespace

ObjectiveType TextToText() {
  return TasksAsText<RowForm::kTextToText>("text-to-text",
                                           {.sentinels = kDefaultSentinels, .line_ends = LineEnds::kSpaces});
}

ObjectiveType PromptCompletion() { return TasksAsText<RowForm::kPromptCompletion>("prompt-completion", {}); }

CutPrompts CountCutPrompts(const ObjectiveConfig& config, const TaskSet& tasks, const Tokenizer& tokenizer,
                           int64_t most) {
  CutPrompts prompts;
  const int64_t room = config.input_length - std::ssize(TokensBeforeText(tokenizer)) - 1;
  for (const TaskSet::Part& part : tasks.TrainingParts()) {
    const int64_t rows = std::min(most, std::ssize(*part.rows));
    for (int64_t i = 0; i < rows; ++i) {
      prompts.cut += std::ssize(tokenizer.Encode((*part.rows)[static_cast<size_t>(i)].input)) > room ? 1 : 0;
    }
    prompts.rows += rows;
  }
  return prompts;
}

}  // namespace crosstalk
