// A scale: at which size the tables are computed. A file that a user reads, copies and changes;
// docs/reproduction.md says what stands in it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/json.h"
#include "tools/lab/experiment/experiment.h"

namespace crosstalk {

// The paper's ten tables and this project's own: rows as configurations at the table's width, the printed numbers, and
// the claims about them. They are the data of tables.json, which is part of the program.

// The paper's in its order, then this project's.
const std::vector<Table>& Tables();
std::vector<std::string> TableNames();

struct ScaleModel {
  Json fields = Json::MakeObject();   // what the file says of the pretraining
  TrainingConfig pretraining;         // of every row, without its attention and its seed
  std::optional<double> heads_ratio;  // heads here, of one head in the table; that of the widths by default
  std::optional<int64_t> seeds;       // the scale's by default
  std::vector<CellFinetuning> finetunings;

  static FieldTable<ScaleModel> Fields();
};

struct TableScale {
  std::string name, about;
  int64_t seeds = 1;
  std::map<std::string, ScaleModel> models;  // by model, or model and table: "lm", "lm.puzzles"
  std::string fingerprint;                   // of what the file says

  // The table's settings: its own, or else its model's. Null: there are none.
  const ScaleModel* SettingsOf(const Table& table) const;
  int64_t SeedsOf(const Table& table) const;
  static FieldTable<TableScale> Fields();
  void Validate() const;
};

// "smoke", "small", …: those that are part of the program, from the smallest on.
std::vector<std::string> ScaleNames();
// The file of one of them.
std::string ScaleText(const std::string& name);
// One of them, or a file. Error(kData) that names the file and the key for what is not a scale.
TableScale LoadScale(const std::string& name_or_path);
TableScale ScaleFromJson(const Json& json, const std::string& source, const std::string& folder = ".");

// Nearest to heads·ratio (the larger of two that are as near) among the numbers of heads that divide `product`, which
// is all heads' keys together.
int64_t ScaledHeads(int64_t heads, double ratio, int64_t product);

// A row of a table at a scale: its attention, with heads scaled such that all heads' keys together keep their share of
// the model's width. Error(kUsage) of the field heads_ratio where they cannot, or the ratio of key heads, softmax heads
// and value heads would be lost.
TrainingConfig ConfigOfRow(const TableScale& scale, const Table& table, const TableRow& row);
// The same for all rows of a table. Error(kUsage) of heads_ratio where two of them would be the same.
std::vector<TrainingConfig> ConfigsOfRows(const TableScale& scale, const Table& table);

// The table at the scale, with seeds 1 to `seeds`, on the text `data`; empty: the scale's, or the built-in corpus.
// Where it goes is left open.
Experiment ExperimentOf(const TableScale& scale, const Table& table, int64_t seeds, const std::string& data);

}  // namespace crosstalk
