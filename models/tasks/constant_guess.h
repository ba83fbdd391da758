// The best answer to a task without reading it: a model must beat it to have learnt anything.
#pragma once

#include <vector>

#include "crosstalk/models/tasks/task.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

struct ConstantAnswer {
  std::vector<TaskPrediction> predictions;
  std::vector<Metric> measures;  // of these
};
// Of all constant answers to the rows the one whose MainScore is the highest: each label, each place among the choices,
// the mean number, no answer.
ConstantAnswer BestConstantAnswer(const TaskType& task, const std::vector<TaskRow>& rows);

}  // namespace crosstalk
