#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>
#include <optional>

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

// The mean over the seeds, with the deviation and their number.
TableValue OursValue(const TableMeasure& measure, const std::vector<double>& values) {
  if (values.empty()) return TableValue();
  const MeanAndDeviation summary = Summarise(values);
  const int digits = ShownDigits(measure);
  return {summary.mean,
          StrCat(FixedText(summary.mean, digits), values.size() > 1 ? " ± " + FixedText(summary.deviation, digits) : "",
                 " (", values.size(), ")")};
}

// As printed: with its deviation, and a mark where it may be another row's.
TableValue PaperValue(const TableRow& row, const std::string& key, int digits) {
  const std::optional<double> value = row.Printed(key), deviation = row.Printed(key + "_deviation");
  if (!value) return TableValue();
  return {*value, StrCat(PrintedText(*value, digits), deviation ? " (" + PrintedText(*deviation, digits) + ")" : "",
                         row.label_lost ? " ?" : "")};
}

bool IsPrinted(const TableResult& result, const std::string& key) {
  const auto has = [&](const RowResult& row) { return row.row->Printed(key).has_value(); };
  return std::any_of(result.rows.begin(), result.rows.end(), has);
}

std::function<std::string(double)> FixedTo(int digits) {
  return [digits](double value) { return FixedText(value, digits); };
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

// The energy of the runs whose processors told it; empty if none did.
std::string EnergyNote(const TableResult& result) {
  double joules = 0;
  int64_t told = 0, runs = 0;
  for (const RowResult& row : result.rows) {
    for (const CellResult& cell : row.cells) {
      ++runs;
      told += cell.run.joules ? 1 : 0;
      joules += cell.run.joules.value_or(0);
    }
  }
  if (told == 0) return "";
  return StrCat("The processors took ", FixedText(joules / 3600, 1), " Wh for the pretraining of ", told, " of the ",
                runs, " runs, whatever else they did meanwhile.");
}

std::string Listed(const std::set<std::string>& texts) { return Join({texts.begin(), texts.end()}, "; "); }

std::string HeadsText(const AttentionConfig& layer) {
  const bool alike = layer.form == AttentionForm::kBilinear || (layer.h_k == layer.h && layer.h == layer.h_v);
  const std::string heads = alike ? StrCat(layer.h) : StrCat(layer.h_k, ", ", layer.h, ", ", layer.h_v);
  return layer.d_k > 0 ? StrCat(heads, " × ", layer.d_k) : heads;
}

using RowColumns = Columns<RowResult>;
using Row = const RowResult&;

Column<RowResult> NameColumn(const TableResult& result) {
  return {"row", result.table->rows_are, [](Row row) { return row.row->name; }};
}

// A measure over the seeds, beside the paper's if it has one.
RowColumns MeasureColumns(const TableResult& result, const TableMeasure& measure) {
  const std::string &name = measure.name, more = name + "_long";
  const std::string paper = IsPrinted(result, name) ? "paper: " + measure.label : "";
  const auto values = [measure](Row row) { return ValuesOf(row.ValuesOf(measure)); };
  return {{"mean", result.IsMeasured(measure) ? measure.label : "",
           [=](Row row) { return OursValue(measure, values(row)); }},
          {"deviation", "",
           [=](Row row) { return values(row).size() < 2 ? Json() : Json(Summarise(values(row)).deviation); }},
          {"seeds", "", [=](Row row) { return std::ssize(values(row)); }},
          {"by_seed", "", [=](Row row) { return BySeedJson(row.ValuesOf(measure)); }, ForPrograms::kJson},
          {"paper", paper, [=](Row row) { return PaperValue(*row.row, name, measure.digits); }},
          {"", !paper.empty() && IsPrinted(result, more) ? paper + ", 8 times the steps" : "",
           [=](Row row) { return PaperValue(*row.row, more, measure.digits); }}};
}

// What a layer and a step cost.
RowColumns CostColumns(const TableResult& result) {
  const auto parameters = [](Row row) -> std::optional<int64_t> { return row.row->Printed("parameters"); };
  const auto ratio = [](double value) { return FixedText(value, 2); };
  return {{"layer_parameters", "parameters, layer", Shown(CountText, [](Row row) { return row.cost.parameters; })},
          {"layer_parameters_paper", IsPrinted(result, "parameters") ? "paper: parameters, layer" : "",
           Shown(CountText, parameters), ForPrograms::kCsv},
          {"layer_multiplications", "multiplications, layer",
           Shown(CountText, [](Row row) { return row.cost.multiplications; })},
          {"model_parameters", "parameters, model", Shown(CountText, &RowResult::model_parameters)},
          {"step_seconds", "step time (ms)",
           Shown([](double seconds) { return FixedText(1000 * seconds, 1); }, &RowResult::step_time)},
          {"step_time_relative", "step time, to the first row",
           Shown(ratio, [&](Row row) { return RelativeTime(result, row); })},
          {"step_time_relative_paper", IsPrinted(result, "step_time") ? "paper: step time, to the first row" : "",
           [=, &result](Row row) {
             const auto marked = [&](double value) { return ratio(value) + (row.row->label_lost ? " ?" : ""); };
             return ValueOf(PrintedRelativeTime(result, *row.row), marked);
           }}};
}

void Append(RowColumns more, RowColumns* columns) { std::move(more.begin(), more.end(), std::back_inserter(*columns)); }

// All that programs get of a row.
RowColumns ColumnsForPrograms(const TableResult& result) {
  constexpr ForPrograms kJson = ForPrograms::kJson;
  const auto measures = [&result](Row row) {
    Json json = Json::MakeObject();
    for (const TableMeasure& one : result.measures) json.Set(one.name, JsonOf(MeasureColumns(result, one), row));
    return json;
  };
  RowColumns columns = {NameColumn(result),
                        {"layer", "", [](Row row) { return ToString(row.layer); }, kJson},
                        {"seeds", "", [](Row row) { return std::ssize(row.cells); }, kJson},
                        {"measures", "", measures, kJson}};
  for (const TableMeasure& measure : result.measures) {
    for (Column<RowResult>& one : MeasureColumns(result, measure)) {
      if (one.key.empty() || one.programs == kJson) continue;
      columns.push_back({StrCat(measure.name, "_", one.key), "", std::move(one.value), ForPrograms::kCsv});
    }
  }
  Append(CostColumns(result), &columns);
  columns.push_back({"paper", "", [](Row row) { return row.row->paper; }, kJson});
  columns.push_back({"paper_label_lost", "", [](Row row) -> Json { return row.row->label_lost; }, kJson});
  return columns;
}

Columns<PairResult> PairColumns(const TableMeasure& measure) {
  using Pair = const PairResult&;
  const auto text = FixedTo(ShownDigits(measure));
  return {{"better", "better, as claimed", &PairResult::better},
          {"worse", "than", &PairResult::worse},
          {"gain_mean", "by (mean)",
           Shown(text, [](Pair pair) { return pair.gains.empty() ? std::nullopt : std::optional(pair.mean); })},
          {"interval_95", "95 % interval", [=](Pair pair) { return IntervalValue(pair.at_95, text); }},
          {"interval_strict", "", [=](Pair pair) { return IntervalValue(pair.at_most, text); }},
          {"", "seeds", [](Pair pair) { return std::ssize(pair.gains); }},
          {"gain_by_seed", "", [](Pair pair) { return BySeedJson(pair.gains); }}};
}

std::vector<SettingDifference> DifferencesOf(const TableResult& result) {
  std::vector<SettingDifference> differences;
  for (const TableMeasure& measure : result.measures) {
    std::vector<std::pair<std::string, BySeed>> values;
    for (const RowResult& row : result.rows) values.emplace_back(row.row->name, row.ValuesOf(measure));
    AddDifferences({.measure = measure.name, .label = measure.label, .text = FixedTo(ShownDigits(measure))}, values,
                   &differences);
  }
  return differences;
}

}  // namespace

TextTable MeasuresTable(const TableResult& result) {
  RowColumns columns = {NameColumn(result), {"", "heads here", [](Row row) { return HeadsText(row.layer); }}};
  for (const TableMeasure& measure : result.measures) Append(MeasureColumns(result, measure), &columns);
  return TextOf(columns, result.rows);
}

TextTable CostsTable(const TableResult& result) {
  RowColumns columns = {NameColumn(result)};
  Append(CostColumns(result), &columns);
  return TextOf(columns, result.rows);
}

TextTable ClaimsTable(const TableResult& result, std::vector<std::string>* not_measured) {
  TextTable table;
  for (const ClaimResult& claim : result.claims) {
    const std::string text = StrCat(claim.claim->text, " (", claim.claim->source, "; ", claim.measure.label, ")");
    if (claim.seeds == 0) {
      not_measured->push_back(text);
      if (std::all_of(claim.pairs.begin(), claim.pairs.end(), [](const auto& one) { return one.gains.empty(); }))
        continue;
    }
    Columns<PairResult> columns = PairColumns(claim.measure);
    const auto of_first = [&](const std::string& words) {
      return [&, words](const PairResult& pair) { return TableValue(&pair == &claim.pairs[0] ? words : ""); };
    };
    columns.insert(columns.begin(), {{"", "claim", of_first(text)}, {"", "verdict", of_first(claim.VerdictText())}});
    TextTable pairs = TextOf(columns, claim.pairs);
    table.header = pairs.header;
    std::move(pairs.rows.begin(), pairs.rows.end(), std::back_inserter(table.rows));
  }
  return table;
}

TextTable DifferencesTable(const TableResult& result) {
  return TextOf(DifferenceColumns("measure"), DifferencesOf(result));
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
  notes.push_back(StrCat("crosstalk ", Listed(result.versions), "."));
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
         "order: their mean, and its two-sided 95 % interval by Student's t, with the scatter of all rows of a kind "
         "together, "
         "row and seed taken out, or their own where that is larger. A claim holds if the interval of every pair is "
         "above "
         "0; it does not hold if that of some pair is below 0 at the level 1 - 0.05/(number of pairs); otherwise it is "
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

std::string Csv(const TableResult& result) { return CsvOf(ColumnsForPrograms(result), result.rows); }

std::string CurvesCsv(const TableResult& result) {
  std::string text = CsvLine({"row", "seed", "step", "ln_ppl"});
  for (const RowResult& row : result.rows) {
    for (const CellResult& cell : row.cells) {
      for (size_t i = 0; i < cell.run.curve.size(); ++i) {
        text += CsvLine({row.row->name, StrCat(cell.seed), StrCat(cell.run.curve_steps[i]), cell.run.curve[i]});
      }
    }
  }
  return text;
}

namespace {

Json ClaimJson(const ClaimResult& claim) {
  return Json::MakeObject({{"claim", claim.claim->text},
                           {"source", claim.claim->source},
                           {"measure", claim.measure.name},
                           {"verdict", claim.VerdictText()},
                           {"seeds", claim.seeds},
                           {"pairs", JsonOf(PairColumns(claim.measure), claim.pairs)}});
}

}  // namespace

Json ToJson(const TableResult& result) {
  Json claims = Json::MakeArray();
  for (const ClaimResult& claim : result.claims) claims.Append(ClaimJson(claim));
  Json json = Json::MakeObject({{"table", result.table->name},
                                {"title", result.table->title},
                                {"section", result.table->section},
                                {"note", result.table->note},
                                {"scale", result.experiment->scale},
                                {"scale_fingerprint", result.experiment->fingerprint},
                                {"steps", ToJson(result.Steps())},
                                {"length", ToJson(result.Length())},
                                {"data", ToJson(result.data)},
                                {"versions", ToJson(result.versions)},
                                {"processors", ToJson(result.processors)},
                                {"rows", JsonOf(ColumnsForPrograms(result), result.rows)},
                                {"claims", claims},
                                {"missing", ToJson(result.missing)}});
  if (result.table->claims.empty())
    json.Set("differences", JsonOf(DifferenceColumns("measure"), DifferencesOf(result)));
  return json;
}

}  // namespace crosstalk
