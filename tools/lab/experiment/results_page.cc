#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "tools/lab/experiment/results.h"
#include "tools/page/chart.h"
#include "tools/page/page.h"
#include "tools/page/seeds.h"

namespace crosstalk {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::string Paragraph(const std::string& text) { return "<p>" + EscapeHtml(text) + "</p>"; }

std::string List(const std::vector<std::string>& texts) {
  std::string html = "<ul>";
  for (const std::string& text : texts) html += "<li>" + EscapeHtml(text) + "</li>";
  return html + "</ul>";
}

struct Intervals {
  IntervalChartOptions options;
  std::vector<IntervalRow> rows;
};

// Differences from the first row between runs of the same seed, beside the paper's.
Intervals DifferencesOf(const TableResult& result, const TableMeasure& measure) {
  const RowResult& first = result.rows[0];
  Intervals chart;
  chart.options.title = StrCat(measure.label, ", less that of ", first.row->name);
  chart.options.value_label = "difference";
  chart.options.spread_label = "mean ± standard deviation";
  chart.options.reference_label = "paper";
  chart.options.digits = ShownDigits(measure);
  chart.options.references = {{.label = first.row->name, .y = 0}};
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

// The table's figure over the number of heads, or another field; without series where its rows name none.
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

LineChartOptions ChartOf(const TableResult& result, const TableMeasure& measure) {
  return {.title = StrCat(result.table->title, ": ", measure.label),
          .x_label = InWords(result.table->over),
          .y_label = StrCat("held-out ", measure.label),
          .x_scale = result.table->over == "heads" ? AxisScale::kDoubling : AxisScale::kLog};
}

std::string ClaimsHtml(const TableResult& result) {
  std::vector<std::string> not_measured;
  const TextTable claims = ClaimsTable(result, &not_measured);
  std::string html = Paragraph(ClaimsNote());
  if (!claims.rows.empty()) html += HtmlTable(claims, {.caption = "Claims", .unbroken = true});
  if (!not_measured.empty()) html += Paragraph("Not measured:") + List(not_measured);
  return html;
}

}  // namespace

std::string ResultsFigure(const TableResult& result) {
  for (const TableMeasure& measure : result.measures) {
    const std::vector<Series> over_heads = SeriesOf(result, measure);
    if (!over_heads.empty()) return StandaloneSvg(ChartOf(result, measure), over_heads);
    const Intervals chart = DifferencesOf(result, measure);
    if (!chart.rows.empty()) return StandaloneSvg(chart.options, chart.rows);
  }
  return "";
}

std::string ResultsPage(const TableResult& result) {
  const Table& table = *result.table;
  Page page(table.Heading());
  page.SetKind("Crosstalk: tables");
  page.SetLead(result.experiment->lead);
  page.AddSection("What was run", List(RunNotes(result)));
  page.AddSection("Table", HtmlTable(MeasuresTable(result), {.caption = table.Label(), .unbroken = true}) +
                               (table.note.empty() ? "" : Paragraph(table.note)));
  std::string charts;
  for (const TableMeasure& measure : result.measures) {
    charts += LineChart(ChartOf(result, measure), SeriesOf(result, measure));
    const Intervals chart = DifferencesOf(result, measure);
    if (!chart.rows.empty()) charts += IntervalChart(chart.options, chart.rows);
  }
  if (const TextTable pairs = table.claims.empty() ? DifferencesTable(result) : TextTable(); !pairs.rows.empty()) {
    charts += Paragraph(DifferencesNote()) + HtmlTable(pairs, {.caption = "Differences", .unbroken = true});
  }
  if (!charts.empty()) page.AddSection(table.IsOfPaper() ? "Beside the paper" : "Differences", charts);
  if (!table.claims.empty()) page.AddSection("Claims", ClaimsHtml(result));
  page.AddSection("Cost",
                  HtmlTable(CostsTable(result), {.caption = "Cost of a layer, and time of a step", .unbroken = true}));
  std::vector<Series> curves;
  for (const RowResult& row : result.rows) {
    if (!row.cells.empty()) curves.push_back(CurveOf(row));
  }
  if (!curves.empty()) {
    page.AddSection("Curves", LineChart({.title = "Held-out ln(PPL), mean and range over seeds",
                                         .y_label = "ln(PPL)",
                                         .width = ChartWidth::kWide},
                                        curves));
  }
  if (!result.missing.empty()) {
    std::vector<std::string> lines;
    for (const MissingCell& cell : result.missing) lines.push_back(cell.title + ": " + cell.reason);
    page.AddSection("Missing", List(lines));
  }
  return page.Html();
}

}  // namespace crosstalk
