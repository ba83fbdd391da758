// The sections of a run's page.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/output.h"
#include "tools/page/page.h"
#include "tools/page/run_page.h"
#include "tools/page/seeds.h"

namespace crosstalk {
namespace {

// Far more than anybody trains. A model of shapes takes no memory for its parameters, but does for each layer.
constexpr int64_t kMostLayers = 10'000;

void CheckLayers(const Json& model, const std::string& source) {
  const JsonReader reader(model, source);
  for (const auto& [key, value] : model.AsObject()) {
    const bool counts = key.ends_with("layers") || key.ends_with("groups");
    if (counts && value.is_int() && value.AsInt() > kMostLayers) reader.FailAt(key, "is more than ", kMostLayers);
  }
}

}  // namespace

ModelCost CostOfModel(const TrainingConfig& config, const Json& model_json, const std::string& source) {
  CheckLayers(model_json, source);
  int64_t multiplications = 0;
  const ContextScope shapes_only(&OpContext::shapes_only, true);
  const ContextScope counted(&OpContext::multiplications, &multiplications);
  const std::unique_ptr<Model> model = MakeModel(ReadModelConfig(model_json, source), config.optimization.seed);
  const ObjectiveType& objective = ObjectiveOf(config);
  const Batch example = objective.empty_batch(config.objective, model->config().tokens, 1);
  ModelCost cost;
  cost.text = model->Describe();
  cost.implementation = AttentionImplementationText(*model);
  cost.example = objective.describe(config.objective);
  cost.parameters = model->NumParameters();
  model->Loss(example, {}, {});
  cost.forward_multiplications = CheckedMultiplications(multiplications);
  // The last dimension of both is a row's length; of multiple choice, that of one choice.
  const int64_t inputs = example.Get("inputs").size(-1);
  const int64_t targets = example.Has("targets") ? example.Get("targets").size(-1) : inputs;
  for (const AttentionPlace& place : model->AttentionPlaces()) {
    const bool crosses = place.name.starts_with("encoder-decoder");
    const bool decodes = crosses || place.name.starts_with("decoder");
    const int64_t n = decodes ? targets : inputs, m = decodes && !crosses ? targets : inputs;
    cost.places.push_back({place.name, place.config, n, m, CostOf(place.config, n, m)});
  }
  return cost;
}

namespace {

std::string ValueText(const Json& value) {
  if (value.is_null()) return "–";
  if (value.is_string()) return value.AsString().empty() ? "–" : value.AsString();
  return value.Dump();
}

// The configuration that a run of the same model on the same objective has where nothing is said.
std::optional<TrainingConfig> DefaultsFor(const TrainingConfig& config) {
  TrainingConfig defaults;
  defaults.model.name = config.model.name;
  defaults.objective.name = config.objective.name;
  defaults.objective.tasks = config.objective.tasks;
  defaults.objective.task_data = config.objective.task_data;
  try {
    return *ResolvedConfig(defaults);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool Differs(const std::vector<RunRecord>& runs, const Field<TrainingConfig>& field) {
  const RunRecord* first = nullptr;
  for (const RunRecord& run : runs) {
    if (!run.config) continue;
    if (first != nullptr && field.get(*first->config) != field.get(*run.config)) return true;
    first = &run;
  }
  return false;
}

}  // namespace

std::string ConfigurationTable(const RunRecord& run) {
  if (!run.config) return "";
  const std::optional<TrainingConfig> defaults = DefaultsFor(*run.config);
  std::vector<std::vector<TableCell>> changed, all;
  std::string group;
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (!field.group.empty()) group = field.group;
    const Json value = field.get(*run.config);
    all.push_back({field.key, ValueText(value), group});
    if (!defaults || value == field.get(*defaults)) continue;
    changed.push_back({field.key, ValueText(value), ValueText(field.get(*defaults))});
  }
  std::string html;
  if (!changed.empty()) {
    html = HtmlTable({"field", "value", "default"}, changed, {.caption = "What is set otherwise than by default"});
  }
  return StrCat(html, "<details", html.empty() ? " open" : "", "><summary>The whole resolved configuration</summary>\n",
                HtmlTable({"field", "value", "group"}, all, {.caption = "Resolved configuration"}), "</details>\n");
}

std::string ConfigurationDifferences(const std::vector<RunRecord>& runs) {
  std::vector<std::string> header = {"field"};
  for (const RunRecord& run : runs) header.push_back(run.name);
  std::vector<std::vector<TableCell>> rows;
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (!Differs(runs, field)) continue;
    std::vector<TableCell> row = {field.key};
    for (const RunRecord& run : runs) row.push_back(run.config ? ValueText(field.get(*run.config)) : "");
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return "<p>The runs have the same configuration.</p>\n";
  return HtmlTable(header, rows, {.caption = "Fields in which the runs differ"});
}

std::string SharedConfiguration(const std::vector<RunRecord>& runs) {
  const auto known =
      std::find_if(runs.begin(), runs.end(), [](const RunRecord& run) { return run.config.has_value(); });
  if (known == runs.end()) return "";
  std::vector<std::vector<TableCell>> rows;
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (!Differs(runs, field)) rows.push_back({field.key, ValueText(field.get(*known->config))});
  }
  return StrCat("<details><summary>Fields in which the runs do not differ</summary>\n",
                HtmlTable({"field", "value"}, rows, {.caption = "The same in all runs"}), "</details>\n");
}

namespace {

// Of all charts of a page together, so that it stays below 5 MB.
constexpr size_t kMostPoints = 24'000, kMostPointsOfChart = 1800, kFewestPointsOfChart = 200;
// Curves that are looked at closer: those with so many points in their second half.
constexpr size_t kFewestCloser = 8;

const Series* Find(const std::vector<Series>& series, const std::string& name) {
  for (const Series& one : series) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

void AddNames(const std::vector<Series>& series, std::vector<std::string>& names) {
  for (const Series& one : series) {
    if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
  }
}

Series Named(Series series, const std::string& name) {
  series.name = name;
  return series;
}

struct PlannedChart {
  LineChartOptions options;
  std::vector<Series> series;
};

std::vector<ChartMark> Marks(const RunRecord& run) {
  std::vector<ChartMark> marks;
  for (const RunEvent& event : run.Events()) {
    marks.push_back(
        {event.kind == RunEvent::Kind::kResumed ? "resumed" : "continued", static_cast<double>(event.step)});
  }
  return marks;
}

// What a held-out measure is compared with. Runs of several data have several: then none is drawn.
std::vector<ReferenceLine> References(const std::vector<RunRecord>& runs, const std::string& measure) {
  std::vector<ReferenceLine> lines;
  const auto add = [&lines](const char* label, double y) {
    for (const ReferenceLine& line : lines) {
      if (line.label == label && line.y == y) return;
    }
    lines.push_back({label, y});
  };
  for (const RunRecord& run : runs) {
    if (measure == "ln_ppl" && run.loss_lower_bound) add("entropy bound", *run.loss_lower_bound);
    for (const Metric& guess : run.constant_guess) {
      if (guess.name == measure) add("best constant guess", guess.value);
    }
  }
  return lines.size() > 1 ? std::vector<ReferenceLine>() : lines;
}

// The second half of the steps, where the first ones' fall does not decide the scale.
std::optional<PlannedChart> Closer(const PlannedChart& chart) {
  PlannedChart closer = chart;
  closer.options.title += ", second half";
  closer.options.references.clear();
  closer.options.width = ChartWidth::kColumn;
  double last = 0;
  for (const Series& one : chart.series) {
    if (!one.x.empty()) last = std::max(last, one.x.back());
  }
  size_t most = 0;
  for (Series& one : closer.series) {
    const auto from = std::lower_bound(one.x.begin(), one.x.end(), last / 2) - one.x.begin();
    one.x.erase(one.x.begin(), one.x.begin() + from);
    one.y.erase(one.y.begin(), one.y.begin() + from);
    most = std::max(most, one.x.size());
  }
  return most < kFewestCloser ? std::nullopt : std::optional<PlannedChart>(std::move(closer));
}

std::vector<PlannedChart> ChartsOfOne(const RunRecord& run) {
  std::vector<PlannedChart> charts;
  std::vector<std::string> shown;
  for (const Series& measure : run.held_out) {
    PlannedChart chart{ChartOptionsFor(measure.name, MeasureLabel(measure.name)), {}};
    chart.options.references = References({run}, measure.name);
    if (const Series* training = run.Training(measure.name)) chart.series.push_back(Named(*training, "training"));
    chart.series.push_back(Named(measure, "held-out"));
    charts.push_back(std::move(chart));
    shown.push_back(measure.name);
  }
  for (const Series& measure : run.training) {
    if (std::find(shown.begin(), shown.end(), measure.name) != shown.end()) continue;
    const std::string label = MeasureLabel(measure.name);
    charts.push_back({ChartOptionsFor(measure.name, label), {Named(measure, "training")}});
  }
  for (PlannedChart& chart : charts) chart.options.marks = Marks(run);
  return charts;
}

std::vector<PlannedChart> ChartsOfSeveral(const std::vector<RunRecord>& runs) {
  std::vector<PlannedChart> charts;
  std::vector<std::string> held_out, training;
  for (const RunRecord& run : runs) AddNames(run.held_out, held_out);
  for (const RunRecord& run : runs) AddNames(run.training, training);
  const auto add = [&](const std::string& measure, const std::string& title, bool of_training) {
    PlannedChart chart{ChartOptionsFor(measure, title), {}};
    if (!of_training) chart.options.references = References(runs, measure);
    for (const RunRecord& run : runs) {
      const Series* found = Find(of_training ? run.training : run.held_out, measure);
      // One of no points keeps its colour for the run in every chart.
      chart.series.push_back(found == nullptr ? Series{run.name, {}, {}} : Named(*found, run.name));
    }
    charts.push_back(std::move(chart));
  };
  for (const std::string& measure : held_out) add(measure, "held-out " + MeasureLabel(measure), false);
  for (const std::string& measure : training) {
    const bool both = std::find(held_out.begin(), held_out.end(), measure) != held_out.end();
    add(measure, (both ? "training " : "") + MeasureLabel(measure), true);
  }
  return charts;
}

}  // namespace

LineChartOptions ChartOptionsFor(const std::string& measure, const std::string& title) {
  LineChartOptions options;
  options.title = title;
  if (measure == "ln_ppl" || measure == "loss" || measure == "task_loss") options.y_label = "nats";
  if (DisplayOf({measure, 0}).is_share) {
    options.factor = 100;
    options.unit = " %";
  }
  if (measure == "gradient_norm") options.y_scale = AxisScale::kLogIfWide;
  options.y_from_zero = measure == "learning_rate" || measure == "tokens_per_second";
  return options;
}

std::string RunCharts(const std::vector<RunRecord>& runs) {
  std::vector<PlannedChart> charts = runs.size() == 1 ? ChartsOfOne(runs[0]) : ChartsOfSeveral(runs);
  if (charts.empty()) return "";
  charts[0].options.width = ChartWidth::kWide;
  if (std::optional<PlannedChart> closer = Closer(charts[0])) {
    charts[0].options.width = ChartWidth::kColumn;
    charts.insert(charts.begin() + 1, *std::move(closer));
  }
  const size_t most = std::clamp(kMostPoints / charts.size(), kFewestPointsOfChart, kMostPointsOfChart);
  std::string html;
  for (PlannedChart& chart : charts) {
    chart.options.most_points = most;
    html += LineChart(chart.options, chart.series);
  }
  return html.empty() ? "" : "<div class=\"charts\">\n" + html + "</div>\n";
}

namespace {

using RunsOfSetting = std::vector<const RunRecord*>;

bool TookAllSteps(const RunRecord& run) {
  const std::optional<RunScore> last = run.Last();
  return run.config && last && last->step == run.config->optimization.steps;
}

bool DifferInSeedAlone(const RunRecord& a, const RunRecord& b) {
  TrainingConfig with_seed_of_b = *a.config;
  with_seed_of_b.optimization.seed = b.config->optimization.seed;
  return FieldDifferences(TrainingFields(), with_seed_of_b, *b.config).empty() && InputsOf(a.run) == InputsOf(b.run);
}

std::vector<RunsOfSetting> SettingsOf(const std::vector<RunRecord>& runs) {
  std::vector<RunsOfSetting> settings;
  for (const RunRecord& run : runs) {
    if (!TookAllSteps(run)) continue;
    const auto same = [&run](const RunsOfSetting& setting) { return DifferInSeedAlone(*setting[0], run); };
    const auto place = std::find_if(settings.begin(), settings.end(), same);
    (place == settings.end() ? settings.emplace_back() : *place).push_back(&run);
  }
  return settings;
}

// "attention talking, heads 4": the fields in which the settings differ; with the name of its first run where the same
// fields are another setting, as of other text.
std::vector<std::string> NamesOfSettings(const std::vector<RunsOfSetting>& settings) {
  if (settings.size() == 1) return {"all runs"};
  std::vector<std::vector<std::string>> parts(settings.size());
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (field.key == "seed" || field.options.affects_result == AffectsResult::kNo) continue;
    const Json first = field.get(*settings[0][0]->config);
    const auto same = [&](const RunsOfSetting& one) { return field.get(*one[0]->config) == first; };
    if (std::all_of(settings.begin(), settings.end(), same)) continue;
    for (size_t i = 0; i < settings.size(); ++i) {
      const Json value = field.get(*settings[i][0]->config);
      parts[i].push_back(StrCat(field.key, " ", value.is_string() ? value.AsString() : value.Dump()));
    }
  }
  std::vector<std::string> names;
  for (const std::vector<std::string>& one : parts) names.push_back(Join(one, ", "));
  const std::set<std::string> distinct(names.begin(), names.end());
  for (size_t i = 0; i < settings.size() && distinct.size() < settings.size(); ++i) {
    names[i] += StrCat(names[i].empty() ? "" : ", ", "as ", settings[i][0]->name);
  }
  return names;
}

SeedGroup GroupOfSetting(const std::string& name, const RunsOfSetting& setting) {
  SeedGroup group = {name, {}};
  for (const RunRecord* run : setting) {
    for (const Series& series : run->held_out) {
      if (static_cast<int64_t>(series.x.back()) == run->config->optimization.steps) {
        group.Add(series.name, run->config->optimization.seed, series.y.back());
      }
    }
  }
  return group;
}

std::string MeansTable(const std::vector<SeedGroup>& groups, const std::vector<RunsOfSetting>& settings) {
  const std::vector<std::string> measures = MeasuresOf(groups);
  std::vector<std::string> header = {"setting", "seeds"};
  for (const std::string& measure : measures) header.push_back("held-out " + MeasureLabel(measure));
  std::vector<std::vector<TableCell>> rows;
  for (size_t i = 0; i < groups.size(); ++i) {
    std::set<uint64_t> seeds;
    for (const RunRecord* run : settings[i]) seeds.insert(run->config->optimization.seed);
    std::vector<std::string> texts;
    for (const uint64_t seed : seeds) texts.push_back(StrCat(seed));
    std::vector<TableCell>& row = rows.emplace_back();
    row = {groups[i].name, Join(texts, ", ")};
    for (const std::string& measure : measures) row.push_back(MeanText(measure, groups[i].ValuesOf(measure)));
  }
  return HtmlTable(header, rows,
                   {.caption = "Runs that differ in their seed alone: the last score, mean ± standard deviation"});
}

// Each measure of the settings that have several runs, over them.
std::string CurvesOfSettings(const std::vector<SeedGroup>& groups, const std::vector<RunsOfSetting>& settings) {
  std::string html;
  for (const std::string& measure : MeasuresOf(groups)) {
    std::vector<Series> curves;
    for (size_t i = 0; i < groups.size(); ++i) {
      std::vector<Series> runs;
      for (const RunRecord* run : settings[i]) {
        for (const Series& series : run->held_out) {
          if (series.name == measure) runs.push_back(series);
        }
      }
      if (runs.size() > 1) curves.push_back(MeanAndRange(groups[i].name, runs));
    }
    const std::string title = StrCat("held-out ", MeasureLabel(measure), ", mean and range over seeds");
    html += LineChart(ChartOptionsFor(measure, title), curves);
  }
  return html.empty() ? "" : "<div class=\"charts\">\n" + html + "</div>\n";
}

}  // namespace

std::string SettingsSection(const std::vector<RunRecord>& runs) {
  const std::vector<RunsOfSetting> settings = SettingsOf(runs);
  if (std::none_of(settings.begin(), settings.end(), [](const RunsOfSetting& one) { return one.size() > 1; }))
    return "";
  const std::vector<std::string> names = NamesOfSettings(settings);
  std::vector<SeedGroup> groups;
  for (size_t i = 0; i < settings.size(); ++i) groups.push_back(GroupOfSetting(names[i], settings[i]));
  std::string html = MeansTable(groups, settings) + CurvesOfSettings(groups, settings);
  const TextTable differences = DifferencesTable(groups);
  if (differences.rows.empty()) return html;
  return StrCat(html, HtmlTable(differences, {.caption = "Differences over the same seeds"}), "<p>",
                EscapeHtml(DifferencesNote()), "</p>\n");
}

}  // namespace crosstalk
