#include "crosstalk/models/objectives/objective.h"

#include <algorithm>

#include "crosstalk/models/objectives/masked_lm_examples.h"
#include "crosstalk/models/objectives/next_token.h"
#include "crosstalk/models/objectives/span_corruption_examples.h"
#include "crosstalk/models/objectives/task_head.h"
#include "crosstalk/models/objectives/text_to_text.h"
#include "crosstalk/runtime/named.h"

namespace crosstalk {

std::optional<LossBound> ExampleSource::LossLowerBound(int64_t, int64_t) const { return std::nullopt; }

const std::vector<ObjectiveType>& ObjectiveTypes() {
  static const std::vector<ObjectiveType> types = {
      {.name = "span-corruption",
       .tokenizer = {.sentinels = kDefaultSentinels, .line_ends = LineEnds::kSpaces},
       .own_fields = {"data", "validation", "noise_density", "mean_span_length"},
       .describe = DescribeSpanCorruption,
       .empty_batch = EmptySpanCorruptionBatch,
       .make = MakeSpanCorruptionExamples},
      {.name = "next-token",
       .tokenizer = {.sentinels = 0, .line_ends = LineEnds::kKept},
       .own_fields = {"data", "validation"},
       .describe = DescribeNextToken,
       .empty_batch = EmptyNextTokenBatch,
       .make = MakeNextTokenExamples},
      {.name = "masked-lm",
       .tokenizer = {.sentinels = 0, .line_ends = LineEnds::kSpaces, .mask_tokens = MaskTokens::kYes},
       .own_fields = {"data", "validation", "noise_density", "masking", "sentence_task", "most_masked", "short_share"},
       .describe = DescribeMaskedLm,
       .empty_batch = EmptyMaskedLmBatch,
       .make = MakeMaskedLmExamples},
      {.name = "text-to-text",
       .tokenizer = {.sentinels = kDefaultSentinels, .line_ends = LineEnds::kSpaces},
       .own_fields = {"task", "task_data", "target_length", "mixture_cap"},
       .describe = DescribeTextToText,
       .empty_batch = EmptyTextToTextBatch,
       .make = MakeTextToTextExamples,
       .answer =
           [](const TrainingConfig& config, const Model& model, const Tokenizer& tokenizer, const TaskType& task,
              const std::vector<TaskRow>& rows, const AnsweringObserver& observer) {
             return AnswerInText(config, model, tokenizer, task, rows, DecoderOptions(), observer);
           }},
      {.name = "task-head",
       .tokenizer = {.sentinels = 0, .line_ends = LineEnds::kSpaces, .mask_tokens = MaskTokens::kYes},
       .own_fields = {"task", "task_data", "window_stride", "query_length", "answer_length"},
       .describe = DescribeTaskHead,
       .empty_batch = EmptyTaskHeadBatch,
       .make = MakeTaskHeadExamples,
       .answer = AnswerByHead},
  };
  return types;
}

std::vector<std::string> ObjectiveNames() { return NamesIn(ObjectiveTypes()); }

std::vector<std::string> ObjectivesThatOwn(std::string_view field) {
  std::vector<std::string> names;
  for (const ObjectiveType& type : ObjectiveTypes()) {
    const bool owns =
        std::any_of(type.own_fields.begin(), type.own_fields.end(), [&](const char* own) { return field == own; });
    if (owns) names.emplace_back(type.name);
  }
  return names;
}

const ObjectiveType& FindObjective(std::string_view name) { return FindNamed("objective", name, ObjectiveTypes()); }

}  // namespace crosstalk
