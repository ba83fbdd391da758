#include "tools/page/settings_section.h"

#include <algorithm>
#include <set>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/text.h"
#include "tools/page/page.h"
#include "tools/page/run_charts.h"
#include "tools/page/seed_groups.h"
#include "tools/page/seed_runs.h"
#include "tools/page/table.h"

namespace crosstalk {
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
  return HtmlTable(
      header, rows,
      {.caption = "Runs that differ in their seed alone: the last score, mean ± standard deviation", .changed = {}});
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
  std::vector<std::vector<TableCell>> rows;
  for (const std::vector<std::string>& row : differences.rows) rows.emplace_back(row.begin(), row.end());
  return StrCat(html,
                HtmlTable(differences.header, rows, {.caption = "Differences over the same seeds", .changed = {}}),
                "<p>", EscapeHtml(DifferencesNote()), "</p>\n");
}

}  // namespace crosstalk
