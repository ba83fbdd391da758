#include "tools/page/seeds.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "crosstalk/models/metrics.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/option_table.h"
#include "tools/cli/output.h"
#include "tools/cli/statistics.h"
#include "tools/cli/training.h"
#include "tools/page/run_page.h"
#include "tools/page/run_record.h"

namespace crosstalk {
namespace {

// One number of each run: a member of scores.json by its path.
using PathToNumber = std::vector<std::string>;

std::optional<double> NumberAt(const Json& json, const PathToNumber& path) {
  const Json* at = &json;
  for (const std::string& key : path) {
    at = at->is_object() ? at->Find(key) : nullptr;
    if (at == nullptr) return std::nullopt;
  }
  return at->is_number() ? std::optional<double>(at->AsDouble()) : std::nullopt;
}

Json SummaryOf(const std::vector<SeedRun>& runs, const PathToNumber& path) {
  std::vector<double> values;
  for (const SeedRun& run : runs) {
    if (const std::optional<double> value = NumberAt(run.scores, path)) values.push_back(*value);
  }
  if (values.empty()) return Json();
  const MeanAndDeviation summary = Summarise(values);
  return Json::MakeObject(
      {{"mean", summary.mean}, {"deviation", summary.deviation}, {"seeds", static_cast<int64_t>(values.size())}});
}

std::string NumberText(const Json& value) { return value.is_number() ? FixedText(value.AsDouble(), 4) : "undefined"; }

// "0.7512 ± 0.0101", of `runs` runs; with "(2 of 3 seeds)" after it where others have no such number.
std::string SummaryText(const Json& summary, int64_t runs) {
  if (!summary.is_object()) return "undefined";
  const int64_t seeds = summary.At("seeds").AsInt();
  return StrCat(NumberText(summary.At("mean")), seeds > 1 ? " ± " + NumberText(summary.At("deviation")) : "",
                seeds < runs ? StrCat(" (", seeds, " of ", runs, " seeds)") : "");
}

}  // namespace

std::string InputsOf(const Json& run_file) {
  const auto text = [](const Json& json, const char* key) -> std::string {
    const Json* const value = json.is_object() ? json.Find(key) : nullptr;
    return value == nullptr ? "" : value->Dump();
  };
  const Json* const origin = run_file.is_object() ? run_file.Find("origin") : nullptr;
  return text(run_file, "data_fingerprint") + (origin == nullptr ? "" : text(*origin, "weights"));
}

void CheckFolderOfSeeds(const std::string& folder, const TrainingConfig& config) {
  const std::set<uint64_t> seeds = SeedsIn(folder);
  CheckHolds(folder, "seeds", [&](const std::string& name) {
    return SeedOf(name) || (!seeds.empty() && (name == "scores.json" || name == kReportName));
  });
  for (const uint64_t seed : seeds) {
    const RunFolder run(SeedFolder(folder, seed));
    if (!run.HoldsRun()) continue;
    TrainingConfig there = ReadRunConfig(run);
    there.optimization.seed = config.optimization.seed;
    const std::vector<std::string> differences = Differences(config, there);
    if (differences.empty()) continue;
    Fail(ErrorKind::kData, run.path(), ": the run there has another configuration:\n  ", Join(differences, "\n  "),
         "\nchoose a new folder, or repeat the configuration of that run");
  }
}

SeedRun FinishedRun(uint64_t seed, const std::string& folder) {
  const std::string path = RunFolder(folder).ScoresFile();
  SeedRun run = {seed, folder, ReadJsonFile(path)};
  const JsonReader scores(run.scores, path);
  const Json& tasks = scores.Value("tasks");
  if (!tasks.is_object()) scores.FailAt("tasks", "must be an object");
  for (const auto& [name, task] : tasks.AsObject()) {
    const Json* const guess = task.is_object() ? task.Find("constant_guess") : nullptr;
    if (guess == nullptr || !guess->is_object()) {
      scores.FailAt("tasks", Excerpt(name),
                    " has no constant_guess; without this file the same command writes it again");
    }
  }
  return run;
}

std::vector<SeedRun> WithEarlierSeeds(const std::string& folder, std::vector<SeedRun> done) {
  const std::string inputs = InputsOf(RunFolder(done.at(0).folder).ReadRunFile());
  std::vector<SeedRun> runs = std::move(done);
  for (const uint64_t seed : SeedsIn(folder)) {
    if (std::any_of(runs.begin(), runs.end(), [&](const SeedRun& run) { return run.seed == seed; })) continue;
    const std::string earlier = SeedFolder(folder, seed);
    if (KindOf(RunFolder(earlier).ScoresFile()) == PathKind::kNothing) {
      PrintMessage(earlier, " is not finished, and left out of the summary");
    } else if (InputsOf(RunFolder(earlier).ReadRunFile()) != inputs) {
      PrintMessage(earlier, " is of other rows or other weights to begin with, and left out of the summary");
    } else {
      runs.push_back(FinishedRun(seed, earlier));
    }
  }
  std::sort(runs.begin(), runs.end(), [](const SeedRun& a, const SeedRun& b) { return a.seed < b.seed; });
  return runs;
}

Json SeedsJson(const std::vector<SeedRun>& runs) {
  Json list = Json::MakeArray();
  for (const SeedRun& one : runs) {
    Json run = Json::MakeObject({{"seed", one.seed}, {"run", one.folder}});
    for (const auto& [key, value] : one.scores.AsObject()) run.Set(key, value);
    list.Append(run);
  }
  Json tasks = Json::MakeObject();
  for (const auto& [name, task] : runs.at(0).scores.At("tasks").AsObject()) {
    Json measures = Json::MakeObject();
    for (const auto& [key, value] : task.AsObject()) {
      if (!value.is_object()) measures.Set(key, SummaryOf(runs, {"tasks", name, key}));
    }
    tasks.Set(name, measures.Set("constant_guess", task.At("constant_guess")));
  }
  return Json::MakeObject({{"score", SummaryOf(runs, {"score"})}, {"tasks", tasks}, {"runs", list}});
}

std::string SeedsText(const Json& summary) {
  const auto runs = static_cast<int64_t>(summary.At("runs").AsArray().size());
  TextTable table = {
      {"task", "measure", runs > 1 ? "held-out, mean ± standard deviation" : "held-out", "best constant answer"}, {}};
  for (const auto& [name, task] : summary.At("tasks").AsObject()) {
    const Json& guess = task.At("constant_guess");
    for (const auto& [key, value] : task.AsObject()) {
      if (key == "constant_guess" || key == "score") continue;
      const Json* const constant = guess.Find(key);
      table.rows.push_back({name, key, SummaryText(value, runs), constant == nullptr ? "" : NumberText(*constant)});
    }
  }
  return MarkdownTable(table);
}

namespace {

constexpr double kDifferencesLevel = 0.95;
constexpr int kMeasureDigits = 4;

std::string MeasureText(const std::string& measure, double value) {
  return MetricText({measure, value}, value, kMeasureDigits);
}

}  // namespace

void SeedGroup::Add(const std::string& measure, uint64_t seed, double value) {
  const auto named = [&measure](const auto& one) { return one.first == measure; };
  auto place = std::find_if(measures.begin(), measures.end(), named);
  if (place == measures.end()) place = measures.insert(place, {measure, {}});
  place->second.emplace(seed, value);
}

BySeed SeedGroup::ValuesOf(const std::string& measure) const {
  for (const auto& [name, values] : measures) {
    if (name == measure) return values;
  }
  return {};
}

std::vector<std::string> MeasuresOf(const std::vector<SeedGroup>& groups) {
  std::vector<std::string> names;
  for (const SeedGroup& group : groups) {
    for (const auto& [name, values] : group.measures) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string MeanText(const std::string& measure, const BySeed& values) {
  if (values.empty()) return "";
  const MeanAndDeviation summary = Summarise(ValuesOf(values));
  return StrCat(MeasureText(measure, summary.mean),
                values.size() > 1 ? " ± " + MeasureText(measure, summary.deviation) : "");
}

void AddDifferences(const SettingDifference& measure, const std::vector<std::pair<std::string, BySeed>>& settings,
                    std::vector<SettingDifference>* differences) {
  std::vector<BySeed> values;
  for (const auto& [name, by_seed] : settings) values.push_back(by_seed);
  for (const SettingPair& pair : PairsOfSettings(values, kDifferencesLevel)) {
    SettingDifference one = measure;
    one.of = settings[pair.of].first;
    one.less = settings[pair.less].first;
    one.pair = pair;
    differences->push_back(std::move(one));
  }
}

Columns<SettingDifference> DifferenceColumns(const std::string& measure_heading) {
  using D = const SettingDifference&;
  return {{"measure", measure_heading, [](D one) { return TableValue(one.measure, one.label); }},
          {"of", "of", &SettingDifference::of},
          {"less", "less that of", &SettingDifference::less},
          {"mean", "difference (mean)",
           [](D one) { return ValueOf(std::optional(Summarise(ValuesOf(one.pair.differences)).mean), one.text); }},
          {"interval_95", "95 % interval", [](D one) { return IntervalValue(one.pair.interval, one.text); }},
          {"", "seeds", [](D one) { return std::ssize(one.pair.differences); }},
          {"by_seed", "", [](D one) { return BySeedJson(one.pair.differences); }}};
}

TextTable DifferencesTable(const std::vector<SeedGroup>& groups) {
  std::vector<SettingDifference> differences;
  for (const std::string& measure : MeasuresOf(groups)) {
    std::vector<std::pair<std::string, BySeed>> values;
    for (const SeedGroup& group : groups) values.emplace_back(group.name, group.ValuesOf(measure));
    const auto text = [measure](double value) { return MeasureText(measure, value); };
    AddDifferences({.measure = measure, .label = MeasureLabel(measure), .text = text}, values, &differences);
  }
  return TextOf(DifferenceColumns("held-out"), differences);
}

Json BySeedJson(const BySeed& values) {
  Json json = Json::MakeObject();
  for (const auto& [seed, value] : values) json.Set(StrCat(seed), value);
  return json;
}

TableValue IntervalValue(const std::optional<Interval>& interval, const std::function<std::string(double)>& text) {
  if (!interval) return TableValue();
  return {Json::MakeArray({interval->low, interval->high}), StrCat(text(interval->low), " … ", text(interval->high))};
}

std::string DifferencesNote() {
  return "Each difference is between runs of the same seed: their mean, and its two-sided 95 % interval by Student's "
         "t, which takes two seeds or more. How far runs scatter is taken from all settings together. Each interval "
         "stands alone: of twenty pairs without a difference one is expected to miss 0.";
}

}  // namespace crosstalk
