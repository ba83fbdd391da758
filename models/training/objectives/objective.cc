#include "crosstalk/models/training/objectives/objective.h"

#include "crosstalk/models/training/objectives/masked_lm_examples.h"
#include "crosstalk/models/training/objectives/next_token.h"
#include "crosstalk/models/training/objectives/span_corruption_examples.h"
#include "crosstalk/models/training/objectives/task_head.h"
#include "crosstalk/models/training/objectives/text_to_text.h"
#include "crosstalk/runtime/enum_names.h"

namespace crosstalk {

std::optional<LossBound> ExampleSource::EntropyBound(int64_t, int64_t) const { return std::nullopt; }

const std::vector<ObjectiveType>& ObjectiveTypes() {
  using Config = ObjectiveConfig;
  static const std::vector<ObjectiveType> types = {
      {.name = "span-corruption",
       .tokenizer = {.sentinels = kDefaultSentinels, .line_ends = LineEnds::kSpaces},
       .own = MembersOf(&Config::noise_density, &Config::mean_span_length),
       .describe = DescribeSpanCorruption,
       .empty_batch = EmptySpanCorruptionBatch,
       .heads = nullptr,
       .make = MakeSpanCorruptionExamples},
      {.name = "next-token",
       .tokenizer = {.sentinels = 0, .line_ends = LineEnds::kKept},
       .own = {},
       .describe = DescribeNextToken,
       .empty_batch = EmptyNextTokenBatch,
       .heads = nullptr,
       .make = MakeNextTokenExamples},
      {.name = "masked-lm",
       .tokenizer = {.sentinels = 0, .line_ends = LineEnds::kSpaces, .mask_tokens = MaskTokens::kYes},
       .own = MembersOf(&Config::noise_density, &Config::masking, &Config::sentence_task, &Config::most_masked,
                        &Config::short_share),
       .describe = DescribeMaskedLm,
       .empty_batch = EmptyMaskedLmBatch,
       .heads = HeadsOfMaskedLm,
       .make = MakeMaskedLmExamples},
      {.name = "text-to-text",
       .tokenizer = {.sentinels = kDefaultSentinels, .line_ends = LineEnds::kSpaces},
       .own = MembersOf(&Config::tasks, &Config::task_data, &Config::target_length, &Config::mixture_cap),
       .describe = DescribeTextToText,
       .empty_batch = EmptyTextToTextBatch,
       .heads = nullptr,
       .make = MakeTextToTextExamples,
       .answer =
           [](const ObjectiveConfig& config, const Model& model, const Tokenizer& tokenizer, const TaskType& task,
              const std::vector<TaskRow>& rows, const Observer& observer) {
             return AnswerInText(config, model, tokenizer, task, rows, DecoderOptions(), observer);
           }},
      {.name = "task-head",
       .tokenizer = {.sentinels = 0, .line_ends = LineEnds::kSpaces, .mask_tokens = MaskTokens::kYes},
       .own = MembersOf(&Config::tasks, &Config::task_data, &Config::window_stride, &Config::query_length,
                        &Config::answer_length),
       .describe = DescribeTaskHead,
       .empty_batch = EmptyTaskHeadBatch,
       .heads = HeadsOfTaskHead,
       .make = MakeTaskHeadExamples,
       .answer = AnswerByHead},
  };
  return types;
}

std::vector<std::string> ObjectiveNames() { return NamesIn(ObjectiveTypes()); }

const ObjectiveType& FindObjective(std::string_view name) { return FindNamed("objective", name, ObjectiveTypes()); }

}  // namespace crosstalk
