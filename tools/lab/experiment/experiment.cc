#include "tools/lab/experiment/experiment.h"

#include <algorithm>
#include <optional>
#include <set>

#include "crosstalk/models/metrics.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/check.h"
#include "tools/cli/training.h"

namespace crosstalk {

namespace {

bool IsMetric(const TableMeasure& measure) { return measure.task.empty() && measure.mean_of.empty(); }
MetricDisplay DisplayOf(const TableMeasure& measure) { return crosstalk::DisplayOf({.name = measure.name}); }

}  // namespace

FieldTable<TableMeasure> TableMeasure::Fields() {
  using M = TableMeasure;
  return {{"name", &M::name},
          {"label", &M::label},
          {"task", &M::task, {.may_be_missing = true}},
          {"of", &M::of, {.may_be_missing = true}},
          {"mean_of", &M::mean_of, {.may_be_missing = true}},
          {"curve_below", &M::curve_below, {.may_be_missing = true}},
          {"digits", &M::digits, {.range = {0, 9}}}};
}

FieldTable<TableRow> TableRow::Fields() {
  using R = TableRow;
  return {{"name", &R::name},
          {"config", &R::config},
          {"paper", &R::paper, {.may_be_missing = true}},
          {"group", &R::group, {.may_be_missing = true}},
          {"series", &R::series, {.may_be_missing = true}},
          {"paper_label_lost", &R::label_lost, {.may_be_missing = true}}};
}

FieldTable<TableClaim> TableClaim::Fields() {
  using C = TableClaim;
  return {{"text", &C::text}, {"source", &C::source}, {"measures", &C::measures}, {"pairs", &C::pairs}};
}

FieldTable<Table> Table::Fields() {
  return {{"name", &Table::name},
          {"title", &Table::title},
          {"section", &Table::section, {.may_be_missing = true}},
          {"width", &Table::width, {.range = {1, 1 << 20}, .may_be_missing = true}},
          {"scale", &Table::scale, {.may_be_missing = true}},
          {"over", &Table::over, {.may_be_missing = true}},
          {"model", &Table::model},
          {"note", &Table::note},
          {"measures", &Table::measures, {.may_be_missing = true}},
          {"rows", &Table::rows},
          {"claims", &Table::claims}};
}

TableMeasure MeasureOfMetric(const std::string& name) {
  return {.name = name, .label = crosstalk::DisplayOf({.name = name}).label};
}

bool LowerIsBetter(const TableMeasure& measure) {
  return measure.curve_below || (IsMetric(measure) && DisplayOf(measure).lower_is_better);
}

int ShownDigits(const TableMeasure& measure) {
  if (measure.curve_below) return 0;
  return IsMetric(measure) && !DisplayOf(measure).is_share ? 4 : 2;
}

std::optional<double> TableRow::Printed(const std::string& key) const {
  const Json* value = paper.Find(key);
  return value != nullptr && value->is_number() ? std::optional<double>(value->AsDouble()) : std::nullopt;
}

Cell Experiment::CellOf(size_t row, uint64_t seed) const {
  Cell cell = {.name = table.CellName(table.rows.at(row))};
  cell.folder = SeedFolder(StrCat(cells, "/", cell.name), seed);
  cell.pretraining = configs.at(row);
  cell.pretraining.optimization.seed = seed;
  MakePathsAbsolute(&cell.pretraining);
  cell.finetunings = finetunings;
  cell.task_data = task_data;
  return cell;
}

std::vector<Cell> CellsOf(const std::vector<Experiment>& experiments) {
  std::vector<uint64_t> seeds;  // of all, in the order in which they are asked for
  for (const Experiment& one : experiments) {
    for (const uint64_t seed : one.seeds) {
      if (std::find(seeds.begin(), seeds.end(), seed) == seeds.end()) seeds.push_back(seed);
    }
  }
  std::vector<Cell> cells;
  for (const uint64_t seed : seeds) {
    std::set<std::string> names;
    for (const Experiment& one : experiments) {
      if (std::find(one.seeds.begin(), one.seeds.end(), seed) == one.seeds.end()) continue;
      for (size_t row = 0; row < one.configs.size(); ++row) {
        if (!names.insert(one.table.CellName(one.table.rows[row])).second) continue;
        cells.push_back(one.CellOf(row, seed));
        const ResolvedConfig checked(cells.back().pretraining);
      }
    }
  }
  return cells;
}

AttentionConfig LayerOfRow(const TrainingConfig& config) {
  for (const std::optional<AttentionKind>& place :
       {config.model.encoder_self_kind, config.model.decoder_self_kind, config.model.encoder_decoder_kind}) {
    if (place && *place != config.model.attention.kind) return MakeAttentionLayer(config.model, place);
  }
  for (const AttentionKind kind : config.model.layer_kinds) {
    if (kind != config.model.attention.kind) return MakeAttentionLayer(config.model, kind);
  }
  return MakeAttentionLayer(config.model);
}

}  // namespace crosstalk
