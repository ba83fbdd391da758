// What a call would cost, before it begins: runs, time, disk and memory, from a few measured steps of each row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tools/reproduce/cells.h"

namespace crosstalk {

// Of one row: its cells are alike.
struct RowPlan {
  std::string name;  // "t5-talking-24x32"
  int64_t cells = 0, finished = 0, begun = 0;
  int64_t steps_left = 0;                    // of pretraining, over its cells
  std::optional<double> step_seconds;        // measured here; none where it does not fit into this machine, or diverges
  int64_t measured_examples = 0, batch = 0;  // of a step: less of the batch where the time was scaled up
  int64_t measured_layers = 0, layers = 0;   // the same
  double seconds = 0;                        // to finish its cells
  int64_t memory_bytes = 0;                  // of a step's tensors
  int64_t disk_bytes = 0;                    // that its cells take when they are finished
  int64_t step_multiplications = 0;
  int64_t parameters = 0;  // of the model
};

struct Plan {
  std::vector<RowPlan> rows;
  std::vector<std::string> not_finetuned;  // tasks whose files are not there
  std::vector<std::string> diverging;      // what could not be measured, as its first steps were not finite, and why
  int64_t cells() const;
  int64_t finished() const;
  int64_t disk_bytes() const;
  int64_t memory_bytes() const;           // the most that a row takes
  std::optional<double> seconds() const;  // none where a row could not be measured
};

// Measures steps of each row that has something left to do, on the built-in corpus. `stop` ends it early with
// Interrupted. Error(kUsage) where cells hold runs of another configuration.
Plan MakePlan(const std::vector<Cell>& cells, const StopSignals& signals);

// A line of each row and a sum, for people.
std::string PlanText(const Plan& plan);
// The sum alone.
std::string PlanSummary(const Plan& plan);
Json ToJson(const Plan& plan);

}  // namespace crosstalk
