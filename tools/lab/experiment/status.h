// How far the cells of a call are, whichever processes on whichever machines compute them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tools/lab/experiment/cells.h"

namespace crosstalk {

struct CellStatus {
  enum class State { kFinished, kRunning, kBegun, kFailed, kAnother, kNotBegun };
  std::string cell;  // "t5-talking-24x32, seed 1"
  State state = State::kNotBegun;
  std::string holder;                  // of a running one: "HOST, process 1234"
  std::string reason;                  // of a failed one, or of one whose folder holds another run
  int64_t step = 0, steps = 0;         // of its pretraining
  std::optional<double> seconds_left;  // of its pretraining, on one process
};

struct Status {
  std::vector<CellStatus> cells;
  int64_t CountOf(CellStatus::State state) const;
  // Of the pretrainings, with the processes that run now and `more`, one where there is none. None before a cell of
  // each model is finished: a step's time is taken from these, by what the rows multiply.
  std::optional<double> SecondsLeft(int64_t more) const;
};

Status StatusOf(const std::vector<Cell>& cells);

// "12 of 40 cells finished, 2 running, 1 failed, 25 to run; about 9 min left".
// A caller that is about to compute the next cell counts itself as one process more.
std::string StatusSummary(const Status& status, int64_t more = 0);
// A line of each cell, and the summary.
std::string StatusText(const Status& status);
Json ToJson(const Status& status);

}  // namespace crosstalk
