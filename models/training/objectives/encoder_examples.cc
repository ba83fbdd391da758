#include "crosstalk/models/training/objectives/encoder_examples.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

constexpr int64_t kNoText = -1;

// Texts as ids, one after the other.
class TokenisedTexts {
 public:
  // The number of a text.
  int64_t Add(const std::vector<TokenSpan>& tokens) {
    for (const TokenSpan& token : tokens) ids_.push_back(token.id);
    ends_.push_back(std::ssize(ids_));
    return std::ssize(ends_) - 1;
  }
  int64_t length(int64_t text) const { return ends_[text] - begin(text); }
  // As JoinPair reads them; the places in the text are not kept.
  std::vector<TokenSpan> Tokens(int64_t text) const {
    std::vector<TokenSpan> tokens;
    for (int64_t i = begin(text); i < ends_[text]; ++i) tokens.push_back({ids_[i], 0, 0});
    return tokens;
  }

 private:
  int64_t begin(int64_t text) const { return text == 0 ? 0 : ends_[text - 1]; }

  std::vector<int32_t> ids_;
  std::vector<int64_t> ends_;
};

// One row of the model's input: two texts, or one. Of a span, a question and a window over the passage.
struct Sequence {
  int64_t first, second;
  PassageWindow window;
};

struct Example {
  int64_t sequence, count;  // of the sequences, `count` from that on: a choice each
  int32_t label = 0;        // or start position
  int32_t end_position = 0;
  float score = 0;
};

// All that the rows give, in their order.
struct Examples {
  TokenisedTexts texts;
  std::vector<Sequence> sequences;
  std::vector<Example> examples;
  int64_t most_choices = 1;
};

class Reader {
 public:
  Reader(const TaskType& type, const Tokenizer& tokenizer, const EncoderRows& form)
      : type_(type), tokenizer_(tokenizer), form_(form) {}

  void Add(const TaskRow& row) {
    if (!row.labelled) Fail(ErrorKind::kData, row.source, ": has no label to learn");
    switch (type_.form) {
      case TaskForm::kClassification:
      case TaskForm::kRegression:
        return AddTexts(row);
      case TaskForm::kMultipleChoice:
        return AddChoices(row);
      case TaskForm::kSpan:
        return AddWindows(row);
    }
  }

  Examples Take() { return std::move(result_); }

 private:
  // `text` must stay where it is.
  int64_t TextOf(std::string_view text) {
    const auto [found, is_new] = numbers_.try_emplace(text, 0);
    if (is_new) found->second = result_.texts.Add(tokenizer_.EncodeSpans(text));
    return found->second;
  }

  int32_t LabelOf(const TaskRow& row, int64_t classes) const {
    if (row.label < 0 || row.label >= classes) {
      Fail(ErrorKind::kData, row.source, ": the label ", row.label, " is none of ", classes);
    }
    return static_cast<int32_t>(row.label);
  }

  void AddTexts(const TaskRow& row) {
    Example example = {std::ssize(result_.sequences), 1};
    result_.sequences.push_back({TextOf(row.first), row.second ? TextOf(*row.second) : kNoText, {}});
    if (type_.form == TaskForm::kRegression) {
      example.score = static_cast<float>(row.number);
      if (!std::isfinite(example.score)) Fail(ErrorKind::kData, row.source, ": the score is not a finite number");
    } else {
      example.label = LabelOf(row, std::ssize(type_.labels));
    }
    result_.examples.push_back(example);
  }

  void AddChoices(const TaskRow& row) {
    Example example = {std::ssize(result_.sequences), std::ssize(row.choices)};
    example.label = LabelOf(row, example.count);
    const int64_t first = TextOf(row.first);
    for (const TaskRow::Choice& choice : row.choices) {
      result_.sequences.push_back({first, choice.second.empty() ? kNoText : TextOf(choice.second), {}});
    }
    result_.most_choices = std::max(result_.most_choices, example.count);
    result_.examples.push_back(example);
  }

  void AddWindows(const TaskRow& row) {
    if (!row.second) Fail(ErrorKind::kData, row.source, ": has no text that an answer could stand in");
    const int64_t question = TextOf(row.first), passage = TextOf(*row.second);
    const std::optional<PassageWindow> answer = AnswerOf(row, passage);
    const int64_t at = form_.PassageAt(result_.texts.length(question));
    for (const PassageWindow& window : form_.Windows(result_.texts.length(question), result_.texts.length(passage))) {
      Example example = {std::ssize(result_.sequences), 1};
      if (answer && answer->begin >= window.begin && answer->end <= window.end) {
        example.label = static_cast<int32_t>(at + answer->begin - window.begin);
        example.end_position = static_cast<int32_t>(at + answer->end - 1 - window.begin);
      }
      result_.sequences.push_back({question, passage, window});
      result_.examples.push_back(example);
    }
  }

  // Tokens of the passage; none where the row says that there is no answer.
  std::optional<PassageWindow> AnswerOf(const TaskRow& row, int64_t passage) {
    if (row.answers.empty()) return std::nullopt;
    const auto answer =
        std::find_if(row.answers.begin(), row.answers.end(), [](const TaskAnswer& one) { return one.begin; });
    if (answer == row.answers.end()) Fail(ErrorKind::kData, row.source, ": no answer stands in its text");
    const auto length = static_cast<int64_t>(answer->text.size());
    if (*answer->begin < 0 || *answer->begin > std::ssize(*row.second) - length) {
      Fail(ErrorKind::kData, row.source, ": the answer at byte ", *answer->begin, " is not within its text");
    }
    // The questions of a passage are consecutive.
    if (passage != spans_of_) {
      spans_ = tokenizer_.EncodeSpans(*row.second);
      spans_of_ = passage;
    }
    const std::optional<PassageWindow> tokens = TokensOf(spans_, *answer->begin, *answer->begin + length);
    if (!tokens) Fail(ErrorKind::kData, row.source, ": the tokenizer leaves nothing of the answer");
    return tokens;
  }

  const TaskType& type_;
  const Tokenizer& tokenizer_;
  const EncoderRows& form_;
  Examples result_;
  std::unordered_map<std::string_view, int64_t> numbers_;
  std::vector<TokenSpan> spans_;
  int64_t spans_of_ = kNoText;
};

class EncoderExamples : public ExampleSource {
 public:
  EncoderExamples(const TaskType& type, const std::vector<TaskRow>& rows, std::shared_ptr<const Tokenizer> tokenizer,
                  const EncoderTaskOptions& options, uint64_t seed, TextSource::Order order, const StopRequest& stop)
      : form_(type.form),
        tokenizer_(std::move(tokenizer)),
        rows_(*tokenizer_, options),
        input_length_(options.input_length),
        seed_(seed),
        order_(order) {
    CROSSTALK_CHECK(!rows.empty(), type.name, ": there are no rows to learn");
    Reader reader(type, *tokenizer_, rows_);
    for (const TaskRow& row : rows) {
      ThrowIfStopped(stop);
      reader.Add(row);
    }
    all_ = reader.Take();
  }

  Batch EmptyBatch(int64_t rows) const override {
    return EmptyEncoderBatch({form_, input_length_, all_.most_choices}, tokenizer_->special_tokens().pad, rows);
  }

  void Write(int64_t place, int64_t /*index*/, Batch& batch, int64_t row) const override {
    const Example& example = all_.examples[ExampleAt(place)];
    const Tensor& inputs = batch.Get("inputs");
    const int64_t length = inputs.size(-1), rows = form_ == TaskForm::kMultipleChoice ? inputs.size(1) : 1;
    CROSSTALK_CHECK(example.count <= rows && input_length_ <= length, "encoder examples: inputs", inputs.shape(),
                    " are too few for ", example.count, " choices of ", input_length_, " tokens");
    for (int64_t i = 0; i < example.count; ++i) {
      const EncodedPair pair = PairOf(all_.sequences[example.sequence + i]);
      int32_t* const ids = inputs.data<int32_t>() + (row * rows + i) * length;
      int32_t* const segments = batch.Get("segments").data<int32_t>() + (row * rows + i) * length;
      for (size_t k = 0; k < pair.tokens.size(); ++k) {
        ids[k] = pair.tokens[k].id;
        segments[k] = pair.tokens[k].segment;
      }
      batch.tokens += std::ssize(pair.tokens);
    }
    ++batch.targets;
    const auto set = [&](const char* name, int64_t value) {
      batch.Get(name).data<int32_t>()[row] = static_cast<int32_t>(value);
    };
    switch (form_) {
      case TaskForm::kRegression:
        batch.Get("scores").data<float>()[row] = example.score;
        return;
      case TaskForm::kSpan:
        set("start_positions", example.label);
        set("end_positions", example.end_position);
        return;
      case TaskForm::kMultipleChoice:
        set("choice_counts", example.count);
        [[fallthrough]];
      case TaskForm::kClassification:
        set("labels", example.label);
    }
  }

  // Without the positions after the longest row.
  Batch Finished(Batch batch) const override {
    return WithoutPaddingColumns(batch, "inputs", {"segments"}, tokenizer_->special_tokens().pad);
  }

  int64_t num_places() const override { return std::ssize(all_.examples); }

  std::vector<AccuracyTargets> Answers() const override {
    if (form_ != TaskForm::kClassification && form_ != TaskForm::kMultipleChoice) return {};
    return {{"task_accuracy", "labels", std::nullopt}};
  }

 private:
  int64_t ExampleAt(int64_t place) const {
    const int64_t count = num_places(), within = place % count;
    if (order_ == TextSource::Order::kSequential) return within;
    return PermutedIndex(within, count, ExampleKey(seed_, "models.tasks.encoder_examples.order", place / count));
  }

  EncodedPair PairOf(const Sequence& sequence) const {
    const std::vector<TokenSpan> first = all_.texts.Tokens(sequence.first);
    if (sequence.second == kNoText) return rows_.Texts(first, std::nullopt);
    const std::vector<TokenSpan> second = all_.texts.Tokens(sequence.second);
    return form_ == TaskForm::kSpan ? rows_.Window(first, second, sequence.window) : rows_.Texts(first, second);
  }

  TaskForm form_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  EncoderRows rows_;
  int64_t input_length_;
  uint64_t seed_;
  TextSource::Order order_;
  Examples all_;
};

}  // namespace

Batch EmptyEncoderBatch(const EncoderBatchShape& shape, int32_t pad, int64_t rows) {
  Batch batch;
  const bool choices = shape.form == TaskForm::kMultipleChoice;
  const Shape inputs = choices ? Shape({rows, shape.choices, shape.input_length}) : Shape({rows, shape.input_length});
  batch.Add("inputs", Tensor::Full(inputs, pad, DType::kInt32));
  batch.Add("segments", Tensor::Zeros(inputs, DType::kInt32));
  if (choices) batch.Add("choice_counts", Tensor::Full({rows}, 1, DType::kInt32));
  if (shape.form == TaskForm::kRegression) {
    batch.Add("scores", Tensor::Zeros({rows}, DType::kFloat32));
  } else if (shape.form == TaskForm::kSpan) {
    batch.Add("start_positions", Tensor::Zeros({rows}, DType::kInt32));
    batch.Add("end_positions", Tensor::Zeros({rows}, DType::kInt32));
  } else {
    batch.Add("labels", Tensor::Zeros({rows}, DType::kInt32));
  }
  batch.positions = rows;
  return batch;
}

std::unique_ptr<ExampleSource> MakeEncoderExamples(const TaskType& type,
                                                   std::shared_ptr<const std::vector<TaskRow>> rows,
                                                   std::shared_ptr<const Tokenizer> tokenizer,
                                                   const EncoderTaskOptions& options, uint64_t seed,
                                                   TextSource::Order order, const StopRequest& stop) {
  return std::make_unique<EncoderExamples>(type, *rows, std::move(tokenizer), options, seed, order, stop);
}

}  // namespace crosstalk
