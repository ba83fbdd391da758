// Finetuning: a run on tasks that begins with another's weights, and its published settings.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/origin.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// The published length for a model and a task: passes over the examples, or steps.
struct FinetuningLength {
  double epochs = 3;
  int64_t steps = 0;  // where not 0, instead of the passes
  double warmup = 0;  // share of the steps
};

// The model, tokenizer and lengths of the origin, the objective by which its model learns tasks, and published settings
// for the tasks named (docs/finetuning.md has the table). The steps are those of `length` once the examples are
// counted. Error(kUsage) of the field "model" for one that learns no tasks, and as of ParseTasks.
TrainingConfig FinetuningConfig(const TrainedModel& origin, const std::string& tasks, FinetuningLength* length);

// Sets steps, and the warm-up that is a share of them, where they are not said otherwise. The examples are counted only
// for steps that follow from passes over them.
void SetSteps(const FinetuningLength& length, const std::function<int64_t()>& count_examples, TrainingConfig* config);

}  // namespace crosstalk
