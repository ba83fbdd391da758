#include "crosstalk/models/objectives/config.h"

#include <utility>

namespace crosstalk {

const FieldTable<ObjectiveConfig>& ObjectiveFields() {
  using Config = ObjectiveConfig;
  static const FieldTable<Config> table = Joined(
      Grouped<Config>(
          "Data",
          {MakeField("objective", &Config::name,
                     {.placeholder = "NAME", .help = "What is learnt; the model's own by default."}),
           MakeField("input_length", &Config::input_length,
                     {.placeholder = "N",
                      .help = "Input tokens an example; the targets' length follows from the objective.",
                      .range = {4, 16'777'216}}),
           MakeField("noise_density", &Config::noise_density,
                     {.placeholder = "SHARE", .help = "Part of the tokens that is hidden.", .range = {0.001, 0.999}}),
           MakeField(
               "mean_span_length", &Config::mean_span_length,
               {.placeholder = "X", .help = "Mean length of what is hidden at a time, in tokens.", .range = {1, 1000}}),
           MakeField(
               "masking", &Config::masking,
               {.placeholder = "KIND",
                .help = "What is hidden: tokens one by one, or ngrams of one to three whole words; the model's own "
                        "by default.",
                .may_be_missing = true}),
           MakeField(
               "sentence_task", &Config::sentence_task,
               {.placeholder = "TASK",
                .help = "What is asked of the two segments of an example: whether the second follows the first "
                        "(next-sentence), whether they are in order (sentence-order), or nothing, and then there is "
                        "one (none); the model's own by default.",
                .may_be_missing = true}),
           MakeField(
               "most_masked", &Config::most_masked,
               {.placeholder = "N",
                .help = "Tokens hidden in an example, at most; noise_density of input_length by default, rounded up.",
                .range = {1, 16'777'216},
                .may_be_missing = true}),
           MakeField("short_share", &Config::short_share,
                     {.placeholder = "SHARE",
                      .help = "Part of the examples that is made shorter, to a length drawn at random.",
                      .range = {0, 1},
                      .may_be_missing = true})}),
      Grouped<Config>(
          "Tasks",
          {MakeField(
               "task", &Config::tasks,
               {.placeholder = "NAMES",
                .help = "What is learnt and measured, by names that commas separate; docs/tasks.md lists them. A T5 "
                        "learns several as one mixture, an encoder several that share a head.",
                .may_be_missing = true}),
           MakeField("task_data", &Config::task_data,
                     {.placeholder = "FOLDER",
                      .help = "Folder with the tasks' files as they are published, or one task's own.",
                      .affects_result = AffectsResult::kNo,  // compared by content
                      .may_be_missing = true}),
           MakeField("target_length", &Config::target_length,
                     {.placeholder = "N",
                      .help = "Tokens of an answer, the end token counted: longer ones are cut.",
                      .range = {2, 16'777'216},
                      .may_be_missing = true}),
           MakeField(
               "mixture_cap", &Config::mixture_cap,
               {.placeholder = "N",
                .help = "Tasks are mixed in proportion to their rows, each counted up to so many; all by default.",
                .range = AtLeast(1),
                .may_be_missing = true}),
           MakeField("window_stride", &Config::window_stride,
                     {.placeholder = "N",
                      .help = "Tokens from one window over a long passage to the next.",
                      .range = {1, 16'777'216},
                      .may_be_missing = true}),
           MakeField("query_length", &Config::query_length,
                     {.placeholder = "N",
                      .help = "Tokens of the question beside a passage, at most.",
                      .range = {1, 16'777'216},
                      .may_be_missing = true}),
           MakeField("answer_length", &Config::answer_length,
                     {.placeholder = "N",
                      .help = "Tokens of an answer that is found in a passage, at most.",
                      .range = {1, 16'777'216},
                      .may_be_missing = true})}));
  return table;
}

}  // namespace crosstalk
