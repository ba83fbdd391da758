#include "tools/page/configuration_section.h"

#include <algorithm>
#include <optional>

#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/check.h"
#include "tools/cli/format.h"
#include "tools/page/table.h"

namespace crosstalk {
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
    html = HtmlTable({"field", "value", "default"}, changed,
                     {.caption = "What is set otherwise than by default", .changed = {}});
  }
  return StrCat(html, "<details", html.empty() ? " open" : "", "><summary>The whole resolved configuration</summary>\n",
                HtmlTable({"field", "value", "group"}, all, {.caption = "Resolved configuration", .changed = {}}),
                "</details>\n");
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
  return HtmlTable(header, rows, {.caption = "Fields in which the runs differ", .changed = {}});
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
                HtmlTable({"field", "value"}, rows, {.caption = "The same in all runs", .changed = {}}),
                "</details>\n");
}

}  // namespace crosstalk
