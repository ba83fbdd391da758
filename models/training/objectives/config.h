// ObjectiveConfig: what is learnt, of text or of tasks, and its table of fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "crosstalk/models/recipe.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// The fields' rows say what they mean.
struct ObjectiveConfig {
  std::optional<std::string> name;
  int64_t input_length = 128;
  double noise_density = 0.15;
  double mean_span_length = 3.0;
  std::optional<Masking> masking;
  std::optional<SentenceTask> sentence_task;
  std::optional<int64_t> most_masked;
  double short_share = 0.1;

  std::string tasks;
  std::string task_data;
  int64_t target_length = 64;
  std::optional<int64_t> mixture_cap;
  int64_t window_stride = 128;
  int64_t query_length = 64;
  int64_t answer_length = 30;
};

// The objectives that there are, and which of them read which field, are added where they are known (TrainingFields()).
const FieldTable<ObjectiveConfig>& ObjectiveFields();

}  // namespace crosstalk
