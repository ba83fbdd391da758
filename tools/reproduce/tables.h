// The paper's ten tables: rows as configurations at the published width, the printed numbers, and the claims about
// them. They are the data of tables.json, which is part of the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/runtime/json.h"

namespace crosstalk {

// The width at which the configurations of tables.json are.
inline constexpr int64_t kPaperWidth = 768;

// A column: a measure of pretraining by its name in metrics.jsonl ("ln_ppl"), a task's (`task` and `of`, a name of
// scores.json), or the mean of other columns. Shares are in per cent, as the paper has them.
struct TableMeasure {
  std::string name, label;
  std::string task, of;
  std::vector<std::string> mean_of;
  int digits = 3;  // behind the point, that the paper prints at least
};
// Perplexity is the only one of which less is better.
bool LowerIsBetter(const TableMeasure& measure);

struct TableRow {
  std::string name;         // "talking-24x32": says the configuration, so that tables share what is alike
  Json config;              // fields of a training configuration at width 768
  Json paper;               // the printed numbers by measure; also ln_ppl_deviation, ln_ppl_long, step_time, parameters
  bool label_lost = false;  // which of some rows the paper's numbers belong to is not certain

  std::optional<double> Printed(const std::string& key) const;
};

// "a pair's first row is better than its second, on this measure", for all pairs.
struct TableClaim {
  std::string text, source;
  std::vector<std::string> measures;  // the claim is tested on each that was measured
  std::vector<std::pair<std::string, std::string>> pairs;
};

struct Table {
  int number = 0;
  std::string title, section, model, note;
  std::vector<TableMeasure> measures;
  std::vector<TableRow> rows;
  std::vector<TableClaim> claims;

  // Where the cells of a row are, in all tables that have it: "t5-talking-24x32".
  std::string CellName(const TableRow& row) const { return model + "-" + row.name; }
};

// In the paper's order.
const std::vector<Table>& Tables();

// Tables of that form. Error(kData) with `source` for what is not one, or names a row or measure that is not there.
std::vector<Table> TablesFromJson(const Json& json, const std::string& source);

}  // namespace crosstalk
