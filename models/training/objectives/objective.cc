#include "crosstalk/models/training/objectives/objective.h"

#include <algorithm>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/enum_names.h"

namespace crosstalk {
namespace {

void CopyRow(const std::vector<int32_t>& ids, const Tensor& to, int64_t row) {
  CROSSTALK_DCHECK(std::ssize(ids) <= to.size(1));
  std::copy(ids.begin(), ids.end(), to.data<int32_t>() + row * to.size(1));
}

}  // namespace

Batch EmptyTokenRows(int64_t rows, int64_t inputs, int64_t targets, int32_t pad, std::optional<int32_t> no_target) {
  Batch batch;
  batch.Add("inputs", Tensor::Full({rows, inputs}, pad, DType::kInt32));
  batch.Add("targets", Tensor::Full({rows, targets}, no_target.value_or(pad), DType::kInt32));
  batch.positions = rows * targets;
  return batch;
}

void WriteTokenRow(const std::vector<int32_t>& inputs, const std::vector<int32_t>& targets, int64_t row, Batch& batch) {
  CopyRow(inputs, batch.Get("inputs"), row);
  CopyRow(targets, batch.Get("targets"), row);
  batch.targets += std::ssize(targets) - std::count(targets.begin(), targets.end(), kNoToken);
}

const FieldTable<ObjectiveConfig>& ObjectiveFields() {
  using Config = ObjectiveConfig;
  static const FieldTable<Config> table = Joined(
      Grouped<Config>(
          "Data",
          {MakeField("objective", &Config::name, "NAME", "Training objective; the model's own by default.",
                     {.choices = ObjectiveNames()}),
           MakeField("input_length", &Config::input_length, "N",
                     "Input tokens an example; the targets' length follows from the objective.",
                     {.range = {4, 16'777'216}}),
           MakeField("noise_density", &Config::noise_density, "SHARE", "Share of the tokens that is hidden.",
                     {.range = {0.001, 0.999}}),
           MakeField("mean_span_length", &Config::mean_span_length, "X", "Mean length of a hidden span, in tokens.",
                     {.range = {1, 1000}}),
           MakeField(
               "masking", &Config::masking, "KIND",
               "Unit of hiding: single tokens, or ngrams of one to three whole words; the model's own by default.",
               {.may_be_missing = true}),
           MakeField("sentence_task", &Config::sentence_task, "TASK",
                     "Question about the two segments of an example: does the second follow the first "
                     "(next-sentence), are they in order (sentence-order), or no question and one segment "
                     "(none); the model's own by default.",
                     {.may_be_missing = true}),
           MakeField("most_masked", &Config::most_masked, "N",
                     "Tokens hidden in an example, at most; noise_density of input_length by default, rounded up.",
                     {.range = {1, 16'777'216}, .may_be_missing = true}),
           MakeField("short_share", &Config::short_share, "SHARE",
                     "Share of the examples that are shortened to a random length.",
                     {.range = {0, 1}, .may_be_missing = true})}),
      Grouped<Config>(
          "Tasks",
          {MakeField("task", &Config::tasks, "NAMES",
                     "Tasks to learn and measure, separated by commas; docs/tasks.md lists them. A T5 or a "
                     "language model learns several as one mixture, an encoder several that share a head.",
                     {.may_be_missing = true}),
           MakeField("task_data", &Config::task_data, "FOLDER",
                     "Folder with the tasks' published files, or one task's own.",
                     {.affects_result = AffectsResult::kNo,  // compared by content
                      .may_be_missing = true,
                      .is_path = true}),
           MakeField("target_length", &Config::target_length, "N",
                     "Most tokens of an answer, including the end token; longer ones are cut.",
                     {.range = {2, 16'777'216}, .may_be_missing = true}),
           MakeField("mixture_cap", &Config::mixture_cap, "N",
                     "Tasks are mixed in proportion to their rows, each counted up to N; all by default.",
                     {.range = AtLeast(1), .may_be_missing = true}),
           MakeField("window_stride", &Config::window_stride, "N",
                     "Tokens from one window over a long passage to the next.",
                     {.range = {1, 16'777'216}, .may_be_missing = true}),
           MakeField("query_length", &Config::query_length, "N", "Most tokens of the question beside a passage.",
                     {.range = {1, 16'777'216}, .may_be_missing = true}),
           MakeField("answer_length", &Config::answer_length, "N", "Most tokens of an answer in a passage.",
                     {.range = {1, 16'777'216}, .may_be_missing = true})}));
  return table;
}

std::optional<LossBound> ExampleSource::EntropyBound(int64_t, int64_t) const { return std::nullopt; }

const std::vector<ObjectiveType>& ObjectiveTypes() {
  static const std::vector<ObjectiveType> types = {SpanCorruption(), NextToken(),        MaskedLm(),
                                                   TextToText(),     PromptCompletion(), TaskHead()};
  return types;
}

std::vector<std::string> ObjectiveNames() { return NamesIn(ObjectiveTypes()); }

const ObjectiveType& FindObjective(std::string_view name) { return FindNamed("objective", name, ObjectiveTypes()); }

}  // namespace crosstalk
