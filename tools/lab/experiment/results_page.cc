#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "tools/lab/experiment/results.h"
#include "tools/page/figure.h"
#include "tools/page/page.h"
#include "tools/page/seeds.h"

namespace crosstalk {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Differences from the first row between runs of the same seed, beside the paper's.
IntervalChart DifferencesOf(const TableResult& result, const TableMeasure& measure) {
  const RowResult& first = result.rows[0];
  IntervalChart chart = {.title = StrCat(measure.label, ", less that of ", first.row->name),
                         .value_label = "difference",
                         .spread_label = "mean ± standard deviation",
                         .reference_label = "paper",
                         .digits = ShownDigits(measure),
                         .references = {{.label = first.row->name, .y = 0}}};
  const BySeed of_first = first.ValuesOf(measure);
  for (size_t i = 1; i < result.rows.size(); ++i) {
    const RowResult& row = result.rows[i];
    const std::vector<double> differences = ValuesOf(PairedDifferences(row.ValuesOf(measure), of_first));
    if (differences.empty()) continue;
    const MeanAndDeviation summary = Summarise(differences);
    const bool spread = differences.size() > 1;
    IntervalRow drawn = {.label = row.row->name + (row.row->label_lost ? " (paper: ?)" : ""),
                         .value = summary.mean,
                         .low = spread ? summary.mean - summary.deviation : kNone,
                         .high = spread ? summary.mean + summary.deviation : kNone};
    const std::optional<double> theirs = row.row->Printed(measure.name), base = first.row->Printed(measure.name);
    if (theirs && base) drawn.reference = *theirs - *base;
    chart.rows.push_back(std::move(drawn));
  }
  return chart;
}

// A row's curve, over its runs.
Series CurveOf(const RowResult& row) {
  std::vector<Series> runs;
  for (const CellResult& cell : row.cells) runs.push_back({.name = "", .x = cell.run.curve_steps, .y = cell.run.curve});
  return MeanAndRange(row.row->name, runs);
}

// The table's curves over the number of heads, or another field; none where its rows name none.
std::vector<Series> SeriesOf(const TableResult& result, const TableMeasure& measure) {
  std::vector<Series> series;
  for (const RowResult& row : result.rows) {
    const std::vector<double> values = ValuesOf(row.ValuesOf(measure));
    if (row.row->series.empty() || values.empty()) continue;
    auto place =
        std::find_if(series.begin(), series.end(), [&](const Series& one) { return one.name == row.row->series; });
    if (place == series.end()) place = series.insert(place, Series{.name = row.row->series, .x = {}, .y = {}});
    AddMeanAndRange(row.over, values, &*place);
  }
  return series;
}

// "learning rate" of a field's key.
std::string InWords(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

LineChart ChartOf(const TableResult& result, const TableMeasure& measure) {
  return {.title = StrCat(result.table->title, ": ", measure.label),
          .x_label = InWords(result.table->over),
          .y_label = StrCat("held-out ", measure.label),
          .x_scale = result.table->over == "heads" ? AxisScale::kDoubling : AxisScale::kLog,
          .series = SeriesOf(result, measure)};
}

std::string ClaimsHtml(const TableResult& result) {
  std::vector<std::string> not_measured;
  const TextTable claims = ClaimsTable(result, &not_measured);
  const std::string html = Paragraph(ClaimsNote()) + HtmlTable(claims, "Claims");
  return not_measured.empty() ? html : html + Paragraph("Not measured:") + Bullets(not_measured);
}

}  // namespace

std::string ResultsFigure(const TableResult& result) {
  for (const TableMeasure& measure : result.measures) {
    for (const Figure& figure : {Figure(ChartOf(result, measure)), Figure(DifferencesOf(result, measure))}) {
      if (!figure.empty()) return StandaloneSvg({figure});
    }
  }
  return "";
}

std::string ResultsPage(const TableResult& result) {
  const Table& table = *result.table;
  Page page(table.Heading());
  page.SetKind("Crosstalk: tables");
  page.SetLead(result.experiment->lead);
  page.AddSection("What was run", Bullets(RunNotes(result)));
  page.AddSection("Table", HtmlTable(MeasuresTable(result), table.Label()) + Paragraph(table.note));
  std::string charts;
  for (const TableMeasure& measure : result.measures) {
    charts += Figure(ChartOf(result, measure)).Html() + Figure(DifferencesOf(result, measure)).Html();
  }
  if (const TextTable pairs = table.claims.empty() ? DifferencesTable(result) : TextTable(); !pairs.rows.empty()) {
    charts += Paragraph(DifferencesNote()) + HtmlTable(pairs, "Differences");
  }
  page.AddSection(table.IsOfPaper() ? "Beside the paper" : "Differences", charts);
  page.AddSection("Claims", table.claims.empty() ? "" : ClaimsHtml(result));
  page.AddSection("Cost", HtmlTable(CostsTable(result), "Cost of a layer, and time of a step"));
  LineChart curves = {.title = "Held-out ln(PPL), mean and range over seeds", .y_label = "ln(PPL)", .wide = true};
  for (const RowResult& row : result.rows) {
    if (!row.cells.empty()) curves.series.push_back(CurveOf(row));
  }
  page.AddSection("Curves", Figure(curves).Html());
  std::vector<std::string> missing;
  for (const MissingCell& cell : result.missing) missing.push_back(cell.title + ": " + cell.reason);
  page.AddSection("Missing", Bullets(missing));
  return page.Html();
}

}  // namespace crosstalk
