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
#include "tools/page/figure.h"
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

std::string ModelSection(const RunRecord& run) {
  const Json* json = run.run.Find("model");
  if (json == nullptr || !run.config) return "";
  try {
    const std::string source = "run.json: model";
    CheckLayers(*json, source);
    int64_t multiplications = 0;
    const ContextScope shapes_only(&OpContext::shapes_only, true);
    const ContextScope counted(&OpContext::multiplications, &multiplications);
    const std::unique_ptr<Model> model = MakeModel(ReadModelConfig(*json, source), run.config->optimization.seed);
    const ObjectiveType& objective = ObjectiveOf(*run.config);
    const Batch example = objective.empty_batch(run.config->objective, model->config().tokens, 1);
    model->Loss(example, {}, {});
    // The last dimension of both is a row's length; of multiple choice, that of one choice.
    const int64_t inputs = example.Get("inputs").size(-1);
    const int64_t targets = example.Has("targets") ? example.Get("targets").size(-1) : inputs;
    TextTable table{{"place", "attention", "n", "m", "parameters of a layer", "multiplications of a layer"}, {}};
    for (const AttentionPlace& place : model->AttentionPlaces()) {
      const bool crosses = place.name.starts_with("encoder-decoder");
      const bool decodes = crosses || place.name.starts_with("decoder");
      const int64_t n = decodes ? targets : inputs, m = decodes && !crosses ? targets : inputs;
      const AttentionCost cost = CostOf(place.config, n, m);
      table.rows.push_back({place.name, ToString(place.config), CountText(n), CountText(m), CountText(cost.parameters),
                            CountText(cost.multiplications)});
    }
    return FactList({{"model", model->Describe(), AttentionImplementationText(*model) + " attention"},
                     {"parameters", CountText(model->NumParameters()), ""},
                     {"multiplications of an example", CountText(CheckedMultiplications(multiplications)),
                      "forward; " + objective.describe(run.config->objective)}}) +
           HtmlTable(table,
                     "One layer of each place, on one example of n queries and m memory positions, as the paper's "
                     "pseudocode counts");
  } catch (const Error& error) {
    return Note(error.what());
  }
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
  TextTable changed{{"field", "value", "default"}, {}}, all{{"field", "value", "group"}, {}};
  std::string group;
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (!field.group.empty()) group = field.group;
    const Json value = field.get(*run.config);
    all.rows.push_back({field.key, ValueText(value), group});
    if (!defaults || value == field.get(*defaults)) continue;
    changed.rows.push_back({field.key, ValueText(value), ValueText(field.get(*defaults))});
  }
  return HtmlTable(changed, "What is set otherwise than by default") +
         Details("The whole resolved configuration", HtmlTable(all, "Resolved configuration"),
                 changed.rows.empty() ? Unfolded::kYes : Unfolded::kNo);
}

std::string ConfigurationDifferences(const std::vector<RunRecord>& runs) {
  TextTable table{{"field"}, {}};
  for (const RunRecord& run : runs) table.header.push_back(run.name);
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (!Differs(runs, field)) continue;
    std::vector<std::string>& row = table.rows.emplace_back(1, field.key);
    for (const RunRecord& run : runs) row.push_back(run.config ? ValueText(field.get(*run.config)) : "");
  }
  if (table.rows.empty()) return Paragraph("The runs have the same configuration.");
  return HtmlTable(table, "Fields in which the runs differ");
}

std::string SharedConfiguration(const std::vector<RunRecord>& runs) {
  const auto known =
      std::find_if(runs.begin(), runs.end(), [](const RunRecord& run) { return run.config.has_value(); });
  if (known == runs.end()) return "";
  TextTable table{{"field", "value"}, {}};
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (!Differs(runs, field)) table.rows.push_back({field.key, ValueText(field.get(*known->config))});
  }
  return Details("Fields in which the runs do not differ", HtmlTable(table, "The same in all runs"));
}

namespace {

// All charts of a page together have so many, so that it stays below 5 MB.
constexpr size_t kMostPoints = 24'000, kMostPointsOfChart = 1800, kFewestPointsOfChart = 200;
// Curves that are looked at closer: those with so many points in their second half.
constexpr size_t kFewestCloser = 8;

// How a measure's chart shows it: its unit, its scale.
LineChart ChartOf(const std::string& measure, const std::string& title) {
  LineChart chart = {.title = title};
  if (measure == "ln_ppl" || measure == "loss" || measure == "task_loss") chart.y_label = "nats";
  if (DisplayOf({measure, 0}).is_share) {
    chart.factor = 100;
    chart.unit = " %";
  }
  if (measure == "gradient_norm") chart.y_scale = AxisScale::kLogIfWide;
  chart.y_from_zero = measure == "learning_rate" || measure == "tokens_per_second";
  return chart;
}

std::string ChartsHtml(const std::vector<LineChart>& charts) {
  std::string html;
  for (const LineChart& chart : charts) html += Figure(chart).Html();
  return html.empty() ? "" : "<div class=\"charts\">\n" + html + "</div>\n";
}

const Series* Find(const std::vector<Series>& series, const std::string& name) {
  const auto found = std::find_if(series.begin(), series.end(), [&](const Series& one) { return one.name == name; });
  return found == series.end() ? nullptr : &*found;
}

Series Named(Series series, const std::string& name) {
  series.name = name;
  return series;
}

// What a held-out measure is compared with. Runs of several data have several: then none is drawn.
std::vector<ReferenceLine> References(const std::vector<RunRecord>& runs, const std::string& measure) {
  std::vector<ReferenceLine> lines;
  const auto add = [&lines](const char* label, double y) {
    const auto same = [&](const ReferenceLine& line) { return line.label == label && line.y == y; };
    if (std::none_of(lines.begin(), lines.end(), same)) lines.push_back({label, y});
  };
  for (const RunRecord& run : runs) {
    if (measure == "ln_ppl" && run.loss_lower_bound) add("entropy bound", *run.loss_lower_bound);
    for (const Metric& guess : run.constant_guess) {
      if (guess.name == measure) add("best constant guess", guess.value);
    }
  }
  return lines.size() > 1 ? std::vector<ReferenceLine>() : lines;
}

// The second half of the steps, where the first ones' fall does not decide the scale; without series where it has few.
LineChart Closer(LineChart chart) {
  chart.title += ", second half";
  chart.references.clear();
  double last = 0;
  for (const Series& one : chart.series) {
    if (!one.x.empty()) last = std::max(last, one.x.back());
  }
  size_t most = 0;
  for (Series& one : chart.series) {
    const auto from = std::lower_bound(one.x.begin(), one.x.end(), last / 2) - one.x.begin();
    one.x.erase(one.x.begin(), one.x.begin() + from);
    one.y.erase(one.y.begin(), one.y.begin() + from);
    most = std::max(most, one.x.size());
  }
  if (most < kFewestCloser) chart.series.clear();
  return chart;
}

std::vector<LineChart> ChartsOfOne(const RunRecord& run) {
  std::vector<LineChart> charts;
  for (const Series& measure : run.held_out) {
    LineChart& chart = charts.emplace_back(ChartOf(measure.name, MeasureLabel(measure.name)));
    chart.references = References({run}, measure.name);
    if (const Series* training = run.Training(measure.name)) chart.series.push_back(Named(*training, "training"));
    chart.series.push_back(Named(measure, "held-out"));
  }
  for (const Series& measure : run.training) {
    if (Find(run.held_out, measure.name) != nullptr) continue;
    charts.push_back(ChartOf(measure.name, MeasureLabel(measure.name)));
    charts.back().series = {Named(measure, "training")};
  }
  for (LineChart& chart : charts) {
    for (const RunEvent& event : run.Events()) {
      chart.marks.push_back(
          {event.kind == RunEvent::Kind::kResumed ? "resumed" : "continued", static_cast<double>(event.step)});
    }
  }
  return charts;
}

std::vector<LineChart> ChartsOfSeveral(const std::vector<RunRecord>& runs) {
  std::vector<LineChart> charts;
  std::vector<std::string> held_out;
  for (const auto measures : {&RunRecord::held_out, &RunRecord::training}) {
    const bool of_training = measures == &RunRecord::training;
    std::vector<std::string> names;
    for (const RunRecord& run : runs) {
      for (const Series& one : run.*measures) {
        if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
      }
    }
    for (const std::string& name : names) {
      const bool both = of_training && std::find(held_out.begin(), held_out.end(), name) != held_out.end();
      LineChart& chart = charts.emplace_back(
          ChartOf(name, (of_training ? both ? "training " : "" : "held-out ") + MeasureLabel(name)));
      if (!of_training) chart.references = References(runs, name);
      for (const RunRecord& run : runs) {
        const Series* found = Find(run.*measures, name);
        // One without points keeps its colour for the run in every chart.
        chart.series.push_back(found == nullptr ? Series{run.name, {}, {}} : Named(*found, run.name));
      }
    }
    if (!of_training) held_out = names;
  }
  return charts;
}

}  // namespace

std::string RunCharts(const std::vector<RunRecord>& runs) {
  std::vector<LineChart> charts = runs.size() == 1 ? ChartsOfOne(runs[0]) : ChartsOfSeveral(runs);
  if (charts.empty()) return "";
  const LineChart closer = Closer(charts[0]);
  charts[0].wide = closer.series.empty();
  if (!charts[0].wide) charts.insert(charts.begin() + 1, closer);
  for (LineChart& chart : charts) {
    chart.most_points = std::clamp(kMostPoints / charts.size(), kFewestPointsOfChart, kMostPointsOfChart);
  }
  return ChartsHtml(charts);
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
  TextTable table{{"setting", "seeds"}, {}};
  for (const std::string& measure : measures) table.header.push_back("held-out " + MeasureLabel(measure));
  for (size_t i = 0; i < groups.size(); ++i) {
    std::set<uint64_t> seeds;
    for (const RunRecord* run : settings[i]) seeds.insert(run->config->optimization.seed);
    std::vector<std::string> texts;
    for (const uint64_t seed : seeds) texts.push_back(StrCat(seed));
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {groups[i].name, Join(texts, ", ")};
    for (const std::string& measure : measures) row.push_back(MeanText(measure, groups[i].ValuesOf(measure)));
  }
  return HtmlTable(table, "Runs that differ in their seed alone: the last score, mean ± standard deviation");
}

// Each measure of the settings that have several runs, over them.
std::vector<LineChart> ChartsOfSettings(const std::vector<SeedGroup>& groups,
                                        const std::vector<RunsOfSetting>& settings) {
  std::vector<LineChart> charts;
  for (const std::string& measure : MeasuresOf(groups)) {
    LineChart& chart = charts.emplace_back(
        ChartOf(measure, StrCat("held-out ", MeasureLabel(measure), ", mean and range over seeds")));
    for (size_t i = 0; i < groups.size(); ++i) {
      std::vector<Series> runs;
      for (const RunRecord* run : settings[i]) {
        if (const Series* found = Find(run->held_out, measure)) runs.push_back(*found);
      }
      if (runs.size() > 1) chart.series.push_back(MeanAndRange(groups[i].name, runs));
    }
  }
  return charts;
}

}  // namespace

std::string SettingsSection(const std::vector<RunRecord>& runs) {
  const std::vector<RunsOfSetting> settings = SettingsOf(runs);
  if (std::none_of(settings.begin(), settings.end(), [](const RunsOfSetting& one) { return one.size() > 1; }))
    return "";
  const std::vector<std::string> names = NamesOfSettings(settings);
  std::vector<SeedGroup> groups;
  for (size_t i = 0; i < settings.size(); ++i) groups.push_back(GroupOfSetting(names[i], settings[i]));
  const std::string differences = HtmlTable(DifferencesTable(groups), "Differences over the same seeds");
  return MeansTable(groups, settings) + ChartsHtml(ChartsOfSettings(groups, settings)) + differences +
         (differences.empty() ? "" : Paragraph(DifferencesNote()));
}

}  // namespace crosstalk
