// An experiment: settings × seeds, each a run of its own, and the table that they give. `reproduce` makes one of a
// table of the paper at a scale, `compare` one of the values of a field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tools/lab/experiment/cells.h"

namespace crosstalk {

// A table as it is asked for: its rows, what is measured of them, the claims about them, and the printed numbers if
// there are any.

// A column: a measure of pretraining by its name in metrics.jsonl ("ln_ppl"), a task's (`task` and `of`, a name of
// scores.json), the step at which held-out ln(PPL) first is `curve_below`, or the mean of other columns. Shares are in
// per cent, as the paper has them.
struct TableMeasure {
  std::string name, label;
  std::string task, of;
  std::vector<std::string> mean_of;
  std::optional<double> curve_below;
  int digits = 3;  // after the point, that the paper prints at least

  static FieldTable<TableMeasure> Fields();
};
// The measure of a run by its name in metrics.jsonl.
TableMeasure MeasureOfMetric(const std::string& name);
// True for perplexity and for steps.
bool LowerIsBetter(const TableMeasure& measure);
// After the point of our own values: one more of ln(PPL) than the paper prints shows what rounds.
int ShownDigits(const TableMeasure& measure);

struct TableRow {
  std::string name;  // "talking-24x32": says the configuration, so that tables share what is alike
  Json config;       // fields of a training configuration at the table's width
  Json paper =
      Json::MakeObject();   // the printed numbers by measure; also ln_ppl_deviation, ln_ppl_long, step_time, parameters
  std::string group;        // rows of one are taken to scatter alike, and seeds to act on them alike
  std::string cell;         // where its cells are, in all tables that have it; empty: MODEL-NAME
  std::string series;       // of the table's figure, the curve that the row is a point of
  bool label_lost = false;  // which of some rows the paper's numbers belong to is not certain

  std::optional<double> Printed(const std::string& key) const;
  static FieldTable<TableRow> Fields();
};

// "a pair's first row is better than its second, on this measure", for all pairs.
struct TableClaim {
  std::string text, source;
  std::vector<std::string> measures;  // the claim is tested on each that was measured
  std::vector<std::vector<std::string>> pairs;

  static FieldTable<TableClaim> Fields();
};

struct Table {
  std::string name;  // "1" to "10", or that of a table of this project, "heads"; empty: it was asked for once
  std::string title, model, note;
  std::string rows_are = "row";  // what tells the rows apart: "heads"
  std::string section;           // of the paper; empty: it is none of the paper's
  int64_t width = 768;           // d_model of its rows' configurations
  std::string scale = "smoke";   // at which it is computed if none is named
  std::string over = "heads";    // the field of a training configuration that the figure's curves are over
  std::vector<TableMeasure> measures;
  std::vector<TableRow> rows;
  std::vector<TableClaim> claims;

  bool IsOfPaper() const { return !section.empty(); }
  // "Table 1", and "Table 1: Multi-head and …".
  std::string Label() const { return name.empty() ? title : "Table " + name; }
  std::string Heading() const { return name.empty() ? title : Label() + ": " + title; }
  // Where the cells of a row are, in all tables that have it: "t5-talking-24x32".
  std::string CellName(const TableRow& row) const { return row.cell.empty() ? model + "-" + row.name : row.cell; }
  static FieldTable<Table> Fields();
};

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
