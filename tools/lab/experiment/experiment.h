// An experiment: settings × seeds, each a run of its own, and the table that they give. `reproduce` makes one of a
// table of the paper at a scale, `compare` one of the values of a field.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/lab/experiment/cells.h"
#include "tools/lab/experiment/table.h"

namespace crosstalk {

struct Experiment {
  Table table;  // its rows are the settings; without measures all are shown that the runs have at their end
  std::vector<TrainingConfig> configs;  // of each row, without the seed
  std::vector<CellFinetuning> finetunings;
  std::vector<uint64_t> seeds;     // asked for; others that are there count too
  std::string scale, fingerprint;  // by which the rows were made; empty: by none
  std::string about;               // what the rows have in common, a sentence
  std::string lead;                // of the page
  std::string out;                 // gets the table
  std::string cells;               // gets the runs, which experiments may share
  std::string task_data;           // folder with the tasks' files; where it lacks them, that of the finetuning counts

  Cell CellOf(size_t row, uint64_t seed) const;
};

// The cells of the experiments, each once although several may have it; seed by seed, so that an early look compares
// all rows. All configurations are checked: Error(kUsage) of the field at fault.
std::vector<Cell> CellsOf(const std::vector<Experiment>& experiments);

// The layer that a row is about: in a model where only some places or layers have attention of another kind than the
// others, theirs.
AttentionConfig LayerOfRow(const TrainingConfig& config);

}  // namespace crosstalk
