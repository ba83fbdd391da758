#include <algorithm>
#include <charconv>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/output.h"
#include "tools/lab/experiment/results.h"
#include "tools/page/seeds.h"

namespace crosstalk {

namespace {

// As printed: at least the measure's digits, and all that there are.
std::string PrintedText(double value, int digits) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  const std::string shortest(text, end);
  const size_t point = shortest.find('.');
  const int decimals = point == std::string::npos ? 0 : static_cast<int>(shortest.size() - point - 1);
  return FixedText(value, std::max(digits, decimals));
}

std::string OursText(const TableMeasure& measure, const BySeed& by_seed) {
  if (by_seed.empty()) return "";
  const MeanAndDeviation summary = Summarise(ValuesOf(by_seed));
  const int digits = ShownDigits(measure);
  return StrCat(FixedText(summary.mean, digits), by_seed.size() > 1 ? " ± " + FixedText(summary.deviation, digits) : "",
                " (", by_seed.size(), ")");
}

std::string PaperText(const TableRow& row, const std::string& key, int digits) {
  const std::optional<double> value = row.Printed(key);
  if (!value) return "";
  std::string text = PrintedText(*value, digits);
  if (const auto deviation = row.Printed(key + "_deviation")) text += " (" + PrintedText(*deviation, digits) + ")";
  return text + (row.label_lost ? " ?" : "");
}

bool IsPrinted(const TableResult& result, const std::string& key) {
  const auto has = [&](const RowResult& row) { return row.row->Printed(key).has_value(); };
  return std::any_of(result.rows.begin(), result.rows.end(), has);
}

std::string IntervalText(const std::optional<Interval>& interval, int digits) {
  if (!interval) return "";
  return StrCat(FixedText(interval->low, digits), " … ", FixedText(interval->high, digits));
}

std::optional<double> RelativeTime(const TableResult& result, const RowResult& row) {
  const std::optional<double>& first = result.rows[0].step_time;
  if (!first || !row.step_time || !(*first > 0)) return std::nullopt;
  return *row.step_time / *first;
}

std::optional<double> PrintedRelativeTime(const TableResult& result, const TableRow& row) {
  const std::optional<double> first = result.rows[0].row->Printed("step_time"), own = row.Printed("step_time");
  if (!first || !own) return std::nullopt;
  return *own / *first;
}

// Of the runs whose processors told it; empty of none.
std::string EnergyNote(const TableResult& result) {
  double joules = 0;
  int64_t told = 0, runs = 0;
  for (const RowResult& row : result.rows) {
    for (const CellResult& cell : row.cells) {
      ++runs;
      told += cell.joules ? 1 : 0;
      joules += cell.joules.value_or(0);
    }
  }
  if (told == 0) return "";
  return StrCat("The processors took ", FixedText(joules / 3600, 1), " Wh for the pretraining of ", told, " of the ",
                runs, " runs, whatever else they did meanwhile.");
}

std::string Listed(const std::set<std::string>& texts) { return Join({texts.begin(), texts.end()}, "; "); }

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json IntervalJson(const std::optional<Interval>& interval) {
  return interval ? Json::MakeArray({interval->low, interval->high}) : Json();
}

// Quoted where it has to be.
std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  return "\"" + Join(Split(text, '"'), "\"\"") + "\"";
}

std::string CsvLine(const std::vector<std::string>& cells) {
  std::vector<std::string> quoted;
  for (const std::string& cell : cells) quoted.push_back(CsvCell(cell));
  return Join(quoted, ",") + "\n";
}

std::string NumberText(const std::optional<double>& value) { return value ? Json(*value).Dump() : ""; }

}  // namespace

TextTable MeasuresTable(const TableResult& result) {
  TextTable table;
  table.header = {result.table->rows_are, "heads here"};
  for (const TableMeasure& measure : result.measures) {
    const bool here = result.IsMeasured(measure), there = IsPrinted(result, measure.name);
    if (here) table.header.push_back(measure.label);
    if (there) table.header.push_back(StrCat("paper: ", measure.label));
    const bool more = there && IsPrinted(result, measure.name + "_long");
    if (more) table.header.push_back(StrCat("paper: ", measure.label, ", 8 times the steps"));
  }
  for (const RowResult& row : result.rows) {
    const AttentionConfig& layer = row.layer;
    const bool alike = layer.form == AttentionForm::kBilinear || (layer.h_k == layer.h && layer.h == layer.h_v);
    const std::string heads = alike ? StrCat(layer.h) : StrCat(layer.h_k, ", ", layer.h, ", ", layer.h_v);
    std::vector<std::string> cells = {row.row->name, layer.d_k > 0 ? StrCat(heads, " × ", layer.d_k) : heads};
    for (const TableMeasure& measure : result.measures) {
      if (result.IsMeasured(measure)) cells.push_back(OursText(measure, row.ValuesOf(measure)));
      if (!IsPrinted(result, measure.name)) continue;
      cells.push_back(PaperText(*row.row, measure.name, measure.digits));
      if (IsPrinted(result, measure.name + "_long")) {
        cells.push_back(PaperText(*row.row, measure.name + "_long", measure.digits));
      }
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

TextTable CostsTable(const TableResult& result) {
  const bool printed = IsPrinted(result, "parameters"), timed = IsPrinted(result, "step_time");
  TextTable table;
  table.header = {result.table->rows_are, "parameters, layer"};
  if (printed) table.header.push_back("paper: parameters, layer");
  for (const char* name :
       {"multiplications, layer", "parameters, model", "step time (ms)", "step time, to the first row"}) {
    table.header.emplace_back(name);
  }
  if (timed) table.header.push_back("paper: step time, to the first row");
  for (const RowResult& row : result.rows) {
    std::vector<std::string> cells = {row.row->name, CountText(row.cost.parameters)};
    const std::optional<double> parameters = row.row->Printed("parameters");
    if (printed) cells.push_back(parameters ? CountText(static_cast<int64_t>(*parameters)) : "");
    cells.push_back(CountText(row.cost.multiplications));
    cells.push_back(row.model_parameters > 0 ? CountText(row.model_parameters) : "");
    cells.push_back(row.step_time ? FixedText(1000 * *row.step_time, 1) : "");
    const std::optional<double> ours = RelativeTime(result, row), theirs = PrintedRelativeTime(result, *row.row);
    cells.push_back(ours ? FixedText(*ours, 2) : "");
    if (timed) cells.push_back(theirs ? FixedText(*theirs, 2) + (row.row->label_lost ? " ?" : "") : "");
    table.rows.push_back(std::move(cells));
  }
  return table;
}

TextTable ClaimsTable(const TableResult& result, std::vector<std::string>* not_measured) {
  TextTable table;
  table.header = {"claim", "verdict", "better, as claimed", "than", "by (mean)", "95 % interval", "seeds"};
  for (const ClaimResult& claim : result.claims) {
    const std::string text = StrCat(claim.claim->text, " (", claim.claim->source, "; ", claim.measure.label, ")");
    if (claim.seeds == 0) {
      not_measured->push_back(text);
      if (std::all_of(claim.pairs.begin(), claim.pairs.end(), [](const auto& one) { return one.gains.empty(); }))
        continue;
    }
    const int digits = ShownDigits(claim.measure);
    bool first = true;
    for (const PairResult& pair : claim.pairs) {
      table.rows.push_back({first ? text : "", first ? claim.VerdictText() : "", pair.better, pair.worse,
                            pair.gains.empty() ? "" : FixedText(pair.mean, digits), IntervalText(pair.at_95, digits),
                            StrCat(pair.gains.size())});
      first = false;
    }
  }
  return table;
}

TextTable DifferencesTable(const TableResult& result) {
  TextTable table = {{"measure", "of", "less that of", "difference (mean)", "95 % interval", "seeds"}, {}};
  for (const TableMeasure& measure : result.measures) {
    const int digits = ShownDigits(measure);
    for (const SettingPair& pair : result.PairsOf(measure)) {
      table.rows.push_back({measure.label, result.rows[pair.of].row->name, result.rows[pair.less].row->name,
                            FixedText(Summarise(ValuesOf(pair.differences)).mean, digits),
                            IntervalText(pair.interval, digits), StrCat(pair.differences.size())});
    }
  }
  return table;
}

std::vector<std::string> RunNotes(const TableResult& result) {
  std::vector<std::string> notes;
  notes.push_back(result.experiment->about);
  if (result.MostSeeds() == 0) {
    notes.emplace_back("Nothing has been measured yet: every number here is the paper's, or follows from the sizes.");
    return notes;
  }
  const std::optional<int64_t> steps = result.Steps(), length = result.Length();
  notes.push_back(StrCat(steps ? StepsText(*steps) + " of pretraining; data: " : "Data: ", Listed(result.data), "."));
  notes.push_back(StrCat("crosstalk ", Listed(result.versions), "; bits: ", Listed(result.simd_bits), "."));
  notes.push_back(
      StrCat("Step times are medians, measured on ", Listed(result.processors),
             result.processors.size() > 1 ? ": on several kinds of machine, so that their ratios say little." : "."));
  if (const std::string energy = EnergyNote(result); !energy.empty()) notes.push_back(energy);
  notes.push_back(StrCat(result.table->IsOfPaper() ? "Ours" : "A value",
                         " is the mean ± the standard deviation over seeds, with their number. Costs of a layer are "
                         "for n = m = ",
                         length ? StrCat(*length) : "the input_length of each row", ", without biases."));
  return notes;
}

std::string ClaimsNote() {
  return "Each claim is tested on differences between runs of the same seed, which saw the same text in the same "
         "order: "
         "their mean, and its two-sided 95 % interval by Student's t, with the scatter of all rows of a kind together, "
         "row "
         "and seed taken out, or their own where that is larger. A claim holds if the interval of every pair is above "
         "0; "
         "it does not hold if that of some pair is below 0 at the level 1 - 0.05/(number of pairs); otherwise it is "
         "undecided.";
}

std::string Markdown(const TableResult& result) {
  const Table& table = *result.table;
  std::string text = StrCat("# ", table.Heading(), "\n\n");
  for (const std::string& note : RunNotes(result)) text += EscapeMarkdown(note) + "\n";
  text += "\n" + MarkdownTable(MeasuresTable(result));
  if (!table.note.empty()) text += "\n" + table.note + "\n";
  text += "\n## Cost\n\n" + MarkdownTable(CostsTable(result));
  if (table.claims.empty()) {
    const TextTable differences = DifferencesTable(result);
    if (!differences.rows.empty()) {
      text += StrCat("\n## Differences\n\n", DifferencesNote(), "\n\n", MarkdownTable(differences));
    }
  } else {
    text += "\n## Claims\n\n";
  }
  std::vector<std::string> not_measured;
  const TextTable claims = ClaimsTable(result, &not_measured);
  if (!claims.rows.empty()) text += ClaimsNote() + "\n\n" + MarkdownTable(claims);
  if (!not_measured.empty()) text += "\nNot measured:\n\n";
  for (const std::string& claim : not_measured) text += "- " + claim + "\n";
  if (!result.missing.empty()) text += "\n## Missing\n\n";
  for (const MissingCell& cell : result.missing)
    text += EscapeMarkdown(StrCat("- ", cell.title, ": ", cell.reason)) + "\n";
  return text;
}

std::string Csv(const TableResult& result) {
  std::vector<std::string> header = {"row"};
  for (const TableMeasure& measure : result.measures) {
    for (const char* part : {"_mean", "_deviation", "_seeds", "_paper"}) header.push_back(measure.name + part);
  }
  for (const char* name : {"layer_parameters", "layer_parameters_paper", "layer_multiplications", "model_parameters",
                           "step_seconds", "step_time_relative", "step_time_relative_paper"}) {
    header.emplace_back(name);
  }
  std::string text = CsvLine(header);
  for (const RowResult& row : result.rows) {
    std::vector<std::string> cells = {row.row->name};
    for (const TableMeasure& measure : result.measures) {
      const std::vector<double> values = ValuesOf(row.ValuesOf(measure));
      const MeanAndDeviation summary = Summarise(values);
      cells.push_back(values.empty() ? "" : Json(summary.mean).Dump());
      cells.push_back(values.size() < 2 ? "" : Json(summary.deviation).Dump());
      cells.push_back(StrCat(values.size()));
      cells.push_back(NumberText(row.row->Printed(measure.name)));
    }
    const std::optional<double> parameters = row.row->Printed("parameters");
    cells.push_back(StrCat(row.cost.parameters));
    cells.push_back(parameters ? StrCat(static_cast<int64_t>(*parameters)) : "");
    cells.push_back(StrCat(row.cost.multiplications));
    cells.push_back(row.model_parameters > 0 ? StrCat(row.model_parameters) : "");
    cells.push_back(NumberText(row.step_time));
    cells.push_back(NumberText(RelativeTime(result, row)));
    cells.push_back(NumberText(PrintedRelativeTime(result, *row.row)));
    text += CsvLine(cells);
  }
  return text;
}

std::string CurvesCsv(const TableResult& result) {
  std::string text = CsvLine({"row", "seed", "step", "ln_ppl"});
  for (const RowResult& row : result.rows) {
    for (const CellResult& cell : row.cells) {
      for (size_t i = 0; i < cell.curve.size(); ++i) {
        text += CsvLine({row.row->name, StrCat(cell.seed), StrCat(cell.curve_steps[i]), Json(cell.curve[i]).Dump()});
      }
    }
  }
  return text;
}

namespace {

Json BySeedJson(const BySeed& by_seed) {
  Json json = Json::MakeObject();
  for (const auto& [seed, value] : by_seed) json.Set(StrCat(seed), value);
  return json;
}

Json RowJson(const TableResult& result, const RowResult& row) {
  Json measures = Json::MakeObject();
  for (const TableMeasure& measure : result.measures) {
    const BySeed by_seed = row.ValuesOf(measure);
    const std::vector<double> values = ValuesOf(by_seed);
    const MeanAndDeviation summary = Summarise(values);
    measures.Set(measure.name, Json::MakeObject({{"mean", values.empty() ? Json() : Json(summary.mean)},
                                                 {"deviation", values.size() < 2 ? Json() : Json(summary.deviation)},
                                                 {"seeds", static_cast<int64_t>(values.size())},
                                                 {"by_seed", BySeedJson(by_seed)},
                                                 {"paper", OrNull(row.row->Printed(measure.name))}}));
  }
  return Json::MakeObject({{"row", row.row->name},
                           {"layer", ToString(row.layer)},
                           {"seeds", static_cast<int64_t>(row.cells.size())},
                           {"measures", measures},
                           {"layer_parameters", row.cost.parameters},
                           {"layer_multiplications", row.cost.multiplications},
                           {"model_parameters", row.model_parameters > 0 ? Json(row.model_parameters) : Json()},
                           {"step_seconds", OrNull(row.step_time)},
                           {"step_time_relative", OrNull(RelativeTime(result, row))},
                           {"step_time_relative_paper", OrNull(PrintedRelativeTime(result, *row.row))},
                           {"paper", row.row->paper},
                           {"paper_label_lost", row.row->label_lost}});
}

Json DifferencesJson(const TableResult& result) {
  Json list = Json::MakeArray();
  for (const TableMeasure& measure : result.measures) {
    for (const SettingPair& pair : result.PairsOf(measure)) {
      list.Append(Json::MakeObject({{"measure", measure.name},
                                    {"of", result.rows[pair.of].row->name},
                                    {"less", result.rows[pair.less].row->name},
                                    {"mean", Summarise(ValuesOf(pair.differences)).mean},
                                    {"interval_95", IntervalJson(pair.interval)},
                                    {"by_seed", BySeedJson(pair.differences)}}));
    }
  }
  return list;
}

Json ClaimJson(const ClaimResult& claim) {
  Json pairs = Json::MakeArray();
  for (const PairResult& pair : claim.pairs) {
    pairs.Append(Json::MakeObject({{"better", pair.better},
                                   {"worse", pair.worse},
                                   {"gain_mean", pair.gains.empty() ? Json() : Json(pair.mean)},
                                   {"interval_95", IntervalJson(pair.at_95)},
                                   {"interval_strict", IntervalJson(pair.at_most)},
                                   {"gain_by_seed", BySeedJson(pair.gains)}}));
  }
  return Json::MakeObject({{"claim", claim.claim->text},
                           {"source", claim.claim->source},
                           {"measure", claim.measure.name},
                           {"verdict", claim.VerdictText()},
                           {"seeds", claim.seeds},
                           {"pairs", pairs}});
}

}  // namespace

Json ToJson(const TableResult& result) {
  Json rows = Json::MakeArray(), claims = Json::MakeArray(), missing = Json::MakeArray();
  for (const RowResult& row : result.rows) rows.Append(RowJson(result, row));
  for (const ClaimResult& claim : result.claims) claims.Append(ClaimJson(claim));
  for (const MissingCell& cell : result.missing) {
    missing.Append(Json::MakeObject({{"cell", cell.title}, {"reason", cell.reason}}));
  }
  const auto or_null = [](const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); };
  Json json = Json::MakeObject({{"table", result.table->name},
                                {"title", result.table->title},
                                {"section", result.table->section},
                                {"note", result.table->note},
                                {"scale", result.experiment->scale},
                                {"scale_fingerprint", result.experiment->fingerprint},
                                {"steps", or_null(result.Steps())},
                                {"length", or_null(result.Length())},
                                {"data", Strings(result.data)},
                                {"versions", Strings(result.versions)},
                                {"simd_bits", Strings(result.simd_bits)},
                                {"processors", Strings(result.processors)},
                                {"rows", rows},
                                {"claims", claims},
                                {"missing", missing}});
  if (result.table->claims.empty()) json.Set("differences", DifferencesJson(result));
  return json;
}

}  // namespace crosstalk
