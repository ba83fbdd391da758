// What a command does with its experiments: says what they would take or how far they are, computes their cells, and
// writes their tables.
#pragma once

#include <cstdint>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tools/cli/signals.h"
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

// Prints how far the cells are, and what they would take.
void PrintStatus(const std::vector<Cell>& cells, bool json);
void PrintPlan(const Plan& plan, bool json);

}  // namespace crosstalk
