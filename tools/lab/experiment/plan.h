// The cost of a call, before it begins: runs, time, disk and memory, by multiplications and one rate that is
// measured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tools/lab/experiment/cells.h"

namespace crosstalk {

// Of one row: its cells are alike.
struct RowPlan {
  std::string name;  // "t5-talking-24x32"
  int64_t cells = 0, finished = 0, begun = 0;
  int64_t steps_left = 0;              // of pretraining, over its cells
  std::optional<double> step_seconds;  // none where there is nothing left to do, or no rate
  double seconds = 0;                  // to finish its cells
  int64_t memory_bytes = 0;            // of a step's tensors
  int64_t disk_bytes = 0;              // that its cells take when they are finished
  int64_t step_multiplications = 0;
  int64_t parameters = 0;  // of the model
};

struct Plan {
  std::vector<RowPlan> rows;
  std::vector<std::string> not_finetuned;  // tasks whose files are not there
  // Multiplications a second of each model that has something left to do, where they could be measured.
  std::map<std::string, double> rates;
  int64_t cells() const;
  int64_t finished() const;
  int64_t disk_bytes() const;
  int64_t memory_bytes() const;           // the most that a row takes
  std::optional<double> seconds() const;  // none where there is no rate
};

// Measures a few passes of each model that has something left to do, of its quickest row. A signal ends it early with
// Interrupted. Error(kUsage) where cells hold runs of another configuration.
Plan MakePlan(const std::vector<Cell>& cells, const StopSignals& signals);

// A line of each row and a sum, for people.
std::string PlanText(const Plan& plan);
// The sum alone.
std::string PlanSummary(const Plan& plan);
Json ToJson(const Plan& plan);

}  // namespace crosstalk
