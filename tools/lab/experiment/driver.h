// What a command does with its experiments: says what they would take or how far they are, computes their cells, and
// writes their tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/enum_names.h"
#include "tools/cli/progress.h"
#include "tools/lab/experiment/cell_record.h"
#include "tools/lab/experiment/cells.h"
#include "tools/lab/experiment/experiment.h"
#include "tools/lab/experiment/plan.h"

namespace crosstalk {

// Writes table.md, table.csv, curves.csv, table.json, report.html and figure.svg of the cells that are there into each
// experiment's `out`, and prints the tables. Returns how many cells could not be read, and says so in its last line.
int64_t WriteTables(const std::vector<Experiment>& experiments, bool json);

// Computes the cells that are not finished, one after the other, and writes the tables. What fails is told at the end,
// and stops no other cell; what another process computes is left out. Returns the exit code.
int RunCells(const std::vector<Experiment>& experiments, const std::vector<Cell>& cells, bool json,
             const StopSignals& signals, RankGroup* ranks = nullptr);

// How far the cells of a call are, whichever processes on whichever machines compute them.

struct CellStatus {
  enum class State { kFinished, kRunning, kBegun, kFailed, kAnother, kNotBegun };
  std::string cell;  // "t5-talking-24x32, seed 1"
  State state = State::kNotBegun;
  std::string holder;                  // of a running one: "HOST, process 1234"
  std::string reason;                  // of a failed one, or of one whose folder holds another run
  int64_t step = 0, steps = 0;         // of its pretraining
  std::optional<double> seconds_left;  // of its pretraining, on one process
};

template <>
struct EnumNames<CellStatus::State> {
  using State = CellStatus::State;
  static constexpr EnumName<State> kTable[] = {{State::kFinished, "finished"}, {State::kRunning, "running"},
                                               {State::kFailed, "failed"},     {State::kAnother, "another run"},
                                               {State::kBegun, "begun"},       {State::kNotBegun, "to run"}};
};

struct Status {
  std::vector<CellStatus> cells;
  int64_t CountOf(CellStatus::State state) const;
  // The seconds left of the pretrainings, with the processes that run now and `more`, one if there is none. None before
  // a cell of each model is finished: a step's time is taken from these, by what the rows multiply.
  std::optional<double> SecondsLeft(int64_t more) const;
};

Status StatusOf(const std::vector<Cell>& cells);

// "12 of 40 cells finished, 2 running, 1 failed, 25 to run; about 9 min left".
// A caller that is about to compute the next cell counts itself as one process more.
std::string StatusSummary(const Status& status, int64_t more = 0);
// Prints a line of each cell and the summary, or all as JSON.
void PrintStatus(const std::vector<Cell>& cells, bool as_json);

// Finished cells, recomputed in another folder and compared: no tolerance.

struct Verification {
  std::string cell;                      // "t5-talking-24x32, seed 1"
  std::string model_sha256;              // of the pretrained model, as recomputed
  bool has_digest = true;                // whether the result that is there has one to compare with
  std::vector<std::string> differences;  // "ln_ppl: 2.1 there, 2.2 here"; empty: none
};
// "the same to the bit", or what differs.
std::string VerdictText(const Verification& verification);

// The differences of two records of a cell, except the time and the machine: the configuration as far as it affects
// the result, the digests of the models, what was measured of them, the text, and how sums were rounded. A record
// without digests is compared by its values.
std::vector<std::string> RecordDifferences(const CellRecord& there, const CellRecord& here);

// A cell whose result cannot be compared with anything, and why.
struct Unverifiable {
  std::string cell, reason;

  static FieldTable<Unverifiable> Fields() {
    return {{"cell", &Unverifiable::cell}, {"reason", &Unverifiable::reason}};
  }
};
// `count` of the cells whose results are there, drawn with the seed, all if there are no more; in their order. Of
// those that cannot be drawn, as they cannot be read or are of another configuration, it says so.
struct DrawnCells {
  std::vector<Cell> cells;
  std::vector<Unverifiable> others;
};
DrawnCells CellsToVerify(const std::vector<Cell>& cells, int64_t count, uint64_t seed);

// Computes the cell in `folder`, from its beginning whatever is there, and compares it with the cell's result; that it
// cannot be computed is a difference. Equal ones are removed. False: a signal ended it. Error(kUsage) where the cell
// itself is there. The caller holds the lock of `folder`.
bool Verify(const Cell& cell, const std::string& folder, const StopSignals& signals, Verification* verification);

// Prints a table, or {"verified": [{"cell", "same", "model_sha256", "differences"}, …], "not_verified": [{"cell",
// "reason"}, …]}.
void PrintVerification(const std::vector<Verification>& verified, const std::vector<Unverifiable>& others,
                       bool as_json);

}  // namespace crosstalk
